"""Child processes: a Python that inherits this process's environment serves `onnxruntime` from zrt as well."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from zrt.onnxruntime import notices

VARIABLE = "PYTHONPATH"
# Each Python that finds this folder there imports sitecustomize.py when it starts.
FOLDER = os.path.dirname(os.path.abspath(__file__))
# The events of Python's audit that start a program; their arguments begin with the program's file and its command, and
# end with its environment, which is None for that of this process.
STARTS = ("os.exec", "os.posix_spawn", "subprocess.Popen")


def reach() -> None:
    """Put the folder into this process's PYTHONPATH, and log a warning of each child that will not read it."""
    places = os.environ.get(VARIABLE)
    if FOLDER not in _places(places):
        os.environ[VARIABLE] = f"{FOLDER}{os.pathsep}{places}" if places else FOLDER
    if sys.flags.ignore_environment or sys.flags.no_site:
        notices.once(
            "this Python runs with -E, -I or -S, and multiprocessing passes these options on to children that it does "
            "not fork: import onnxruntime is not zrt.onnxruntime there"
        )
    sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    # Python calls this to its end, when the names of this module are None.
    if not STARTS or event not in STARTS:
        return
    file, command, *_, environment = arguments
    # A program may also be an open file.
    if isinstance(file, int) or not re.fullmatch(r"python[\d.]*t?", os.path.basename(os.fsdecode(file))):
        return
    words = [os.fsdecode(word) for word in command]
    if "zrt.onnxruntime" in words or (_inherits(environment) and _imports_site(words)):
        return
    shown = shlex.join(words)
    notices.once(
        "a child process has no PYTHONPATH of this one (because of its environment, -E, -I or -S), so that import "
        "onnxruntime is not zrt.onnxruntime there, unless its command begins with python -m zrt.onnxruntime: "
        + (shown if len(shown) <= 200 else f"{shown[:200]}...")
    )


def _places(path: str | bytes | None) -> list[str]:
    return os.fsdecode(path or "").split(os.pathsep)


def _inherits(environment: Mapping[Any, Any] | None) -> bool:
    """Whether the folder is in the PYTHONPATH of a child's environment."""
    variables = (os.environ if environment is None else environment).items()
    return any(os.fsdecode(name) == VARIABLE and FOLDER in _places(text) for name, text in variables)


def _imports_site(words: Sequence[str]) -> bool:
    """Whether a command of Python has none of the options -E, -I and -S before its program."""
    rest = iter(words[1:])
    for word in rest:
        if not re.match(r"-[^-]", word):
            return True
        # One word may have several options; these take the rest of it, or the next word.
        flags, takes, tail = re.fullmatch(r"-([^cmWX]*)([cmWX]?)(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
        if set(flags) & set("EIS"):
            return False
        if takes in ("c", "m"):
            return True
        if takes and not tail:
            next(rest, None)
    return True
