"""``--import MODULE``: models whose operators a module in Python computes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zrt import CustomOpDomain
from zrt.cli import common

OPERATORS = """
import numpy as np
import zrt


class Clamp(zrt.CustomOp):
    inputs = ["float32"]
    outputs = ["float32"]

    def compute(self, context):
        (x,) = context.inputs
        np.clip(x, 0, 1, out=context.output(0, x.shape))


domain = zrt.CustomOpDomain("my.ops", [Clamp()])
alias = domain
"""


@pytest.fixture
def module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], str]]:
    """Writes a module to the current folder: its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    made: list[str] = []

    def write(text: str) -> str:
        made.append(f"ops_{len(made)}_{abs(hash(request.node.nodeid))}")
        (tmp_path / f"{made[-1]}.py").write_text(text)
        return made[-1]

    yield write
    for each in made:
        sys.modules.pop(each, None)


@pytest.fixture
def clamping(build: Any, tmp_path: Path) -> Path:
    """A model that calls the operator of `OPERATORS`."""
    model = build("(float[n] x) => (float[n] y) { y = my.ops.Clamp(x) }")
    model.opset_import.add(domain="my.ops", version=1)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "model.onnx"


def test_domains_of_modules_come_once_each(module):
    first = module(OPERATORS)
    again = module(f"from {first} import domain")
    (domain,) = common.imported_domains([first, again])
    assert isinstance(domain, CustomOpDomain)
    assert domain.name == "my.ops"
    assert common.imported_domains([]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no zrt.CustomOpDomain among its attributes"),
        ("import there_is_no_such_module", "cannot be imported: ModuleNotFoundError: No module named"),
        ("def (", "cannot be imported: SyntaxError"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_modules_that_do_not_serve_are_named(module, text, message):
    name = module(text)
    with pytest.raises(common.UsageError, match=f"--import: .*'{name}' .*{message}"):
        common.imported_domains([name])


@pytest.mark.parametrize("name", ["", "..x", "no/such", "nul\0"])
def test_names_that_are_no_modules_are_refused(module, name):
    with pytest.raises(common.UsageError, match="--import"):
        common.imported_domains([name])


def test_scores_a_model_with_operators_in_python(module, clamping, zrt_json, complaint):
    np.savez("data.npz", x=np.array([-1, 0.5, 3], np.float32))
    name = module(OPERATORS)
    command = ("score", clamping, "data.npz", "results.npz")
    assert zrt_json(*command, "--import", name)["rows"] == 3
    with np.load("results.npz") as found:
        assert found["y"].tolist() == [0, 0.5, 1]
    assert "none_such" in complaint(*command, "--import", "none_such", status=2)


@pytest.mark.parametrize("command", ["run", "profile"])
def test_runs_a_model_with_operators_in_python(command, module, clamping, zrt_json, complaint):
    np.save("x.npy", np.array([-1, 0.5, 3], np.float32))
    document = zrt_json(command, clamping, "--input", "x=x.npy", "--import", module(OPERATORS))
    if command == "run":
        output = document["providers"]["CPUExecutionProvider"]["outputs"]["y"]
        assert (output["min"], output["max"]) == (0, 1)
    else:
        assert [row["operator"] for row in document["rows"]] == ["Clamp"]
    assert "my.ops" in complaint(command, clamping, "--input", "x=x.npy", status=1)


def test_calls_of_the_allocator_are_counted_without_operators_in_python(module, clamping, complaint):
    assert "--mallocs" in complaint("profile", clamping, "--mallocs", "--import", module(OPERATORS), status=2)
