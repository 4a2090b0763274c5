"""Lanes with state, and their states."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np

import zrt
from tests.robustness.bad import ALLOCATOR, RUN_OPTIONS, RUNS, SESSION, TIMEOUT
from tests.robustness.mistakes.lanes import LANE_SHAPES, NAME_OF_PORT, laned
from tests.robustness.vocabulary import (
    A_FACT,
    A_RESULT,
    ANY,
    NOTHING,
    Bad,
    Impostor,
    Kind,
    World,
    closed,
    each,
    f32,
    wrong_types,
)
from zrt.errors import AllocationError, ArgumentError, CapacityError, FileError, OutOfRangeError, ShapeError

# z = x + y: x counts y up.
STATE = {"z": "x"}


def lane_of(w: World) -> zrt.StatefulLane:
    lane = w.session.lane(w.shapes, state=STATE)
    lane.inputs["y"][...] = 1
    return lane


def state_of(w: World) -> zrt.State:
    return lane_of(w).state


def other_state(w: World) -> zrt.State:
    """A state of the same session and of another shape."""
    return w.session.lane({"x": (3, 4), "y": (3, 4)}, state=STATE).state


DESCRIPTION = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"q": "x"}, "output 'q'", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"z": "q"}, "input 'q'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.StatePorts(STATE, initial={"q": f32(2, 4)}), "'q'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.StatePorts(STATE, 4, follow={"q": "mask"}), "'q'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.StatePorts(STATE, 4, step="q"), "'q'"),
    Bad(Kind.WRONG_SHAPE, lambda w: zrt.StatePorts(STATE, initial={"x": f32(2, 3)}), "'x'"),
    Bad(Kind.WRONG_DTYPE, lambda w: zrt.StatePorts(STATE, initial={"x": np.zeros((2, 4))}), "'x'"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.StatePorts(STATE, initial={"y": f32(2, 4)}), "'y'"),
    Bad(Kind.WRONG_VALUE, lambda w: [zrt.StatePair("z", "x", axis=5)], "give the capacity"),
    Bad(Kind.WRONG_VALUE, lambda w: {}, "state"), Bad(Kind.WRONG_TYPE, lambda w: {"z": 5}, "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "z", "'z'"), *wrong_types("state", 5),
    Bad(Kind.WRONG_TYPE, lambda w: ["z"], "StatePair", "'z'"),
]  # fmt: skip

STATES = [
    Bad(Kind.WRONG_SHAPE, other_state, "x: [2, 4]", "x: [3, 4]", error=ArgumentError),
    Bad(Kind.CLOSED, lambda w: closed(state_of(w)), "State is closed"),
    *wrong_types("state", "x"),
    Bad(Kind.WRONG_TYPE, lambda w: w.lane, "state", "Lane"),
    Bad(Kind.WRONG_TYPE, lambda w: {"x": w.array}, "state", "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), "state", "Impostor"),
    Bad(Kind.WRONG_TYPE, lambda w: Mock(zrt.State, _state=[{}]), "state", "Mock"),
    Bad(Kind.CLOSED, lambda w: zrt.State.__new__(zrt.State), "State was not made"),
]

CONTENT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"z": w.array}, "'z'", "'x'"),
    Bad(Kind.WRONG_DTYPE, lambda w: {"x": np.zeros((2, 4))}, "'x'", "float64"),
    Bad(Kind.WRONG_RANK, lambda w: {"x": f32(8)}, "'x'", "[2, 4]", "[8]"),
    Bad(Kind.WRONG_SHAPE, lambda w: {"x": f32(2, 3)}, "'x'", "[2, 4]", "[2, 3]"),
    Bad(Kind.WRONG_TYPE, lambda w: {"x": [1]}, "'x'", "list"),
    *wrong_types("state", 5),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.StateSnapshot({"x": f32(2, 4)}, steps=-1), "steps", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.StateSnapshot({"x": f32(2, 4)}, seen=-1), "seen", "-1"),
]

FILES = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no" / "state.npz", "state.npz", error=FileError),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "state file", error=FileError),
    *wrong_types("file", 5),
]

TO_LOAD = [
    *FILES,
    Bad(Kind.EMPTY, lambda w: w.file("state.npz", b""), "state.npz", error=FileError),
    Bad(Kind.CORRUPT, lambda w: w.file("state.npz", b"nothing"), "state.npz", error=FileError),
    Bad(Kind.TRUNCATED, lambda w: truncated(w), "state.npz", error=FileError),
]


def truncated(w: World) -> Path:
    path = w.folder / "state.npz"
    state_of(w).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


SHAPES = [
    *(bad for bad in LANE_SHAPES if bad.kind not in (Kind.MISSING_INPUT, Kind.HUGE) and bad.words[-1:] != ("2 and 3",)),
    Bad(Kind.MISSING_INPUT, lambda w: None, "state 'x'", "[n, 4]", error=ShapeError),
    Bad(Kind.WRONG_SHAPE, lambda w: [(2, 4), (3, 4)], "state 'x'", "[2, 4]", "[3, 4]"),
    Bad(Kind.HUGE, lambda w: {"x": (2**62, 4)}, "state 'x'", str(2**66), error=AllocationError),
]

SLOTS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ("x", 0), "'y'", "'x'"),
    Bad(Kind.WRONG_VALUE, lambda w: ("y", 2), "slot 2", "'y'", error=OutOfRangeError),
    Bad(Kind.WRONG_TYPE, lambda w: ("y", "1"), "'y'", "'1'"),
]

GIVEN_TO_STATE = [
    Bad(Kind.WRONG_VALUE, lambda w: {"inputs": {"x": w.array}}, "input 'x'", "state"),
    Bad(Kind.WRONG_VALUE, lambda w: {"inputs": {"x": zrt.LaneMemory()}}, "input 'x'", "state"),
    Bad(Kind.WRONG_VALUE, lambda w: {"outputs": {"z": w.array}}, "output 'z'", "state"),
]


def move(w: World, name: Any, slot: Any) -> None:
    w.session.lane(w.shapes, inputs={"y": [w.array, w.array.copy()]}, state=STATE).slots[name] = slot


NAMES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: "z", "'z'", "'x'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: 0, "0"),
    Bad(Kind.UNKNOWN_NAME, lambda w: [], "[]"),
]

CAPACITY = [Bad(Kind.WRONG_VALUE, lambda w: 0, "capacity", "0"), *wrong_types("capacity", "8", True)]

WINDOW = [*each(Kind.WRONG_VALUE, "window", -1, 9), *wrong_types("window", "1")]

FOLLOW = [
    Bad(Kind.WRONG_VALUE, lambda w: {"x": "nope"}, "'nope'"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: "mask"}, "follow", "int"),
    *wrong_types("follow", 5),
]

STEP = [Bad(Kind.WRONG_VALUE, lambda w: 0, "step", "0"), *wrong_types("step", 1.5)]

FLAG = [*wrong_types("True or False", 1)]

PAIRS = [
    ("StatePair.__init__", "output", [*wrong_types("output", 5)],
     lambda w, bad: zrt.StatePair(bad, "x")),
    ("StatePair.__init__", "no output", [Bad(Kind.WRONG_VALUE, lambda w: None, "'x'")],
     lambda w, bad: zrt.StatePair(bad, "x")),
    ("StatePair.__init__", "input", [*wrong_types("input", None)],
     lambda w, bad: zrt.StatePair("z", bad)),
    ("StatePair.__init__", "axis", [*wrong_types("axis", "2")],
     lambda w, bad: zrt.StatePair("z", "x", bad)),
    ("StatePair.__init__", "in_place", FLAG, lambda w, bad: zrt.StatePair("z", "x", in_place=bad)),
    ("StatePair.__init__", "once", FLAG, lambda w, bad: zrt.StatePair("z", "x", once=bad)),
]  # fmt: skip


def cached(w: World, **options: Any) -> zrt.StatePorts:
    return zrt.kv_cache(w.session, **{"capacity": 4, "pairs": [zrt.StatePair("z", "x", axis=0)], **options})


TAKES = [
    ("StatefulLane.__init__", "shapes", SHAPES, lambda w, bad: zrt.StatefulLane(w.session, bad, state=STATE)),
    *(
        (call, name, bads, do)
        for call, name, bads, do in laned(
            "StatefulLane.__init__", lambda w, **given: zrt.StatefulLane(w.session, w.shapes, state=STATE, **given)
        )
        # The only output is the state's.
        if name != "outputs"
    ),
    ("StatefulLane.__init__", "session", SESSION, lambda w, bad: zrt.StatefulLane(bad, w.shapes, state=STATE)),
    ("StatefulLane.__init__", "state", DESCRIPTION, lambda w, bad: zrt.StatefulLane(w.session, w.shapes, state=bad)),
    ("Session.lane", "state", DESCRIPTION, lambda w, bad: w.session.lane(w.shapes, state=bad)),
    ("Runtime.__init__", "state", DESCRIPTION, lambda w, bad: zrt.Runtime(w.session, shapes=w.shapes, state=bad)),
    ("DynamicRuntime.__init__", "state", DESCRIPTION,
     lambda w, bad: zrt.DynamicRuntime(w.session, state=bad).lane(w.shapes)),
    ("StatefulLane.run", "state", STATES, lambda w, bad: lane_of(w).run(bad)),
    ("StatefulLane.run", "timeout", TIMEOUT, lambda w, bad: lane_of(w).run(timeout=bad)),
    ("StatefulLane.run_with", "options", RUN_OPTIONS, lambda w, bad: lane_of(w).run_with(bad)),
    ("StatefulLane.run_with", "state", STATES, lambda w, bad: lane_of(w).run_with(zrt.RunOptions(), bad)),
    ("StatefulLane.run_with", "timeout", TIMEOUT, lambda w, bad: lane_of(w).run_with(zrt.RunOptions(), timeout=bad)),
    ("StatefulLane.slots", "name and slot", SLOTS, lambda w, bad: move(w, *bad)),
    ("StatefulLane.__init__", "memory of the state", GIVEN_TO_STATE,
     lambda w, bad: zrt.StatefulLane(w.session, w.shapes, state=STATE, **bad)),
    ("StatefulLane.new_state", "initial", CONTENT, lambda w, bad: lane_of(w).new_state(bad)),
    ("StatefulLane.prime", "runs", RUNS, lambda w, bad: lane_of(w).prime(bad)),
    ("StatefulLane.inputs", "name", NAME_OF_PORT, lambda w, bad: lane_of(w).inputs[bad]),
    ("StatefulLane.outputs", "name", NAME_OF_PORT, lambda w, bad: lane_of(w).outputs[bad]),
    ("StatefulLane.run_with_allocator_stats", "allocator", ALLOCATOR,
     lambda w, bad: lane_of(w).run_with_allocator_stats(bad)),
    ("State.__init__", "layout", [Bad(Kind.WRONG_TYPE, lambda w: 5, "StatefulLane.new_state")],
     lambda w, bad: zrt.State(bad, None, None, None)),
    ("State.__getitem__", "name", NAMES, lambda w, bad: state_of(w)[bad]),
    ("State.write", "content", CONTENT, lambda w, bad: state_of(w).write(bad)),
    ("State.save", "file", FILES, lambda w, bad: state_of(w).save(bad)),
    ("State.load", "file", TO_LOAD, lambda w, bad: state_of(w).load(bad)),
    ("StatePorts.__init__", "pairs", [bad for bad in DESCRIPTION if bad.kind is Kind.WRONG_TYPE],
     lambda w, bad: zrt.StatePorts(bad)),
    ("StatePorts.__init__", "capacity", CAPACITY, lambda w, bad: zrt.StatePorts(STATE, bad)),
    ("StatePorts.__init__", "window", WINDOW, lambda w, bad: zrt.StatePorts(STATE, 8, bad)),
    ("StatePorts.__init__", "follow", FOLLOW, lambda w, bad: zrt.StatePorts(STATE, 8, follow=bad)),
    ("StatePorts.__init__", "step", STEP, lambda w, bad: zrt.StatePorts(STATE, 8, step=bad)),
    ("StatePorts.__init__", "initial", [*wrong_types("initial", 5)],
     lambda w, bad: zrt.StatePorts(STATE, initial=bad)),
    *PAIRS,
    ("kv_cache", "session", SESSION, lambda w, bad: zrt.kv_cache(bad, 8)),
    ("kv_cache", "capacity", CAPACITY, lambda w, bad: cached(w, capacity=bad)),
    ("kv_cache", "window", WINDOW[::2], lambda w, bad: cached(w, window=bad)),
    ("kv_cache", "in_place", FLAG, lambda w, bad: cached(w, in_place=bad)),
    ("kv_cache", "follow", FOLLOW, lambda w, bad: cached(w, follow=bad)),
    ("kv_cache", "step", STEP, lambda w, bad: cached(w, step=bad)),
    ("kv_cache", "axis", [*wrong_types("axis", "2")],
     lambda w, bad: cached(w, axis=bad)),
    ("kv_cache", "pairs", [
        Bad(Kind.UNKNOWN_NAME, lambda w: {"q": "x"}, "'q'"),
        Bad(Kind.UNKNOWN_NAME, lambda w: {"z": "q"}, "'q'"),
        *wrong_types("state", 5),
    ], lambda w, bad: cached(w, pairs=bad)),
]  # fmt: skip


def full(w: World) -> object:
    lane = w.session.lane({"y": (1, 4)}, state=zrt.StatePorts([zrt.StatePair("z", "x", axis=0)], 4), trials=False)
    lane.state.write({"x": f32(4, 4)})
    return lane.run()


SINGLE = {
    "kv_cache": [Bad(Kind.MISSING_INPUT, lambda w: zrt.kv_cache(w.session, 8), "past_key_values", "'x', 'y'")],
    "StatefulLane.run": [Bad(Kind.WRONG_VALUE, full, "4 of 4 steps", error=CapacityError)],
    "StatefulLane.__init__": [
        Bad(Kind.MISSING_INPUT, lambda w: zrt.StatefulLane(w.session, state=STATE), "'x'", error=ShapeError)
    ],
}

CLOSED_SELF = {
    "StatefulLane.run_with": lambda w, it: it.run_with(zrt.RunOptions()), "State.__getitem__": lambda w, it: it["x"],
    "State.write": lambda w, it: it.write({"x": w.array}), "State.save": lambda w, it: it.save(w.folder / "state.npz"),
}  # fmt: skip

CLOSED_ALONE = {
    "StatefulLane": "run prime run_with_allocator_stats session inputs outputs audit slots state new_state",
    "State": "reset copy snapshot steps seen",
}

CLOSABLE = {"StatefulLane": lane_of, "State": state_of}

CANNOT_FAIL = {
    A_RESULT: "StateSnapshot.__init__", ANY: "StatefulLane.__new__", A_FACT: "StatefulLane.step StatePorts.each",
    NOTHING: "State.names State.capacity State.__iter__ State.__len__",
}  # fmt: skip
