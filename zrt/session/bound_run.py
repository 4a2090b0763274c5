"""Runs over memory that was given before: their base, and a run over bound inputs and outputs (``zrt_lane`` in C)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Any, Self

from zrt._common.arguments import integer
from zrt._native import ffi, lib, status
from zrt._native.cdata import NULL, new_array, strings
from zrt._native.handle import Handle, Owner
from zrt._native.session_handle import SessionHandle
from zrt.loading.run_options import RunOptions, default_run_options
from zrt.memory.allocators import CPU, MemoryInfo, cpu_memory
from zrt.session.call import end_of, limits
from zrt.session.outputs import OwnedMemory, Wanted, allocated_outputs, take_value
from zrt.values.type_info import ValueInfo, is_plain


class BoundRun(Owner, guarded=False):
    """Base of bindings, lanes and prepared runs.

    Everything that an open one holds is in one attribute, so that another thread sees all of it or nothing: `close`
    leaves no part of it to a run. The builtin `run` reads the first field of that attribute.
    """

    __slots__ = ()

    _bound: Any
    run: Callable[..., Any]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        made._handle = made._bound = None
        return made

    def prime(self, runs: int = 1) -> None:
        """Runs it `runs` times before serving, so that ORT plans and allocates its memory for these shapes."""
        for _ in range(integer(runs, "runs")):
            self.run()

    def close(self) -> None:
        """Closes it. Its memory is released after the last run and the last view; closing twice is fine."""
        super().close()
        self._bound = None


def lane_block(
    session: SessionHandle,
    binding: Handle | None,
    *,
    synchronize: bool,
    run_options: Handle | None = None,
    rebound: Sequence[tuple[str, Handle]] = (),
    left: Sequence[tuple[str, MemoryInfo]] = (),
    input_bytes: int = 0,
    parents: Sequence[Handle] = (),
) -> Handle:
    """The ``zrt_lane`` that runs `binding`, or a new one of its own: the steps of each run, and the flag that keeps a
    second thread out.

    Each run binds the inputs in `rebound` again, and returns the outputs in `left` to ORT, which allocates them anew.
    `input_bytes` are those of all inputs, where they are known. Without `run_options` the runs have the default ones.
    The block keeps `parents` alive.
    """
    host = cpu_memory()
    if run_options is None:
        run_options = default_run_options()
    owners = [session, run_options, host, *parents]
    if binding is not None:
        owners.append(binding)
    if rebound or left:
        memories = [memory.handle() for _, memory in left]
        names = strings([*(name for name, _ in rebound), *(name for name, _ in left)])
        inputs = new_array("OrtValue *", [value.pointer for _, value in rebound])
        places = new_array("const OrtMemoryInfo *", [memory.pointer for memory in memories])
        owners += [Handle.pin((names, inputs, places)), *(value for _, value in rebound), *memories]
    block = Handle.block("zrt_lane", owners, None if binding else lib.zrt_lane_free)
    lane = block.pointer
    lane.api = session.table.pointer
    lane.session = session.pointer
    if binding is None:
        status.check(lane.api.CreateIoBinding(lane.session, ffi.addressof(lane, "binding")))
    else:
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


def run_limited(
    block: Handle, session: Handle, options: RunOptions | None, timeout: float | None, state: Any = NULL
) -> Any:
    """One run of a ``zrt_lane`` under options, with a `timeout` or both, and on a `state`; returns the code."""
    limit = limits(options, end_of(timeout), session, bound=True)
    return lib.zrt_lane_run_with(block.reference, state, limit.options, limit.end)


class Form(IntEnum):
    """The objects as which bound outputs are read."""

    VALUES = 0
    """Values alone."""
    VIEWS = 1
    """Arrays over ORT's own memory of the host, and values of other kinds or places."""
    COPIES = 2
    """As `VIEWS`, in memory of their own."""


class BoundOutputs:
    """Reads the values that are bound as outputs, in the order of binding.

    `outputs` has for each its description and what is bound: a value, or the memory on which ORT allocates it; `reads`
    counts the latter. The results keep `keepers` alive, which own the bound memory. Outputs in `inputs` share the
    memory of an input. `owner` names the kind of object in errors.
    """

    __slots__ = ("_binding", "_forms", "_inputs", "_keepers", "_outputs", "_owner", "_unread", "reads")

    def __init__(
        self,
        binding: Handle | None,
        outputs: Sequence[tuple[ValueInfo, Handle | MemoryInfo | None]],
        keepers: Sequence[Handle],
        inputs: Collection[str],
        owner: str,
        unread: int = 0,
    ) -> None:
        """`unread` outputs are bound after `outputs`, of which those without a place are not read either.

        Without a `binding`, they may be those of any binding of such outputs.
        """
        self._binding = binding
        self._keepers = keepers
        self.reads: int = sum(place is not None for _, place in outputs)
        self._outputs = outputs
        self._inputs = frozenset(inputs)
        self._owner = owner
        self._unread = unread
        self._forms: list[Handle | None] = [None for _ in Form]

    def _allocated(self, form: Form) -> Handle:
        """The ``zrt_allocated`` that reads the outputs in this form."""
        allocated = self._forms[form]
        if allocated is not None:
            return allocated
        wanted = [None if place is None else Wanted(info, None) for info, place in self._outputs]
        for output in filter(None, wanted):
            # Python's own objects are out of the reach of an array that C makes, and so is a read-only feed. A copy
            # needs neither.
            shares = output.info.name in self._inputs or any(keeper.kept for keeper in self._keepers)
            if form is Form.VALUES or (shares and form is Form.VIEWS) or not is_plain(output.info):
                output.dtype = None
        copied = form is Form.COPIES
        allocated = allocated_outputs([*wanted, *[None] * self._unread], self._keepers, copied)
        self._forms[form] = allocated
        return allocated

    def read(self, binding: Any, form: Form) -> list[Any]:
        """The bound values in one of the forms; no run can use the binding meanwhile."""
        results: list[Any] = [None] * len(self._outputs)
        if self.reads:
            allocated = self._allocated(form)
            self._settle(lib.zrt_bound_read(binding, allocated.pointer, lib.ZRT_EVERY, id(results)), results)
        return results

    def read_at(self, block: Handle, version: int, form: Form, only: int = lib.ZRT_EVERY) -> list[Any]:
        """`read` of a ``zrt_lane``, which it claims itself; nothing where that has another version by now.

        With `only` it reads the output at this index, and the others are None.
        """
        results: list[Any] = [None] * len(self._outputs)
        allocated = self._allocated(form)
        code = lib.zrt_lane_read(block.reference, version, allocated.pointer, only, id(results))
        if code == status.INCOMPLETE:
            return []
        self._settle(code, results)
        return results

    def _settle(self, code: int, results: list[Any]) -> None:
        """Makes the objects that C has left to Python; raises the error of a failed read."""
        if code == status.VALUES:
            results[:] = [self._object(index, result) for index, result in enumerate(results)]
        elif code:
            raise status.to_error(code, self._owner)

    def _object(self, index: int, result: Any) -> Any:
        if type(result) is not OwnedMemory:
            return result
        info, place = self._outputs[index]
        # ORT reports a memory location for tensors only.
        memory = place if isinstance(place, MemoryInfo) else CPU
        return take_value(result, self._binding, self._keepers, memory, info.name not in self._inputs)
