"""``--input`` and ``--shape``: the inputs that the user gives on the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zrt._common.numpy_files import UNREADABLE
from zrt.bench.inputs import UserInputs
from zrt.cli import options
from zrt.cli.common import CommandError
from zrt.cli.options import UsageError, named_shape, once_each, option

ARRAY, ARRAYS = ".npy", ".npz"


def user_inputs(arguments: argparse.Namespace) -> UserInputs:
    """The inputs on the command line; reads their files."""
    shapes = once_each("--shape", arguments.shape)
    arrays = once_each("--input", _arrays(arguments))
    values = once_each("--input", ((name, each) for name, each in arguments.input if isinstance(each, list)))
    for name in arrays.keys() & values.keys():
        raise UsageError(f"--input gives {name!r} twice")
    for name in arrays.keys() & shapes.keys():
        raise UsageError(f"--shape and --input both give {name!r}, whose file has a shape already")
    return UserInputs(arrays, values=values, shapes=shapes)


def input_files(arguments: argparse.Namespace) -> list[Path]:
    """The files that ``--input`` names."""
    return [each for _, each in arguments.input if isinstance(each, Path)]


def _input(text: str) -> tuple[str, Path | list[str]]:
    """The name of an input, "" for a file of several, and its file or values."""
    if text.endswith(ARRAYS) and ("=" not in text or os.path.isfile(text)):
        return "", Path(text)
    name, _, value = text.partition("=")
    if not (name and value):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no input: expected NAME=VALUE such as rate=16000, NAME=FILE.npy or FILE.npz"
        )
    elements = value.split(",")
    is_file = value.endswith((ARRAY, ARRAYS)) or (not all(map(_is_number, elements)) and os.path.exists(value))
    return name, Path(value) if is_file else elements


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _arrays(arguments: argparse.Namespace) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The arrays in the files, by the inputs' names; raises `CommandError` that names the argument."""
    for name, path in arguments.input:
        if not isinstance(path, Path):
            continue
        subject = f"--input {name}={path}" if name else f"--input {path}"
        try:
            with open(path, "rb") as file:
                content = np.load(file)
                several = not isinstance(content, np.ndarray)
                if several == bool(name):
                    form = f"several arrays: give {path} without a name" if name else f"one array: give NAME={path}"
                    raise CommandError(f"{subject}: it holds {form}")
                yield from content.items() if several else [(name, content)]
        except OSError as error:
            raise CommandError(f"{subject}: {error.strerror or error}") from None
        except MemoryError as error:
            raise CommandError(f"{subject}: {str(error) or 'there is no memory for it'}") from None
        except UNREADABLE as error:
            raise CommandError(f"{subject}: no {ARRAY} or {ARRAYS} file of numbers: {error}") from None


OPTIONS = (
    option(
        "--input",
        "an input: NAME=VALUE, one number that fills it or all of them with commas between; NAME=FILE.npy; or "
        "FILE.npz with several inputs; others are made up, the same each time",
        "NAME=VALUE",
        _input,
        repeated=True,
    ),
    option(
        "--shape",
        "an input's shape, such as x=8,3,224,224; sizes that stay open are 1, but for zrt memory, which asks for them",
        "NAME=DIMS",
        named_shape,
        repeated=True,
    ),
)

# Of the commands that measure one model.
MEASURED = (options.MODEL, options.PROVIDER, options.threads(), options.OPTIONS, *OPTIONS)
