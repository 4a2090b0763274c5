"""Files that are replaced as a whole, so that whoever maps the old ones goes on with them, and seen to be whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zrt.errors import ArgumentError


@contextmanager
def replacing(target: str, *beside: str, subject: str = "path") -> Iterator[Sequence[str]]:
    """The paths at which to write `target` and the files named `beside` it.

    At the end those that are there, and whatever else was written beside them, take their places, `target` last;
    after an error none does. Raises `ArgumentError` where that cannot be, and for the name of what is no plain file:
    taking the place of a device such as ``/dev/null`` would be the end of it.
    """
    folder, name = os.path.split(os.path.abspath(target))
    names = (name, *beside)
    try:
        if os.path.isdir(os.path.abspath(target)):
            raise IsADirectoryError(0, "Is a directory")
        _require_plain(target, subject)
        scratch = tempfile.mkdtemp(prefix=".zrt-", dir=folder)
    except OSError as error:
        raise ArgumentError(f"{subject}: {target!r} cannot be written: {error.strerror}") from error
    try:
        written = [os.path.join(scratch, each) for each in names]
        yield written
        try:
            made = sorted(os.listdir(scratch), key=lambda each: each == name)
            for each in made:
                _require_plain(os.path.join(folder, each), subject)
            for each in made:
                os.replace(os.path.join(scratch, each), os.path.join(folder, each))
        except OSError as error:
            raise ArgumentError(f"{subject}: {target!r} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _require_plain(path: str, subject: str) -> None:
    """Refuses to take the place of a device, a pipe or a socket."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise ArgumentError(f"{subject}: {path!r} is no plain file, and is not replaced")


def ends_with(path: str, end: bytes) -> bool:
    """Whether the file is there, and ends so but for white space."""
    try:
        with open(path, "rb") as file:
            file.seek(-min(os.fstat(file.fileno()).st_size, 16), os.SEEK_END)
            return file.read().rstrip().endswith(end)
    except OSError:
        return False
