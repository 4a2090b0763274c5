"""Bindings, lanes, runtimes."""

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.bad import (
    ALLOCATOR,
    ARRAY,
    BORROWED_FEEDS,
    FLAG,
    MEMORY,
    MODEL,
    READ_ONLY,
    RUN_OPTIONS,
    RUNS,
    SAMPLES,
    SESSION,
    TIMEOUT,
    huge_output,
    loading,
)
from tests.robustness.vocabulary import (
    A_FACT,
    A_RESULT,
    ANY,
    NOTHING,
    QUIET,
    Bad,
    Kind,
    Take,
    World,
    closed,
    each,
    f32,
    huge_array,
    wrong_types,
)
from tests.support.bindings import bind
from zrt.errors import (
    AllocationError,
    ArgumentError,
    Error,
    InvalidProtobufError,
    ModelError,
    OutOfRangeError,
    ShapeError,
)

INT4 = zrt.ElementType.INT4.dtype

BOUND_INPUT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ("q", w.array), "'q'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("z", w.array), "'z'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("x\0", w.array), "'x\\x00'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("", w.array), "''"),
    Bad(Kind.UNKNOWN_NAME, lambda w: (5, w.array), "5"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ([], w.array), "[]"),
    *(bad.inside(lambda w, feeds: ("x", feeds["x"])) for bad in BORROWED_FEEDS if "input 'x'" in bad.words),
]

BOUND_OUTPUT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ("q", w.array), "'q'", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("x", None), "'x'", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ([], None), "[]"),
    *(bad.inside(lambda w, place: ("z", place), "output 'z'") for bad in ARRAY),
    Bad(Kind.HUGE, lambda w: ("z", huge_array()), "output 'z'"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", READ_ONLY), "output 'z'", "read-only"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", zrt.Value.from_array(READ_ONLY)), "output 'z'", "read-only"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", zrt.MemoryInfo("\ud800")), "\\ud800"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", f32(4, 4)[::2]), "output 'z': is not C-contiguous"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", np.zeros((2, 4), ">f4")), "output 'z': is in the other byte order"),
    Bad(Kind.WRONG_DTYPE, lambda w: ("z", np.zeros((2, 4), INT4)), "output 'z': ONNX Runtime packs INT4"),
    Bad(Kind.WRONG_TYPE, lambda w: ("z", [0.0]), "output 'z': expected an array, a Value or a Buffer, got list"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", zrt.MemoryInfo.cuda(3)), "output 'z': this session has no", "for 'Cuda'"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", zrt.MemoryInfo.of("acme", "NPU")), "output 'z': ", "allocator for 'acme'"),
]


def sized(kind: Kind, shape: Any, *words: str) -> Bad:
    """Shapes of which only that of `x` is bad."""
    return Bad(kind, lambda w: {**w.shapes, "x": shape}, "input 'x'", *words, error=ShapeError)


SHAPES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.shapes, "q": (1,)}, "'q'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.shapes, "z": (2, 4)}, "'z'", "'x', 'y'"),
    Bad(Kind.MISSING_INPUT, lambda w: {}, "input 'x'", "input 'y'", "[n, 4]", error=ShapeError),
    Bad(Kind.MISSING_INPUT, lambda w: None, "input 'x'", "[n, 4]", error=ShapeError),
    Bad(Kind.MISSING_INPUT, lambda w: [], "input 'x'", "input 'y'", "[n, 4]", error=ShapeError),
    Bad(Kind.WRONG_SHAPE, lambda w: [(2, 4)] * 3, "2 inputs", "got 3", error=ArgumentError),
    sized(Kind.WRONG_RANK, (2,), "[n, 4]", "[2]"), sized(Kind.WRONG_RANK, (2, 4, 1), "[n, 4]", "[2, 4, 1]"),
    sized(Kind.WRONG_RANK, 2, "[n, 4]", "[2]"), sized(Kind.WRONG_RANK, (), "[n, 4]", "[]"),
    sized(Kind.WRONG_SHAPE, (2, 5), "[n, 4]", "[2, 5]"), sized(Kind.NEGATIVE, (-1, 4), "-1"),
    sized(Kind.NEGATIVE, (-(2**70), 4), str(-(2**70))), sized(Kind.HUGE, (2**63, 4), str(2**63)),
    sized(Kind.HUGE, (2**70, 4), str(2**70)), sized(Kind.WRONG_TYPE, (1.5, 4), "1.5"),
    sized(Kind.WRONG_TYPE, ("a", 4), "'a'"), sized(Kind.WRONG_TYPE, (True, 4), "True"),
    sized(Kind.WRONG_TYPE, None, "None"), sized(Kind.WRONG_TYPE, "ab", "'ab'"), sized(Kind.WRONG_TYPE, 1.5, "1.5"),
    *wrong_types("shapes", 5, "xy"), Bad(Kind.WRONG_TYPE, lambda w: w.array, "shapes", "ndarray"),
]  # fmt: skip

# Calls that make no lane accept these too.
LANE_SHAPES = [
    *SHAPES,
    Bad(Kind.WRONG_SHAPE, lambda w: [(2, 4), (3, 4)], "'x' and 'y'", "'n'", "2 and 3"),
    Bad(Kind.HUGE, lambda w: {"x": (2**62, 4)}, "input 'x'", str(2**66), error=AllocationError),
    # Sixteen times the address space of a process, so that no machine can allocate it.
    Bad(Kind.HUGE, lambda w: {"x": (2**48, 4)}, "input 'x'", str(2**52), error=AllocationError),
]

OUTPUT_SHAPES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"q": (2, 4)}, "'q'", "'z'"),
    Bad(Kind.WRONG_RANK, lambda w: {"z": (2,)}, "output 'z'", "[n, 4]", "[2]"),
    Bad(Kind.WRONG_SHAPE, lambda w: {"z": (2, 5)}, "output 'z'", "[n, 4]", "[2, 5]"),
    Bad(Kind.NEGATIVE, lambda w: {"z": (-1, 4)}, "output 'z'", "-1", error=ShapeError),
    Bad(Kind.HUGE, lambda w: {"z": (2**63, 4)}, "output 'z'", str(2**63), error=ShapeError),
    Bad(Kind.HUGE, lambda w: {"z": (2**62, 4)}, "output 'z'", error=AllocationError),
    Bad(Kind.WRONG_TYPE, lambda w: {"z": (1.5, 4)}, "output 'z'", "1.5", error=ShapeError),
    *wrong_types("shapes", 5),
]

SOUGHT_OUTPUT_SHAPES = [bad for bad in OUTPUT_SHAPES if bad.error is not AllocationError]

# The onnx package reads these first and raises its own messages.
SHARED_MODEL = [
    Bad(bad.kind, bad.make, error=ModelError if bad.error is InvalidProtobufError else bad.error)
    if bad.kind in (Kind.CORRUPT, Kind.TRUNCATED) or bad.error is Error
    else bad
    for bad in MODEL
]

SESSIONS = [
    *(bad.inside(lambda w, session: [w.session, session]) for bad in SESSION),
    Bad(Kind.WRONG_TYPE, lambda w: ["session"], "session: expected a Session, got str"),
    Bad(Kind.WRONG_VALUE, lambda w: [], "sessions: a runtime has at least one lane"),
    *wrong_types("sessions", 5),
]

FACTORY = [
    Bad(Kind.CLOSED, lambda w: lambda index: closed(zrt.Session(w.model, QUIET)), "Session is closed"),
    *wrong_types("factory", 5),
    Bad(Kind.WRONG_TYPE, lambda w: lambda index: w.model, "factory", "lane 0", "bytes"),
]

LANES = [*each(Kind.WRONG_VALUE, "lanes", 0, -1, 2**62), *wrong_types("lanes", "2", 1.5, True)]

MAX_BUCKETS = [Bad(Kind.WRONG_VALUE, lambda w: 0, "max_buckets", "0"), *wrong_types("max_buckets", "2")]

INDEX = [
    Bad(Kind.WRONG_VALUE, lambda w: 9, "lane 9", error=OutOfRangeError),
    Bad(Kind.WRONG_VALUE, lambda w: -9, "lane -9", error=OutOfRangeError),
    *wrong_types("lane", "a", None),
]

LANE_MEMORY = [
    *(bad.inside(lambda w, memory: zrt.LaneMemory.allocated(memory)) for bad in MEMORY),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.LaneMemory("nope"), "'nope'", error=ArgumentError),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.LaneMemory.buffers(5), "BufferPolicy", "int"),
    *wrong_types("LaneMemory", 5),
]

GIVEN_INPUT = [bad.inside(lambda w, array: array, "input 'x'") for bad in ARRAY]

GIVEN_OUTPUT = [
    *(bad.inside(lambda w, array: array, "output 'z'") for bad in ARRAY),
    Bad(Kind.WRONG_VALUE, lambda w: READ_ONLY, "output 'z'", "read-only"),
]

SLOT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ("q", 0), "'q'", "'x'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("y", 0), "'y'", "'x'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ([], 0), "[]"),
    Bad(Kind.WRONG_VALUE, lambda w: ("x", 2), "slot 2 of 'x'", error=OutOfRangeError),
    Bad(Kind.WRONG_VALUE, lambda w: ("x", -1), "slot -1 of 'x'", error=OutOfRangeError),
    Bad(Kind.WRONG_TYPE, lambda w: ("x", "1"), "slot of 'x'", "'1'"),
]

INPUT_MEMORY = [*LANE_MEMORY, Bad(Kind.WRONG_VALUE, lambda w: zrt.LaneMemory.left(), "inputs")]

OUTPUT_MEMORY = [*LANE_MEMORY, *(bad.inside(lambda w, memory: zrt.LaneMemory.left(memory)) for bad in MEMORY)]

NAME_OF_PORT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: "q", "'q'"), Bad(Kind.UNKNOWN_NAME, lambda w: 9, "9", error=OutOfRangeError),
    Bad(Kind.UNKNOWN_NAME, lambda w: -1, "-1", error=OutOfRangeError), Bad(Kind.UNKNOWN_NAME, lambda w: [], "[]"),
    Bad(Kind.UNKNOWN_NAME, lambda w: None, "None"), Bad(Kind.UNKNOWN_NAME, lambda w: True, "True"),
    Bad(Kind.UNKNOWN_NAME, lambda w: 0.0, "0.0"),
]  # fmt: skip


def laned(call: str, do: Callable[..., object]) -> list[Take]:
    """A call that makes lanes: ``do(world, **lane_options)``."""
    return [
        (call, "inputs", INPUT_MEMORY, lambda w, bad: do(w, inputs=bad)),
        (call, "outputs", OUTPUT_MEMORY, lambda w, bad: do(w, outputs=bad)),
        (call, "rebind_inputs", FLAG, lambda w, bad: do(w, rebind_inputs=bad)),
        (call, "synchronize", FLAG, lambda w, bad: do(w, synchronize=bad)),
        (call, "trials", FLAG, lambda w, bad: do(w, trials=bad)),
        (call, "samples", SAMPLES, lambda w, bad: do(w, samples=bad)),
    ]


def shaped(call: str, do: Callable[..., object]) -> list[Take]:
    """The same for a call that also takes shapes."""
    return [
        (call, "shapes", LANE_SHAPES, lambda w, bad: do(w, shapes=bad)),
        (call, "output_shapes", OUTPUT_SHAPES, lambda w, bad: do(w, shapes=w.shapes, output_shapes=bad)),
        *laned(call, lambda w, **arguments: do(w, shapes=w.shapes, **arguments)),
    ]


def replicate(kind: Any, **more: Any) -> Callable[..., object]:
    def call(model: Any, options: Any, providers: Any = None, **arguments: Any) -> object:
        return kind.replicate(model, 2, options, providers, **more, **arguments)

    return call


SHAPES_OF_LANES = {"shapes": {"x": (2, 4), "y": (2, 4)}}


def move(w: World, name: Any, slot: Any) -> None:
    w.session.lane(inputs={"x": [f32(2, 4), f32(2, 4)]}).slots[name] = slot


TAKES = [
    *(
        row
        for call, do in (("Session.lane", zrt.Session.lane), ("Lane.__init__", zrt.Lane))
        for row in (
            (call, "inputs['x']", GIVEN_INPUT, lambda w, bad, do=do: do(w.session, w.shapes, inputs={"x": bad})),
            (call, "outputs['z']", GIVEN_OUTPUT, lambda w, bad, do=do: do(w.session, w.shapes, outputs={"z": bad})),
        )
    ),
    ("Lane.slots", "name and slot", SLOT, lambda w, bad: move(w, *bad)),
    *shaped("Session.lane", lambda w, **arguments: w.session.lane(**arguments)),
    ("IoBinding.__init__", "session", SESSION, lambda w, bad: zrt.IoBinding(bad)),
    ("IoBinding.bind_input", "name and feed", BOUND_INPUT, lambda w, bad: w.binding.bind_input(*bad)),
    ("IoBinding.bind_output", "name and place", BOUND_OUTPUT, lambda w, bad: w.binding.bind_output(*bad)),
    ("IoBinding.bind_output", "memory", MEMORY[:-1], lambda w, bad: w.binding.bind_output("z", bad)),
    ("IoBinding.run", "options", RUN_OPTIONS, lambda w, bad: w.binding.run(bad)),
    ("IoBinding.run", "timeout", TIMEOUT, lambda w, bad: w.binding.run(timeout=bad)),
    ("Lane.__init__", "session", SESSION, lambda w, bad: zrt.Lane(bad, w.shapes)),
    *shaped("Lane.__init__", lambda w, **arguments: zrt.Lane(w.session, **arguments)),
    ("Lane.run", "timeout", TIMEOUT, lambda w, bad: w.lane.run(timeout=bad)),
    ("Lane.run_with", "options", RUN_OPTIONS, lambda w, bad: w.lane.run_with(bad)),
    ("Lane.run_with", "timeout", TIMEOUT, lambda w, bad: w.lane.run_with(zrt.RunOptions(), timeout=bad)),
    ("IoBinding.prime", "runs", RUNS, lambda w, bad: w.binding.prime(bad)),
    ("Lane.prime", "runs", RUNS, lambda w, bad: w.lane.prime(bad)),
    ("Lane.run_with_allocator_stats", "allocator", ALLOCATOR, lambda w, bad: w.lane.run_with_allocator_stats(bad)),
    ("Lane.inputs", "name", NAME_OF_PORT, lambda w, bad: w.lane.inputs[bad]),
    ("Lane.outputs", "name", NAME_OF_PORT, lambda w, bad: w.lane.outputs[bad]),
    ("Runtime.__init__", "session", SESSION, lambda w, bad: zrt.Runtime(bad, shapes=w.shapes)),
    ("Runtime.__init__", "lanes", LANES, lambda w, bad: zrt.Runtime(w.session, bad, shapes=w.shapes)),
    *shaped("Runtime.__init__", lambda w, **arguments: zrt.Runtime(w.session, **arguments)),
    *loading("Runtime.replicate", replicate(zrt.Runtime, **SHAPES_OF_LANES)),
    ("Runtime.replicate", "model to share", SHARED_MODEL,
     lambda w, bad: zrt.Runtime.replicate(bad, 2, QUIET, share_weights=True, shapes=w.shapes)),
    ("Runtime.replicate", "lanes", LANES, lambda w, bad: zrt.Runtime.replicate(w.model, bad, QUIET, shapes=w.shapes)),
    ("Runtime.replicate", "share_weights", FLAG,
     lambda w, bad: zrt.Runtime.replicate(w.model, 1, QUIET, share_weights=bad, shapes=w.shapes)),
    ("Runtime.from_factory", "factory", FACTORY, lambda w, bad: zrt.Runtime.from_factory(bad, shapes=w.shapes)),
    ("Runtime.from_factory", "lanes", LANES,
     lambda w, bad: zrt.Runtime.from_factory(lambda index: w.session, bad, shapes=w.shapes)),
    ("Runtime.over", "sessions", SESSIONS, lambda w, bad: zrt.Runtime.over(bad, shapes=w.shapes)),
    *shaped("Runtime.over", lambda w, **arguments: zrt.Runtime.over([w.session], **arguments)),
    ("Runtime.prime", "runs", RUNS, lambda w, bad: w.runtime.prime(bad)),
    ("Runtime.__getitem__", "index", INDEX, lambda w, bad: w.runtime[bad]),
    ("DynamicRuntime.__init__", "session", SESSION, lambda w, bad: zrt.DynamicRuntime(bad)),
    ("DynamicRuntime.__init__", "lanes", LANES, lambda w, bad: zrt.DynamicRuntime(w.session, bad)),
    ("DynamicRuntime.__init__", "max_buckets", MAX_BUCKETS,
     lambda w, bad: zrt.DynamicRuntime(w.session, max_buckets=bad)),
    *laned("DynamicRuntime.__init__", lambda w, **arguments: zrt.DynamicRuntime(w.session, **arguments).lane(w.shapes)),
    *loading("DynamicRuntime.replicate", replicate(zrt.DynamicRuntime)),
    ("DynamicRuntime.replicate", "model to share", SHARED_MODEL,
     lambda w, bad: zrt.DynamicRuntime.replicate(bad, 2, QUIET, share_weights=True)),
    ("DynamicRuntime.replicate", "lanes", LANES, lambda w, bad: zrt.DynamicRuntime.replicate(w.model, bad, QUIET)),
    ("DynamicRuntime.replicate", "max_buckets", MAX_BUCKETS,
     lambda w, bad: zrt.DynamicRuntime.replicate(w.model, 1, QUIET, max_buckets=bad)),
    ("DynamicRuntime.from_factory", "factory", FACTORY,
     lambda w, bad: zrt.DynamicRuntime.from_factory(bad).lane(w.shapes)),
    ("DynamicRuntime.from_factory", "lanes", LANES,
     lambda w, bad: zrt.DynamicRuntime.from_factory(lambda index: w.session, bad)),
    ("DynamicRuntime.from_factory", "max_buckets", MAX_BUCKETS,
     lambda w, bad: zrt.DynamicRuntime.from_factory(lambda index: w.session, max_buckets=bad)),
    ("DynamicRuntime.lane", "shapes", LANE_SHAPES, lambda w, bad: w.dynamic.lane(bad)),
    ("DynamicRuntime.lane", "output_shapes", OUTPUT_SHAPES, lambda w, bad: w.dynamic.lane(w.shapes, 0, bad)),
    ("DynamicRuntime.lane", "index", INDEX, lambda w, bad: w.dynamic.lane(w.shapes, bad)),
    ("DynamicRuntime.prebuild", "shapes", LANE_SHAPES, lambda w, bad: w.dynamic.prebuild([bad])),
    ("DynamicRuntime.prebuild", "output_shapes", OUTPUT_SHAPES, lambda w, bad: w.dynamic.prebuild([(w.shapes, bad)])),
    ("DynamicRuntime.warm", "shapes", LANE_SHAPES, lambda w, bad: w.dynamic.warm([bad])),
    ("DynamicRuntime.warm", "output_shapes", OUTPUT_SHAPES, lambda w, bad: w.dynamic.warm([(w.shapes, bad)])),
    ("DynamicRuntime.warm", "runs", RUNS, lambda w, bad: w.dynamic.warm([w.shapes], bad)),
    ("DynamicRuntime.prime", "runs", RUNS, lambda w, bad: (w.dynamic.lane(w.shapes), w.dynamic.prime(bad))),
    ("DynamicRuntime.remove", "shapes", SHAPES, lambda w, bad: w.dynamic.remove(bad)),
    ("DynamicRuntime.remove", "output_shapes", SOUGHT_OUTPUT_SHAPES, lambda w, bad: w.dynamic.remove(w.shapes, bad)),
]  # fmt: skip


def left_lane(w: World) -> zrt.Lane:
    """A lane whose output ORT makes in each run."""
    return w.session.lane(w.shapes, outputs=zrt.LaneMemory.left())


def wrong_lane(w: World) -> zrt.Lane:
    """A lane whose output is bound with a wrong shape."""
    return w.session.lane(w.shapes, {"z": (3, 4)})


SINGLE = {
    "Session.lane": [Bad(Kind.HUGE, lambda w: huge_output(w).lane({"x": (1,)}), "output 'z'", error=AllocationError)],
    "IoBinding.run": [
        Bad(Kind.WRONG_SHAPE, lambda w: bind(w.session, w.feeds, z=f32(3, 4)).run(), "output", "{3,4}", "{2,4}"),
        Bad(Kind.MISSING_INPUT, lambda w: w.session.binding().run(), "'x', 'y'", "not bound", error=ArgumentError),
    ],
    "Lane.run": [Bad(Kind.WRONG_SHAPE, lambda w: wrong_lane(w).run(), "output", "{3,4}", "{2,4}")],
    "Lane.run_with": [Bad(Kind.WRONG_SHAPE, lambda w: wrong_lane(w).run_with(zrt.RunOptions()), "{3,4}")],
    "Lane.outputs": [Bad(Kind.WRONG_VALUE, lambda w: left_lane(w).outputs["z"], "output 'z'")],
    "DynamicRuntime.prebuild": [
        Bad(Kind.WRONG_TYPE, lambda w: w.dynamic.prebuild(5), "specs", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: w.dynamic.prebuild([({}, {}, {})]), "specs"),
        Bad(Kind.WRONG_VALUE, lambda w: w.dynamic.prebuild([{"x": (n, 4), "y": (n, 4)} for n in (1, 2, 3)]), "3",
            "max_buckets=2"),
    ],
    "DynamicRuntime.warm": [Bad(Kind.WRONG_TYPE, lambda w: w.dynamic.warm(5), "specs", "int")],
    "DynamicRuntime.__init__": [
        Bad(Kind.WRONG_VALUE, lambda w: zrt.DynamicRuntime(w.session, shapes=w.shapes), "shapes")
    ],
}  # fmt: skip

# The methods that raise on a closed object.
CLOSED_SELF = {
    "Session.lane": lambda w, it: it.lane(w.shapes),
    "IoBinding.bind_input": lambda w, it: it.bind_input("x", w.array),
    "IoBinding.bind_output": lambda w, it: it.bind_output("z"),
    "Lane.run_with": lambda w, it: it.run_with(zrt.RunOptions()),
    "DynamicRuntime.lane": lambda w, it: it.lane(w.shapes),
    "DynamicRuntime.prebuild": lambda w, it: it.prebuild([w.shapes]),
    "DynamicRuntime.warm": lambda w, it: it.warm([w.shapes]),
    "DynamicRuntime.remove": lambda w, it: it.remove(w.shapes),
}

CLOSED_ALONE = {
    "IoBinding": "clear_inputs clear_outputs synchronize_inputs synchronize_outputs run prime outputs numpy",
    "Lane": "run prime run_with_allocator_stats session inputs outputs audit slots",
    "Runtime": "sessions prime audit",
    "DynamicRuntime": "audit",
}

CLOSABLE = {
    "IoBinding": lambda w: w.session.binding(),
    "Lane": lambda w: w.session.lane(w.shapes),
    "Runtime": lambda w: zrt.Runtime(w.session, shapes=w.shapes),
    "DynamicRuntime": lambda w: zrt.DynamicRuntime(w.session),
}

CANNOT_FAIL = {
    ANY: "IoBinding.__new__ Lane.__new__",
    A_RESULT: "LaneAudit.__init__ PortAudit.__init__",
    A_FACT: "LaneAudit.copies LaneAudit.allocations LaneAudit.zero_copy",
    "its error is about the lane and not about what it was given": "LaneAudit.require_zero_copy",
    "its arguments are checked where the lane is made: see LANE_MEMORY": """
        LaneMemory.__init__ LaneMemory.buffers LaneMemory.allocated LaneMemory.left
    """,
    NOTHING: "DynamicRuntime.buckets DynamicRuntime.clear DynamicRuntime.__len__ Runtime.__len__ Runtime.__iter__",
}
