"""The C compiler with which tests build libraries."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

MISSING = "no C compiler (cc, gcc or $CC) on the path"


def find() -> list[str]:
    """The compiler's command; empty without a compiler."""
    commands = (shlex.split(each) for each in (os.environ.get("CC", ""), "cc", "gcc"))
    return next((each for each in commands if each and shutil.which(each[0])), [])


def command() -> list[str]:
    """The compiler's command; skips the test without a compiler."""
    return find() or pytest.skip(MISSING)
