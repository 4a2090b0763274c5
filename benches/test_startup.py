"""The time of a whole program: interpreter, imports, the first result. Each run is a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from benches.support import Compare, Entry, Group, contender
from zrt.bench import timing

IMPORTS = {
    "python": "",
    "numpy": "import numpy",
    "zrt": "import zrt",
    "zrt_session": "import zrt; zrt.Session",
    "zrt_library": "import zrt; zrt.available_providers()",
    "onnxruntime": "import onnxruntime",
}
ANSWERS = {
    "zrt": """
import sys, numpy, zrt
session = zrt.Session(sys.argv[-1], zrt.SessionOptions(intra_op_num_threads=1))
[answer] = session.run([numpy.full((1, 1, 8, 8), 0.5, "float32")])
print(answer.argmax())
""",
    "onnxruntime": """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[-1], options, providers=["CPUExecutionProvider"])
[answer] = session.run(None, {"image": numpy.full((1, 1, 8, 8), 0.5, "float32")})
print(answer.argmax())
""",
}
MISSING = {} if find_spec("onnxruntime") else {"onnxruntime": "onnxruntime is not installed"}


def make_group(name: str, programs: Mapping[str, str], bytecode: Path, *arguments: str) -> Group:
    """Every program prints the same."""
    here = {
        key: partial(output, program, bytecode, *arguments) for key, program in programs.items() if key not in MISSING
    }
    expected = here["zrt"]()

    def entry(key: str) -> Entry:
        def check() -> None:
            assert here[key]() == expected

        return Entry(contender(key, partial(timing.batch, here[key], ())), check)

    return Group(name, [entry(key) for key in here], MISSING)


def output(program: str, bytecode: Path, *arguments: str) -> str:
    """What a program prints, in a process of its own that finds what this one does.

    All that it imports is compiled into the folder `bytecode` the first time, as an installed package is.
    """
    ours = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONPYCACHEPREFIX": os.fspath(bytecode),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        env=os.environ | ours,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


@pytest.fixture(scope="module")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytecode")


@pytest.fixture(scope="module")
def imports(bytecode: Path) -> Group:
    return make_group("startup: a program that imports", IMPORTS, bytecode)


@pytest.fixture(scope="module")
def answers(bytecode: Path, model_file: Callable[[str], Path]) -> Group:
    model = os.fspath(model_file("digits"))
    return make_group("startup: a program that gives one answer (digits)", ANSWERS, bytecode, model)


@pytest.mark.parametrize("what", IMPORTS)
def test_import(compare: Compare, imports: Group, what: str) -> None:
    compare(imports, what)


@pytest.mark.parametrize("package", ANSWERS)
def test_first_answer(compare: Compare, answers: Group, package: str) -> None:
    compare(answers, package)
