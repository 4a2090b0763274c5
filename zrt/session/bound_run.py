"""A run over bound inputs and outputs (``zrt_lane`` in C) and its results, which `IoBinding` and `Lane` share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from zrt._native import ffi, lib, status
from zrt._native.cdata import NULL, new_array, strings
from zrt._native.forks import SessionHandle
from zrt._native.handle import Handle
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import CPU, MemoryInfo, cpu_memory
from zrt.session.call import limits
from zrt.session.deadlines import end_of
from zrt.session.outputs import OwnedMemory, Wanted, allocated_outputs, take_value
from zrt.values import Value
from zrt.values.type_info import ValueInfo, is_plain


def lane_block(
    session: SessionHandle,
    binding: Handle,
    run_options: Handle,
    *,
    synchronize: bool,
    rebound: Sequence[tuple[str, Handle]] = (),
    left: Sequence[tuple[str, MemoryInfo]] = (),
    input_bytes: int = 0,
    parents: Sequence[Handle] = (),
) -> Handle:
    """The ``zrt_lane`` that runs `binding`: the steps of each run, and the flag that keeps a second thread out.

    Each run binds the inputs in `rebound` again, and returns the outputs in `left` to ORT, which allocates them anew.
    `input_bytes` are those of all inputs, where they are known. The block keeps `parents` alive.
    """
    host = cpu_memory()
    owners = [session, binding, run_options, host, *parents]
    if rebound or left:
        memories = [memory.handle() for _, memory in left]
        names = strings([*(name for name, _ in rebound), *(name for name, _ in left)])
        inputs = new_array("OrtValue *", [value.pointer for _, value in rebound])
        places = new_array("const OrtMemoryInfo *", [memory.pointer for memory in memories])
        owners += [Handle.pin((names, inputs, places)), *(value for _, value in rebound), *memories]
    block = Handle.block("zrt_lane", owners)
    lane = block.pointer
    lane.api = session.table.pointer
    lane.session = session.pointer
    lane.binding = binding.pointer
    lane.run_options = run_options.pointer
    lane.host = host.pointer
    lane.synchronize = synchronize
    if session.arena is not None:
        lane.arena, lane.input_bytes = session.arena.pointer, input_bytes
    if rebound or left:
        lane.input_count, lane.output_count = len(rebound), len(left)
        lane.input_names, lane.output_names = names, names + len(rebound)
        lane.input_values, lane.output_memories = inputs, places
    return block


def busy_flag(block: Handle) -> Any:
    """The flag of a ``zrt_lane`` for `claimed`: a thread that holds it keeps runs out."""
    return ffi.addressof(block.pointer, "busy")


def run_limited(
    block: Handle, session: Handle, options: RunOptions | None, timeout: float | None, state: Any = NULL
) -> Any:
    """One run of a ``zrt_lane`` under options, with a `timeout` or both, and on a `state`; returns the code."""
    limit = limits(options, end_of(timeout), session, bound=True)
    return lib.zrt_lane_run_with(block.reference, state, limit.options, limit.end)


class BoundOutputs:
    """Reads the values that are bound as outputs, in the order of binding.

    `outputs` has for each its description and what is bound: a value, or the memory on which ORT allocates it. The
    results keep `keepers` alive, which own the bound memory. Outputs in `inputs` share the memory of an input.
    """

    __slots__ = ("_arrays", "_binding", "_keepers", "_own", "_places", "_read_here", "_values")

    def __init__(
        self,
        binding: Handle | None,
        outputs: Sequence[tuple[ValueInfo, Handle | MemoryInfo | None]],
        keepers: Sequence[Handle],
        inputs: Collection[str],
        unread: int = 0,
    ) -> None:
        """`unread` outputs are bound after `outputs`, of which those without a place are not read either.

        Without a `binding`, `read` takes that of any run with such outputs.
        """
        self._binding = binding
        self._keepers = keepers
        # ORT reports a memory location for tensors only.
        self._places = [place if isinstance(place, MemoryInfo) else CPU for _, place in outputs]
        self._read_here = [index for index, (_, place) in enumerate(outputs) if place is not None]
        self._own = [info.name not in inputs for info, _ in outputs]

        def forms(arrays: bool) -> list[Wanted | None]:
            wanted = [None if place is None else Wanted(info, None) for info, place in outputs]
            for output in filter(None, wanted):
                # Python's own objects are out of the reach of an array that C makes, and so is a read-only feed.
                shares = output.info.name in inputs or any(keeper.kept for keeper in keepers)
                if not arrays or shares or not is_plain(output.info):
                    output.dtype = None
            return wanted + [None] * unread

        self._arrays = allocated_outputs(forms(arrays=True), keepers)
        self._values = allocated_outputs(forms(arrays=False), keepers)

    def values(self) -> list[Value | None]:
        """The bound values. None stands for an output that no run has made, and for an absent optional.

        Here and in `views` no run can use the binding meanwhile.
        """
        return self.read(self._binding, arrays=False)

    def views(self) -> list[Any]:
        """As `values`, but with an array in place of a tensor of numbers in ORT's own memory of the host."""
        return self.read(self._binding, arrays=True)

    def view(self, index: int, block: Handle) -> Any:
        """The view of one output. It claims the ``zrt_lane`` of `block` itself, where another thread may hold it."""
        results: list[Any] = [None] * len(self._places)
        code = lib.zrt_lane_read(block.reference, self._arrays.pointer, index, id(results))
        if code and code != status.VALUES:
            raise status.to_error(code, "Lane")
        return self._object(index, results[index])

    def read(self, binding: Any, *, arrays: bool) -> list[Any]:
        """`views`, or `values`, of a binding."""
        results: list[Any] = [None] * len(self._places)
        if self._read_here:
            allocated = self._arrays if arrays else self._values
            code = lib.zrt_bound_read(binding.pointer, allocated.pointer, lib.ZRT_EVERY, id(results))
            if code and code != status.VALUES:
                raise status.to_error(code)
            if code:
                results = [self._object(index, result) for index, result in enumerate(results)]
        return results

    def _object(self, index: int, result: Any) -> Any:
        if type(result) is not OwnedMemory:
            return result
        return take_value(result, self._binding, self._keepers, self._places[index], self._own[index])
