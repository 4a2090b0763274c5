"""Python processes that call functions for this one."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Self

from zrt.errors import Error, UnsupportedError, ZrtError

PROGRAM = "from zrt.bench.child import main; main()"


class EndedError(ZrtError):
    """A process ended before it had answered: the system may have killed it for its memory."""

    def __init__(self, code: int) -> None:
        self.by_signal: bool = code < 0
        self.how: str = f"status {code}"
        if self.by_signal:
            names = {each.value: each.name for each in signal.Signals}
            self.how = names.get(-code, f"signal {-code}")
        super().__init__(f"the process that measures ended with {self.how}")


class Child:
    """A process with this one's import path, which `variables` are set for. It ends with the ``with`` block."""

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
        # Objects of others raise errors of many types.
        except Exception as error:
            raise UnsupportedError(
                f"another process takes arrays only: these values cannot be sent: {error}"
            ) from error
        pipes: Any = self._process
        try:
            pipes.stdin.write(request)
            pipes.stdin.flush()
            result = pickle.load(pipes.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise EndedError(self._process.wait()) from None
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call(function: Callable[..., Any], *arguments: Any, **variables: str) -> Any:
    """The result of a function, or its error, from a process that makes this one call."""
    with Child(**variables) as process:
        return process.call(function, *arguments)


def main() -> None:
    """The process: calls on standard input, their results or errors on standard output, all else on standard error."""
    # Ctrl-C reaches both processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as replies:
        # ONNX Runtime's own output must not mix with the results, nor that of modules of the user.
        os.dup2(2, 1)
        while True:
            try:
                function, arguments = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                result = function(*arguments)
            except (Error, OSError) as error:
                result = error
            pickle.dump(result, replies)
            replies.flush()
