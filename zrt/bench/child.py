"""Starts the Python processes of measurements that need one of their own."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from zrt._native import library_files
from zrt.errors import Error, UnsupportedError, ZrtError

PROGRAM = "from zrt.bench.child import main; main()"


class EndedError(ZrtError):
    """A process ended before it had measured: the system may have killed it for its memory."""


def start(program: str, **variables: str) -> subprocess.Popen[bytes]:
    """A process that runs `program`, with this one's import path, and with pipes to its input and its output.

    `variables` are set in its environment.
    """
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, library_files.search_path())), **variables}
    command = [sys.executable, "-P", "-c", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=paths)


def call(function: Callable[..., Any], *arguments: Any, **variables: str) -> Any:
    """The result of a function, or its error, from a process of its own. `EndedError` if that ends otherwise.

    `variables` are set in its environment.
    """
    try:
        request = pickle.dumps((function, arguments))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise UnsupportedError(f"another process measures, and takes arrays only: {error}") from error
    with start(PROGRAM, **variables) as process:
        try:
            answer, _ = process.communicate(request)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        number = process.returncode
        how = f"status {number}" if number > 0 else signal.Signals(-number).name
        raise EndedError(f"the process that measures ended with {how}")
    result = pickle.loads(answer)
    if isinstance(result, Exception):
        raise result
    return result


def main() -> None:
    """The process: one call on standard input, its result or error on standard output, all else on standard error."""
    # Ctrl-C reaches both processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as replies:
        # ONNX Runtime's own output must not mix with the result.
        os.dup2(2, 1)
        function, arguments = pickle.load(sys.stdin.buffer)
        try:
            result = function(*arguments)
        except (Error, OSError) as error:
            result = error
        pickle.dump(result, replies)
