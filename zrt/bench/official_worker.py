"""Drives `zrt.bench.official_contenders` in a process of its own."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from zrt.bench import child
from zrt.bench.harness import Contender
from zrt.bench.official_contenders import LABELS, Official
from zrt.errors import ZrtError

PATIENCE_S = 5
PROGRAM = "from zrt.bench.official_contenders import main; main()"


@dataclass(frozen=True, slots=True)
class _Worker:
    """The other process as a function from requests to replies."""

    process: subprocess.Popen[bytes]

    def ask(self, *request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            pickle.dump(request, self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            self.end()
            status = self.process.wait()
            raise ZrtError(f"the process that measures onnxruntime ended with status {status}") from None

    def end(self) -> None:
        """Closes the process's input, at which it ends."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            self.process.wait(PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()


@dataclass(frozen=True, slots=True)
class _Remote(Contender):
    """A contender of the other process, which times its own calls and empties its own caches."""

    worker: _Worker

    def times(self, runs: int) -> list[int]:
        return cast("list[int]", self.worker.ask(self.key, "times", runs))

    def cold_time(self) -> int:
        return cast("int", self.worker.ask(self.key, "cold_time"))


@contextmanager
def set_up(*arguments: Any) -> Iterator[Official]:
    """`official_contenders.set_up` in a process of its own, which lives as long as the context."""
    with child.start(PROGRAM) as process:
        worker = _Worker(process)
        try:
            official, keys = worker.ask(*arguments)
            contenders = [_Remote(key, LABELS[key], partial(worker.ask, key, "batch"), worker) for key in keys]
            yield replace(official, contenders=contenders)
        finally:
            worker.end()
