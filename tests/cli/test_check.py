"""``zrt check``: the verdict of a library, in a process of its own."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import zrt as package
from tests.support import plugin
from tests.support.models import parse
from zrt._native.library import library
from zrt.graph.model_proto import parse as proto_of

GOOD = parse("(float[2] x) => (float[2] y) { y = Neg(x) }")
OPEN = parse("(float[n] x) => (float[n] y) { y = Neg(x) }")
# The text of a module with an operator that no model runs.
OPERATORS = (
    "import zrt\n\n\nclass Twice(zrt.CustomOp):\n    inputs = outputs = ('float32',)\n\n"
    "    def compute(self, context):\n        raise AssertionError\n\n\n"
    "domain = zrt.CustomOpDomain('my.ops', [Twice()])\n"
)


@pytest.fixture
def bad(saved: Callable[..., Path]) -> Path:
    """A model with four nodes of one operator that nobody has."""
    proto, _, _ = proto_of(GOOD)
    del proto.graph.node[:]
    names = ["x", *"abc", "y"]
    for number in range(4):
        proto.graph.node.add(op_type="Grelu", name=f"n{number}", input=[names[number]], output=[names[number + 1]])
    return saved(proto.SerializeToString(), "bad.onnx")


def test_model_that_runs_as_in_python(zrt, zrt_json, saved):
    path = saved(OPEN)
    document = zrt_json("check", path)
    assert document == {
        "model": str(path),
        "library": library().version,
        "verdict": "runs",
        "problems": [
            {
                "severity": "note",
                "subject": "input 'x'",
                "reason": "its shape [n] is open: the feeds of each run settle it",
                "remedy": "",
                "nodes": [],
            }
        ],
        "nodes": {"CPUExecutionProvider": 1},
        "operators": 1,
        "others": {},
    }
    assert document == json.loads(json.dumps(package.check(path).to_dict()))
    lines = zrt("check", path).splitlines()
    assert lines == [
        f"{path}: runs with ONNX Runtime {library().version}",
        "  1 node on CPUExecutionProvider",
        "note  input 'x': its shape [n] is open: the feeds of each run settle it",
    ]


def test_model_that_does_not_load_is_status_1(zrt, zrt_json, bad):
    text = zrt("check", bad, status=1)
    assert "bad.onnx: does not load" in text
    assert "error  operator Grelu: ONNX has no operator of this name" in text
    assert "nodes: n0, n1, n2 and 1 more" in text
    document = zrt_json("check", bad, status=1)
    assert (document["verdict"], document["problems"][0]["nodes"]) == ("does not load", ["n0", "n1", "n2", "n3"])


def test_model_inside_zrt_is_the_default(zrt):
    assert zrt("check").startswith("the digit classifier inside zrt: runs")


def test_mistakes_are_status_2(complaint, saved, options, tmp_path):
    for more, words in (
        (["--provider", "nope"], "nope"),
        (["--options", options("[session]\nnonsense = 3\n")], "nonsense"),
        (["--import", "no_such_module"], "no_such_module"),
        (["--library", "a", "--python", "b"], "give one"),
        (["--python", tmp_path / "no-python"], "is no Python that runs"),
        (["--python", "/bin/false"], "is no Python that runs"),
    ):
        assert words in complaint("check", saved(GOOD), *more, status=2)


def test_failures_are_status_1(complaint, saved, tmp_path):
    library_file = tmp_path / "libonnxruntime.so"
    library_file.write_bytes(b"no library")
    for model, more, words in (
        (tmp_path / "none.onnx", [], "none.onnx"),
        (saved(GOOD), ["--library", library_file], str(library_file)),
        (saved(GOOD), ["--library", tmp_path / "none.so"], "check: --library: "),
    ):
        assert words in complaint("check", model, *more, status=1)


def test_other_libraries_are_asked(zrt_json, saved):
    path = library().path
    if path is None:
        pytest.skip("this ONNX Runtime is inside zrt")
    assert zrt_json("check", saved(GOOD), "--library", path)["library"] == library().version
    if library().source.startswith("onnxruntime"):
        assert zrt_json("check", saved(GOOD), "--python", sys.executable)["verdict"] == "runs"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module to the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        (tmp_path / "my_checked_ops.py").write_text(text)
        return "my_checked_ops"

    return write


def test_death_of_the_process_is_a_report(zrt, zrt_json, saved, module):
    name = module("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    document = zrt_json("check", saved(GOOD), "--import", name, status=1)
    assert (document["verdict"], document["library"]) == ("does not load", None)
    assert "SIGSEGV" in document["problems"][0]["reason"]
    assert "SIGSEGV" in zrt("check", saved(GOOD), "--import", name, status=1)


def test_process_that_others_end_says_nothing_about_the_model(complaint, saved, module):
    name = module("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert "ended with SIGKILL" in complaint("check", saved(GOOD), "--import", name, status=1)


def test_process_ends_as_any_other_and_reads_nothing_of_its_starter(complaint, zrt_json, saved, module, tmp_path):
    """The module's `atexit` functions run, and the process that it started ends with the command."""
    name = module(
        f"{OPERATORS}import atexit, multiprocessing, pathlib, sys, time\n"
        "assert sys.stdin.read() == ''\n"
        "sleeper = multiprocessing.get_context('fork').Process(target=time.sleep, args=(3600,), daemon=True)\n"
        "sleeper.start()\n"
        "pathlib.Path('sleeper').write_text(str(sleeper.pid))\n"
        "atexit.register(pathlib.Path('ended').write_text, 'yes')\n"
    )
    assert zrt_json("check", saved(GOOD), "--import", name)["verdict"] == "runs"
    require_end(tmp_path)
    # An answer that is an error is an answer, too.
    complaint("check", "none.onnx", "--import", name, status=1)
    require_end(tmp_path)


def require_end(folder: Path) -> None:
    assert (folder / "ended").read_text() == "yes"
    (folder / "ended").unlink()
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "sleeper").read_text()), 0)


def test_death_of_the_process_is_seen_while_another_that_it_forked_goes_on(zrt, saved, module, tmp_path):
    name = module(
        "import os, pathlib, signal, time\n"
        "forked = os.fork()\n"
        "if not forked:\n    time.sleep(600)\n    os._exit(0)\n"
        "pathlib.Path('forked').write_text(str(forked))\n"
        "os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    assert "SIGSEGV" in zrt("check", saved(GOOD), "--import", name, status=1)
    # It raises where the process is gone: then the command has waited for it.
    os.kill(int((tmp_path / "forked").read_text()), signal.SIGKILL)


def test_operators_of_a_module_that_prints(zrt_json, saved, module):
    name = module(f"print('{{')\n{OPERATORS}")
    proto, _, _ = proto_of(GOOD)
    proto.graph.node[0].op_type, proto.graph.node[0].domain = "Twice", "my.ops"
    proto.opset_import.add(domain="my.ops", version=1)
    path = saved(proto.SerializeToString())
    assert zrt_json("check", path, status=1)["verdict"] == "does not load"
    assert zrt_json("check", path, "--import", name)["verdict"] == "runs"


def test_other_providers_have_a_line_each(zrt, saved, module):
    name = module(f"{OPERATORS}zrt.Environment().register_provider_library('mine', {str(plugin.path())!r})\n")
    lines = zrt("check", saved(GOOD), "--import", name).splitlines()
    assert lines[1:3] == [
        "  1 node on CPUExecutionProvider",
        f"  where {plugin.PROVIDER} is asked for: 1 node on {plugin.PROVIDER}",
    ]


def test_options_of_a_file_count(zrt_json, saved, options, tmp_path):
    file = options(f"[session]\noptimized_model_filepath = '{tmp_path / 'written.onnx'}'\n")
    assert zrt_json("check", saved(GOOD), "--options", file)["verdict"] == "runs"
    assert not (tmp_path / "written.onnx").exists()
