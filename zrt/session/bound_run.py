"""A run over bound inputs and outputs (``zrt_lane`` in C), which `IoBinding` and `Lane` share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zrt._native import ffi, status
from zrt._native.cdata import new_array, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.memory.allocators import CPU, MemoryInfo, default_allocator
from zrt.values import Value


def lane_block(
    session: Handle,
    binding: Handle,
    run_options: Handle,
    *,
    synchronize: bool,
    rebound: Sequence[tuple[str, Handle]] = (),
    left: Sequence[tuple[str, MemoryInfo]] = (),
    parents: Sequence[Handle] = (),
) -> Handle:
    """The ``zrt_lane`` that runs `binding`: the steps of each run, and the flag that keeps a second thread out.

    Each run binds the inputs in `rebound` again, and returns the outputs in `left` to ORT, which allocates them anew.
    The block keeps `parents` alive.
    """
    memories = [memory.handle() for _, memory in left]
    input_names, output_names = strings(name for name, _ in rebound), strings(name for name, _ in left)
    input_values = new_array("OrtValue *", [value.pointer for _, value in rebound])
    output_memories = new_array("const OrtMemoryInfo *", [memory.pointer for memory in memories])
    kept = Handle.pin((input_names, output_names, input_values, output_memories))
    values = [value for _, value in rebound]
    block = Handle.block("zrt_lane", [session, binding, run_options, kept, *values, *memories, *parents])
    lane = block.pointer
    lane.api = api()
    lane.session = session.pointer
    lane.binding = binding.pointer
    lane.run_options = run_options.pointer
    lane.synchronize = synchronize
    lane.input_count, lane.output_count = len(rebound), len(left)
    lane.input_names, lane.output_names = input_names, output_names
    lane.input_values, lane.output_memories = input_values, output_memories
    return block


def busy_flag(block: Handle) -> Any:
    """The flag of a ``zrt_lane`` for `claimed`: a thread that holds it keeps runs out."""
    return ffi.addressof(block.pointer, "busy")


def bound_values(
    binding: Handle, keepers: Sequence[Handle], places: Iterable[Handle | MemoryInfo]
) -> list[Value | None]:
    """The values bound as outputs, in the order of binding.

    `places` has for each output the value that was bound, or the memory on which ORT allocates it. The values keep
    `keepers` alive, which own the bound memory. None stands for an output that ORT has not made yet, and for an
    optional output that is absent.
    """
    table = api()
    allocator = default_allocator()
    values, count = status.fetch_array(table.GetBoundOutputValues, "OrtValue *", binding.pointer, allocator)
    if not values:
        return []
    try:
        owned = [Handle.own(values[i], table.ReleaseValue, keepers) for i in range(count)]
    finally:
        table.AllocatorFree(allocator, values)
    # ORT reports a memory location for tensors only.
    memories = [place if isinstance(place, MemoryInfo) else CPU for place in places]
    made = [
        Value(handle, memory=memory) if status.fetch(table.HasValue, "int", handle.pointer) else None
        for handle, memory in zip(owned, memories, strict=True)
    ]
    for value in made:
        if value is not None:
            value.hold(binding)
    return made
