"""Ctrl-C at any moment, for scripts that tests run in processes of their own."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Self


class Storm:
    """While entered, SIGINT comes every fraction of a millisecond; where `armed` it raises KeyboardInterrupt, once."""

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
        # One exception each time, so that what follows it is not caught by the next.
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def _blow(self) -> None:
        while not self._over:
            time.sleep(random.random() / 2000)
            os.kill(os.getpid(), signal.SIGINT)
