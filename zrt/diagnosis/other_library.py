"""A side of a comparison in another ONNX Runtime: its sessions run in a process that loads that library."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Sequence
from typing import Any

from zrt._common.arguments import path_bytes
from zrt.bench import child
from zrt.diagnosis.sides import Arrays, Feeds, SessionSide
from zrt.errors import Error, ModelError, UnsupportedError
from zrt.session.spec import SessionSpec

PROGRAM = "from zrt.diagnosis.other_library import answer; answer()"


class OtherLibrarySide(SessionSide):
    """A model in sessions of another library; `close` ends its process."""

    def __init__(self, spec: SessionSpec, library: str | os.PathLike[str]) -> None:
        """Raises `LibraryError` for a library that cannot be used."""
        super().__init__(spec)
        path = os.path.abspath(os.fsdecode(path_bytes(library, "library")))
        self._process = child.start(PROGRAM, ZRT_ORT_LIBRARY=path)
        try:
            self._ask(self.spec)
        except BaseException:
            self.close()
            raise

    def _ask(self, request: Any) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            message = pickle.dumps(request)
        # Objects of others raise errors of many types.
        except Exception as error:
            raise UnsupportedError(
                f"feeds: they cannot be sent to the process of the other library: {error}"
            ) from error
        try:
            process.stdin.write(message)
            process.stdin.flush()
            reply = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            code = process.wait()
            reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise ModelError(f"{self.subject}: the process of the other library ended ({reason})") from None
        if isinstance(reply, Error):
            raise reply
        return reply

    def run(self, tapped: Sequence[str], feeds: Feeds, wanted: Sequence[str]) -> Arrays:
        arrays: Arrays = self._ask((tapped, dict(feeds), wanted))
        return arrays

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def answer() -> None:
    """The program of the process: reads a recipe and then runs from standard input, and writes what they return."""
    # The replies have a file of their own: modules of the user may print.
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        side: SessionSide | None = None
        while True:
            try:
                request = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                reply: Any
                if side is None:
                    from zrt._native.library import library

                    side, reply = SessionSide(request), library().version
                else:
                    reply = side.run(*request)
            except Error as error:
                reply = error
            pickle.dump(reply, replies)
            replies.flush()
