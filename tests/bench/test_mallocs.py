"""Calls of the system's allocator in a run: every one is counted, and where none can be, an error says why."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import zrt
from tests.support import models
from zrt.bench import mallocs
from zrt.bench.inputs import UserInputs
from zrt.errors import UnsupportedError

needs_compiler = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or shutil.which("cc") is None, reason="needs glibc and a C compiler"
)
ONE_THREAD = zrt.SessionOptions(intra_op_num_threads=1)

PROGRAM = """
import ctypes
calls, libc = ctypes.CDLL(None).allocator_calls, ctypes.CDLL(None)
before = calls()
for name, arguments in {
    "malloc": (1000,),
    "calloc": (10, 100),
    "realloc": (None, 1000),
    "aligned_alloc": (64, 1024),
    "memalign": (64, 1024),
    "posix_memalign": (ctypes.byref(ctypes.c_void_p()), 64, 1024),
}.items():
    function = getattr(libc, name)
    before = calls()
    for _ in range(100):
        function(*arguments)
    print(name, round((calls() - before) / 100))
"""


@needs_compiler
def test_every_function_of_the_allocator_is_counted(tmp_path: Path) -> None:
    library = mallocs.build(str(tmp_path))
    environment = os.environ | {"LD_PRELOAD": library}
    command = [sys.executable, "-c", PROGRAM]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert [line.split()[1] for line in printed.splitlines()] == ["1"] * 6


@needs_compiler
def test_calls_in_a_run_of_a_lane() -> None:
    """More nodes make more calls, and the same model as many in each process."""
    one, two = (
        zrt.SessionSpec(models.parse(f"(float[4] x) => (float[4] y) {{ {nodes} }}"), ONE_THREAD)
        for nodes in ("y = Relu(x)", "z = Relu(x)  y = Softmax(z)")
    )
    assert 0 < mallocs.in_a_run(one, UserInputs()) == mallocs.in_a_run(one, UserInputs())
    assert mallocs.in_a_run(one, UserInputs()) < mallocs.in_a_run(two, UserInputs())


@needs_compiler
def test_errors_of_the_other_process_are_raised_here() -> None:
    texts = zrt.SessionSpec(models.parse("(string[2] x) => (string[2] y) { y = Identity(x) }"), ONE_THREAD)
    with pytest.raises(UnsupportedError, match="holds strings"):
        mallocs.in_a_run(texts, UserInputs())
    with pytest.raises(zrt.Error, match="nowhere"):
        mallocs.in_a_run(zrt.SessionSpec("nowhere.onnx"), UserInputs())


@needs_compiler
@pytest.mark.parametrize("name", ["with space", "with:colon"])
def test_folder_that_the_loader_cannot_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    with pytest.raises(UnsupportedError, match="TMPDIR"):
        mallocs.in_a_run(zrt.SessionSpec(models.add(), ONE_THREAD), UserInputs())


def test_without_a_compiler_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="C compiler"):
        mallocs.build(str(tmp_path))


@needs_compiler
def test_compiler_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho no headers >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="no headers"):
        mallocs.build(str(tmp_path))
