"""The keyword arguments that `Session.lane`, `Runtime` and `DynamicRuntime` hand on to `Lane`, typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from zrt._common.arguments import shown
from zrt._common.public import public_in
from zrt.errors import DTypeError
from zrt.lanes.given_memory import MemoryLike
from zrt.lanes.lane_shapes import ShapesLike
from zrt.lanes.samples import SamplesLike
from zrt.lanes.state_ports import StateLike


@public_in("zrt.typing")
class LaneOptions(TypedDict, total=False):
    """The keyword arguments of `Lane`, without the shapes."""

    inputs: MemoryLike
    outputs: MemoryLike
    rebind_inputs: bool | None
    synchronize: bool | None
    trials: bool
    samples: SamplesLike


@public_in("zrt.typing")
class RuntimeLaneOptions(LaneOptions, total=False):
    """The keyword arguments of `Session.lane`, without the shapes."""

    state: StateLike | None


@public_in("zrt.typing")
class ShapedLaneOptions(RuntimeLaneOptions, total=False):
    """The keyword arguments of `Session.lane`."""

    shapes: ShapesLike
    output_shapes: ShapesLike


@public_in("zrt.typing")
class RuntimeOptions(ShapedLaneOptions, total=False):
    """The keyword arguments of `Runtime` and `DynamicRuntime`, each of which refuses some of them."""

    max_buckets: int


def check_names(options: Mapping[str, object], known: type[LaneOptions], owner: type) -> None:
    """Refuses keyword arguments of `owner` that are not in `known`."""
    for name in options:
        if name not in known.__annotations__:
            expected = ", ".join(known.__annotations__)
            raise DTypeError(f"{owner.__name__}: unexpected keyword argument {shown(name)}; its lanes take {expected}")
