"""Ctrl-C at any moment: by signals, in scripts with processes of their own; by trace functions, on a thread."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType, FunctionType, TracebackType
from typing import Any, Self


def on_its_own(function: Callable[..., Any], *arguments: Any) -> Any:
    """The call's result, from a thread that ends with it.

    For calls that a trace function interrupts: when it interrupts the end of an `except` block, CPython 3.11 goes on as
    if that block had not ended, and on the thread each later exception gets the handled one as its context.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def interrupt_at_start_of(function: FunctionType, call: Callable[[], Any]) -> None:
    """Makes the call on a thread of its own, and interrupts it at the start of this function, which it calls.

    Python looks for signals at the start of each of its functions.
    """

    def trace(frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code is function.__code__:
            raise KeyboardInterrupt

    def interrupted() -> None:
        sys.settrace(trace)
        try:
            call()
        except KeyboardInterrupt:
            return
        finally:
            sys.settrace(None)
        raise AssertionError(f"the call did not reach {function.__qualname__}")

    on_its_own(interrupted)


class Storm:
    """While entered, sends SIGINT about every 0.25 ms; when `armed`, one of them raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.armed = False
        self._over = False
        self._thread = threading.Thread(target=self._blow, daemon=True)

    def __enter__(self) -> Self:
        signal.signal(signal.SIGINT, self._interrupt)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.armed = False
        self._over = True
        self._thread.join()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # Disarm first: a second exception would interrupt the handling of this one.
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def _blow(self) -> None:
        while not self._over:
            time.sleep(random.random() / 2000)
            os.kill(os.getpid(), signal.SIGINT)
