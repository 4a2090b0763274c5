"""Libraries whose calls fail on demand, so that a test can let each call fail once."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager


class Faults:
    """The faults of one library, which exports ``faults_arm``, ``faults_calls`` and ``faults_failed``."""

    calls = 0
    """How many calls that may fail the last `between` saw."""
    failed = ""
    """The function that failed first in the last `between`; empty if none did."""

    def __init__(self, path: str | None) -> None:
        self.library = ctypes.CDLL(path)
        self.library.faults_failed.restype = ctypes.c_char_p

    @contextmanager
    def between(self, first: int, last: int) -> Iterator[None]:
        """Inside, the calls of these numbers fail; the first call has number 1, and with `first` 0 none fails."""
        arm, calls, failed = self.library.faults_arm, self.library.faults_calls, self.library.faults_failed
        arm(ctypes.c_long(first), ctypes.c_long(last))
        try:
            yield
        finally:
            count, name = calls(), failed()
            arm(ctypes.c_long(0), ctypes.c_long(0))
            self.calls, self.failed = count, name.decode()
