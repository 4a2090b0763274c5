"""Runs in the background: `Session.run_async` for asyncio, `Session.submit` for a future.

A few threads named ``zrt-run`` take the runs from a queue, first in, first out. Each runs as `Session.run` does. Then
it completes the future, calls the drop-in's callback, or hands the results to the event loop that waits for them.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from zrt._common.arguments import seconds
from zrt._native import bridge, callback_errors, lib, status
from zrt._native.thread_start import start_thread
from zrt.environment import cpu_limits
from zrt.errors import AllocationError, TerminatedError, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.session.call import Result

if TYPE_CHECKING:
    import asyncio

# The seconds for which the exiting interpreter waits for the runs that it has terminated.
EXIT_PATIENCE = 5.0

# A run whose feeds are checked. It takes its options and its end, which is that of `call.end_of`.
Work: TypeAlias = Callable[[RunOptions, int], list[Result]]

_MOST_WORKERS = cpu_limits.cpus()

# The runs that are not complete; those of them that no worker has taken are in the queue too.
_under_way: set[Run] = set()
_queue: SimpleQueue[Run] = SimpleQueue()

_workers: list[threading.Thread] = []

# When the thread `zrt-expiry` looks for late runs by itself; a message wakes it for a run that ends sooner.
_looks_at = math.inf
_sooner: SimpleQueue[None] = SimpleQueue()
_expiry: threading.Thread | None = None

# Guards the start of threads, and for each run its options and which thread completes it. It is reentrant, since a
# signal handler may submit or cancel a run while its own thread does.
_lock = threading.RLock()
_ended = False


class _ThisThread(threading.local):
    # Whether the thread runs or completes a run, and so may be in an operator or a callback of the caller's.
    busy = False


_this_thread = _ThisThread()


class Run:
    """One run in the background. A thread of zrt's calls `_settle` once with its results or its error.

    Where memory lacks for that, it calls `_settle` again with the `MemoryError`.

    In a child process that is forked during the run `_forget` is called instead.
    """

    _taken = False
    _terminated = False

    def _prepare(self, work: Work, options: RunOptions | None, end: int) -> None:
        self._work: Work | None = work
        # A copy, so that terminating this run does not terminate other runs with the options.
        self._options = None if options is None else options.twin()
        self._end = end

    def _settle(self, results: list[Result], error: BaseException | None) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        pass

    def _start(self) -> None:
        """Puts the run into the queue."""
        try:
            _under_way.add(self)
            if _ended:
                raise UnsupportedError("the interpreter is ending: no run can begin")
            _queue.put(self)
            if len(_under_way) > len(_workers):
                # No worker may be free.
                if len(_workers) < _MOST_WORKERS:
                    _add_worker()
                if self._end:
                    _expire_at(self._end)
        except BaseException:
            # An interrupt may come when a worker has taken the run, which it completes then.
            if self._take():
                # The queue may keep the run until a worker starts, but not its feeds and its session.
                self._work = None
                _under_way.discard(self)
            raise

    def _take(self) -> bool:
        """Whether the caller is to complete the run: the first that asks."""
        with _lock:
            taken, self._taken = self._taken, True
        return not taken

    def _terminate(self) -> None:
        """Ends the run as soon as the current operator is done."""
        with _lock:
            self._terminated = True
            # The worker takes them away when the run has ended, without the lock.
            options = self._options
            if options is not None:
                options.terminate()

    def _execute(self, own: RunOptions) -> None:
        """Runs and completes the run; `own` are the worker's options, for a run without any."""
        results: list[Result] = []
        error: BaseException | None = None
        try:
            with _lock:
                if self._taken:
                    return
                self._taken = True
                _this_thread.busy = True
                if self._options is None:
                    self._options = own
                    # An earlier run with them may have been terminated.
                    if own.terminated:
                        own.reset()
                ended = self._terminated
            if ended:
                raise TerminatedError("the run was terminated before it began")
            assert self._work is not None
            results = self._work(self._options, self._end)
        except BaseException as raised:
            error = raised
        # From now on `_terminate` does not end the worker's next run.
        self._options = None
        self._complete(results, error)
        # The error's traceback keeps this frame.
        del self, results, error

    def _complete(self, results: list[Result], error: BaseException | None) -> None:
        """Hands over the results or the error; the caller has taken the run."""
        # The future does not keep the feeds. They, and a session that only the run keeps, are released when the
        # results are handed over: to end the session's threads takes time.
        work = None
        try:
            try:
                work, self._work = self._work, None
                _this_thread.busy = True
                self._settle(results, error)
            except MemoryError as raised:
                # Without an end of the run the caller would wait forever. The error's traceback would keep the results.
                self._settle([], raised.with_traceback(None))
        except BaseException:
            callback_errors.report()
        finally:
            _this_thread.busy = False
            del work
            _under_way.discard(self)


def _add_worker() -> None:
    with _lock:
        if len(_workers) >= _MOST_WORKERS:
            return
        if not _workers:
            # atexit is last-in, first-out: register after the bridge, which delivers the log of the runs that
            # `_at_exit` ends.
            bridge.start()
            atexit.unregister(_at_exit)
            atexit.register(_at_exit)
        thread = None
        try:
            # Made here, where whoever submits the run gets the error: a worker that fails would leave it in the queue.
            options = RunOptions()
            thread = threading.Thread(target=_execute_runs, args=(_queue, options), name="zrt-run", daemon=True)
            _workers.append(thread)
            start_thread(thread)
        except BaseException as error:
            if thread is not None and thread.ident is None and thread in _workers:
                _workers.remove(thread)
            if not isinstance(error, AllocationError) or not _workers:
                raise


def _execute_runs(queue: SimpleQueue[Run], own: RunOptions) -> None:
    # After a fork inside a run this thread goes on in the child, which has another queue.
    while queue is _queue:
        try:
            # Between two runs a worker keeps nothing of the first.
            queue.get()._execute(own)
        except MemoryError:
            # All later runs need the thread.
            continue


def _expire_at(end: int) -> None:
    """Has a run that waits for a worker completed at its deadline."""
    global _expiry
    with _lock:
        if _expiry is None:
            thread = threading.Thread(target=_complete_late_runs, args=(_sooner,), name="zrt-expiry", daemon=True)
            start_thread(thread)
            _expiry = thread
    if end < _looks_at:
        _sooner.put(None)


def _complete_late_runs(sooner: SimpleQueue[None]) -> None:
    while sooner is _sooner:
        try:
            sooner.get(timeout=_complete_late())
        except (Empty, MemoryError):
            # A deadline has come. The thread goes on without memory too: all later deadlines need it.
            continue


def _complete_late() -> float | None:
    """Completes the queued runs whose deadline has passed; returns the seconds to the next one, None without any."""
    global _looks_at
    # A run that is added from here on wakes the thread, which may not see it now.
    _looks_at = math.inf
    now = lib.zrt_clock()
    later = math.inf
    for run in list(_under_way):
        if 0 < run._end <= now:
            error = status.to_error(status.TIMEOUT)
            if run._take():
                run._complete([], error)
        elif run._end and not run._taken:
            later = min(later, run._end)
    _looks_at = later
    return None if later == math.inf else (later - now) / 1e9


def _open_gate(future: Any) -> None:
    """Lets the threads go on that wait for a `RunFuture`."""
    try:
        future._gate.release()
    except RuntimeError:
        # It is open already.
        return


class RunFuture(Run, Future[list[Result]]):
    """The future of a run; `cancel` ends the run."""

    def __init__(self, work: Work, options: RunOptions | None, end: int) -> None:
        super().__init__()
        self._prepare(work, options, end)
        # Open when the future is done. Waiting for it is one call of C, which an interrupt cannot leave half done,
        # unlike that of the future's own `Condition`.
        self._gate = threading.Lock()
        self._gate.acquire()
        self.add_done_callback(_open_gate)

    def result(self, timeout: float | None = None) -> list[Result]:
        """Returns the run's results or raises its error; `UnsupportedError` in code that another run calls."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the run's error or None; raises `UnsupportedError` in code that another run calls."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if timeout is None:
            limit = -1.0
            if _this_thread.busy and not self.done():
                _refuse()
        else:
            # As in Python's own futures a negative time is over at once.
            limit = max(0.0, seconds(timeout, "timeout", -threading.TIMEOUT_MAX))
        try:
            if self._gate.acquire(timeout=limit):
                _open_gate(self)
        except BaseException:
            # Also an interrupt at the start of `_open_gate`: a gate that stays closed would hold up all later waits.
            if self.done():
                _open_gate(self)
            raise

    def cancel(self) -> bool:
        """Cancels the future at once, and ends the run as soon as the current operator is done."""
        try:
            return super().cancel()
        finally:
            if self.cancelled():
                self._terminate()

    def _settle(self, results: list[Result], error: BaseException | None) -> None:
        try:
            if error is None:
                self.set_result(results)
            else:
                self.set_exception(error)
        except InvalidStateError:
            _open_gate(self)
            # `concurrent.futures.wait` waits for the end of a cancelled run.
            if self.cancelled():
                self.set_running_or_notify_cancel()

    def _forget(self) -> None:
        # A thread that the child does not have may hold the lock of the future.
        Future.__init__(self)
        self._gate = threading.Lock()
        self.set_exception(UnsupportedError("the run goes on in the process that this one was forked from"))


def _refuse() -> NoReturn:
    raise UnsupportedError(
        "a callback or an operator that a run calls cannot wait for another run in the background, which may need its "
        "thread"
    )


def submit(work: Work, options: RunOptions | None, end: int) -> Future[list[Any]]:
    """Starts a run and returns its future."""
    future = RunFuture(work, options, end)
    future._start()
    return future


class _Inbox:
    """The ended runs that one event loop has to complete; it takes all there are at once."""

    __slots__ = ("__weakref__", "_called", "_ended")

    def __init__(self) -> None:
        # Not the runs themselves: they have the loop, and an inbox must not keep the loop that it belongs to.
        self._ended: deque[tuple[weakref.ref[LoopRun], list[Result], BaseException | None]] = deque()
        # Whether the loop will call `_take`.
        self._called = False

    def put(self, run: LoopRun, results: list[Result], error: BaseException | None) -> None:
        self._ended.append((weakref.ref(run), results, error))
        if not self._called:
            self._called = True
            loop = run.waiter.get_loop()
            try:
                loop.call_soon_threadsafe(self._take, loop)
            except BaseException as error:
                self._called = False
                if not isinstance(error, RuntimeError):
                    raise
                # A closed loop drops the results.
                self._ended.clear()

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        self._called = False
        try:
            while self._ended:
                reference, results, error = self._ended[0]
                run = reference()
                if run is not None and not run.dropped and not run.waiter.done():
                    if error is None:
                        run.waiter.set_result(results)
                    else:
                        run.waiter.set_exception(error)
                self._ended.popleft()
        except BaseException:
            # An interrupt: the loop takes the others when it runs again.
            loop.call_soon(self._take, loop)
            raise


_inboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Inbox] = weakref.WeakKeyDictionary()


class LoopRun(Run):
    """A run that a task of this loop awaits."""

    # Whether its coroutine ended before the run: asyncio would log an error that nobody asks for.
    dropped = False

    def __init__(self, work: Work, options: RunOptions | None, end: int, loop: asyncio.AbstractEventLoop) -> None:
        self._prepare(work, options, end)
        self.waiter: asyncio.Future[list[Result]] = loop.create_future()
        inbox = _inboxes.get(loop)
        self._inbox = _inboxes.setdefault(loop, _Inbox()) if inbox is None else inbox

    def _settle(self, results: list[Result], error: BaseException | None) -> None:
        self._inbox.put(self, results, error)


async def wait(work: Work, options: RunOptions | None, end: int) -> list[Result]:
    """Starts a run and waits for it on the running loop; ends the run if the waiting task is cancelled."""
    # Deferred: a task that awaits has imported asyncio, which would add 20 ms to a first session.
    import asyncio

    if _this_thread.busy:
        _refuse()
    run = LoopRun(work, options, end, asyncio.get_running_loop())
    run._start()
    try:
        return await run.waiter
    finally:
        # The task was cancelled or dropped.
        if run.waiter.cancelled() or not run.waiter.done():
            run.dropped = True
            run._terminate()
        else:
            # It counts as taken, also where the coroutine was closed meanwhile.
            run.waiter.exception()


def _at_exit() -> None:
    global _ended
    _ended = True
    for run in list(_under_way):
        run._terminate()
    end = time.monotonic() + EXIT_PATIENCE
    while _under_way and time.monotonic() < end:
        time.sleep(0.001)


def _forked() -> None:
    global _expiry, _lock, _looks_at, _queue, _sooner
    _lock = threading.RLock()
    _queue, _sooner, _expiry, _looks_at = SimpleQueue(), SimpleQueue(), None, math.inf
    _workers.clear()
    # The run or callback around the fork belongs to the parent.
    _this_thread.busy = False
    runs = list(_under_way)
    _under_way.clear()
    for run in runs:
        run._forget()


os.register_at_fork(after_in_child=_forked)
