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
from zrt.session.deadlines import end_of
from zrt.session.outputs import MadeOutputs, Wanted
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
    parents: Sequence[Handle] = (),
) -> Handle:
    """The ``zrt_lane`` that runs `binding`: the steps of each run, and the flag that keeps a second thread out.

    Each run binds the inputs in `rebound` again, and returns the outputs in `left` to ORT, which allocates them anew.
    The block keeps `parents` alive.
    """
    host = cpu_memory()
    kept = [session, binding, run_options, host, *parents]
    if rebound or left:
        memories = [memory.handle() for _, memory in left]
        names = strings([*(name for name, _ in rebound), *(name for name, _ in left)])
        inputs = new_array("OrtValue *", [value.pointer for _, value in rebound])
        places = new_array("const OrtMemoryInfo *", [memory.pointer for memory in memories])
        kept += [Handle.pin((names, inputs, places)), *(value for _, value in rebound), *memories]
    block = Handle.block("zrt_lane", kept)
    lane = block.pointer
    lane.api = session.table.pointer
    lane.session = session.pointer
    lane.binding = binding.pointer
    lane.run_options = run_options.pointer
    lane.host = host.pointer
    lane.synchronize = synchronize
    if rebound or left:
        lane.input_count, lane.output_count = len(rebound), len(left)
        lane.input_names, lane.output_names = names, names + len(rebound)
        lane.input_values, lane.output_memories = inputs, places
    return block


def busy_flag(block: Handle) -> Any:
    """The flag of a ``zrt_lane`` for `claimed`: a thread that holds it keeps runs out."""
    return ffi.addressof(block.pointer, "busy")


def run_limited(block: Handle, session: Handle, options: RunOptions | None, timeout: float | None, *state: Any) -> Any:
    """One run of a ``zrt_lane`` under options, with a `timeout` or both, and on a `state`; returns the code."""
    run_with = lib.zrt_lane_run_state if state else lib.zrt_lane_run_with
    run_until = lib.zrt_lane_run_state_until if state else lib.zrt_lane_run_until
    opened = RunOptions.opened(options, session, bound=True)
    if timeout is None and opened is not None:
        return run_with(block.reference, *state, opened.pointer)
    end = end_of(timeout)
    if options is not None:
        # A deadline must not end other runs with the same options.
        options = options.twin()
        opened = options._open()
    return run_until(block.reference, *state, NULL if opened is None else opened.pointer, end)


read_outputs = lib.zrt_lane_outputs


class BoundOutputs:
    """Reads the values that are bound as outputs, in the order of binding, while no run can use the binding.

    `outputs` has for each its description and what is bound: a value, or the memory on which ORT allocates it. The
    results keep `keepers` alive, which own the bound memory. Outputs in `inputs` share the memory of an input.
    """

    __slots__ = ("_binding", "_keepers", "_own", "_places", "_read_here", "_rooms", "_spare", "_unread", "_wanted")

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
        self._unread = unread
        self._keepers = keepers
        # ORT reports a memory location for tensors only.
        self._places = [place if isinstance(place, MemoryInfo) else CPU for _, place in outputs]
        self._wanted = [Wanted(info, None) for info, _ in outputs]
        self._read_here = [index for index, (_, place) in enumerate(outputs) if place is not None]
        self._own = [info.name not in inputs for info, _ in outputs]
        for wanted in self._wanted:
            # Python's own objects are out of the reach of an array that C makes, and so is a read-only feed.
            if not is_plain(wanted.info) or wanted.info.name in inputs or any(keeper.kept for keeper in keepers):
                wanted.dtype = None
        self._spare: list[MadeOutputs] = []
        self._rooms: list[list[MadeOutputs]] = [[] for _ in outputs]

    def values(self) -> list[Value | None]:
        """The bound values. None stands for an output that no run has made, and for an absent optional."""
        return self.read(self._binding, arrays=False)

    def views(self) -> list[Any]:
        """As `values`, but with an array in place of a tensor of numbers in ORT's own memory of the host."""
        return self.read(self._binding, arrays=True)

    def view(self, index: int, block: Handle) -> Any:
        """The view of one output. It claims the ``zrt_lane`` of `block` itself, where another thread may hold it."""
        rooms = self._rooms[index]
        try:
            room = rooms.pop()
        except IndexError:
            room = self._room(index)
        results: list[Any] = [None] * len(self._wanted)
        code = read_outputs(block.reference, room.pointer, id(results))
        if code == status.LEFT:
            results[index] = room.take(index, self._keepers, self._places[index], self._own[index])
        elif code:
            raise status.to_error(code, "Lane")
        rooms.append(room)
        return results[index]

    def _room(self, *indices: int) -> MadeOutputs:
        """Room for some of the outputs."""
        # A shape of () stands for an output that is not read.
        wanted = [*self._wanted, *self._wanted[:1] * self._unread]
        layout = tuple((None if index in indices else (), None) for index in range(len(wanted)))
        return MadeOutputs(self._binding, wanted, layout, self._keepers)

    def read(self, binding: Any, *, arrays: bool) -> list[Any]:
        """`views`, or `values`, of a binding."""
        if not self._read_here:
            return [None] * len(self._wanted)
        try:
            room = self._spare.pop()
        except IndexError:
            room = self._room(*self._read_here)
        results: list[Any] = [None] * len(self._wanted)
        status.check(lib.zrt_made_fill_bound(room.pointer, binding.pointer))
        if not arrays or lib.zrt_made_arrays(room.pointer, id(results)):
            for index in self._read_here:
                if room.waits(index):
                    results[index] = room.take(index, self._keepers, self._places[index], self._own[index])
        self._spare = [room]
        return results
