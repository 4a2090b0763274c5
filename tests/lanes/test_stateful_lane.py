"""`StatefulLane`: runs that carry a state, and everything that can go wrong with one."""

import contextlib
import gc
import threading
import weakref
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.custom_ops.support import Op
from tests.custom_ops.support import load as load_operators
from tests.support.arrays import f32
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt import BufferPolicy, LaneMemory, RunOptions, Session, StatePair, StatePorts
from zrt.diagnosis import capsules
from zrt.errors import (
    ArgumentError,
    BusyError,
    CallbackError,
    ClosedError,
    DTypeError,
    ShapeError,
    TerminatedError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.lanes.lane_shapes import results_of

# h counts x up; y is its square.
COUNTER = "(float[1] x, float[3] h) => (float[3] y, float[3] hn) { hn = Add(h, x) y = Mul(hn, hn) }"

# The same, after as many turns of a loop as n says, which a run can be terminated in.
SLOW = """
(int64 n, float[3] h) => (float[3] hn) {
    go = Constant <value = bool {1}> ()
    one = Constant <value = float {1}> ()
    hn = Loop (n, go, h) <body = step (int64 i, bool c, float[3] a) => (bool d, float[3] b) {
        d = Identity(c)
        b = Add(a, one)
    }>
}
"""
FOR_EVER = 10**15


@pytest.fixture
def session(load) -> Session:
    return load(COUNTER)


@pytest.fixture
def lane(session: Session) -> zrt.StatefulLane:
    lane = session.lane(state={"hn": "h"})
    lane.inputs["x"][...] = 1
    return lane


@pytest.fixture
def slow(load) -> zrt.StatefulLane:
    return load(SLOW).lane(state={"hn": "h"})


class TestRunning:
    def test_output_is_input_of_next_run(self, lane):
        # Making the lane ran the model, and the state begins with zeros all the same.
        assert lane.state["h"].tolist() == [0, 0, 0]
        view = lane.outputs["y"]
        for turn in range(1, 6):
            lane.run()
            assert view.tolist() == [turn**2] * 3
            assert lane.state["h"].tolist() == [turn] * 3
        assert lane.outputs["y"] is view

    @pytest.mark.parametrize("initial", [{}, {"h": f32(5, 6, 7)}], ids=["zeros", "given"])
    def test_reset_starts_again(self, session, initial):
        lane = session.lane(state=StatePorts({"hn": "h"}, initial=initial))
        lane.inputs["x"][...] = 1
        for _ in range(2):
            start = lane.state["h"].tolist()
            assert start == initial.get("h", f32(0, 0, 0)).tolist()
            lane.run()
            assert lane.state["h"].tolist() == [number + 1 for number in start]
            lane.state.reset()

    def test_pairs_the_other_way_round_are_shown_the_right_way(self, session):
        with pytest.raises(UnknownNameError, match=r"'hn' is an output and 'h' an input.* as in \{'hn': 'h'\}"):
            session.lane(state={"h": "hn"})

    def test_ports_of_the_state_are_no_ports_of_the_lane(self, lane):
        assert list(lane.inputs) == ["x"]
        assert list(lane.outputs) == ["y"]
        with pytest.raises(UnknownNameError, match="'h'"):
            lane.inputs["h"]

    @pytest.mark.parametrize(
        ("text", "pairs", "initial", "after"),
        [
            ("(float[3] h) => (float[3] hn) { hn = Add(h, h) }", {"hn": "h"}, {"h": f32(1, 2, 3)}, [4, 8, 12]),
            ("(float[2] h) => (float[] hn) { hn = Add(h, h) }", {"hn": "h"}, {"h": f32(1, 2)}, [4, 8]),
            ("(float h) => (float hn) { hn = Add(h, h) }", {"hn": "h"}, {"h": np.array(2, np.float32)}, 8),
            ("(float[0] h) => (float[0] hn) { hn = Abs(h) }", {"hn": "h"}, {}, []),
            (
                "(float[2] h, float[2] b) => (float[2] c, float[2] d) { c = Neg(h) d = Add(b, b) }",
                {"c": "b", "d": "h"},
                {"h": f32(1, 2), "b": f32(3, 4)},
                [-2, -4],
            ),
        ],
        ids=["every output", "no declared shape", "scalar", "empty", "crossing pairs"],
    )
    def test_state_after_two_runs(self, load, text, pairs, initial, after):
        lane = load(text).lane(state=StatePorts(pairs, initial=initial))
        assert lane.audit().outputs == ()
        lane.run()
        lane.run()
        assert lane.state["h"].tolist() == lane.state.copy()["h"].tolist() == after

    def test_shapes_of_open_sizes_are_given(self, load):
        lane = load("(float[n] h) => (float[n] hn) { hn = Add(h, h) }").lane({"h": (2,)}, state={"hn": "h"})
        assert lane.state["h"].shape == (2,)
        lane = load("(float[n] x, float[n] h) => (float[n] hn) { hn = Add(h, x) }").lane({"x": (7,)}, state={"hn": "h"})
        assert lane.state["h"].shape == (7,)

    def test_outputs_left_to_ort_are_read_after_each_run(self, load):
        session = load("(float[4] h) => (int64[1, k] where, float[4] hn) { where = NonZero(h) hn = Abs(h) }")
        lane = session.lane(state=StatePorts({"hn": "h"}, initial={"h": f32(0, 1, 0, 1)}))
        for _ in range(3):
            assert run_on(lane)["where"].tolist() == [[1, 3]]
        assert lane.audit().allocations
        assert lane.audit().outputs[0].shape == (1, 2)

    def test_trials_false_runs_nothing(self, session):
        lane = session.lane(state={"hn": "h"}, trials=False)
        run_on(lane, x=1)
        assert lane.state["h"].tolist() == [1, 1, 1]

    def test_run_with_options_moves_the_state(self, lane):
        lane.run_with(RunOptions(tag="t"))
        state = lane.new_state()
        lane.run_with(RunOptions(), state)
        lane.run_with(RunOptions(), state)
        assert lane.state["h"].tolist() == [1, 1, 1]
        assert state["h"].tolist() == [2, 2, 2]

    def test_prime_leaves_the_state_and_a_measured_run_moves_it(self, lane):
        lane.run()
        lane.prime(3)
        assert lane.state["h"].tolist() == [1, 1, 1]
        assert lane.run_with_allocator_stats().delta.num_arena_extensions == 0
        assert lane.state["h"].tolist() == [2, 2, 2]


class TestStates:
    def test_states_in_random_order(self, lane):
        states = [lane.new_state({"h": f32(i, i, i)}) for i in range(5)]
        counts = list(range(5))
        for which in np.random.default_rng(0).integers(0, 5, 100):
            lane.run(states[which])
            counts[which] += 1
            assert lane.outputs["y"][0] == counts[which] ** 2
        assert [state["h"][0] for state in states] == counts
        assert lane.state["h"].tolist() == [0, 0, 0]

    def test_memory_of_a_dropped_state_is_not_mistaken_for_a_new_one(self, lane):
        for i in range(200):
            state = lane.new_state({"h": f32(i, i, i)})
            lane.run(state)
            assert state["h"][0] == i + 1
            del state

    def test_state_fits_other_lanes_of_the_session(self, session, lane):
        other = session.lane(state={"hn": "h"}, inputs=LaneMemory.buffers(BufferPolicy.LATENCY))
        other.inputs["x"][...] = 10
        state = lane.new_state()
        lane.run(state)
        other.run(state)
        lane.run(state)
        assert state["h"].tolist() == [12, 12, 12]

    def test_state_fits_lanes_from_before_and_after_a_recording_began(self, session, lane, tmp_path):
        lane.inputs["x"][...] = 1
        before = lane.new_state()
        lane.run(before)
        with session.record(capsules=tmp_path, slower_than=1e-9, feeds=True) as recorder:
            recorded = session.lane(state={"hn": "h"})
            recorded.inputs["x"][...] = 1
            for state in (before, recorded.new_state(), before):
                recorded.run(state)
            assert [capsules.read(path)[1]["h"][0] for path in recorder.capsules] == [1, 0, 2]
            lane.run(recorded.state)
        lane.run(before)
        recorded.run(recorded.state)
        assert (before["h"].tolist(), recorded.state["h"].tolist()) == ([4, 4, 4], [2, 2, 2])

    def test_state_of_another_session_is_refused(self, lane, load):
        foreign = load(COUNTER).lane(state={"hn": "h"}).new_state()
        with pytest.raises(ArgumentError, match="another session"):
            lane.run(foreign)
        assert foreign["h"].tolist() == [0, 0, 0]

    @pytest.mark.parametrize("replicas", [False, True])
    def test_lanes_of_a_runtime_carry_each_others_states(self, build, session, replicas):
        source = zrt.Runtime.replicate if replicas else zrt.Runtime
        runtime = source(build(COUNTER) if replicas else session, 2, state={"hn": "h"})
        state = runtime[0].new_state()
        for lane in runtime:
            assert isinstance(lane, zrt.StatefulLane)
            lane.inputs["x"][...] = 1
            lane.run(state)
        assert state["h"].tolist() == [2, 2, 2]
        runtime.prime(2)
        assert runtime.audit()[0].state

    def test_dynamic_runtime_takes_shapes_without_those_of_the_state(self, load):
        session = load("(float[n] x, float[n] h) => (float[n] hn) { hn = Add(h, x) }")
        runtime = zrt.DynamicRuntime(session, state={"hn": "h"})
        two, three = runtime.lane({"x": (2,)}), runtime.lane({"x": (3,)})
        assert (two.state["h"].shape, three.state["h"].shape) == ((2,), (3,))
        assert runtime.lane({"x": (2,)}) is two
        runtime.warm([{"x": (4,)}])
        assert len(runtime) == 3
        assert runtime.remove({"x": (4,)})

    def test_unknown_argument_names_the_state(self, session):
        with pytest.raises(DTypeError, match="state"):
            zrt.Runtime(session, 1, stat={"hn": "h"})


class TestFailures:
    def test_terminated_run_leaves_the_state(self, slow, background):
        other = slow.session.lane(state={"hn": "h"})
        run_on(slow, n=3)
        slow.inputs["n"][...] = FOR_EVER
        options = RunOptions()
        job = background(lambda: slow.run_with(options))
        job.under_way()
        for call, words in (
            (slow.run, "Lane is in use"),
            (lambda: other.run(slow.state), "State is in use by another run"),
            (lambda: slow.state["h"], "State is in use"),
            (slow.state.reset, "State is in use"),
        ):
            with pytest.raises(BusyError, match=words):
                call()
        other.run()
        options.terminate()
        with pytest.raises(TerminatedError):
            job.result()
        assert slow.state["h"].tolist() == [3, 3, 3]
        run_on(slow, n=1)
        assert slow.state["h"].tolist() == [4, 4, 4]
        other.run(slow.state)

    def test_timeout_leaves_the_state(self, slow):
        slow.inputs["n"][...] = 2
        slow.run(timeout=60)
        slow.inputs["n"][...] = FOR_EVER
        for call in (slow.run, lambda **options: slow.run_with(RunOptions(), slow.state, **options)):
            with pytest.raises(zrt.errors.TimeoutError):
                call(timeout=0.01)
            assert slow.state["h"].tolist() == [2, 2, 2]
        slow.inputs["n"][...] = 1
        slow.run(timeout=60)
        assert slow.state["h"].tolist() == [3, 3, 3]

    def test_failed_run_leaves_the_state(self, load):
        session = load(
            "(float[2] x, int64 i, float[2] h) => (float y, float[2] hn) { hn = Add(h, x) y = Gather(hn, i) }"
        )
        lane = session.lane(state={"hn": "h"})
        run_on(lane, x=1)
        lane.inputs["i"][...] = 7
        for _ in range(3):
            with pytest.raises(zrt.OrtError):
                lane.run()
            assert lane.state["h"].tolist() == [1, 1]
        run_on(lane, i=0)
        assert lane.state["h"].tolist() == [2, 2]

    @pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
    def test_custom_operator_that_raises_leaves_the_state(self, error):
        fails: list[BaseException] = []

        class Step(Op):
            def work(self, context):
                if fails:
                    raise fails[0]
                (x,) = context.inputs
                context.output(0, x.shape)[...] = x + 1

        session = load_operators("(float[3] h) => (float[3] hn) { hn = test.ops.Op(h) }", Step())
        lane = session.lane(state={"hn": "h"})
        lane.run()
        fails.append(error)
        for _ in range(3):
            with pytest.raises(CallbackError if isinstance(error, ValueError) else KeyboardInterrupt):
                lane.run()
            assert lane.state["h"].tolist() == [1, 1, 1]
        fails.clear()
        lane.run()
        assert lane.state["h"].tolist() == [2, 2, 2]

    def test_closed_lane(self, lane):
        state = lane.new_state()
        lane.close()
        for call in (lane.run, lambda: lane.run(state), lambda: lane.state, lane.new_state, lane.audit, lane.prime):
            with pytest.raises(ClosedError, match="StatefulLane is closed"):
                call()
        assert state["h"].tolist() == [0, 0, 0]

    def test_output_of_another_shape_is_refused_by_name(self, load):
        text = """
        (float[2] h, bool[3] drop, float[3] x) => (float[n] hn) {
            keep = Not(drop)
            kept = Compress(x, keep)
            hn = Concat <axis = 0> (h, kept)
        }
        """
        session = load(text)
        with pytest.raises(ShapeError, match=r"state 'h': the model makes \[5\] as output 'hn'"):
            session.lane(state={"hn": "h"})
        lane = session.lane(state={"hn": "h"}, trials=False)
        with pytest.raises(ShapeError, match=r"state 'h': the model makes \[5\] as output 'hn'"):
            lane.run()
        run_on(lane, drop=True)

    @pytest.mark.parametrize(
        ("text", "output", "error", "words"),
        [
            ("(float[n] h) => (float[n] o) { o = Abs(h) }", "o", ShapeError, r"state 'h'.*open in n"),
            (
                "(float[2] h) => (float[4] o) { o = Concat <axis = 0> (h, h) }",
                "o",
                ShapeError,
                r"state 'h': the input has the shape \[2\], the output 'o' \[4\]",
            ),
            (
                "(float[2] h) => (double[2] o) { o = Cast <to = 11> (h) }",
                "o",
                ArgumentError,
                "state 'h'.* of FLOAT, the output 'o' of DOUBLE",
            ),
            ("(string[2] h) => (string[2] o) { o = Identity(h) }", "o", UnsupportedError, "'h' holds strings"),
            (
                "(optional(float[2]) h) => (optional(float[2]) o) { o = Identity(h) }",
                "o",
                UnsupportedError,
                "'h' is an optional",
            ),
            ("(float[2] h) => (float[2] h, float[2] y) { y = Abs(h) }", "h", UnsupportedError, "an input as well"),
        ],
        ids=["open size", "shape", "type", "strings", "optional", "an input as well"],
    )
    def test_pair_that_cannot_be_carried_is_refused(self, load, text, output, error, words):
        with pytest.raises(error, match=words):
            load(text, opset=16).lane(state={output: "h"})

    def test_sessions_that_capture_graphs_are_refused(self, session):
        session._captures = True
        with pytest.raises(UnsupportedError, match="captures graphs"):
            session.lane(state={"hn": "h"})


class TestTypes:
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8", "bool", "float64"])
    def test_element_types(self, load, dtype):
        kind = "double" if dtype == "float64" else dtype
        wanted = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
        start = np.array([1, 0, 1]).astype(wanted)
        session = load(f"({kind}[3] h) => ({kind}[3] hn) {{ hn = Identity(h) }}")
        lane = session.lane(state=StatePorts({"hn": "h"}, initial={"h": start}))
        lane.run()
        assert lane.state["h"].dtype == wanted
        assert lane.state["h"].tolist() == start.tolist()
        assert lane.state.copy()["h"].tolist() == start.tolist()

    @pytest.mark.parametrize(("name", "code"), [("int4", 22), ("uint4", 21)])
    def test_packed_types(self, load, name, code):
        # The kernels of 4-bit types are few: the state goes through int8.
        session = load(f"({name}[4] h) => ({name}[4] hn) {{ wide = Cast <to = 3> (h) hn = Cast <to = {code}> (wide) }}")
        start = np.array([1, 2, 3, 4], getattr(ml_dtypes, name))
        lane = session.lane(state=StatePorts({"hn": "h"}, initial={"h": start}))
        for _ in range(2):
            lane.run()
            assert lane.state["h"].tolist() == [0x21, 0x43]
        lane.state["h"] = np.array([0x65, 0x07], np.uint8)
        lane.run()
        assert lane.state.copy()["h"].tolist() == [0x65, 0x07]
        with pytest.raises(UnsupportedError, match=f"state 'h': {name.upper()} is packed"):
            session.lane(state=[StatePair("hn", "h", once=True)])


class TestMemory:
    @pytest.mark.parametrize("memory", [None, LaneMemory.buffers(BufferPolicy(alignment=4096)), LaneMemory.allocated()])
    def test_runs_switch_between_two_buffers_where_the_inputs_lie(self, session, memory):
        lane = session.lane(state={"hn": "h"}, inputs=memory)
        lane.inputs["x"][...] = 1
        alignment = 4096 if memory is not None and memory.kind == "buffers" else 64
        addresses = []
        for _ in range(4):
            addresses.append(lane.state["h"].ctypes.data)
            assert addresses[-1] % alignment == 0
            lane.run()
        assert addresses[0] == addresses[2] != addresses[1] == addresses[3]
        assert lane.state["h"].tolist() == [4, 4, 4]

    def test_pairs_may_be_written_in_place(self, load):
        lane = load("(float[3] x, float[3] h) => (float[3] hn) { hn = Add(h, x) }").lane(
            state=[StatePair("hn", "h", in_place=True)]
        )
        lane.inputs["x"][...] = 1
        view = lane.state["h"]
        for _ in range(3):
            lane.run()
        assert view.tolist() == [3, 3, 3]
        assert lane.state["h"].ctypes.data == view.ctypes.data

    def test_value_of_the_first_run_begins_with_zeros(self, load):
        session = load(
            "(float[256] h, float[256] x) => (float[256] hn, float[256] y) { hn = Add(h, x) y = Identity(h) }"
        )
        lane = session.lane(state=[StatePair("hn", "h", once=True)], inputs=LaneMemory.allocated())
        # Fill memory of the same size first, so that the allocator may return memory that is not zero.
        dirty = [zrt.Value.allocate((1088,), np.uint8, session.allocator()) for _ in range(8)]
        for value in dirty:
            value.numpy().fill(255)
            value.close()
        state = lane.new_state()
        assert not state["h"].any()
        lane.run(state)
        assert not lane.outputs["y"].any()

    def test_audit_has_the_state(self, lane):
        audit = lane.audit()
        (port,) = audit.state
        assert (port.name, port.shape, port.nbytes, port.kind) == ("h", (3,), 12, "state")
        assert port.address == port.ort_address == lane.state["h"].ctypes.data
        audit.require_zero_copy()
        assert [each.name for each in audit.inputs] == ["x"]


class TestLifetimes:
    def test_state_outlives_lane_and_session(self, load):
        session = load(COUNTER)
        lane = session.lane(state={"hn": "h"}, inputs=LaneMemory.allocated())
        lane.inputs["x"][...] = 1
        state = lane.new_state()
        session.close()
        assert lane.new_state()["h"].tolist() == [0, 0, 0]
        lane.run(state)
        lane.close()
        del lane, session
        gc.collect()
        assert state["h"].tolist() == [1, 1, 1]
        state["h"][...] = 5
        assert state.copy()["h"].tolist() == [5, 5, 5]

    def test_own_state_outlives_its_closed_lane_where_it_is_held(self, session, lane):
        other = session.lane(state={"hn": "h"})
        other.inputs["x"][...] = 1
        held, dropped = lane.state, weakref.ref(other.state)
        lane.run()
        lane.close()
        other.run(held)
        other.close()
        assert held["h"].tolist() == [2, 2, 2]
        assert dropped() is None

    def test_view_and_lane_outlive_the_state(self, lane):
        state = lane.new_state()
        view = state["h"]
        lane.run(state)
        state.close()
        del state
        gc.collect()
        assert view.tolist() == [0, 0, 0]
        assert lane.outputs["y"].tolist() == [1, 1, 1]
        lane.audit()
        lane.run()
        assert lane.state["h"].tolist() == [1, 1, 1]


class TestThreads:
    def test_threads_with_a_lane_each_share_states(self, session):
        lanes = [session.lane(state={"hn": "h"}) for _ in range(3)]
        states = [lanes[0].new_state() for _ in range(4)]
        runs = [0] * 3

        def work(which):
            lanes[which].inputs["x"][...] = 1
            for turn in range(500):
                with contextlib.suppress(BusyError):
                    lanes[which].run(states[turn % 4])
                    runs[which] += 1

        in_threads(*(partial(work, which) for which in range(3)))
        assert sum(int(state["h"][0]) for state in states) == sum(runs)

    def test_states_fit_lanes_that_threads_make_at_the_same_time(self, session):
        both = threading.Barrier(2)

        class Table(dict):
            def __getitem__(self, key):
                if key not in self:
                    # Two threads that miss the layout both go on here.
                    with contextlib.suppress(threading.BrokenBarrierError):
                        both.wait(1)
                    raise KeyError(key)
                return super().__getitem__(key)

        results_of(session).layouts.data = Table()
        lanes = []
        in_threads(*2 * [lambda: lanes.append(session.lane(state={"hn": "h"}))])
        one, other = lanes
        one.run(other.new_state())

    def test_states_closed_by_another_thread(self, lane, background):
        states = [lane.new_state() for _ in range(200)]
        job = background(lambda: [state.close() for state in states])
        while job.running:
            for state in states:
                with contextlib.suppress(ClosedError, BusyError):
                    lane.run(state)
        job.result()
