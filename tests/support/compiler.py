"""The C compiler with which tests build libraries."""

import os
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MISSING = "no C compiler (cc, gcc or $CC) on the path"


def find() -> list[str]:
    """The compiler's command; empty without a compiler."""
    commands = (shlex.split(each) for each in (os.environ.get("CC", ""), "cc", "gcc"))
    return next((each for each in commands if each and shutil.which(each[0])), [])


def command() -> list[str]:
    """The compiler's command; skips the test without a compiler."""
    return find() or pytest.skip(MISSING)


def shared_library(target: Path, source: str, *flags: str) -> Path:
    """Compiles C source to a shared library; skips the test without a compiler."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_compiled(source, flags))
    return target


def cut_library(target: Path) -> Path:
    """A shared library that an interrupted download left: it ends before its data does."""
    library = shared_library(target, "char data[1 << 20] = {1};")
    os.truncate(library, library.stat().st_size // 2)
    return library


@cache
def _compiled(source: str, flags: tuple[str, ...]) -> bytes:
    """The library's content: many tests need the same ones."""
    with TemporaryDirectory() as folder:
        library = Path(folder, "library.so")
        line = [*command(), "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *flags, "-o", str(library)]
        done = subprocess.run(line, input=source, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return library.read_bytes()
