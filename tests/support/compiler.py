"""The C compiler that tests make libraries with."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

MISSING = "no C compiler (cc, gcc or $CC) on the path"


def find() -> list[str]:
    """The command of the compiler; nothing where there is none."""
    commands = (shlex.split(each) for each in (os.environ.get("CC", ""), "cc", "gcc"))
    return next((each for each in commands if each and shutil.which(each[0])), [])


def command() -> list[str]:
    """The command of the compiler; skips the test where there is none."""
    return find() or pytest.skip(MISSING)
