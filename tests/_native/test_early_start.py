"""`early_start`: the first use of `zrt.Session` starts ONNX Runtime on a thread, and only time depends on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes
from zrt._native import lib


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = processes.environment() | variables
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif(bool(lib.zrt_library_builtin()), reason="a core that is built in is no file of its own")
@pytest.mark.parametrize(
    "name", ["zrt.Session", "zrt.infer", "zrt.Runtime", "zrt.DynamicRuntime", "zrt.onnxruntime.InferenceSession"]
)
def test_name_that_loads_models_opens_the_library(name: str) -> None:
    code = (
        f"import zrt.onnxruntime; {name}; from zrt._native import early_start; early_start.wait(); "
        "print('libonnxruntime' in open('/proc/self/maps').read())"
    )
    assert run(code).stdout.strip() == "True"


def test_library_that_is_open_already_needs_no_thread() -> None:
    code = (
        "import zrt; zrt.available_providers(); zrt.Session; from zrt._native import early_start; "
        "print(early_start._threads)"
    )
    assert run(code).stdout.strip() == "{}"


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(0)", "import os; os._exit(0)", "del zrt"])
def test_process_may_end_at_once(end: str) -> None:
    for _ in range(5):
        done = run(f"import zrt; zrt.Session; {end}")
        assert done.stdout == done.stderr == ""


def test_library_that_cannot_be_opened_fails_at_its_first_use(tmp_path: Path) -> None:
    absent = os.fspath(tmp_path / "absent.so")
    code = (
        "import zrt; zrt.Session\n"
        "try:\n    zrt.available_providers()\nexcept zrt.errors.LibraryError as error:\n    print(error)"
    )
    done = run(code, ZRT_ORT_LIBRARY=absent)
    assert done.stdout.startswith(f"ZRT_ORT_LIBRARY={absent}: there is no such file. ")
    assert done.stderr == ""


def test_current_folder_that_is_gone_stops_no_import(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os, sys, zrt; os.chdir({os.fspath(gone)!r}); os.rmdir({os.fspath(gone)!r}); sys.path[:0] = ['']; "
    assert run(code + "zrt.Session").stderr == ""


@pytest.mark.official
def test_variable_that_is_set_after_the_start_counts(script) -> None:
    assert script("choose_after_start.py").stdout.split() == ["ZRT_ORT_LIBRARY", "8"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_during_the_start(script) -> None:
    # The processes write their lines at the same time.
    assert "".join(script("fork_after_start.py").stdout.split()) == "8888"


def test_environment_has_the_options_of_its_own() -> None:
    """ONNX Runtime keeps the settings of an environment that is there already."""
    code = (
        "import logging, zrt; zrt.Session; logging.basicConfig(level=1)\n"
        "from pathlib import Path\n"
        "zrt.Environment('mine', 'VERBOSE', 'ort')\n"
        "zrt.Session(Path(zrt.__file__).with_name('models') / 'digits.onnx')\n"
        "zrt.Environment.flush_log(60)"
    )
    assert "INFO:ort:Session successfully initialized." in run(code).stderr
