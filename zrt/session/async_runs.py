"""Asynchronous runs: `Session.run_async` for asyncio, `Session.submit` for a future."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias

from zrt._native import bridge, ffi, lib, status
from zrt._native.cdata import NULL, address_of, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.session.call import Call, Result

# The seconds for which the exiting interpreter waits for the runs that it has terminated.
EXIT_PATIENCE = 5.0

Settle: TypeAlias = Callable[[list[Result] | None, BaseException | None], None]

_free = ffi.addressof(lib, "zrt_run_free")
_under_way: dict[int, Run] = {}
_registered = False
_ended = False

if lib.zrt_run_open(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1):
    raise AllocationError("no memory for the fork handlers of asynchronous runs")


def needs_worker(options: RunOptions) -> bool:
    """Whether ``RunAsync`` would ignore a part of these options, so that one of zrt's own threads must run them."""
    return bool(options.adapters)


class Ready(NamedTuple):
    """A call with its feeds checked, ready to run once; the arguments are `Call.run`'s."""

    call: Call
    inputs: Any
    feeds: Sequence[Handle] | None


class Run:
    """One asynchronous run; calls `settle` once with its results or its error, on the bridge's thread.

    A block in C owns the memory that ONNX Runtime reads and writes. It stays until the bridge has taken its message,
    even if this object is freed. A child process that is forked during the run calls `forget` instead of `settle`.
    """

    __slots__ = (
        "_handle",
        "_made",
        "_on_worker",
        "_options",
        "_ready",
        "_results",
        "_settle",
        "_terminated",
        "forget",
    )

    def __init__(self, ready: Ready, options: RunOptions | None, settle: Settle, forget: Callable[[], None]) -> None:
        RunOptions.opened(options, ready.call.session)
        self._ready = ready
        self._settle = settle
        self.forget = forget
        # A copy, so that terminating this run does not terminate other runs with the options; C creates missing ones.
        self._options = None if options is None else options.twin()
        self._on_worker = options is not None and needs_worker(options)
        self._terminated = False

    def start(self) -> None:
        """Starts the run."""
        _set_up()
        if _ended:
            raise UnsupportedError("the interpreter is ending: no run can begin")
        call, inputs, feeds = self._ready
        options = RunOptions.opened(self._options, call.session)
        self._results, places, self._made = call.arrays()
        made = self._made
        parents = [call.handle, *(feeds or ()), Handle.pin((inputs, places))]
        parents += [] if options is None else [options]
        parents += [] if made is None else [made.handle]
        self._handle = Handle.make(
            _free,
            parents,
            lib.zrt_run_new,
            "zrt_run",
            call.reference,
            NULL if options is None else options.pointer,
            inputs,
            feeds is not None,
            places,
            NULL if made is None else made.pointer,
        )
        block = self._handle.pointer
        if self._terminated:
            self.terminate()
        key = _read(block)
        try:
            _under_way[key] = self
            lib.zrt_run_start(self._handle.reference, self._on_worker)
        except BaseException:
            # An interrupt: a run that has started stays registered until it ends.
            if not block.started:
                _under_way.pop(key, None)
            raise

    def terminate(self) -> None:
        """Ends the run as soon as the current operator is done."""
        self._terminated = True
        handle = self._handle
        status.check(api().RunOptionsSetTerminate(handle.pointer.run_options))

    def finish(self) -> None:
        """Hands the results or the error to `settle`, or runs again (see `Call.prepare_retry`)."""
        try:
            block, call, made = self._handle.pointer, self._ready.call, self._made
            code = address_of(block.status)
            if code:
                block.status = NULL
                call.prepare_retry(code, made)
                self.start()
                return
            results = self._results
            if made is not None:
                waiting = lib.zrt_made_arrays(made.pointer, id(results))
                results = call.collect(waiting, results, made, self._ready.feeds or ())
        except BaseException as error:
            self._settle(None, error)
        else:
            self._settle(results, None)


class RunFuture(Future[list[Result]]):
    """The future of a run; `cancel` ends the run."""

    def __init__(self) -> None:
        super().__init__()
        self.run: Run | None = None

    def result(self, timeout: float | None = None) -> list[Result]:
        """Returns the run's results or raises its error; `UnsupportedError` on the thread that completes runs."""
        self._wait_elsewhere(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the run's error or None; raises `UnsupportedError` on the thread that completes runs."""
        self._wait_elsewhere(timeout)
        return super().exception(timeout)

    def _wait_elsewhere(self, timeout: float | None) -> None:
        if timeout is None and not self.done():
            _refuse_here()

    def cancel(self) -> bool:
        """Cancels the future at once, and ends the run as soon as the current operator is done."""
        try:
            return super().cancel()
        finally:
            run = self.run
            if run is not None and self.cancelled():
                run.terminate()

    def settle(self, results: list[Result] | None, error: BaseException | None) -> None:
        """Completes the future at the end of the run, unless it was cancelled."""
        self.run = None
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(results or [])

    def forget(self) -> None:
        """Completes the future with an error in a forked child.

        Initializes it again first: a thread that the child does not have may hold its lock.
        """
        super().__init__()
        self.run = None
        self.set_exception(UnsupportedError("the run goes on in the process that this one was forked from"))


def _refuse_here() -> None:
    """Raises on the thread that completes runs: waiting for a run there would be a deadlock."""
    if bridge.is_here():
        raise UnsupportedError("a callback or a log handler cannot wait for a run: it keeps the run's end from coming")


def submit(ready: Ready, options: RunOptions | None) -> Future[list[Result]]:
    """Starts a run and returns its future."""
    future = RunFuture()
    future.run = run = Run(ready, options, future.settle, future.forget)
    run.start()
    return future


async def wait(ready: Ready, options: RunOptions | None) -> list[Result]:
    """Starts a run and waits for it on the running loop; ends the run if the waiting task is cancelled."""
    _refuse_here()
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[list[Result]] = loop.create_future()

    def arrive(results: list[Result] | None, error: BaseException | None) -> None:
        if waiter.done():
            return
        if error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(results or [])

    def settle(results: list[Result] | None, error: BaseException | None) -> None:
        # No task waits on a closed loop.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(arrive, results, error)

    # A forked child has no running loop, so `forget` has nothing to do.
    run = Run(ready, options, settle, lambda: None)
    run.start()
    try:
        return await waiter
    finally:
        # The task was cancelled or dropped.
        if waiter.cancelled() or not waiter.done():
            run.terminate()


def _set_up() -> None:
    global _registered
    bridge.receive(lib.ZRT_MESSAGE_RUN, bridge.Kind(_read, _deliver, _leave))
    if not _registered:
        _registered = True
        # atexit is last-in, first-out: register after the bridge so that this runs before it.
        atexit.register(_at_exit)


def _read(block: Any) -> int:
    return address_of(block)


def _deliver(key: int) -> None:
    run = _under_way.pop(key)
    try:
        run.finish()
    finally:
        lib.zrt_handle_unref(pointer_to(key, "zrt_run").handle)


def _leave(key: int) -> None:
    """Keeps the run's memory to the end of the process: the interpreter is ending."""


def _at_exit() -> None:
    global _ended
    _ended = True
    for run in list(_under_way.values()):
        run.terminate()
    end = time.monotonic() + EXIT_PATIENCE
    while _under_way and time.monotonic() < end:
        time.sleep(0.001)


def _forked() -> None:
    runs = list(_under_way.values())
    _under_way.clear()
    for run in runs:
        run.forget()


os.register_at_fork(after_in_child=_forked)
