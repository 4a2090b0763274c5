"""`ThreadingOptions`: the thread pools of an environment, which sessions share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zrt._common.arguments import boolean, integer
from zrt._common.public import public
from zrt._native import status
from zrt._native.library import api
from zrt.environment.cpu_limits import pool_threads
from zrt.environment.pool_options import MOST_THREADS, PoolOptions
from zrt.environment.thread_factory import Crew, ThreadFactory, affinities
from zrt.errors import ArgumentError, Error


@public
@dataclass(slots=True, kw_only=True)
class ThreadingOptions:
    """The thread pools of an `Environment` (``OrtThreadingOptions``), for sessions that create none of their own.

    Those are the sessions loaded with ``SessionOptions(use_per_session_threads=False)``. None leaves a field at ONNX
    Runtime's default.
    """

    intra_op_num_threads: int = 0
    """Threads within an operator, the caller's included; 0: one for each core, 1: the caller's alone, no pool."""
    inter_op_num_threads: int = 0
    """Threads between operators, for sessions whose `execution_mode` is PARALLEL; 0: one for each core."""
    allow_spinning: bool | None = None
    """Whether idle threads spin, which wakes them faster and keeps their cores busy."""
    intra_op_thread_affinity: str | None = None
    """The logical processors that threads within an operator run on, counted from 1: ``"1,2;3-4"`` has a group for
    each thread but the first, which is the caller's own."""
    denormal_as_zero: bool = False
    """Whether the pools' threads treat denormal numbers as 0."""
    thread_factory: ThreadFactory | None = None
    """Makes the pools' threads, see `SessionOptions.thread_factory`."""

    def handle(self) -> PoolOptions:
        """A new ``OrtThreadingOptions`` with these settings; an error names the field."""
        table = api()
        crew = None if self.thread_factory is None else Crew(self.thread_factory)
        calls = self._calls(table)
        handle = PoolOptions.make(
            table.ReleaseThreadingOptions, [], table.CreateThreadingOptions, "OrtThreadingOptions"
        )
        for subject, function, *arguments in calls:
            try:
                status.check(function(handle.pointer, *arguments))
            except Error as error:
                raise ArgumentError(f"ThreadingOptions.{subject}: {error}") from error
        if crew is not None:
            crew.attach(
                handle.pointer,
                table.SetGlobalCustomCreateThreadFn,
                table.SetGlobalCustomThreadCreationOptions,
                table.SetGlobalCustomJoinThreadFn,
            )
            handle.crew = crew
        return handle

    def _calls(self, table: Any) -> list[tuple[Any, ...]]:
        """Each field's name, the function of the table that sets it, and its arguments."""
        threads = integer(self.intra_op_num_threads, "intra_op_num_threads", 0, MOST_THREADS)
        between = integer(self.inter_op_num_threads, "inter_op_num_threads", 0, MOST_THREADS)
        calls: list[tuple[Any, ...]] = [
            ("intra_op_num_threads", table.SetGlobalIntraOpNumThreads, threads or pool_threads()),
            ("inter_op_num_threads", table.SetGlobalInterOpNumThreads, between or pool_threads()),
        ]
        if self.allow_spinning is not None:
            spinning = boolean(self.allow_spinning, "allow_spinning")
            calls.append(("allow_spinning", table.SetGlobalSpinControl, int(spinning)))
        if self.intra_op_thread_affinity is not None:
            subject = "intra_op_thread_affinity"
            affinity = affinities(self.intra_op_thread_affinity, subject, threads)
            calls.append((subject, table.SetGlobalIntraOpThreadAffinity, affinity))
        if boolean(self.denormal_as_zero, "denormal_as_zero"):
            calls.append(("denormal_as_zero", table.SetGlobalDenormalAsZero))
        return calls
