"""Python processes that call functions for this one."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from zrt.errors import Error, UnsupportedError, ZrtError

PROGRAM = "from zrt.bench.child import main; main()"


class EndedError(ZrtError):
    """A process ended before it had answered: the system may have killed it for its memory."""

    by_signal = False
    how = ""
    """The name of the signal, or the exit status."""


def _ended(code: int) -> EndedError:
    signals = {each.value: each.name for each in signal.Signals}
    how = f"status {code}" if code >= 0 else signals.get(-code, f"signal {-code}")
    error = EndedError(f"another process of this command ended with {how}")
    error.by_signal, error.how = code < 0, how
    return error


class Child:
    """A process with this one's import path; `variables` are set in its environment.

    At the end of the ``with`` it may finish what it began, such as an entry of the cache; after an exception it is
    killed.
    """

    def __init__(self, **variables: str) -> None:
        path = os.pathsep.join(place for place in sys.path if isinstance(place, str) and place)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, **variables},
        )

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function, or its error, from the process. `EndedError` if that ends meanwhile."""
        try:
            request = pickle.dumps((function, arguments))
        except MemoryError:
            raise
        # Objects of others raise errors of many types.
        except Exception as error:
            raise UnsupportedError(
                f"feeds: they cannot be sent to another process, which takes arrays only: {error}"
            ) from error
        pipes: Any = self._process
        try:
            pipes.stdin.write(request)
            pipes.stdin.flush()
            result = pickle.load(pipes.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._let_end()
            raise _ended(self._process.returncode) from None
        if isinstance(result, Exception):
            raise result
        return result

    def _let_end(self) -> None:
        """Sends no further request, at which the process ends, and waits for that."""
        pipes: Any = self._process
        # It may be gone, with a part of a request.
        with suppress(OSError):
            pipes.stdin.close()
        self._process.wait()

    def close(self) -> None:
        """Ends the process at once."""
        pipes: Any = self._process
        self._process.kill()
        self._let_end()
        # Not read to its end: a process that this one has forked may have it open.
        pipes.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._let_end()
        finally:
            self.close()


def call(function: Callable[..., Any], *arguments: Any, **variables: str) -> Any:
    """The result of a function, or its error, from a process that makes this one call."""
    with Child(**variables) as process:
        return process.call(function, *arguments)


def main() -> None:
    """The process: calls on standard input, their results or errors on standard output, all else on standard error."""
    # Ctrl-C reaches both processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as replies:
        # Neither ONNX Runtime's own output nor modules of the user meet the requests and the results.
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        while True:
            try:
                function, arguments = pickle.load(requests)
            except EOFError:
                return
            try:
                result = function(*arguments)
            except (Error, OSError) as error:
                result = error
            pickle.dump(result, replies)
            replies.flush()
