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

from zrt._common import installation
from zrt.errors import Error, UnsupportedError, ZrtError

PROGRAM = "from zrt.bench.child import main; main()"

# The seconds that a process may take to end after its last answer.
PATIENCE_S = 60.0

# The signals of faults that a process makes itself.
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS)


class EndedError(ZrtError):
    """A process ended before it had answered: the system may have killed it for its memory."""

    crashed = False
    """Whether it ended by a fault of its own, such as an access outside of its memory."""
    how = ""
    """The name of the signal, or the exit status."""


def how_ended(code: int) -> str:
    """The signal that ended a process, or its exit status, in words."""
    signals = {each.value: each.name for each in signal.Signals}
    return f"status {code}" if code >= 0 else signals.get(-code, f"signal {-code}")


class Child:
    """A process with this one's import path; `variables` are set in its environment.

    At the end of the ``with`` it has `PATIENCE_S` to finish what it began, such as an entry of the cache. If it owes an
    answer then, it is killed.
    """

    def __init__(self, **variables: str) -> None:
        path = os.pathsep.join(filter(None, installation.search_path()))
        self._answered = True
        self._process: Any = subprocess.Popen(
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
        self._answered = False
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
            result = pickle.load(self._process.stdout)
        # A ValueError where the pipe is closed, since an earlier call found that the process had ended.
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            code = self._wait()
            ended = EndedError(f"the process that zrt started for this ended with {how_ended(code)}")
            ended.crashed, ended.how = -code in FAULTS, how_ended(code)
            raise ended from None
        self._answered = True
        if isinstance(result, Exception):
            raise result
        return result

    def _wait(self) -> int:
        """The status with which the process ends when it gets no further request; it is killed if it does not end."""
        # The process may have ended before it read the whole request.
        with suppress(OSError):
            self._process.stdin.close()
        try:
            return int(self._process.wait(PATIENCE_S))
        except subprocess.TimeoutExpired:
            self._process.kill()
            return int(self._process.wait())

    def close(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._wait()
        # Not read to its end, which could come later: other processes may have it open.
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._answered and (kind is None or issubclass(kind, Exception)):
                # A process that this one forked meanwhile may have the pipe open: its end would not be seen.
                with suppress(OSError):
                    pickle.dump(None, self._process.stdin)
                    self._process.stdin.flush()
                self._wait()
        finally:
            self.close()


def call(function: Callable[..., Any], *arguments: Any, **variables: str) -> Any:
    """The result of a function, or its error, from a process that makes this one call."""
    with Child(**variables) as process:
        return process.call(function, *arguments)


def main() -> None:
    """The process: calls on standard input until None, their results or errors on standard output."""
    # Ctrl-C reaches both processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    # The parent may have ended without a word.
    with suppress(BrokenPipeError), os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as replies:

        def let_go() -> None:
            for pipe in (requests, replies):
                if not pipe.closed:
                    os.dup2(nothing, pipe.fileno(), inheritable=False)

        # The parent would wait for the end of processes that have the pipes open.
        os.register_at_fork(after_in_child=let_go)
        # Modules of the user must not read the requests, nor must ONNX Runtime's own output get into the results.
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        while True:
            try:
                request = pickle.load(requests)
            except EOFError:
                return
            if request is None:
                return
            function, arguments = request
            try:
                result = function(*arguments)
            except (Error, OSError) as error:
                result = error
            pickle.dump(result, replies)
            replies.flush()
