"""The files in which libonnxruntime may be: those of distributions, and the names for the system's loader."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain

from zrt._common import elf, installation

DISTRIBUTIONS = ("onnxruntime", "onnxruntime-gpu")
METADATA_SUFFIX = ".dist-info"
if sys.platform == "darwin":
    FILE_PATTERN = "libonnxruntime.*dylib"
    LOADER_NAMES: tuple[str, ...] = ("libonnxruntime.dylib",)
else:
    FILE_PATTERN = "libonnxruntime.so*"
    LOADER_NAMES = ("libonnxruntime.so.1", "libonnxruntime.so")

# The operators that a core built into zrt has kernels for, where it has not all: the flake puts the list beside it.
_REQUIRED_OPERATORS = os.path.join(os.path.dirname(__file__), "required-operators")


def required_operators() -> str | None:
    """The list of the operators that the core built into zrt has kernels for; None where it has all."""
    return _REQUIRED_OPERATORS if os.path.exists(_REQUIRED_OPERATORS) else None


def problem(path: str | bytes) -> str | None:
    """The reason why the system's loader must not get a file; None if it may.

    It would wait for a pipe's writer, and end the process at a library that is cut off.
    """
    if not os.path.exists(path):
        return "there is no such file"
    if not os.path.isfile(path):
        return "it is not a file"
    return "it is cut off: the file is shorter than its headers say" if elf.is_cut(path) else None


def is_found_by_loader(name: str | bytes) -> bool:
    """Whether it is a bare name that is no file here: the system's loader looks for it in folders of its own."""
    return not (os.path.dirname(name) or os.path.exists(name))


def problem_of_name(name: str | bytes) -> str | None:
    """`problem`, but a bare name that is no file here is left to the system's loader."""
    return None if is_found_by_loader(name) else problem(name)


def metadata(name: str, folders: Iterable[str] | None = None) -> str | None:
    """The folder of an installed distribution's metadata, whose name contains the version; `folders`: those to look in.

    importlib.metadata finds the same and takes 20 ms to import.
    """
    beginning = name.replace("-", "_") + "-"
    for place in installation.search_path() if folders is None else folders:
        try:
            folder = os.path.abspath(place)
            entries = os.listdir(folder)
        except (OSError, ValueError):
            continue
        for entry in entries:
            if entry.startswith(beginning) and entry.endswith(METADATA_SUFFIX):
                return os.path.join(folder, entry)
    return None


def library_file(info: str) -> str | None:
    """The library in the distribution's usual folder, or else one of the files in its RECORD."""
    folder = os.path.dirname(info)
    start, _, end = FILE_PATTERN.partition("*")
    for file in chain(_usual(folder), _recorded(info)):
        path = os.path.abspath(os.path.join(folder, file))
        name = os.path.basename(path)
        if name.startswith(start) and name.endswith(end) and os.path.isfile(path):
            return path
    return None


def _usual(folder: str) -> list[str]:
    usual = os.path.join(folder, "onnxruntime", "capi")
    try:
        return sorted(os.path.join(usual, file) for file in os.listdir(usual))
    except OSError:
        return []


def _recorded(info: str) -> Iterator[str]:
    try:
        with open(os.path.join(info, "RECORD"), encoding="utf-8", errors="surrogateescape") as record:
            yield from (line.partition(",")[0] for line in record)
    except OSError:
        return
