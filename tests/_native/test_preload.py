"""`preload`: the first use of `zrt.Session` opens the library on a thread of C, and only time depends on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import compiler, processes
from zrt._native import lib

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

PRINTER = """
#include <stdio.h>
static const void *get_api(unsigned version) { fprintf(stderr, "asked for %u", version); return NULL; }
static const char *get_version(void) { return "1.20.0"; }
static const struct { const void *(*api)(unsigned); const char *(*version)(void); } base = { get_api, get_version };
const void *OrtGetApiBase(void) { return &base; }
"""


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = processes.environment() | variables
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done


@linux
@pytest.mark.skipif(bool(lib.zrt_library_builtin()), reason="a core that is built in is no file of its own")
@pytest.mark.parametrize("name", ["Session", "infer", "Runtime", "DynamicRuntime"])
def test_name_that_loads_models_opens_the_library(name: str) -> None:
    code = (
        f"import zrt; zrt.{name}; from zrt._native import preload; preload.wait(); "
        "print('libonnxruntime' in open('/proc/self/maps').read())"
    )
    assert run(code).stdout.strip() == "True"


def test_import_alone_loads_nothing() -> None:
    code = (
        "import sys, zrt; print('zrt._native' in sys.modules, 'numpy' in sys.modules, '_cffi_backend' in sys.modules)"
    )
    assert run(code).stdout.split() == ["False"] * 3


def test_library_that_is_open_already_is_left_alone(tmp_path: Path) -> None:
    """The thread would open the library that the variable names by then."""
    code = (
        "import os, zrt; zrt.available_providers(); os.environ['ZRT_ORT_LIBRARY'] = '/dev/null'; "
        "print(zrt.Session.__name__)"
    )
    assert run(code).stdout.strip() == "Session"


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


def test_older_library_is_asked_for_no_table(tmp_path: Path) -> None:
    """ONNX Runtime prints an error where it is asked for a table that it does not have."""
    source, library = tmp_path / "old.c", tmp_path / "old.so"
    source.write_text(PRINTER)
    subprocess.run([*compiler.command(), "-shared", "-fPIC", "-o", library, source], check=True)
    assert run("import zrt; zrt.Session", ZRT_ORT_LIBRARY=os.fspath(library)).stderr == ""


@pytest.mark.official
def test_variable_that_is_set_after_the_opening_counts(script) -> None:
    assert script("choose_after_open.py").stdout.split() == ["ZRT_ORT_LIBRARY", "8"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_the_library_is_opened(script) -> None:
    # The processes write their lines at the same time.
    assert "".join(script("fork_after_open.py").stdout.split()) == "8888"


def test_threads_make_the_first_sessions(script) -> None:
    assert script("first_sessions.py").stdout.split() == ["8"] * 8


@pytest.mark.parametrize("to", ["stderr", "logger"])
def test_lines_that_are_logged_once_a_process_reach_the_environment(script, to: str) -> None:
    """ONNX Runtime logs the devices that it discovers when it makes the first environment of a process."""
    done = script("first_lines.py", to)
    lines = done.stdout if to == "logger" else done.stderr
    assert re.search(r"\bmine\b.*device_discovery", lines)
    assert "device_discovery" not in script("first_lines.py", to, "WARNING").stdout
