"""The threads of ONNX Runtime's pools: which processors they keep to, and a caller's factory that makes them."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from zrt._common.arguments import text, wrong_type
from zrt._native import ffi, lib, status
from zrt._native.callback_errors import Carrier, as_callback_error, callback, describe
from zrt._native.handle import Handle
from zrt._native.thread_start import start_thread
from zrt.errors import ArgumentError, CallbackError

ThreadFactory: TypeAlias = Callable[[Callable[[], None]], object]

# Where the system has no thread left, ONNX Runtime hangs or ends the process: a number that no machine has cores for
# must not come to it.
MOST_THREADS = 1024

# Seconds in which a factory's thread must come; a factory that makes none would keep ORT waiting forever.
PATIENCE = 10.0

_GROUP = re.compile(r"(?P<first>\d+)-(?P<last>\d+)|\d+(,\d+)*", re.ASCII)


def affinities(value: Any, subject: str, threads: int) -> bytes:
    """Which processors each thread of a pool keeps to, checked and as C takes it.

    ``"1,2;3-4"``: a group for each of the `threads` but the first, which is the caller's own. Processors count from 1.
    """
    written = text(value, subject)
    if threads < 2:
        raise ArgumentError(f"{subject}: {value!r} needs intra_op_num_threads of 2 or more, not {threads}")
    groups = value.split(";")
    if len(groups) != threads - 1:
        raise ArgumentError(
            f"{subject}: {value!r} has {len(groups)} groups, and {threads} threads take {threads - 1}: the first "
            "thread is the caller's own"
        )
    most = os.cpu_count() or 1
    for group in groups:
        found = _GROUP.fullmatch(group)
        if found is None:
            raise ArgumentError(f"{subject}: {group!r} is neither processors (1,2) nor a range of them (1-4)")
        # Leading zeros apart: a number of more digits than that is no processor's, and slow to read.
        numbers = [
            int(digits[-9:]) if len(digits.lstrip("0")) < 10 else most + 1 for digits in re.findall(r"\d+", group)
        ]
        if not all(1 <= number <= most for number in numbers):
            raise ArgumentError(f"{subject}: {group!r} names a processor that is not between 1 and {most}")
        if found["first"] is not None and numbers[0] > numbers[1]:
            raise ArgumentError(f"{subject}: {group!r} ends before it begins")
    return written


class Work:
    """What a factory's thread is to call, once: the work of one of ONNX Runtime's threads, to its end."""

    __slots__ = ("__weakref__", "_creator", "_thread")

    def __init__(self, thread: Any) -> None:
        self._thread = ffi.gc(lib.zrt_thread_take(thread), lib.zrt_thread_forget)
        self._creator = threading.get_ident()

    def __call__(self) -> None:
        """Works until the pool ends, with the GIL free; returns at once where the thread was refused."""
        awaited = lib.zrt_thread_await(self._thread, 0) == lib.ZRT_THREAD_AWAITED
        if awaited and threading.get_ident() == self._creator:
            raise CallbackError("thread_factory: the work is for another thread than the one that calls the factory")
        if not threading.current_thread().daemon:
            lib.zrt_thread_unfit(self._thread)
        elif lib.zrt_thread_work(self._thread) in (lib.ZRT_THREAD_ARRIVED, lib.ZRT_THREAD_RUNNING, lib.ZRT_THREAD_DONE):
            raise CallbackError("thread_factory: another thread does this work, or did")


class Crew(Carrier):
    """The threads that a factory makes for the pools of a session, or of the environment.

    ONNX Runtime asks for them one by one while it makes the pools, in the thread that loads; `settle` ends that time
    and says what went wrong in it.
    """

    __slots__ = ("__weakref__", "_factory", "_handle", "block")

    block: Handle
    """What C knows of the crew; it must outlive the pools."""

    def __init__(self, factory: Any) -> None:
        if not callable(factory):
            raise wrong_type("thread_factory", "a function of a thread's work", factory)
        super().__init__()
        self._factory: ThreadFactory | None = factory
        self._handle: Any = self.handle()
        self.block = Handle.block("zrt_crew")
        self.block.pointer.ask = lib.zrt_thread_asked
        self.block.pointer.python = self._handle

    def attach(self, options: Any, create: Any, creation_options: Any, join: Any) -> None:
        """Has ORT make its threads by the crew; the functions are those of the table that set it."""
        status.check(create(options, ffi.addressof(lib, "zrt_thread_create")))
        status.check(creation_options(options, self.block.pointer))
        status.check(join(options, ffi.addressof(lib, "zrt_thread_join")))

    def hire(self, thread: Any) -> None:
        """Gets a thread for the worker `thread`, and returns when it has come."""
        factory = self._factory
        assert factory is not None
        # The work belongs to the factory alone, so that one that lets it go is found out at once.
        made = factory(Work(thread))
        if isinstance(made, threading.Thread) and made.ident is None:
            made.daemon = True
            start_thread(made)
        del made
        deadline = time.monotonic() + PATIENCE
        # In small steps, so that an interrupt is heard.
        while (state := lib.zrt_thread_await(thread, 50)) == lib.ZRT_THREAD_AWAITED:
            if time.monotonic() > deadline:
                raise CallbackError(f"thread_factory: no thread came to do its work within {PATIENCE:g} s")
        if state == lib.ZRT_THREAD_FORGOTTEN:
            raise CallbackError("thread_factory: it let its work go, so that no thread will do it")
        if state == lib.ZRT_THREAD_UNFIT:
            raise CallbackError(
                "thread_factory: a thread that is no daemon came; the interpreter would wait for it before it ends, "
                "and it for the session's end"
            )

    def settle(self, subject: str) -> None:
        """To be called when the pools are made or given up; raises what the factory raised, as a `CallbackError`."""
        self.block.pointer.ask = ffi.NULL
        # The factory often belongs to what owns the session: together they would never be collected.
        self._factory = self._handle = None
        error = self.take()
        failed, self.block.pointer.failed = self.block.pointer.failed, 0
        if error is None and failed:
            # The interpreter is ending, or an interrupt came between the failure and its keeping.
            error = CallbackError("thread_factory: it was cut short")
        if error is None:
            return
        message = str(error) if isinstance(error, CallbackError) else f"thread_factory raised {describe(error)}"
        raise as_callback_error(error, f"{subject}: {message}")


class PoolOptions(Handle):
    """Options of ORT's from which thread pools are made, and the crew that makes their threads; or the pools to use."""

    __slots__ = ("crew", "pools")

    crew: Crew | None
    pools: Handle | None
    """What stands for the environment's pools, where a session uses those."""

    def __init__(self, reference: Any, pointer: Any, kept: tuple[object, ...] = ()) -> None:
        super().__init__(reference, pointer, kept)
        self.crew = self.pools = None

    def holding(self, *others: Handle) -> PoolOptions:
        """The same, as long as which these others stay too."""
        all_of_it = super().holding(*others)
        held = PoolOptions(all_of_it.reference, self.pointer, all_of_it.kept)
        held.crew, held.pools = self.crew, self.pools
        return held


@callback()
def zrt_thread_asked(python: Any, thread: Any) -> int:
    ffi.from_handle(python).hire(thread)
    return 0
