"""A side of a comparison in another ONNX Runtime: its sessions run in a process that loads that library."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from zrt._common.arguments import absolute, path_bytes
from zrt.bench.child import Child, EndedError
from zrt.diagnosis.sides import Arrays, Feeds, SessionSide
from zrt.errors import ModelError
from zrt.session.spec import SessionSpec

# The side that this process runs, if it is the process of the other library.
_here: list[SessionSide] = []


class OtherLibrarySide(SessionSide):
    """A model in sessions of another library; `close` ends its process."""

    def __init__(self, spec: SessionSpec, library: str | os.PathLike[str]) -> None:
        """Raises `LibraryError` for a library that cannot be used."""
        super().__init__(spec)
        self._process = Child(ZRT_ORT_LIBRARY=absolute(os.fsdecode(path_bytes(library, "library"))))
        try:
            self._ask(_open, self.spec)
        except BaseException:
            self.close()
            raise

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._process.call(function, *arguments)
        except EndedError as ended:
            raise ModelError(f"{self.subject}: the process of the other library ended ({ended.how})") from None

    def run(self, wanted: Sequence[str], tapped: Sequence[str] = ()) -> Arrays:
        arrays: Arrays = self._ask(_run, self.feeds, wanted, tapped)
        return arrays

    def close(self) -> None:
        self._process.close()


def _open(spec: SessionSpec) -> None:
    from zrt._native.library import library

    library()
    _here.append(SessionSide(spec))


def _run(feeds: Feeds, *request: Any) -> Arrays:
    _here[0].feeds = feeds
    return _here[0].run(*request)
