"""The Python half of bridge.c: the one thread that takes what ONNX Runtime's threads say, and hands it out."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from zrt._native import callback_errors, ffi, lib
from zrt._native.thread_start import start_thread
from zrt.errors import AllocationError

# How long the interpreter's end waits for a slow receiver, in seconds.
EXIT_PATIENCE = 5.0

# Waiting in C hears no Ctrl-C: so long at a time.
_SLICE = 0.05


class Kind(NamedTuple):
    """What is done with the messages of one kind."""

    read: Callable[[Any], Any]
    """Takes out of a message, a pointer to its C struct, what `deliver` needs."""
    deliver: Callable[[Any], None]
    """Hands that out; what it raises goes to `threading.excepthook`."""
    spill: Callable[[Any], None]
    """Does what is left to do with it where the interpreter ends before it is delivered."""


_kinds: dict[int, Kind] = {}
_waiting: deque[tuple[Kind, Any]] = deque()
# A finalizer or a signal's handler may come back in.
_lock = threading.RLock()
_thread: threading.Thread | None = None
_ended = False

if lib.zrt_bridge_open():
    raise AllocationError("no memory for what a fork calls")


def receive(number: int, kind: Kind) -> None:
    """From now on messages of that kind are handed out; starts the thread where it does not run yet."""
    _kinds[number] = kind
    start()


def start() -> None:
    """Starts the thread where it does not run; without effect once the interpreter ends."""
    global _thread
    with _lock:
        if _ended or (_thread is not None and _thread.is_alive()):
            return
        if _thread is None:
            # Only now: what is registered later is called earlier, and `logging` closes its handlers so.
            atexit.register(_at_exit)
            _end_with_multiprocessing()
        # Kept before it starts: an interrupt in between leaves one that is not alive, or not the one that is kept.
        _thread = threading.Thread(target=_loop, name="zrt-bridge", daemon=True)
        try:
            start_thread(_thread)
        except RuntimeError as error:
            raise AllocationError(f"no thread for what ONNX Runtime says: {error}") from error


def is_here() -> bool:
    """Whether this is the thread that hands things out: what waits here for one of them waits for ever."""
    return threading.current_thread() is _thread


def flush(timeout: float | None = None) -> bool:
    """Waits until all that was said before is handed out, for `timeout` seconds at most; whether it is.

    False at once on the thread that hands it out, which would wait for itself.
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
    me = threading.current_thread()
    delivered = 0
    # After a fork inside a receiver this thread lives on in the child, where another one has its place.
    while me is _thread:
        first = message = lib.zrt_bridge_take(delivered)
        delivered = 0
        if not first:
            return
        # Waiting only when all is read: another such thread (of an interrupted start, a fork) frees what it delivers.
        taken = []
        while message != ffi.NULL:
            delivered += 1
            try:
                kind = _kinds[message.kind]
                taken.append((kind, kind.read(message)))
            except BaseException:
                callback_errors.report()
            message = message.next
        lib.zrt_bridge_release(first)
        _waiting.extend(taken)
        while _waiting:
            try:
                kind, thing = _waiting.popleft()
            except IndexError:
                # The other thread was quicker.
                break
            try:
                kind.deliver(thing)
            except BaseException:
                callback_errors.report()


def _end_with_multiprocessing(_: object = None) -> None:
    """The processes of `multiprocessing` end by ``os._exit``, of which `atexit` never hears."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    global _ended
    if _ended:
        return
    in_order = flush(EXIT_PATIENCE)
    _ended = True
    # What the thread has in hand is older than what is queued.
    _spill()
    lib.zrt_bridge_end()
    _spill()
    # One that the system refused to start is not to be waited for.
    if in_order and _thread is not None and _thread.is_alive():
        _thread.join(EXIT_PATIENCE)


def _spill() -> None:
    # The thread may take the last one at the same moment, being at work after all.
    with contextlib.suppress(IndexError):
        while True:
            kind, thing = _waiting.popleft()
            kind.spill(thing)


def _forked() -> None:
    global _lock, _thread
    _lock = threading.RLock()
    _waiting.clear()
    if _thread is not None:
        _thread = threading.Thread()
        start()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # A process of its own begins by forgetting what was to be done at the end.
        util.register_after_fork(sys.modules[__name__], _end_with_multiprocessing)


os.register_at_fork(after_in_child=_forked)
