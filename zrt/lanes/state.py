"""`State`: what a lane carries from run to run, and `StateSnapshot`, a copy of its content."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import IO, Any, TypeAlias

import numpy as np

from zrt._common.arguments import integer, path_bytes, require_type, shown, wrong_type
from zrt._common.files import replacing
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.busy import claimed
from zrt._native.cdata import address_of, new_array, numbers, pointer_to
from zrt._native.handle import Handle, Owner
from zrt._native.session_handle import SessionHandle
from zrt.errors import AllocationError, ArgumentError, DTypeError, FileError, ShapeError, UnknownNameError
from zrt.lanes.ports import LaneMemory, clear
from zrt.lanes.state_layout import FIXED, GROWING, IN_PLACE, MASK, ONCE, Layout, Pair
from zrt.memory import arrays
from zrt.memory.allocators import CPU, Allocator, MemoryInfo, default_allocator
from zrt.memory.buffers import SMALLEST_ALIGNMENT, Buffer
from zrt.types import ElementType, pack
from zrt.values import symbolic_shapes
from zrt.values.copy import copy
from zrt.values.value import Value, at_address

Array: TypeAlias = "np.ndarray[Any, Any]"
File: TypeAlias = "str | os.PathLike[str] | IO[bytes]"

# The names of the arrays in a file. An input may have any name. numpy adds ".npy" to names: without the end it would
# read the array of "x" for "x.npy".
_CONTENT, _END = "state:", ":"
_COUNTS = "counts"


@public
@dataclass(frozen=True, slots=True, eq=False)
class StateSnapshot:
    """A copy of a state's content: arrays by input, as the next run would read them. It can be pickled.

    `StatefulLane.new_state` makes a state of it, and `State.write` writes it into one.
    """

    arrays: Mapping[str, Array]
    steps: int = 0
    """The steps that the arrays hold."""
    seen: int = 0
    """All steps since the start, with those that a window has dropped: at least `steps`."""
    positions: tuple[int, ...] = field(default=())
    """For each row the position of the next step."""


@public
class State(Owner, Mapping[str, Any]):
    """The values that a lane carries from run to run; `StatefulLane.new_state` makes one.

    It is a mapping from inputs to what the next run reads: numpy views on the host, `Value` on a device. A view is
    right until the next run, which reads other memory. Values that one run makes for all later ones are read as copies.

    A state belongs to one run at a time: another thread that uses it gets `BusyError`. It fits all lanes of its session
    that carry the same inputs with the same shapes, and it may outlive them.
    """

    __slots__ = ("_layout", "_make", "_start")

    def __init__(
        self,
        layout: Layout,
        session: SessionHandle,
        memory: LaneMemory,
        initial: Mapping[str, Any] | StateSnapshot | None,
    ) -> None:
        """Users call `StatefulLane.new_state`."""
        self._handle = None
        if not (isinstance(layout, Layout) and isinstance(session, SessionHandle) and isinstance(memory, LaneMemory)):
            raise DTypeError("a State is made by StatefulLane.new_state")
        session.check()
        self._layout = layout
        self._make = (session, memory)
        owners, addresses = _allocate(layout, session, memory)
        handle = Handle.make(
            lib.zrt_state_free, [session, layout.handle, *owners], lib.zrt_state_new, "zrt_state", layout.handle.pointer
        )
        state = handle.pointer
        for side, address in enumerate(addresses):
            state.data[side] = pointer_to(address)
        status.check(lib.zrt_state_wrap(state))
        self._handle = handle
        self._start: StateSnapshot | None = None
        self._clear(IN_PLACE)
        if initial is not None:
            self._write(initial)
            self._start = self._snapshot()

    def _claimed(self, work: Any, *arguments: Any) -> Any:
        handle = self._open()
        return claimed(ffi.addressof(handle.pointer, "busy"), "State", work, *arguments)

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs that it holds."""
        return tuple(self._layout.by_name)

    @property
    def capacity(self) -> int:
        """The most steps; 0 where nothing counts steps."""
        return self._layout.capacity

    @property
    def steps(self) -> int:
        """The steps that it holds."""
        handle = self._open()
        return int(handle.pointer.steps)

    @property
    def seen(self) -> int:
        """All steps since the start, with those that a window has dropped."""
        handle = self._open()
        return int(handle.pointer.seen)

    def __getitem__(self, name: str) -> Any:
        return self._claimed(self._view, self._index(name))

    def __setitem__(self, name: str, content: Array | np.generic) -> None:
        self._index(name)
        self.write({name: content})

    def _index(self, name: object) -> int:
        index = self._layout.by_name.get(name) if isinstance(name, str) else None
        if index is None:
            names = ", ".join(map(repr, self._layout.by_name))
            raise UnknownNameError(f"the state has no input {shown(name)}; it has {names}")
        return index

    def _view(self, index: int) -> Any:
        """The content of an input, as users read it."""
        pair = self._layout.pairs[index]
        if pair.kind != ONCE:
            return self._memory(index)
        handle = self._open()
        value = handle.pointer.values[2 * index]
        if not value:
            before = self._memory(index)
            return _to_host(before) if isinstance(before, Value) else _copied(pair, before)
        description = status.describe(value)
        shape = numbers(description.dims, description.rank)
        memory = MemoryInfo._read(description.memory)
        return _to_host(at_address(address_of(description.data), shape, pair.element_type, memory))

    def _memory(self, index: int, whole: bool = False) -> Any:
        """The buffer that the next run reads; for a value that a run makes once, the one that the first run reads.

        With `whole` it is all of the buffer, also beyond the steps that are held.
        """
        pair = self._layout.pairs[index]
        handle = self._open()
        state = handle.pointer
        address = address_of(state.data[2 * index + (int(state.turn) if pair.kind in (FIXED, GROWING) else 0)])
        shape = pair.dims if whole or pair.kind == MASK else pair.shape(int(state.steps))
        if not pair.memory.is_host:
            return at_address(address, shape, pair.element_type, pair.memory, handle)
        return arrays.view(handle, address, shape, pair.element_type)

    def write(self, content: Mapping[str, Any] | StateSnapshot) -> None:
        """Writes arrays by input, or a snapshot, into what the next run reads; everything is checked first.

        Inputs that are not named stay as they are. Inputs that grow are written together if their number of steps
        changes. Raises `UnknownNameError`, `DTypeError` or `ShapeError`, and then nothing is written.
        """
        self._claimed(self._write, content)

    def _write(self, content: Mapping[str, Any] | StateSnapshot) -> None:
        self._make[0].check()
        named: Any = content.arrays if isinstance(content, StateSnapshot) else content
        if not isinstance(named, Mapping):
            raise wrong_type("state", "a dict of arrays, or a StateSnapshot", content)
        handle = self._open()
        state = handle.pointer
        whole = content if isinstance(content, StateSnapshot) else None
        checked = []
        counts = set()
        for name, array in named.items():
            index = self._index(name)
            pair = self._layout.pairs[index]
            right = _checked(pair, array, self._layout.capacity)
            checked.append((index, pair, right))
            if pair.kind == GROWING and pair.axis is not None:
                counts.add(right.shape[pair.axis])
        if whole is not None:
            for pair in self._layout.pairs:
                if pair.kind != ONCE and pair.info.name not in named:
                    raise ShapeError(f"state: the snapshot has no array for {pair.info.name!r}")
            counts.add(_count(whole.steps, "steps", self._layout.capacity))
            # A snapshot that a user makes may leave it open.
            seen = max(_count(whole.seen, "seen"), whole.steps)
            require_type(whole.positions, tuple, "state: positions", "a tuple of ints")
            positions = [_count(position, "positions") for position in whole.positions]
        if len(counts) > 1:
            raise ShapeError(f"state: the arrays have different numbers of steps, {sorted(counts)}")
        steps = counts.pop() if counts else int(state.steps)
        if len(checked) > 1:
            checked = [(index, pair, self._apart(index, right)) for index, pair, right in checked]
        kinds = {pair.kind for _, pair, _ in checked}
        grow = [pair for pair in self._layout.pairs if pair.kind == GROWING]
        # The whole content: as in a new state, the mask alone tells the positions.
        anew = MASK in kinds and bool(grow) and all(pair.info.name in named for pair in grow)
        before = None if anew or MASK not in kinds else self._counted(int(state.steps))
        for index, pair, right in checked if before is not None and whole is None else ():
            if pair.kind == MASK and np.may_share_memory(right, self._memory(index)):
                # As `state[name] &= mask` does: Python changes the view, and then assigns it.
                raise ArgumentError(
                    f"state {pair.info.name!r}: this is its own view, so that the positions cannot follow: assign "
                    "another array"
                )
        if whole is not None or steps != state.steps or anew:
            for pair in self._layout.pairs:
                if pair.kind == GROWING and steps and pair.info.name not in named:
                    raise ShapeError(f"state: {steps} steps need an array for {pair.info.name!r} too")
            if whole is not None:
                self._clear(but=named)
            # The mask tells the positions.
            checked.sort(key=lambda each: each[1].kind != MASK)
            while checked and checked[0][1].kind == MASK:
                self._store(*checked.pop(0))
            lib.zrt_state_restart(state, steps, 0)
            before = None
        for index, pair, right in checked:
            self._store(index, pair, right)
        if before is not None:
            # The steps that the mask hides or shows now, among those that are held.
            for row, change in enumerate(self._counted(int(state.steps)) - before):
                state.positions[row] += int(change)
        if whole is not None:
            state.seen = seen
            for row, position in enumerate(positions[: int(self._layout.handle.pointer.rows)]):
                state.positions[row] = position

    def _apart(self, index: int, content: Array) -> Array:
        """The content for an input; a copy where it lies in the memory of another one, which is written too."""
        # A view may be from a time of more steps.
        others = (self._memory(other, whole=True) for other in range(len(self._layout.pairs)) if other != index)
        shared = any(isinstance(each, np.ndarray) and np.may_share_memory(content, each) for each in others)
        return _copied(self._layout.pairs[index], content) if shared else content

    def _counted(self, steps: int) -> Array:
        """The steps that the mask counts in each row, of those that are held."""
        index = next(index for index, pair in enumerate(self._layout.pairs) if pair.kind == MASK)
        counted: Array = np.count_nonzero(np.asarray(self._memory(index))[:, :steps], axis=1)
        return counted

    def _store(self, index: int, pair: Pair, content: Array) -> None:
        handle = self._open()
        state = handle.pointer
        if pair.kind == ONCE:
            place = ffi.new("void **")
            dims = new_array("int64_t", content.shape)
            status.check(lib.zrt_state_once(state, index, default_allocator(), dims, content.ndim, place))
            memory = arrays.view(handle, address_of(place[0]), content.shape, pair.element_type)
        else:
            memory = self._memory(index)
        if not isinstance(memory, Value):
            np.copyto(memory, content, casting="equiv")
        elif content.size:
            staging = Buffer(memory.shape, pair.element_type)
            np.copyto(staging.array, content, casting="equiv")
            copy(staging, memory)

    def reset(self) -> None:
        """Sets it to its start: what was given at first, else zeros and no steps."""
        self._claimed(self._reset)

    def _reset(self) -> None:
        self._make[0].check()
        if self._start is None:
            self._clear()
        else:
            self._write(self._start)

    def _clear(self, *more: int, but: Container[str] = ()) -> None:
        """Forgets all steps, and writes zeros into pairs of one shape; into others of the kinds `more` too.

        The inputs in `but` are written next, and may be given as views of this very memory.
        """
        handle = self._open()
        lib.zrt_state_restart(handle.pointer, 0, 1)
        for index, pair in enumerate(self._layout.pairs):
            if pair.info.name in but:
                continue
            if pair.kind == MASK:
                self._memory(index).fill(1)
            elif pair.kind in more or (pair.kind in (FIXED, IN_PLACE, ONCE) and pair.axis is None):
                memory = self._memory(index)
                if not isinstance(memory, Value):
                    clear(memory)
                elif memory.nbytes:
                    copy(Buffer(memory.shape, pair.element_type), memory)

    def snapshot(self) -> StateSnapshot:
        """A copy of the content, on the host."""
        snapshot: StateSnapshot = self._claimed(self._snapshot)
        return snapshot

    def _snapshot(self) -> StateSnapshot:
        handle = self._open()
        state = handle.pointer
        content = {}
        for name, index in self._layout.by_name.items():
            view = self._view(index)
            pair = self._layout.pairs[index]
            if pair.kind == ONCE and not state.values[2 * index]:
                continue
            content[name] = _to_host(view) if isinstance(view, Value) else _copied(pair, view)
        rows = int(self._layout.handle.pointer.rows)
        return StateSnapshot(content, int(state.steps), int(state.seen), numbers(state.positions, rows))

    def copy(self) -> State:
        """Another state with the same content and the same start."""
        snapshot = self.snapshot()
        twin = type(self)(self._layout, *self._make, snapshot)
        twin._start = self._start
        return twin

    def __copy__(self) -> State:
        return self.copy()

    def __deepcopy__(self, memo: object) -> State:
        return self.copy()

    def __reduce_ex__(self, protocol: object) -> Any:
        # A state belongs to a session, which cannot be pickled: its content can.
        content = self.snapshot()
        return StateSnapshot, (content.arrays, content.steps, content.seen, content.positions)

    def save(self, file: File) -> None:
        """Writes the content into a file of `numpy.savez`, which replaces one that is there, or into an open file."""
        content = self.snapshot()
        named = {f"{_CONTENT}{name}{_END}": _raw(array) for name, array in content.arrays.items()}
        counts = np.array([content.steps, content.seen, *content.positions], np.int64)
        with _opened(file, "wb") as place:
            np.savez(place, **{_COUNTS: counts}, **named)  # type: ignore[arg-type]  # of another keyword

    def load(self, file: File) -> None:
        """Reads the content that `save` wrote. Raises `FileError` for a file that is none."""
        content = self._read(file)
        with status.named(f"state file {_name(file)}"):
            self.write(content)

    def _read(self, file: File) -> StateSnapshot:
        with _opened(file, "rb") as place:
            start = place.tell()
            if not place.read(4).startswith((b"PK\3\4", b"PK\5\6")):
                # numpy would take it for a pickle, and advise to allow that.
                raise ValueError("it is no file of numpy.savez")
            place.seek(start)
            with np.load(place, allow_pickle=False) as archive:
                members = {name: archive[name] for name in archive.files}
                counts = members.pop(_COUNTS).astype(np.int64, casting="safe").tolist()
                names = {each: each.removeprefix(_CONTENT).removesuffix(_END) for each in members}
                content = {name: _typed(self._layout, name, members[each]) for each, name in names.items()}
                return StateSnapshot(content, counts[0], counts[1], tuple(counts[2:]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.by_name)

    def __len__(self) -> int:
        return len(self._layout.by_name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._layout.by_name

    # A mapping would compare the contents.
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if self._handle is None:
            return "State(closed)"
        held = f", {self.steps} of {self.capacity} steps" if self.capacity else ""
        return f"State({', '.join(map(str, self._layout.pairs))}{held})"


def _allocate(layout: Layout, session: Handle, memory: LaneMemory) -> tuple[list[Handle], list[int]]:
    """One allocation on each kind of memory: the owners, and for each side of each pair the address."""
    ends: dict[MemoryInfo, int] = {}
    places: list[tuple[MemoryInfo, int]] = []
    for pair in layout.pairs:
        where = _place(pair, memory)
        in_buffers = _in_buffers(where, memory)
        alignment = memory.policy.resolve(pair.nbytes).alignment if in_buffers else SMALLEST_ALIGNMENT
        for side in range(2):
            if side and (pair.kind in (IN_PLACE, ONCE) or (pair.kind == MASK and pair.blocks == 1)):
                places.append(places[-1])
                continue
            start = -(-ends.get(where, 0) // alignment) * alignment
            places.append((where, start))
            ends[where] = start + pair.nbytes
    blocks = {where: _block(where, end, session, memory) for where, end in ends.items()}
    return [owner for owner, _ in blocks.values()], [blocks[where][1] + start for where, start in places]


def _place(pair: Pair, memory: LaneMemory) -> MemoryInfo:
    """The memory of a pair: on a device that of the session, on the host that of the lane."""
    if not pair.memory.is_host:
        return pair.memory
    return memory.memory if memory.kind == "allocated" and memory.memory.is_host else CPU


def _in_buffers(where: MemoryInfo, memory: LaneMemory) -> bool:
    return where == CPU and memory.kind == "buffers"


def _block(where: MemoryInfo, size: int, session: Handle, memory: LaneMemory) -> tuple[Handle, int]:
    """The owner and the address of a state's memory of one kind."""
    if _in_buffers(where, memory):
        try:
            buffer = Buffer((size,), ElementType.UINT8, memory.policy)
        except AllocationError as error:
            raise status.about("state", error) from error
        return buffer._open(), buffer.address
    # Its memory may begin anywhere.
    allocation = Allocator._of(session, where).allocate(size + SMALLEST_ALIGNMENT)
    return allocation._open(), -(-allocation.address // SMALLEST_ALIGNMENT) * SMALLEST_ALIGNMENT


def _name(file: File) -> str:
    """A file in messages."""
    return repr(os.fspath(file)) if isinstance(file, (str, os.PathLike)) else shown(file)


@contextmanager
def _opened(file: File, mode: str) -> Iterator[IO[bytes]]:
    """The file of that name, or an open one, which stays open. An error in the block is a `FileError`."""
    name = shown(file)
    try:
        name = _name(file)
        if isinstance(file, (str, os.PathLike)):
            path = os.fsdecode(path_bytes(file, "file"))
            places = nullcontext((path,)) if mode == "rb" else replacing(path, subject="file")
            with places as (where,), open(where, mode) as opened:
                yield opened
        elif hasattr(file, "read" if mode == "rb" else "write"):
            yield file
        else:
            raise wrong_type("file", "a path or a binary file", file)
    except DTypeError:
        raise
    except Exception as error:
        if error.__context__ is not None and not isinstance(error.__context__, Exception):
            # An interrupt: zipfile raises an error about the archive that it leaves half written.
            raise error.__context__ from None
        # numpy, zipfile, zlib and an open file raise errors of many types.
        reason = f"it has no state: {error}" if mode == "rb" else error
        raise FileError(f"state file {name}: {reason}") from error


def _count(number: object, subject: str, high: int = 2**62) -> int:
    return integer(number, f"state: {subject}", 0, high)


def _checked(pair: Pair, array: object, capacity: int) -> Array:
    """The array, if it has the type and a shape of the pair."""
    subject = f"state {pair.info.name!r}"
    # numpy's operators make a number of an array without dimensions.
    require_type(array, (np.ndarray, np.generic), subject, "a numpy array")
    array = arrays.plain(array, subject)
    kind = pair.element_type
    if kind.packed and array.dtype == kind.dtype and array.shape == pair.dims:
        return pack(array, kind)
    wanted = np.dtype(np.uint8) if kind.packed else kind.dtype
    if array.dtype.newbyteorder("=") != wanted:
        raise DTypeError(f"{subject}: expected {wanted}, got {shown(array.dtype)}")
    shape = (pair.nbytes,) if kind.packed else pair.dims
    actual = array.shape
    fits = actual == shape
    if pair.kind == GROWING and pair.axis is not None and len(actual) == len(shape):
        steps = actual[pair.axis]
        fits = actual == pair.shape(steps) and steps <= capacity
    elif pair.kind == ONCE:
        fits = symbolic_shapes.fits(pair.info, actual)
    if not fits:
        most = " at most" if pair.kind == GROWING else ""
        raise ShapeError(f"{subject}: expected shape {list(shape)}{most}, got {list(actual)}")
    return array


def _copied(pair: Pair, content: Array) -> Array:
    try:
        return content.copy()
    except MemoryError as error:
        raise status.no_memory(f"state {pair.info.name!r}", error) from error


def _to_host(value: Value) -> Array:
    """A copy of a tensor in an array; of a packed type, its packed bytes."""
    content = Buffer(value.shape, value.element_type)
    if value.nbytes:
        copy(value, content)
    return content.array


def _raw(array: Array) -> Array:
    """An array of one of numpy's own types: those of ml_dtypes cannot be read from a file."""
    return array.view(f"u{array.dtype.itemsize}") if arrays.is_added(array.dtype) else array


def _typed(layout: Layout, name: str, array: Array) -> Array:
    index = layout.by_name.get(name)
    kind = None if index is None else layout.pairs[index].element_type
    if kind is None or kind.packed or kind.dtype is None or not arrays.is_added(kind.dtype):
        return array
    return array.view(kind.dtype) if array.dtype.itemsize == kind.dtype.itemsize else array
