"""The Python half of bridge.c: one thread takes the log lines of threads without the GIL and delivers them.

The threads that push them never wait for Python. The delivering thread starts with the receiver, is a daemon, and
starts again in the child of a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from zrt._native import callback_errors, ffi, lib
from zrt._native.thread_start import start_thread
from zrt.errors import AllocationError

# How many seconds the interpreter's end waits for slow receivers.
EXIT_PATIENCE = 5.0

# Python cannot handle Ctrl-C while C waits: wait in slices of this many seconds.
_SLICE = 0.05


_deliver: Callable[[Any], None] | None = None
# The lines that the thread has taken: each owns its ``zrt_log``.
_waiting: deque[Any] = deque()
# Reentrant: a finalizer or a signal handler may call in here again.
_lock = threading.RLock()
_thread: threading.Thread | None = None
_delivers = False
_ended = False

if lib.zrt_bridge_open():
    raise AllocationError("no memory for the handlers of a fork")


def receive(deliver: Callable[[Any], None]) -> None:
    """Has each ``zrt_log`` delivered from now on; starts the thread if it does not run.

    `threading.excepthook` gets what `deliver` raises.
    """
    global _deliver
    _deliver = deliver
    start()


def start() -> None:
    """Starts the thread if it does not run. Does nothing once the interpreter ends."""
    global _thread
    if _delivers:
        return
    with _lock:
        if _ended or (_thread is not None and _thread.is_alive()):
            return
        if _thread is None:
            # atexit is last-in, first-out: register late, so that this runs before `logging.shutdown`.
            atexit.register(_at_exit)
            _end_with_multiprocessing()
        # Store the thread before it starts: after an interrupt in between, `start` finds that it is not alive.
        _thread = threading.Thread(target=_loop, name="zrt-bridge", daemon=True)
        start_thread(_thread)


def is_here() -> bool:
    """Whether this is the thread that delivers. Waiting for a message in it is a deadlock."""
    return threading.current_thread() is _thread


def flush(timeout: float | None = None) -> bool:
    """Waits until all earlier messages are delivered, for `timeout` seconds at most. Returns whether they are.

    Returns False at once on the delivering thread, which would wait for itself.
    """
    if is_here():
        return False
    count = lib.zrt_bridge_pushed()
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
        if lib.zrt_bridge_flush(count, max(left, 0.0)):
            return True
        if left <= 0 or _ended:
            return False


def _loop() -> None:
    global _delivers
    _delivers = True
    me = threading.current_thread()
    delivered = 0
    # After a fork inside a receiver this thread also exists in the child, where a new one has replaced it.
    while me is _thread:
        line = lib.zrt_bridge_take(delivered)
        delivered = 0
        if not line:
            return
        # Queue the lines only when each is owned: a second such thread, of an interrupted start or a fork, may deliver
        # them.
        taken = []
        while line:
            delivered += 1
            following = line.next
            try:
                taken.append(ffi.gc(line, lib.zrt_log_free))
            except BaseException:
                callback_errors.report()
            line = following
        _waiting.extend(taken)
        taken.clear()
        while _waiting:
            try:
                line = _waiting.popleft()
            except IndexError:
                # The second thread took it.
                break
            try:
                assert _deliver is not None
                _deliver(line)
            except BaseException:
                callback_errors.report()


def _end_with_multiprocessing(_: object = None) -> None:
    """Processes of `multiprocessing` end by ``os._exit``, which does not run `atexit`."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    global _ended
    if _ended:
        return
    in_order = flush(EXIT_PATIENCE)
    _ended = True
    # The lines that the thread has taken are older than those in C's queue.
    _spill()
    lib.zrt_bridge_end()
    _spill()
    # A thread that the system refused to start cannot be joined.
    if in_order and _thread is not None and _thread.is_alive():
        _thread.join(EXIT_PATIENCE)


def _spill() -> None:
    # The thread may still run and take the last line at the same moment.
    with contextlib.suppress(IndexError):
        while True:
            lib.zrt_log_print(_waiting.popleft())


def _forked() -> None:
    global _delivers, _lock, _thread
    _delivers = False
    _lock = threading.RLock()
    _waiting.clear()
    if _thread is not None:
        _thread = threading.Thread()
        start()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # A new process of `multiprocessing` clears its finalizers first.
        util.register_after_fork(sys.modules[__name__], _end_with_multiprocessing)


os.register_at_fork(after_in_child=_forked)
