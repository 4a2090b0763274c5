"""The time of a whole program (interpreter, imports, the first result), where each run is a process; and of a load."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import zrt
from benches.support import DROP_IN, ONE_THREAD, Compare, Entry, Group, fresh
from zrt.bench.harness import python_contender

SCRIPTS = Path(__file__).parent / "scripts"
IMPORTS = {
    "python": "",
    "numpy": "import numpy",
    "zrt": "import zrt",
    "zrt_session": "import zrt; zrt.Session",
    "zrt_library": "import zrt; zrt.available_providers()",
    "onnxruntime": "import onnxruntime",
}
# The drop-in imports what a name needs at its first use, as `zrt` does.
DROP_IN_IMPORTS = {
    "onnxruntime": "import onnxruntime",
    "drop_in": "import zrt.onnxruntime",
    "drop_in_session": "import zrt.onnxruntime; zrt.onnxruntime.InferenceSession",
}
MODELS = ("add", "digits", "cnn", "squeezenet")
ANSWERS = {
    "zrt": (str(SCRIPTS / "answer_zrt.py"),),
    "zrt_first": (str(SCRIPTS / "answer_zrt_first.py"),),
    "onnxruntime": (str(SCRIPTS / "answer_onnxruntime.py"),),
    "drop_in": ("-m", "zrt.onnxruntime", str(SCRIPTS / "answer_onnxruntime.py")),
}
# The contenders of a load.
PACKAGES = ("zrt", "onnxruntime", "drop_in")
INTERFACES = {"onnxruntime": "onnxruntime", "drop_in": DROP_IN}
MISSING = {} if find_spec("onnxruntime") else {"onnxruntime": "onnxruntime is not installed"}


def make_group(name: str, programs: Mapping[str, Sequence[str]], bytecode: Path) -> Group:
    """Measures the programs, each the arguments of a Python interpreter; all must print the same."""
    here = {key: partial(output, program, bytecode) for key, program in programs.items() if key not in MISSING}
    expected = next(iter(here.values()))()

    def entry(key: str) -> Entry:
        def check() -> None:
            assert here[key]() == expected

        return Entry(python_contender(key, key, here[key]), check)

    return Group(name, [entry(key) for key in here], MISSING)


def output(program: Sequence[str], bytecode: Path) -> str:
    """The output of a program, run in a new process with the module path of this one.

    The first run compiles all modules that it imports into the folder `bytecode`, like an installation does.
    """
    ours = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONPYCACHEPREFIX": os.fspath(bytecode),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    return subprocess.run(
        [sys.executable, "-P", *program],
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
    programs = {key: ("-c", program) for key, program in IMPORTS.items()}
    return make_group("startup: a program that imports", programs, bytecode)


@pytest.fixture(scope="module")
def answers(bytecode: Path, model_file: Callable[[str], Path]) -> Group:
    model = os.fspath(model_file("digits"))
    programs = {package: (*program, model) for package, program in ANSWERS.items()}
    return make_group("startup: a program that computes one result (digits)", programs, bytecode)


@pytest.mark.parametrize("program", IMPORTS)
def test_import(compare: Compare, imports: Group, program: str) -> None:
    compare(imports, program)


@pytest.fixture(scope="module")
def drop_in_imports(bytecode: Path) -> Group:
    programs = {key: ("-c", program) for key, program in DROP_IN_IMPORTS.items()}
    return make_group("startup: a program that imports the drop-in", programs, bytecode)


@pytest.mark.parametrize("program", DROP_IN_IMPORTS)
def test_import_drop_in(compare: Compare, drop_in_imports: Group, program: str) -> None:
    compare(drop_in_imports, program)


@pytest.mark.parametrize("package", ANSWERS)
def test_first_answer(compare: Compare, answers: Group, package: str) -> None:
    compare(answers, package)


@pytest.fixture(scope="module", params=MODELS)
def loads(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    path = os.fspath(model_file(request.param))
    options = zrt.SessionOptions(**ONE_THREAD)

    def load() -> zrt.Session:
        return zrt.Session(path, options)

    def load_by_theirs(key: str, package: str) -> Entry:
        """Loads through the interface of onnxruntime."""
        onnxruntime = importlib.import_module(package)
        theirs = onnxruntime.SessionOptions()
        theirs.intra_op_num_threads = 1

        def load_theirs() -> Any:
            return onnxruntime.InferenceSession(path, theirs, providers=["CPUExecutionProvider"])

        def check() -> None:
            names = [value.name for value in load_theirs().get_inputs()]
            assert names == list(load().input_names)

        return Entry(fresh(key, lambda: None, lambda _: load_theirs()), check)

    entries = [Entry(fresh("zrt", lambda: None, lambda _: load()), lambda: load().close())]
    entries += [load_by_theirs(key, package) for key, package in INTERFACES.items() if key not in MISSING]
    return Group(f"startup: loading {request.param}", entries, MISSING)


@pytest.mark.parametrize("package", PACKAGES)
def test_load(compare: Compare, loads: Group, package: str) -> None:
    compare(loads, package)
