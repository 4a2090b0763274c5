"""`memory_report`: the memory that a model's weights take, and that a run takes beside its inputs and outputs."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from zrt._common.arguments import require_type
from zrt._common.config_keys import SessionConfigKey
from zrt._common.files import temporary_folder
from zrt._common.public import public
from zrt.errors import AllocationError, Error, TerminatedError
from zrt.loading.model_contents import Contents, contents_of
from zrt.loading.model_source import Model, Source
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import Allocator
from zrt.session.feeds import Feeds
from zrt.session.save_optimized import save_optimized
from zrt.session.session import Session
from zrt.session.spec import SessionSpec
from zrt.types import GraphOptimizationLevel, LogSeverity


@public
@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The memory of a session on the CPU, in bytes; `zrt.memory_report` makes it. None: it cannot be told."""

    stored_bytes: int | None
    """The weights in the model's files, constants and those of subgraphs included; None where the session's model is
    no ONNX file."""
    outside_bytes: int | None
    """The part of `stored_bytes` in other files than the model's own. ONNX Runtime maps these files."""
    loaded_bytes: int | None
    """The weights after the optimizer, which folds constants and converts types; only the report of a `SessionSpec`
    has it."""
    packed_bytes: int | None
    """The memory that the session's allocator holds while nothing runs: the weights as kernels pack them, and copies of
    the weights below 128 bytes. Kernels read the other weights where the load has put them: in memory that no counter
    shows, or in the mapped file. With `session.disable_prepacking` it is room for all weights. None without an arena.
    """
    arena_bytes: int | None
    """The memory that the arena has, used or not: `packed_bytes` and the steps in which it grew for the runs. None
    without an arena."""
    planned_bytes: int | None = None
    """The block that a run takes for its intermediate tensors, as ONNX Runtime planned it in the first run of these
    shapes; 0 without a plan. None without feeds, or without an arena that can grow for the measurement."""
    peak_bytes: int | None = None
    """The most memory that a later run of these shapes takes from the arena at any time: the block, what operators take
    for themselves, and the outputs that ONNX Runtime allocates. None where `planned_bytes` is."""


@public
def memory_report(session: Session | SessionSpec, feeds: Feeds | None = None) -> MemoryReport:
    """The memory of a session's weights and arena, and that of a run over `feeds`, which are those of `Session.run`.

    The figures are those of ONNX Runtime's counters and of the model's files, none is an estimate. `feeds` are run a
    few times, and a few times more with the end asked for before the first operator. The counters are the session's:
    while the report is made nothing else may run on it, and results whose memory is ONNX Runtime's count as packed. To
    see the peak of a run below an earlier peak, the arena grows for a moment to a multiple of it; then it frees all
    that is unused.

    For a `SessionSpec` it loads the model itself, twice: the first load writes the optimized model to a temporary
    folder, which needs the space of the weights. Raises the errors of `Session` and `Session.run`.
    """
    if isinstance(session, SessionSpec):
        with temporary_folder("zrt-memory-") as folder:
            loaded = contents_of_model(save_apart(session, folder))
        with session.load() as own:
            return _report(own, feeds, contents_of_model(session.model), loaded)
    require_type(session, Session, "session", "a Session or a SessionSpec")
    return _report(session, feeds, None if session._recipe is None else contents_of_model(session._recipe[0]), None)


def _report(session: Session, feeds: Feeds | None, stored: Contents | None, loaded: Contents | None) -> MemoryReport:
    allocator = session.allocator()
    before = allocator.stats()
    planned = peak = None
    if feeds is not None:
        # The first run of these shapes makes the plan, the second is the first to follow it.
        session.run(feeds)
        session.run(feeds)
    after = allocator.stats()
    # Without an arena there are none.
    counts = bool(after.raw)
    if feeds is not None and counts:
        planned, peak = _activations(session, allocator, feeds, after.total_allocated_bytes - before.bytes_in_use)
    return MemoryReport(
        stored_bytes=None if stored is None else stored.nbytes,
        outside_bytes=None if stored is None else stored.outside.total(),
        loaded_bytes=None if loaded is None else loaded.nbytes,
        packed_bytes=before.bytes_in_use if counts else None,
        arena_bytes=after.total_allocated_bytes if counts else None,
        planned_bytes=planned,
        peak_bytes=peak,
    )


def save_apart(spec: SessionSpec, folder: str, optimized: bool = True) -> str:
    """Writes the model of a spec to a folder, its large weights into a file beside it; returns the model's path.

    It is as the optimizer leaves it, or as it was.
    """
    path = os.path.join(folder, "optimized.onnx" if optimized else "mapped.onnx")
    options = replace(
        spec.options, optimized_model_filepath=None, profile_file_prefix=None, log_severity_level=LogSeverity.ERROR
    )
    # The load only writes: packed weights would be for nothing.
    options.config_entries = {**options.config_entries, SessionConfigKey.DISABLE_PREPACKING: "1"}
    if not optimized:
        options.graph_optimization_level = GraphOptimizationLevel.DISABLE_ALL
    save_optimized(
        spec.model,
        path,
        options,
        spec.providers,
        weights_file=f"{os.path.basename(path)}.weights",
        external_data_dir=spec.external_data_dir,
    )
    return path


def contents_of_model(model: Model) -> Contents | None:
    """A model's contents; None for a file that is gone or no ONNX model."""
    with suppress(Error), Source(model) as source:
        return contents_of(source)
    return None


def _activations(session: Session, allocator: Allocator, feeds: Feeds, grown: int) -> tuple[int | None, int | None]:
    """The planned block and the peak of a run whose shapes have a plan; `grown` bounds them."""
    planned = peak = None
    _begin(session, feeds, shrink_arenas=[allocator.memory])
    with ExitStack() as held, suppress(AllocationError):
        _hold_all_but_one_chunk(allocator, 2 * grown, held)
        start = allocator.stats().max_bytes_in_use
        _begin(session, feeds)
        reserved = allocator.stats().max_bytes_in_use - start
        session.run(feeds)
        planned, peak = reserved, allocator.stats().max_bytes_in_use - start
    _begin(session, feeds, shrink_arenas=[allocator.memory])
    return planned, peak


def _begin(session: Session, feeds: Feeds, **options: Any) -> None:
    """A run that ends at its first operator: before it asks whether to end, ONNX Runtime takes the planned block."""
    ending = RunOptions(log_severity_level=LogSeverity.FATAL, **options)
    ending.terminate()
    with suppress(TerminatedError):
        session.run(feeds, options=ending)


def _hold_all_but_one_chunk(allocator: Allocator, room: int, held: ExitStack) -> None:
    """Holds an arena's free memory, so that all that a run takes comes from one new chunk of `room` bytes.

    Then each byte in use raises the counter of the peak, which is never reset. And the arena cuts the chunk to what is
    asked for, in steps of 256 bytes: it hands out a chunk whole that is less than twice as large.
    """
    stats = allocator.stats()
    free, before = stats.total_allocated_bytes - stats.bytes_in_use, 0
    while True:
        if free:
            held.enter_context(allocator.allocate(free))
        # The arena is full, and grows by a region that is larger than the one before, up to a limit.
        held.enter_context(allocator.allocate(1))
        stats = allocator.stats()
        free = stats.total_allocated_bytes - stats.bytes_in_use
        missing = max(stats.max_bytes_in_use - stats.bytes_in_use, 0)
        if free >= missing + max(room, missing) or (free <= before and not missing):
            break
        before = free
    if missing:
        held.enter_context(allocator.allocate(missing))
