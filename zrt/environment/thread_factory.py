"""The threads of ONNX Runtime's pools that a caller's factory makes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from zrt._common.arguments import wrong_type
from zrt._native import ffi, lib, status
from zrt._native.callback_errors import Carrier, as_callback_error, callback, describe
from zrt._native.cdata import NULL
from zrt._native.handle import Handle
from zrt._native.thread_start import start_thread
from zrt.environment.pool_options import PoolOptions
from zrt.errors import CallbackError

ThreadFactory: TypeAlias = Callable[[Callable[[], None]], object]

# Seconds in which a factory's thread must start; without a limit ORT would wait forever for a missing thread.
PATIENCE = 10.0


class Work:
    """The work of one of ONNX Runtime's threads, which the factory's thread calls once."""

    __slots__ = ("__weakref__", "_creator", "_thread")

    def __init__(self, thread: Any) -> None:
        self._thread = ffi.gc(lib.zrt_thread_take(thread), lib.zrt_thread_forget)
        self._creator = threading.get_ident()

    def __call__(self) -> None:
        """Works until the pool ends, without the GIL; returns at once if the thread was refused."""
        awaited = lib.zrt_thread_await(self._thread, 0) == lib.ZRT_THREAD_AWAITED
        if awaited and threading.get_ident() == self._creator:
            raise CallbackError("thread_factory: the work is for another thread than the one that calls the factory")
        if not threading.current_thread().daemon:
            lib.zrt_thread_unfit(self._thread)
        elif lib.zrt_thread_work(self._thread) in (lib.ZRT_THREAD_ARRIVED, lib.ZRT_THREAD_RUNNING, lib.ZRT_THREAD_DONE):
            raise CallbackError("thread_factory: another thread does this work, or did")


class Crew(Carrier):
    """The threads that a factory makes for the pools of a session, or of the environment.

    ONNX Runtime asks for them one by one while it creates the pools, on the thread that loads. `settle` ends that
    phase: it lets the threads begin, or raises the exception of the factory.
    """

    __slots__ = ("__weakref__", "_factory", "_handle", "block")

    block: Handle
    """The C side of the crew; it must outlive the pools."""

    def __init__(self, factory: Any) -> None:
        if not callable(factory):
            raise wrong_type("thread_factory", "a function of a thread's work", factory)
        super().__init__()
        self._factory: ThreadFactory | None = factory
        self._handle: Any = self.handle()
        self.block = Handle.block("zrt_crew")
        self.block.pointer.ask = lib.zrt_thread_asked
        self.block.pointer.python = self._handle

    def attach(self, options: PoolOptions, create: Any, creation_options: Any, join: Any) -> None:
        """Sets the crew as the maker of ORT's threads, through the three functions of the C table that do it."""
        status.check(create(options.pointer, ffi.addressof(lib, "zrt_thread_create")))
        status.check(creation_options(options.pointer, self.block.pointer))
        status.check(join(options.pointer, ffi.addressof(lib, "zrt_thread_join")))
        options.crew = self

    def hire(self, thread: Any) -> None:
        """Calls the factory for a worker of ORT's, and returns when a thread has started its work."""
        factory = self._factory
        assert factory is not None
        # Only the factory holds the work, so that dropping it is detected at once.
        result = factory(Work(thread))
        if isinstance(result, threading.Thread) and result.ident is None:
            result.daemon = True
            start_thread(result)
        del result
        deadline = time.monotonic() + PATIENCE
        # Wait in short steps, so that Python handles an interrupt.
        while (state := lib.zrt_thread_await(thread, 50)) == lib.ZRT_THREAD_AWAITED:
            if time.monotonic() > deadline:
                raise CallbackError(f"thread_factory: no thread started the work within {PATIENCE:g} s")
        if state == lib.ZRT_THREAD_FORGOTTEN:
            raise CallbackError("thread_factory: it dropped the work, so that no thread can do it")
        if state == lib.ZRT_THREAD_UNFIT:
            raise CallbackError(
                "thread_factory: the thread is no daemon: at exit the interpreter would wait for the thread, "
                "and the thread for the session's end"
            )

    def settle(self, subject: str) -> None:
        """Call it when the pools are created or have failed; raises the factory's exception as a `CallbackError`."""
        self.block.pointer.ask = NULL
        # The factory often references the session's owner: a reference from here would make a cycle through C, which
        # GC cannot collect.
        self._factory = self._handle = None
        error = self.take()
        failed, self.block.pointer.failed = self.block.pointer.failed, 0
        if failed == lib.ZRT_CREW_NO_MEMORY:
            error = CallbackError("thread_factory: no memory for another thread")
        if error is None and failed:
            # The interpreter is ending, or an interrupt came before the exception was kept.
            error = CallbackError("thread_factory: it was interrupted")
        if error is None:
            lib.zrt_crew_start(self.block.pointer)
            return
        message = str(error) if isinstance(error, CallbackError) else f"thread_factory raised {describe(error)}"
        raise as_callback_error(error, f"{subject}: {message}")


@callback()
def zrt_thread_asked(python: Any, thread: Any) -> int:
    ffi.from_handle(python).hire(thread)
    return 0
