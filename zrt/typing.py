"""The types in zrt's signatures that its users do not make, for their own annotations."""

from __future__ import annotations

from zrt._native.handle import Handle
from zrt.environment.options import Option, Route
from zrt.environment.pool_options import PoolOptions
from zrt.environment.thread_factory import ThreadFactory
from zrt.lanes.dynamic_runtime import Bucket, Counters, Spec
from zrt.lanes.given_memory import Memory, MemoryLike, PortMemory
from zrt.lanes.lane import RunStats
from zrt.lanes.lane_options import LaneOptions, RuntimeLaneOptions, RuntimeOptions, ShapedLaneOptions
from zrt.lanes.lane_shapes import ShapesLike
from zrt.lanes.ports import Ports, View
from zrt.lanes.samples import SamplesLike
from zrt.lanes.slots import Slots
from zrt.lanes.state_ports import Role, StateLike
from zrt.loading.model_source import Model, ModelProto
from zrt.providers.node_assignment import AssignedNode, Assignment
from zrt.providers.selection import Chooser, ChosenDevice, ProvidersLike
from zrt.session.call import Result
from zrt.session.compile import Locator
from zrt.session.feeds import Feeds
from zrt.values.copy import Copyable
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import Dim

__all__ = [
    "AssignedNode",
    "Assignment",
    "Bucket",
    "Chooser",
    "ChosenDevice",
    "Copyable",
    "Counters",
    "Dim",
    "Feeds",
    "Handle",
    "LaneOptions",
    "Locator",
    "Memory",
    "MemoryLike",
    "Model",
    "ModelProto",
    "Option",
    "PoolOptions",
    "PortMemory",
    "Ports",
    "ProvidersLike",
    "Result",
    "Role",
    "Route",
    "RunStats",
    "RuntimeLaneOptions",
    "RuntimeOptions",
    "SamplesLike",
    "Shape",
    "ShapedLaneOptions",
    "ShapesLike",
    "Slots",
    "Spec",
    "StateLike",
    "ThreadFactory",
    "View",
]
