"""Asynchronous runs: `Session.run_async` for asyncio, `Session.submit` for a future."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, TypeAlias

from zrt._common.arguments import seconds
from zrt._native import bridge, ffi, lib, status
from zrt._native.cdata import NULL, new_array
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import cpu_limits
from zrt.errors import AllocationError, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.session.call import Call, Result

# The seconds for which the exiting interpreter waits for the runs that it has terminated.
EXIT_PATIENCE = 5.0

# Python cannot handle Ctrl-C while C waits: wait in slices of this many seconds.
_SLICE = 0.05

# How many ended runs an event loop takes at a time.
_ROOM = 64

# A call, its inputs and the handles that own them: the arguments of `Call.run`, checked.
Ready: TypeAlias = tuple[Call, Any, Sequence[Handle] | None]
Settle: TypeAlias = Callable[[list[Result] | None, BaseException | None], None]

_drop = lib.zrt_run_drop
_new = lib.zrt_run_new
_start = lib.zrt_run_start

# By their keys, the runs that have started and are not complete. It keeps alive all that they read and write.
_under_way: dict[int, Run] = {}
_keys = count()
_inboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Inbox]] = weakref.WeakKeyDictionary()
_registered = False
_ended = False

if lib.zrt_run_open(cpu_limits.cpus()):
    raise AllocationError("no memory for the fork handlers of asynchronous runs")


class Inbox:
    """Completes the runs of one event loop, on the loop's thread.

    Only the loop holds it, by `add_reader`. So it is freed when the loop is closed or dropped; the results of that
    loop's runs are dropped then.
    """

    __slots__ = ("__weakref__", "_close", "_ended", "_room", "handle")

    def __init__(self, handle: Handle, loop: asyncio.AbstractEventLoop) -> None:
        self._close = lib.zrt_inbox_close
        self._ended: deque[int] = deque()
        self._room = new_array("uint64_t", _ROOM)
        self.handle = handle
        loop.add_reader(handle.pointer.readable, self._take)

    def _take(self) -> None:
        handle, room, ended = self.handle, self._room, self._ended
        # The traceback of an error keeps this frame, which must not keep the inbox.
        del self
        try:
            ended.extend(ffi.unpack(room, lib.zrt_inbox_take(handle.pointer, room, _ROOM)))
            while ended:
                _complete(ended[0])
                ended.popleft()
        except BaseException:
            # An interrupt: the loop takes the others when it runs again.
            os.write(handle.pointer.writable, b"\0")
            raise

    def __del__(self) -> None:
        self._close(self.handle.pointer)


def _inbox_of(loop: asyncio.AbstractEventLoop) -> Handle | None:
    """The ``zrt_inbox`` of the loop; None for a loop that cannot watch a file descriptor."""
    known = _inboxes.get(loop)
    inbox = None if known is None else known()
    if inbox is None:
        _set_up()
        handle = Handle.make(ffi.addressof(lib, "zrt_inbox_free"), [], lib.zrt_inbox_new, "zrt_inbox", api())
        try:
            inbox = Inbox(handle, loop)
        except NotImplementedError:
            return None
        _inboxes[loop] = weakref.ref(inbox)
    return inbox.handle


class Run:
    """One asynchronous run; calls `settle` once with its results or its error.

    The thread of the loop that `inbox` belongs to does that. Without an inbox it is the bridge's thread, or one that
    waits for the run. A child process that is forked during the run calls `forget` instead.
    """

    __slots__ = (
        "_block",
        "_call",
        "_claims",
        "_end",
        "_feeds",
        "_inbox",
        "_inputs",
        "_made",
        "_options",
        "_places",
        "_results",
        "_settle",
        "_terminated",
        "forget",
    )

    def __init__(
        self,
        ready: Ready,
        options: RunOptions | None,
        settle: Settle,
        forget: Callable[[], None],
        inbox: Handle | None = None,
        end: int = 0,
    ) -> None:
        self._call, self._inputs, self._feeds = ready
        RunOptions.opened(options, self._call.session)
        self._settle = settle
        self._inbox = inbox
        self._end = end
        self.forget = forget
        # By the keys of the attempts, the threads that complete them.
        self._claims: dict[int, int] = {}
        # A copy, so that terminating this run does not terminate other runs with the options; C creates missing ones.
        self._options = None if options is None else options.twin()
        self._terminated = False

    def start(self) -> None:
        """Starts an attempt, under a key of its own: the first, or one more (see `Call.prepare_retry`)."""
        call = self._call
        options = RunOptions.opened(self._options, call.session)
        key = next(_keys)
        self._results, places, made = call.arrays()
        self._places, self._made = places, made
        block = _new(
            call.reference,
            key,
            NULL if options is None else options.pointer,
            self._inputs,
            self._feeds is not None,
            places,
            NULL if made is None else made.pointer,
            NULL if self._inbox is None else self._inbox.reference,
            self._end,
        )
        if not block:
            raise AllocationError("no memory for a run")
        self._block = block = ffi.gc(block, _drop)
        code = block.code
        if code:
            block.code = 0
            raise status.to_error(code)
        if self._terminated:
            self.terminate()
        try:
            _under_way[key] = self
            if _ended:
                raise UnsupportedError("the interpreter is ending: no run can begin")
            _start(block)
        except BaseException:
            # An interrupt: a run that has started stays registered until it ends.
            if not block.started:
                _under_way.pop(key, None)
            raise

    def terminate(self) -> None:
        """Ends the run as soon as the current operator is done."""
        self._terminated = True
        # It owns the options: another thread may start the next attempt meanwhile.
        block = self._block
        status.check(api().RunOptionsSetTerminate(block.run_options))

    def wait(self, seconds: float) -> int | None:
        """Waits for the attempt's end; returns its key for `claim`, or None. Who gets a key claims it or reports."""
        block = self._block
        return block.key if lib.zrt_run_wait(block, seconds) else None

    def report(self) -> None:
        """Has the bridge's thread complete the ended attempt, unless a thread claims it."""
        lib.zrt_run_report(self._block)

    def claim(self, key: int) -> bool:
        """Whether it is for this thread to complete the ended attempt of that key: the first that asks."""
        here = threading.get_ident()
        # One operation, so that the claim is kept where an interrupt follows.
        return self._claims.setdefault(key, here) == here

    @property
    def claimed_here(self) -> bool:
        """Whether `claim` chose this thread for the latest attempt."""
        return self._claims.get(self._block.key) == threading.get_ident()

    def drop(self) -> None:
        """Keeps nothing alive for the attempt any more."""
        _under_way.pop(self._block.key, None)

    def complete(self) -> None:
        """Hands the results or the error to `settle`, or runs again (see `Call.prepare_retry`)."""
        self.drop()
        try:
            block, call, made = self._block, self._call, self._made
            code = block.code
            if code:
                block.code = 0
                call.prepare_retry(code, made)
                self.start()
                return
            results = self._results
            if made is not None:
                waiting = lib.zrt_made_arrays(made.pointer, id(results))
                results = call.collect(waiting, results, made, self._feeds or ())
        except BaseException as error:
            self._settle(None, error)
        else:
            self._settle(results, None)


def _complete(key: int) -> None:
    run = _under_way.get(key)
    if run is not None and run.claim(key):
        run.complete()


class RunFuture(Future[list[Result]]):
    """The future of a run; `cancel` ends the run.

    A thread that waits for the result completes the future itself, and so waits for no other thread. If there are
    callbacks, the bridge's thread does, which calls them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.run: Run | None = None
        self._calls_back = False
        # Its methods are C, so that an interrupt cannot leave it locked, unlike the future's own `Condition`.
        self._completion = threading.RLock()

    def result(self, timeout: float | None = None) -> list[Result]:
        """Returns the run's results or raises its error; `UnsupportedError` on the thread that completes runs."""
        return super().result(self._wait(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the run's error or None; raises `UnsupportedError` on the thread that completes runs."""
        return super().exception(self._wait(timeout))

    def add_done_callback(self, fn: Callable[[Future[list[Result]]], object]) -> None:
        """Has `fn` called on the thread that completes runs, or at once if the future is done."""
        with self._completion:
            self._calls_back = True
        super().add_done_callback(fn)

    def _wait(self, timeout: float | None) -> float | None:
        """Completes the future here if its run ends in time; returns the seconds that are left to wait otherwise."""
        if timeout is None and self.run is not None:
            _refuse_here()
        # As in Python's own futures a negative time is over at once.
        limit = None if timeout is None else seconds(timeout, "timeout", -threading.TIMEOUT_MAX)
        end = None if limit is None else time.monotonic() + limit
        while (run := self.run) is not None and not self._calls_back:
            left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
            try:
                key = run.wait(max(left, 0.0))
                if key is not None and not self._complete(run, key):
                    break
            except BaseException as error:
                # An interrupt.
                if run.claimed_here:
                    run.drop()
                    if not self.done():
                        self.set_exception(error)
                else:
                    run.report()
                raise
            if left <= 0:
                break
        return None if end is None else max(end - time.monotonic(), 0.0)

    def _complete(self, run: Run, key: int) -> bool:
        """Completes the ended attempt; False if another thread does."""
        with self._completion:
            if not self._calls_back and run.claim(key):
                run.complete()
                return True
        run.report()
        return False

    def cancel(self) -> bool:
        """Cancels the future at once, and ends the run as soon as the current operator is done."""
        try:
            return super().cancel()
        finally:
            run = self.run
            if run is not None and self.cancelled():
                run.terminate()
                # No thread is to wait for the run any more.
                self.run = None

    def settle(self, results: list[Result] | None, error: BaseException | None) -> None:
        """Completes the future at the end of the run, unless it was cancelled or an interrupt completed it."""
        self.run = None
        if self.done() and not self.cancelled():
            return
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(results or [])

    def forget(self) -> None:
        """Completes the future with an error in a forked child.

        Initializes it again first: a thread that the child does not have may hold its locks.
        """
        super().__init__()
        self.run = None
        self._completion = threading.RLock()
        self.set_exception(UnsupportedError("the run goes on in the process that this one was forked from"))


def _refuse_here() -> None:
    """Raises on the thread that completes runs: waiting for a run there would be a deadlock."""
    if bridge.is_here():
        raise UnsupportedError("a callback or a log handler cannot wait for a run: it keeps the run's end from coming")


def submit(ready: Ready, options: RunOptions | None, end: int = 0) -> Future[list[Result]]:
    """Starts a run and returns its future; `end` is that of `deadlines.end_of`."""
    _set_up()
    future = RunFuture()
    future.run = run = Run(ready, options, future.settle, future.forget, end=end)
    run.start()
    return future


async def wait(ready: Ready, options: RunOptions | None, end: int = 0) -> list[Result]:
    """Starts a run and waits for it on the running loop; ends the run if the waiting task is cancelled."""
    _refuse_here()
    loop = asyncio.get_running_loop()
    inbox = _inbox_of(loop)
    if inbox is None:
        future = submit(ready, options, end)
        try:
            return await asyncio.wrap_future(future)
        finally:
            future.cancel()
    waiter: asyncio.Future[list[Result]] = loop.create_future()

    def settle(results: list[Result] | None, error: BaseException | None) -> None:
        if waiter.done():
            return
        if error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(results or [])

    # A forked child has no running loop, so `forget` has nothing to do.
    run = Run(ready, options, settle, lambda: None, inbox, end)
    run.start()
    try:
        return await waiter
    finally:
        # The task was cancelled or dropped.
        if waiter.cancelled() or not waiter.done():
            run.terminate()


def _set_up() -> None:
    global _registered
    bridge.receive(lib.ZRT_MESSAGE_RUN, _KIND)
    if not _registered:
        _registered = True
        # atexit is last-in, first-out: register after the bridge so that this runs before it.
        atexit.register(_at_exit)


def _read(message: Any) -> tuple[int, bool]:
    run = ffi.cast("zrt_run *", message)
    return run.key, bool(run.inbox)


def _deliver(ended: tuple[int, bool]) -> None:
    key, of_loop = ended
    if of_loop:
        # The loop is gone.
        _under_way.pop(key, None)
    else:
        _complete(key)


def _leave(ended: tuple[int, bool]) -> None:
    """Leaves the run as it is: the interpreter is ending."""


_KIND = bridge.Kind(_read, _deliver, _leave)


def _at_exit() -> None:
    global _ended
    _ended = True
    for run in list(_under_way.values()):
        run.terminate()
    end = time.monotonic() + EXIT_PATIENCE
    while lib.zrt_run_count() and time.monotonic() < end:
        time.sleep(0.001)
    if lib.zrt_run_count():
        # Keep what the runs read and write to the end of the process.
        lib.zrt_handle_object(id(list(_under_way.values())))


def _forked() -> None:
    runs = list(_under_way.values())
    _under_way.clear()
    for run in runs:
        run.forget()


os.register_at_fork(after_in_child=_forked)
