"""`open_within`: opens a file below some folders; neither ``..`` nor a link leads elsewhere, even in a race."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from typing import TypeAlias

Identity: TypeAlias = "tuple[int, int]"
"""The device and the inode of a folder, which stay its own while the folder is open."""

# The limits of Linux for one path.
MOST_LINKS = 40
LONGEST_PATH = 4096

# O_PATH: the right to search a folder is enough, as in any path. Other systems also want the right to list it.
_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# O_NONBLOCK: opening a pipe must not wait for its writer.
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW


class PathRefused(Exception):  # noqa: N818 (never leaves zrt: the callers make errors of it)
    """A path does not lead to a file that may be opened; `place` is where it leads, `reason` says why not."""

    def __init__(self, place: bytes, reason: str | None) -> None:
        super().__init__(place, reason)
        self.place = os.fsdecode(place)
        self.reason = reason
        """The system's words; None where the place is outside of the folders."""


def open_folder(path: bytes) -> int:
    """The descriptor of a folder, which the caller closes. Raises `OSError`."""
    return os.open(path, _FOLDER)


def identity(folder: int) -> Identity:
    """The identity of an open folder."""
    state = os.fstat(folder)
    return state.st_dev, state.st_ino


def open_within(path: bytes, folders: Collection[Identity]) -> int:
    """The descriptor of a regular file below one of the `folders`, for reading; the caller closes it.

    It follows the links of an absolute path itself. Each folder on the way stays open until the end, so that the place
    which is checked is the place that is opened. Outside of `folders` it opens no file. Raises `PathRefused`.
    """
    walk = _Walk(folders)
    try:
        return walk.open(path)
    except OSError as error:
        # Outside, nobody learns whether there is such a file.
        outside = walk.name and not walk.waiting and not walk.is_within()
        raise PathRefused(walk.place(), None if outside else error.strerror) from None
    finally:
        for _, folder in walk.folders:
            os.close(folder)


class _Walk:
    """A way down from the root: the open folders, of which the root is the first, and the name that is looked at."""

    __slots__ = ("folders", "links", "name", "trusted", "waiting")

    def __init__(self, trusted: Collection[Identity]) -> None:
        self.folders = [(b"", open_folder(b"/"))]
        self.links = 0
        self.name = b""
        self.waiting: list[bytes] = []
        self.trusted = trusted

    @property
    def here(self) -> int:
        return self.folders[-1][1]

    def place(self) -> bytes:
        return b"/".join([name for name, _ in self.folders] + [self.name])

    def is_within(self) -> bool:
        """Whether one of the open folders is trusted."""
        return any(identity(folder) in self.trusted for _, folder in self.folders)

    def leave(self) -> None:
        """Goes back to the root."""
        while len(self.folders) > 1:
            os.close(self.folders.pop()[1])

    def open(self, path: bytes) -> int:
        self.waiting = _names(path)
        while self.waiting:
            self.name = self.waiting.pop()
            if self.name == b"..":
                if len(self.folders) > 1:
                    os.close(self.folders.pop()[1])
            elif self.name not in (b"", b"."):
                target = self._target()
                if target is not None:
                    if target.startswith(b"/"):
                        self.leave()
                    self.waiting += _names(target)
                elif self.waiting:
                    folder = os.open(self.name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.here)
                    self.folders.append((self.name, folder))
                else:
                    return self._open_file()
        self.name = b""
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _target(self) -> bytes | None:
        """The path in a link; None where the name is no link."""
        try:
            target = os.readlink(self.name, dir_fd=self.here)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise
        self.links += 1
        if self.links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return target

    def _open_file(self) -> int:
        if not self.is_within():
            raise PathRefused(self.place(), None)
        file = os.open(self.name, _FILE, dir_fd=self.here)
        mode = os.fstat(file).st_mode
        if stat.S_ISREG(mode):
            return file
        os.close(file)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code) if stat.S_ISDIR(mode) else "Not a regular file")


def _names(path: bytes) -> list[bytes]:
    """The names in a path, the last first."""
    if len(path) > LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return path.split(b"/")[::-1]
