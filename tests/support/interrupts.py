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
