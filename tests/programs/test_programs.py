"""Programs of others run unedited on the drop-in, through `python -m zrt.onnxruntime`, with the official answers."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zrt

pytestmark = pytest.mark.official

HERE = Path(__file__).parent
DIGITS = Path(zrt.__file__).with_name("models") / "digits.onnx"


def tar_file(text: bytes) -> bytes:
    """A compressed tar file with one text."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        entry = tarfile.TarInfo("notes.txt")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return file.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of files of many types."""
    folder = tmp_path / "files"
    folder.mkdir()
    for source in HERE.rglob("*.py"):
        (folder / source.name).write_bytes(source.read_bytes())
    rows = "".join(f"{row},name {row},{row * 1.5}\n" for row in range(50))
    contents = {
        "table.csv": b"id,name,price\n" + rows.encode(),
        "page.html": b"<!DOCTYPE html><html><head><title>A page</title></head><body><p>Text</p></body></html>",
        "data.json": json.dumps({"rows": [{"id": row} for row in range(50)]}).encode(),
        "main.c": b'#include <stdio.h>\n\nint main(void) {\n    printf("%d\\n", 1 + 1);\n    return 0;\n}\n' * 3,
        "notes.txt": b"Some words in a row, and then some more of them.\n" * 20,
        "archive.tar.gz": tar_file(b"text" * 100),
        "noise": np.random.default_rng(0).bytes(4096),
        "empty": b"",
        "model.onnx": DIGITS.read_bytes(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(folder / "archive.zip", "w") as zipped:
        zipped.writestr("notes.txt", "text" * 100)
    return folder


@pytest.mark.programs("magika", "click")
def test_magika_names_the_types_of_files(answer: Callable[..., str], files: Path) -> None:
    found = json.loads(answer("-m", "magika.cli.magika_client", "--recursive", "--json", files))
    labels = {Path(one["path"]).name: one["prediction"]["output"]["label"] for one in found}
    assert labels["main.c"] == "c"
    assert labels["page.html"] == "html"
    assert labels["test_programs.py"] == "python"


@pytest.mark.programs("rapidocr_onnxruntime", "cv2", "pyclipper", "shapely", "yaml", "PIL")
def test_rapidocr_onnxruntime_reads_a_page(script: Callable[..., str]) -> None:
    lines = json.loads(script("read_page.py"))
    assert [text for _, text, _ in lines] == ["Invoice2026-0417", "Total:128.50EUR", "Thankyouforyourorder"]


@pytest.mark.programs("rapidocr", "cv2", "PIL")
def test_rapidocr_reads_a_page(script: Callable[..., str]) -> None:
    texts, *_ = json.loads(script("read_page_v3.py"))
    assert texts == ["Invoice 2026-0417", "Total: 128.50 EUR", "Thank you for your order"]


@pytest.mark.programs("ddddocr", "cv2", "PIL")
def test_ddddocr_reads_a_word(script: Callable[..., str]) -> None:
    text, boxes = json.loads(script("read_captcha.py"))
    assert text == "x7k4"
    assert len(boxes) > 20


@pytest.mark.programs("silero_vad", "packaging", "scipy")
def test_silero_finds_speech(script: Callable[..., str]) -> None:
    found = json.loads(script("find_speech.py"))
    assert len(found["spans"]) == 1
    assert found["windows at once"]
    assert [event.keys() for event in found["events"]] == [{"start"}, {"end"}]


@pytest.mark.programs("faster_whisper", "scipy")
def test_faster_whisper_finds_speech(script: Callable[..., str]) -> None:
    assert json.loads(script("find_speech_whisper.py"))


@pytest.mark.programs("openwakeword", "scipy", "sklearn")
def test_openwakeword_scores_a_stream(script: Callable[..., str]) -> None:
    scores = json.loads(script("hear_words.py"))
    assert len(scores) == 37
    assert any(chunk["hey_jarvis"] > 0 for chunk in scores)


@pytest.mark.programs("skl2onnx", "sklearn")
def test_skl2onnx_predicts_as_the_official_package(script: Callable[..., str]) -> None:
    assert len(script("predict.py").splitlines()) == 6


@pytest.mark.programs("onnxruntime_genai")
def test_genai_generates_tokens(script: Callable[..., str]) -> None:
    tokens = json.loads(script("generate.py"))
    assert tokens[:3] == [1, 2, 3]
    assert len(set(tokens)) > 8


@pytest.mark.programs("onnxruntime_extensions")
def test_extensions_run_operators_in_python_and_their_own(script: Callable[..., str]) -> None:
    upper, _, backwards, twice, function = json.loads(script("extend.py"))
    assert upper == function == ["ABC", "GRüßE", "日本"]
    assert backwards == ["cba", "eßürG", "本日"]
    assert twice == [0, 2, 4]


@pytest.mark.programs("onnxconverter_common")
def test_converter_finds_the_nodes_that_stay_float32(script: Callable[..., str]) -> None:
    assert len(script("shrink.py", DIGITS).splitlines()) > 2


@pytest.mark.programs("onnxslim")
def test_onnxslim_checks_its_model(outputs: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    outputs("-m", "onnxslim", DIGITS, "slim.onnx", "--model-check")
    slim = [tmp_path / package / "slim.onnx" for package in ("official", "zrt")]
    assert slim[0].read_bytes() == slim[1].read_bytes()


@pytest.mark.programs("sympy")
def test_quantization_computes_the_same_models(script: Callable[..., str], tmp_path: Path) -> None:
    script("quantize.py", DIGITS)
    for name in ("prepared.onnx", "dynamic.onnx", "static.onnx"):
        assert (tmp_path / "zrt" / name).read_bytes() == (tmp_path / "official" / name).read_bytes()


def test_official_tool_converts_to_ort_format(outputs: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "digits.onnx").write_bytes(DIGITS.read_bytes())
    outputs("-m", "onnxruntime.tools.convert_onnx_models_to_ort", models, "--output_dir", "converted")
    image = np.full((1, 1, 8, 8), 0.5, np.float32)
    # The files themselves differ from run to run.
    for name in ("digits.ort", "digits.with_runtime_opt.ort"):
        official, own = (zrt.infer(tmp_path / package / "converted" / name, [image]) for package in ("official", "zrt"))
        np.testing.assert_array_equal(own, official)


def test_official_tool_measures_a_model(outputs: Callable[..., dict[str, str]]) -> None:
    printed = outputs("-m", "onnxruntime.tools.onnxruntime_test", DIGITS, "5")
    official, own = (text.partition("avg latency")[0] for text in printed.values())
    assert own == official


@pytest.mark.slow
def test_backend_passes_onnx_tests_that_the_official_one_passes(outputs: Callable[..., dict[str, str]]) -> None:
    outcomes = {package: json.loads(text) for package, text in outputs(HERE / "scripts" / "backend_tests.py").items()}
    passed = {
        package: {name for name, outcome in by_name.items() if outcome == "passed"}
        for package, by_name in outcomes.items()
    }
    assert len(passed["official"]) > 1400
    assert passed["official"] <= passed["zrt"]
