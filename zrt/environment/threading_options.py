"""`ThreadingOptions`: the thread pools of an environment, which sessions share."""

from __future__ import annotations

from dataclasses import dataclass

from zrt._common.public import public
from zrt._native.library import api
from zrt.environment import cpu_budget
from zrt.environment.options import apply, calls_of, flag, require_affinities, string, switch, threads
from zrt.environment.pool_options import PoolOptions
from zrt.environment.thread_factory import Crew, ThreadFactory


@public
@dataclass(slots=True, kw_only=True)
class ThreadingOptions:
    """The thread pools of an `Environment` (``OrtThreadingOptions``), for sessions that create none of their own.

    Those are the sessions loaded with ``SessionOptions(use_per_session_threads=False)``. None leaves a field at ONNX
    Runtime's default.
    """

    intra_op_num_threads: int = threads("SetGlobalIntraOpNumThreads")
    """Threads within an operator, the caller's included; 0: one for each core, 1: the caller's alone, no pool."""
    inter_op_num_threads: int = threads("SetGlobalInterOpNumThreads")
    """Threads between operators, for sessions whose `execution_mode` is PARALLEL; 0: one for each core."""
    allow_spinning: bool | None = flag(function="SetGlobalSpinControl")
    """Whether idle threads spin, which wakes them faster and keeps their cores busy."""
    intra_op_thread_affinity: str | None = string(function="SetGlobalIntraOpThreadAffinity")
    """The logical processors that threads within an operator run on, counted from 1: ``"1,2;3-4"`` has a group for
    each thread but the first, which is the caller's own."""
    denormal_as_zero: bool = switch("SetGlobalDenormalAsZero", default=False)
    """Whether the pools' threads treat denormal numbers as 0."""
    thread_factory: ThreadFactory | None = None
    """Makes the pools' threads, see `SessionOptions.thread_factory`."""

    def handle(self) -> PoolOptions:
        """A new ``OrtThreadingOptions`` with these settings; an error names the field."""
        table = api()
        crew = None if self.thread_factory is None else Crew(self.thread_factory)
        calls = calls_of(self)
        require_affinities(self.intra_op_thread_affinity, "intra_op_thread_affinity", self.intra_op_num_threads)
        handle = PoolOptions.make(
            table.ReleaseThreadingOptions, [], table.CreateThreadingOptions, "OrtThreadingOptions"
        )
        if cpu_budget.current() and self.allow_spinning is None:
            calls.append(("allow_spinning", "SetGlobalSpinControl", (0,)))
        apply(handle, calls, "ThreadingOptions")
        if crew is not None:
            crew.attach(
                handle,
                table.SetGlobalCustomCreateThreadFn,
                table.SetGlobalCustomThreadCreationOptions,
                table.SetGlobalCustomJoinThreadFn,
            )
        return handle
