"""The options of the commands: each is declared once, as data, with its place in the help."""

from __future__ import annotations

import argparse
import os
import stat
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from zrt._common.arguments import INT32_MAX
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError

Parsed = TypeVar("Parsed")


class UsageError(ArgumentError):
    """The command line is wrong."""


class Option(NamedTuple):
    """An option or an argument of a command, as argparse takes it."""

    name: str
    settings: dict[str, Any]
    group: str | None
    """The heading in the help; None for the common one."""


def option(
    name: str,
    meaning: str,
    metavar: str | None = None,
    kind: Callable[[str], Any] | None = None,
    *,
    default: Any = None,
    repeated: bool = False,
    group: str | None = None,
    **settings: Any,
) -> Option:
    """An option; one without `metavar` and `settings` is a flag. The help names a `default`, and repetition."""
    if repeated:
        meaning += " (may be repeated)"
        settings |= {"action": "append", "default": []}
    elif default is not None:
        settings["default"] = default
        meaning += f" (default: {default})"
    if metavar is not None:
        settings["metavar"] = metavar
    elif not settings:
        settings["action"] = "store_true"
    if kind is not None:
        settings["type"] = kind
    return Option(name, {"help": meaning, **settings}, group)


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Adds the options to a parser, under their headings."""
    groups: dict[str | None, Any] = {None: parser}
    for each in options:
        if each.group not in groups:
            groups[each.group] = parser.add_argument_group(each.group)
        groups[each.group].add_argument(each.name, **each.settings)


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A whole number that is at least `low`, and at most `high`."""

    def parse(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < low or (high is not None and int(text) > high):
            limits = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"expected a whole number {limits}, got {text!r}")
        return int(text)

    return parse


def count(low: int) -> Callable[[str], int]:
    """A number of runs, rows or bytes, which an int of C must hold."""
    return whole(low, INT32_MAX)


def seconds(text: str) -> float:
    """A duration, such as ``10``, ``10s``, ``1m`` or ``1h``, in seconds; it is above 0."""
    units = {"s": 1, "m": 60, "h": 3600}
    number = text[:-1] if text[-1:] in units else text
    try:
        duration = float(number) * units.get(text[-1:], 1)
    except ValueError:
        duration = 0.0
    if not 0 < duration <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"expected a duration such as 10, 10s or 1m, got {text!r}")
    return duration


def named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``x=8,3,224,224`` as a name and a shape; ``x=`` is a scalar."""
    name, separator, dims = text.rpartition("=")
    try:
        if not separator or not name:
            raise ValueError
        shape = tuple(int(dim) for dim in dims.split(",")) if dims.strip() else ()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a shape: expected NAME=DIMS, such as x=8,3,224,224"
        ) from None
    if any(dim < 0 for dim in shape):
        raise argparse.ArgumentTypeError(f"{text!r}: a size cannot be negative")
    return name, shape


def file_to_write(text: str) -> Path:
    """A path to write a file to, in a folder that exists."""
    if text.endswith(os.sep):
        raise argparse.ArgumentTypeError(f"{text!r} names a folder, and no file")
    path = Path(text)
    try:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise argparse.ArgumentTypeError(f"{text!r}: there is no such folder")
        # Not `Path.exists`: from Python 3.14 on it hides that the system refuses the name.
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise argparse.ArgumentTypeError(f"{text!r} is no plain file")
        # Not only after the work.
        if not os.access(folder, os.W_OK | os.X_OK):
            raise argparse.ArgumentTypeError(f"{text!r}: its folder cannot be written to")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {error.strerror}") from None
    return path


def file_with(*suffixes: str) -> Callable[[str], Path]:
    """The same for a file whose name ends in one of the suffixes."""

    def parse(text: str) -> Path:
        path = file_to_write(text)
        if path.suffix.lower() not in suffixes:
            raise argparse.ArgumentTypeError(f"{text!r} should end in {' or '.join(suffixes)}")
        return path

    return parse


def once_each(name: str, pairs: Iterable[tuple[str, Parsed]]) -> dict[str, Parsed]:
    """The values of the repeated option `name` by their keys; `UsageError` for a repeated key."""
    values: dict[str, Parsed] = {}
    for key, value in pairs:
        if key in values:
            raise UsageError(f"{name} gives {key!r} twice")
        values[key] = value
    return values


JSON = option("--json", "one JSON document on standard output")


def other_library(verb: str) -> tuple[Option, Option]:
    """The options that name another ONNX Runtime; `verb` says what is done with it."""
    return (
        option("--library", f"{verb} this libonnxruntime instead of the one that zrt finds", "FILE", Path),
        option("--python", f"{verb} the onnxruntime that is installed for this Python", "PYTHON"),
    )


MODEL = option(
    "model",
    "an ONNX file; without it what ZRT_MODEL names, else the digit classifier inside zrt",
    "MODEL",
    Path,
    nargs="?",
)
MODEL_FILE = option("model", "an ONNX file", "MODEL", Path)
OVERWRITE = option("--overwrite", "replace an output file that exists")
PROVIDER = option(
    "--provider",
    "the execution provider, such as cuda (default: those of --options, else cpu)",
    "NAME",
    nargs=1,
)
OPTIONS = option(
    "--options",
    "session options, run options and providers from a .json or .toml file; other flags take precedence over it",
    "FILE",
    Path,
)
IMPORT = option(
    "--import",
    "a Python module, such as my_ops, with the domains of custom operators that models call",
    "MODULE",
    repeated=True,
    dest="imports",
)


def threads(default: int = 0) -> Option:
    """``--threads``, which an options file may set too."""
    usual = "what --options says, else 0"
    if default:
        usual = f"{default}; with --options what the file says, 0 where it says nothing"
    return option(
        "--threads",
        f"threads within an operator; 0: one for each CPU that the process may use (default: {usual})",
        "N",
        whole(0, MOST_THREADS),
    )
