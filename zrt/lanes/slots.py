"""`Slots`: the ports of a lane that have several memories, and which of these is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zrt._common.arguments import integer, shown
from zrt._common.public import public_in
from zrt._native import lib, status
from zrt._native.cdata import new_array, strings
from zrt._native.handle import Handle
from zrt.errors import OutOfRangeError, UnknownNameError
from zrt.lanes.ports import Port, View, view

_move = lib.zrt_lane_move


class _Ring:
    """The slots of one port (``zrt_ring``), and the users' views of them."""

    __slots__ = ("_kept", "count", "pointer", "views")

    def __init__(self, port: Port, is_output: bool, place: int | None) -> None:
        """`place` is the port's place among the inputs that the lane binds again before each run."""
        handles = port.handles()
        names, values = strings([port.info.name]), new_array("OrtValue *", [handle.pointer for handle in handles])
        self._kept = (names, values, handles)
        self.pointer = new_array("zrt_ring", 1)
        ring = self.pointer[0]
        ring.name, ring.values, ring.is_output = names[0], values, is_output
        ring.again, ring.place = place is not None, place or 0
        self.count = len(handles)
        self.views: list[View] = [view(slot) for slot in port.slots]


@public_in("zrt.typing")
class Slots(Mapping[str, int]):
    """For each input and output that was given several memories, the number of the one in use.

    ``lane.slots["image"] = 2`` binds the third one: the next run reads or writes that. Moving a port is one C call, and
    raises `BusyError` during a run of another thread.
    """

    __slots__ = ("_block", "_rings")

    def __init__(self, block: Handle, inputs: Sequence[Port], outputs: Sequence[Port], rebound: Sequence[Port]) -> None:
        self._block = block
        again = {port.info.name: place for place, port in enumerate(rebound)}
        self._rings = {
            port.info.name: _Ring(port, is_output, None if is_output else again.get(port.info.name))
            for is_output, ports in ((False, inputs), (True, outputs))
            for port in ports
            if len(port.slots) > 1
        }

    def __setitem__(self, name: str, index: int) -> None:
        ring = self._ring(name)
        if type(index) is not int:
            index = int(index) if isinstance(index, np.integer) else integer(index, f"slot of {name!r}")
        if not 0 <= index < ring.count:
            raise OutOfRangeError(f"slot {shown(index)} of {name!r}: there are {ring.count}, counted from 0")
        code = _move(self._block.reference, ring.pointer, index)
        if code:
            raise status.to_error(code, "Lane")

    def __getitem__(self, name: str) -> int:
        return int(self._ring(name).pointer[0].current)

    def _ring(self, name: Any) -> _Ring:
        ring = self._rings.get(name) if type(name) is str else None
        if ring is None:
            names = ", ".join(map(repr, self._rings)) or "none"
            raise UnknownNameError(f"the lane has several memories for {names}, not for {shown(name)}")
        return ring

    def view(self, name: str) -> View:
        """The users' view of the slot in use."""
        ring = self._ring(name)
        return ring.views[int(ring.pointer[0].current)]

    def reading(self, ports: Sequence[Port], read: Callable[[int], View | None]) -> Callable[[int], View | None]:
        """`read` for the ports at these indices, with the view of the slot in use for a port that has several."""
        moved = {index: port.info.name for index, port in enumerate(ports) if port.info.name in self._rings}
        return (lambda index: self.view(moved[index]) if index in moved else read(index)) if moved else read

    def in_use(self, ports: Sequence[Port]) -> list[Port]:
        """The ports, on the slots in use."""
        return [
            replace(port, value=port.slots[self[port.info.name]], view=self.view(port.info.name))
            if len(port.slots) > 1
            else port
            for port in ports
        ]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rings)

    def __len__(self) -> int:
        return len(self._rings)

    def __repr__(self) -> str:
        return repr(dict(self))
