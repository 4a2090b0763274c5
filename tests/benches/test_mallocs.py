"""`python -m benches.mallocs` counts every call of the allocator, and none of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benches import mallocs

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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
def test_every_function_of_the_allocator_is_counted(tmp_path: Path) -> None:
    library = mallocs.counter(str(tmp_path))
    environment = os.environ | {"LD_PRELOAD": library}
    command = [sys.executable, "-c", PROGRAM]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert [line.split()[1] for line in printed.splitlines()] == ["1"] * 6


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
def test_table_has_a_row_for_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime", exc_type=ImportError, reason="the official package takes part")
    mallocs.main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.count("|") == 6
    assert [row.split(" | ")[0] for row in rows][:2] == ["| Add of 4 numbers", "| digits"]
    for row in rows:
        lane, session, binding, run = (int(cell.replace(",", "")) for cell in row.strip("| ").split(" | ")[1:])
        assert 0 < lane <= binding
        assert lane < session
        assert binding < run
