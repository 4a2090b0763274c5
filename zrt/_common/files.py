"""Replaces files atomically, so that processes that map the old ones keep them; protects a command's inputs."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from zrt._common.arguments import absolute
from zrt.errors import ArgumentError, FileError

PREFIX = ".zrt-new-"
# Only a write fails with these errors.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SCRATCH = re.compile(re.escape(PREFIX) + "[a-z0-9_]{8}")


@contextmanager
def replacing(
    target: str, *beside: str, subject: str = "path", inputs: Iterable[str | os.PathLike[str]] = ()
) -> Iterator[Sequence[str]]:
    """The temporary paths at which to write `target` and the files named `beside` it.

    At the end all files in the temporary folder replace those of the same names, `target` last, and take their
    permissions; after an error in the ``with``, which is raised as it is unless it is that of a full disk, none does.
    Raises `FileError` if the system refuses, and `ArgumentError` if a file to write is one of the `inputs`, or if a
    name belongs to a device such as ``/dev/null``, which must not be replaced by a file.
    """
    folder, name = os.path.split(absolute(target))
    names = (name, *beside)
    inputs = list(inputs)
    for each in (target, *(os.path.join(folder, each) for each in beside)):
        require_other(each, inputs, subject)
        # Raises for a name that is too long.
        with writing(each, subject), suppress(FileNotFoundError):
            os.lstat(absolute(each))
    with writing(target, subject):
        if os.path.isdir(absolute(target)):
            raise IsADirectoryError(0, "Is a directory")
        require_plain(target, subject)
        remove_abandoned(folder, SCRATCH)
        scratch, lock = _scratch(folder)
    try:
        written = [os.path.join(scratch, each) for each in names]
        with writing(target, subject, *NO_ROOM):
            yield written
        with writing(target, subject):
            files = sorted(os.listdir(scratch), key=lambda each: each == name)
            for each in files:
                require_plain(os.path.join(folder, each), subject)
                # An execution provider chooses the names of some files itself.
                require_other(os.path.join(folder, each), inputs, subject)
                take_permissions(os.path.join(scratch, each), os.path.join(folder, each))
            _move_all(scratch, folder, files)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(lock)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """A new folder, which is removed at the end. Raises `FileError` where none can be made."""
    try:
        # A file that cannot be removed is no reason to lose a result, or to hide an error.
        folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        raise FileError(f"no temporary folder can be made: {error}") from error
    with folder as path:
        yield path


@contextmanager
def reading(path: str | os.PathLike[str], *errors: type[Exception]) -> Iterator[None]:
    """Raises `FileError` with the name of the file in place of these errors."""
    try:
        yield
    except errors as error:
        raise FileError(f"{os.fspath(path)!r} cannot be read: {error}") from None


@contextmanager
def writing(path: str | os.PathLike[str], subject: str = "", *numbers: int) -> Iterator[None]:
    """Raises `FileError` with the name of the file in place of the system's errors, or of those of these `numbers`."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        if numbers and error.errno not in numbers:
            raise
        place = f"{subject}: " if subject else ""
        raise FileError(f"{place}{os.fspath(path)!r} cannot be written: {error.strerror or error}") from error


def lock_folder(folder: str | os.PathLike[str], *, required: bool = False) -> int:
    """Locks a folder until the returned descriptor is closed, which the end of the process does too.

    Raises `BlockingIOError` where another descriptor has the lock, `FileNotFoundError` for a folder that is gone, and
    other `OSError` for one that cannot be opened. On file systems without locks the folder stays unlocked; with
    `required` that is an error.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            if required:
                raise
        # Another process may have removed the folder before it was locked.
        if not os.path.samestat(os.fstat(opened), os.stat(folder)):
            raise FileNotFoundError(2, "it was replaced", os.fspath(folder))
    except BaseException:
        os.close(opened)
        raise
    return opened


def _scratch(folder: str) -> tuple[str, int]:
    """A new folder, and its lock."""
    while True:
        scratch = tempfile.mkdtemp(prefix=PREFIX, dir=folder)
        # Before it is locked, another process may take it for one that was left, and remove it.
        with suppress(BlockingIOError, FileNotFoundError):
            return scratch, lock_folder(scratch)


def remove_abandoned(folder: str, names: re.Pattern[str]) -> None:
    """Removes the scratch folders of such names in `folder` that killed processes left: nobody holds their locks."""
    entries: list[str] = []
    # A folder that cannot be listed may still be one to write to.
    with suppress(OSError):
        entries = os.listdir(folder)
    for left in (os.path.join(folder, name) for name in entries if names.fullmatch(name)):
        with suppress(OSError):
            lock = lock_folder(left, required=True)
            try:
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)


def _move_all(source: str, target: str, names: Sequence[str]) -> None:
    """Moves files to another folder; Ctrl-C comes through after the last one: they fit each other only together."""
    try:
        for each in names:
            os.replace(os.path.join(source, each), os.path.join(target, each))
    except KeyboardInterrupt:
        for each in os.listdir(source):
            os.replace(os.path.join(source, each), os.path.join(target, each))
        raise


def take_permissions(fresh: str | os.PathLike[str], replaced: str | os.PathLike[str]) -> None:
    """Gives a file the permissions of the one that it will replace, if that exists."""
    with suppress(FileNotFoundError):
        os.chmod(fresh, stat.S_IMODE(os.stat(replaced).st_mode) & 0o777)


def require_plain(path: str, subject: str) -> None:
    """Raises for a device, a pipe or a socket."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise ArgumentError(f"{subject}: {path!r} is no plain file, and is not replaced")


def require_other(target: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]], subject: str) -> None:
    """Raises `ArgumentError` if `target` is the same file as one of `inputs`, under this or another name."""
    for each in inputs:
        if is_same(target, each):
            raise ArgumentError(f"{subject}: {os.fspath(target)!r} is the same file as the input {os.fspath(each)!r}")


def is_same(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether both are names of one file; False where one of them does not exist."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def identity(path: str) -> tuple[int, ...]:
    """Numbers that change when a file is replaced or written; () for one that is not there."""
    try:
        state = os.stat(path)
    # A model may name any file, also one with a NUL character.
    except (OSError, ValueError):
        return ()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def plain_name(name: str, target: str | os.PathLike[str], subject: str) -> str:
    """Checks that `name` is the plain name of another file in the folder of `target`."""
    if os.path.basename(name) != name or name in ("", ".", "..", os.path.basename(os.path.abspath(target))):
        raise ArgumentError(f"{subject}: {name!r}: expected a file's plain name, not that of {os.fspath(target)!r}")
    return name


def ends_with(path: str, end: bytes) -> bool:
    """Whether the file exists and ends with `end`, apart from white space."""
    try:
        with open(path, "rb") as file:
            file.seek(-min(os.fstat(file.fileno()).st_size, 16), os.SEEK_END)
            return file.read().rstrip().endswith(end)
    except OSError:
        return False
