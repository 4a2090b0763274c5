"""`StatefulLane`: runs that carry a state, and everything that can go wrong with one."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import onnx
import pytest

import zrt
from tests.custom_ops.support import Op
from tests.custom_ops.support import load as load_operators
from tests.support.arrays import f32
from zrt import BufferPolicy, LaneMemory, RunOptions, Session, SessionOptions, StatePair, StatePorts
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


def load(text: str, opset: int = 17, **options: object) -> Session:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> test {text}')
    return Session(model, SessionOptions(**options))


@pytest.fixture
def session() -> Session:
    return load(COUNTER)


@pytest.fixture
def lane(session: Session) -> zrt.StatefulLane:
    lane = session.lane(state={"hn": "h"})
    lane.inputs["x"][...] = 1
    return lane


class TestRunning:
    def test_output_is_input_of_next_run(self, lane):
        for turn in range(1, 6):
            lane.run()
            assert lane.outputs["y"].tolist() == [turn**2] * 3
            assert lane.state["h"].tolist() == [turn] * 3

    def test_state_starts_as_zeros_although_making_the_lane_ran_the_model(self, lane):
        assert lane.state["h"].tolist() == [0, 0, 0]

    def test_reset_starts_again(self, lane):
        lane.run()
        lane.state.reset()
        assert lane.state["h"].tolist() == [0, 0, 0]
        lane.run()
        assert lane.outputs["y"].tolist() == [1, 1, 1]

    def test_reset_restores_the_given_start(self, session):
        lane = session.lane(state=StatePorts({"hn": "h"}, initial={"h": f32(5, 6, 7)}))
        lane.inputs["x"][...] = 1
        lane.run()
        assert lane.state["h"].tolist() == [6, 7, 8]
        lane.state.reset()
        assert lane.state["h"].tolist() == [5, 6, 7]

    def test_ports_of_the_state_are_no_ports_of_the_lane(self, lane):
        assert list(lane.inputs) == ["x"]
        assert list(lane.outputs) == ["y"]
        with pytest.raises(UnknownNameError, match="'h'"):
            lane.inputs["h"]

    def test_outputs_stay_the_same_views(self, lane):
        view = lane.outputs["y"]
        lane.run()
        lane.run()
        assert lane.outputs["y"] is view
        assert view.tolist() == [4, 4, 4]

    def test_every_output_may_be_state(self):
        lane = load("(float[3] h) => (float[3] hn) { hn = Add(h, h) }").lane(
            state=StatePorts({"hn": "h"}, initial={"h": f32(1, 2, 3)})
        )
        lane.run()
        lane.run()
        assert lane.state["h"].tolist() == [4, 8, 12]
        assert lane.audit().outputs == ()

    def test_two_pairs_may_cross(self):
        lane = load("(float[2] a, float[2] b) => (float[2] c, float[2] d) { c = Neg(a) d = Abs(b) }").lane(
            state=StatePorts({"c": "b", "d": "a"}, initial={"a": f32(1, 2), "b": f32(3, 4)})
        )
        lane.run()
        assert [lane.state[name].tolist() for name in "ab"] == [[3, 4], [-1, -2]]
        lane.run()
        assert [lane.state[name].tolist() for name in "ab"] == [[1, 2], [-3, -4]]

    def test_shapes_of_open_sizes_are_given(self):
        session = load("(float[n] h) => (float[n] hn) { hn = Add(h, h) }")
        lane = session.lane({"h": (2,)}, state={"hn": "h"})
        assert lane.state["h"].shape == (2,)
        with pytest.raises(ShapeError, match=r"state 'h'.*open in n"):
            session.lane(state={"hn": "h"})

    def test_size_is_shared_with_other_inputs(self):
        lane = load("(float[n] x, float[n] h) => (float[n] hn) { hn = Add(h, x) }").lane({"x": (7,)}, state={"hn": "h"})
        assert lane.state["h"].shape == (7,)

    def test_output_without_declared_shape(self):
        session = load("(float[2] h) => (float[] hn) { hn = Add(h, h) }")
        model_output = session.lane(state=StatePorts({"hn": "h"}, initial={"h": f32(1, 2)}))
        model_output.run()
        assert model_output.state["h"].tolist() == [2, 4]

    def test_outputs_left_to_ort_are_read_after_each_run(self):
        session = load("(float[4] h) => (int64[1, k] where, float[4] hn) { where = NonZero(h) hn = Abs(h) }")
        lane = session.lane(state=StatePorts({"hn": "h"}, initial={"h": f32(0, 1, 0, 1)}))
        for _ in range(3):
            lane.run()
            assert lane.outputs["where"].tolist() == [[1, 3]]
        assert lane.audit().allocations
        assert lane.audit().outputs[0].shape == (1, 2)

    def test_trials_false_runs_nothing(self, session):
        lane = session.lane(state={"hn": "h"}, trials=False)
        lane.inputs["x"][...] = 1
        lane.run()
        assert lane.state["h"].tolist() == [1, 1, 1]

    def test_run_with_options_moves_the_state(self, lane):
        lane.run_with(RunOptions(tag="t"))
        state = lane.new_state()
        lane.run_with(RunOptions(), state)
        lane.run_with(RunOptions(), state)
        assert lane.state["h"].tolist() == [1, 1, 1]
        assert state["h"].tolist() == [2, 2, 2]

    def test_prime_leaves_the_state(self, lane):
        lane.run()
        lane.prime(3)
        assert lane.state["h"].tolist() == [1, 1, 1]

    def test_allocator_stats(self, lane):
        assert lane.run_with_allocator_stats().delta.num_arena_extensions == 0
        assert lane.state["h"].tolist() == [1, 1, 1]


class TestStates:
    def test_states_are_apart(self, lane):
        states = [lane.new_state({"h": f32(i, i, i)}) for i in range(10)]
        for _ in range(3):
            for state in states:
                lane.run(state)
        assert [state["h"][0] for state in states] == [i + 3 for i in range(10)]
        assert lane.state["h"].tolist() == [0, 0, 0]

    def test_states_in_random_order(self, lane):
        states = [lane.new_state() for _ in range(5)]
        counts = [0] * 5
        for which in np.random.default_rng(0).integers(0, 5, 100):
            lane.run(states[which])
            counts[which] += 1
            assert lane.outputs["y"][0] == counts[which] ** 2
        assert [state["h"][0] for state in states] == counts

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

    def test_state_of_another_session_is_refused(self, lane):
        foreign = load(COUNTER).lane(state={"hn": "h"}).new_state()
        with pytest.raises(ArgumentError, match="another session"):
            lane.run(foreign)
        assert foreign["h"].tolist() == [0, 0, 0]

    def test_state_of_another_shape_is_refused_by_name(self):
        session = load("(float[n] h) => (float[n] hn) { hn = Add(h, h) }")
        small, large = (session.lane({"h": (size,)}, state={"hn": "h"}) for size in (2, 3))
        with pytest.raises(ArgumentError, match=r"carries h: \[2\], the state has h: \[3\]"):
            small.run(large.state)

    @pytest.mark.parametrize("other", ["h", 5, object(), [], {}])
    def test_other_objects_are_refused(self, lane, other):
        with pytest.raises(DTypeError, match="state: expected a State"):
            lane.run(other)
        with pytest.raises(DTypeError, match="state: expected a State"):
            lane.run_with(RunOptions(), other)

    def test_lane_is_no_state(self, lane):
        with pytest.raises(DTypeError, match="state: expected a State"):
            lane.run(lane)

    def test_closed_state_is_refused(self, lane):
        state = lane.new_state()
        state.close()
        with pytest.raises(ClosedError, match="State is closed"):
            lane.run(state)

    def test_lanes_of_replicated_sessions_carry_each_others_states(self):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> test {COUNTER}')
        runtime = zrt.Runtime.replicate(model.SerializeToString(), 2, state={"hn": "h"})
        state = runtime[0].new_state()
        for lane in runtime:
            lane.inputs["x"][...] = 1
            lane.run(state)
        assert state["h"].tolist() == [2, 2, 2]


class TestFailures:
    @pytest.fixture
    def slow(self):
        return load(SLOW, intra_op_num_threads=1).lane(state={"hn": "h"})

    def test_terminated_run_leaves_the_state(self, slow):
        slow.inputs["n"][...] = 3
        slow.run()
        slow.inputs["n"][...] = FOR_EVER
        options, failures = RunOptions(), []

        def run():
            try:
                slow.run_with(options)
            except zrt.Error as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while not slow._open().pointer.busy:
            time.sleep(0.001)
        with pytest.raises(BusyError, match=r"Lane is in use"):
            slow.run()
        with pytest.raises(BusyError, match="State is in use"):
            slow.state["h"]
        with pytest.raises(BusyError, match="State is in use"):
            slow.state.reset()
        options.terminate()
        thread.join()
        assert [type(error) for error in failures] == [TerminatedError]
        assert slow.state["h"].tolist() == [3, 3, 3]
        slow.inputs["n"][...] = 1
        slow.run()
        assert slow.state["h"].tolist() == [4, 4, 4]

    def test_state_in_a_run_is_refused_by_another_lane(self, slow):
        other = slow.session.lane(state={"hn": "h"})
        slow.inputs["n"][...] = FOR_EVER
        options, state = RunOptions(), slow.new_state()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(slow.run_with, options, state)
            while not state._open().pointer.busy:
                time.sleep(0.001)
            with pytest.raises(BusyError, match="State is in use by another run"):
                other.run(state)
            other.run()
            options.terminate()
            with pytest.raises(TerminatedError):
                running.result()
        other.run(state)

    def test_failed_run_leaves_the_state(self):
        session = load(
            "(float[2] x, int64 i, float[2] h) => (float y, float[2] hn) { hn = Add(h, x) y = Gather(hn, i) }"
        )
        lane = session.lane(state={"hn": "h"})
        lane.inputs["x"][...] = 1
        lane.run()
        lane.inputs["i"][...] = 7
        for _ in range(3):
            with pytest.raises(zrt.OrtError):
                lane.run()
            assert lane.state["h"].tolist() == [1, 1]
        lane.inputs["i"][...] = 0
        lane.run()
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

    def test_output_of_another_shape_is_refused_by_name(self):
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
        lane.inputs["drop"][...] = True
        lane.run()

    def test_declared_output_of_another_shape_is_refused(self):
        session = load("(float[2] h) => (float[4] hn) { hn = Concat <axis = 0> (h, h) }")
        with pytest.raises(ShapeError, match=r"state 'h': the input has the shape \[2\], the output 'hn' \[4\]"):
            session.lane(state={"hn": "h"})

    def test_types_that_differ_are_refused(self):
        session = load("(float[2] h) => (double[2] hn) { hn = Cast <to = 11> (h) }")
        with pytest.raises(ArgumentError, match="of FLOAT, the output 'hn' of DOUBLE"):
            session.lane(state={"hn": "h"})

    def test_strings_are_refused(self):
        session = load("(string[2] h) => (string[2] hn) { hn = Identity(h) }")
        with pytest.raises(UnsupportedError, match="'h' holds strings"):
            session.lane(state={"hn": "h"})

    def test_optional_is_refused(self):
        text = "(optional(float[2]) h) => (optional(float[2]) hn) { hn = Identity(h) }"
        with pytest.raises(UnsupportedError, match="an optional"):
            load(text, 16).lane(state={"hn": "h"})

    def test_output_that_is_an_input_is_refused(self):
        session = load("(float[2] h) => (float[2] h, float[2] y) { y = Abs(h) }")
        with pytest.raises(UnsupportedError, match="an input as well"):
            session.lane(state={"h": "h"})

    def test_sessions_that_capture_graphs_are_refused(self, session):
        session._captures = True
        with pytest.raises(UnsupportedError, match="captures graphs"):
            session.lane(state={"hn": "h"})


class TestTypes:
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8", "bool", "float64"])
    def test_element_types(self, dtype):
        kind = "double" if dtype == "float64" else dtype
        text = f"({kind}[3] h) => ({kind}[3] hn) {{ hn = Identity(h) }}"
        wanted = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
        start = np.array([1, 0, 1]).astype(wanted)
        lane = load(text).lane(state=StatePorts({"hn": "h"}, initial={"h": start}))
        lane.run()
        assert lane.state["h"].dtype == wanted
        assert lane.state["h"].tolist() == start.tolist()
        assert lane.state.copy()["h"].tolist() == start.tolist()

    @pytest.mark.parametrize("name", ["int4", "uint4"])
    def test_packed_types(self, name):
        # The kernels of 4-bit types are few: the state goes through int8.
        text = f"""
        ({name}[4] h) => ({name}[4] hn) {{
            wide = Cast <to = 3> (h)
            hn = Cast <to = {22 if name == "int4" else 21}> (wide)
        }}
        """
        start = np.array([1, 2, 3, 4], getattr(ml_dtypes, name))
        lane = load(text, 21).lane(state=StatePorts({"hn": "h"}, initial={"h": start}))
        for _ in range(2):
            lane.run()
            assert lane.state["h"].tolist() == [0x21, 0x43]
        lane.state["h"] = np.array([0x65, 0x07], np.uint8)
        lane.run()
        assert lane.state.copy()["h"].tolist() == [0x65, 0x07]

    def test_scalar(self):
        lane = load("(float h, float x) => (float hn) { hn = Add(h, x) }").lane(state={"hn": "h"})
        lane.inputs["x"][...] = 2
        lane.run()
        lane.run()
        assert lane.state["h"].shape == ()
        assert lane.state["h"] == 4

    def test_empty(self):
        lane = load("(float[0] h) => (float[0] hn) { hn = Abs(h) }").lane(state={"hn": "h"})
        lane.run()
        assert lane.state["h"].shape == (0,)
        assert lane.state.copy()["h"].shape == (0,)


class TestMemory:
    @pytest.mark.parametrize("memory", [None, LaneMemory.buffers(BufferPolicy(alignment=4096)), LaneMemory.allocated()])
    def test_state_lies_where_the_inputs_lie(self, session, memory):
        lane = session.lane(state={"hn": "h"}, inputs=memory)
        lane.inputs["x"][...] = 1
        for _ in range(2):
            address = lane.state["h"].ctypes.data
            alignment = 4096 if memory is not None and memory.kind == "buffers" else 64
            assert address % alignment == 0
            lane.run()
        assert lane.state["h"].tolist() == [2, 2, 2]

    def test_audit_has_the_state(self, lane):
        audit = lane.audit()
        (port,) = audit.state
        assert (port.name, port.shape, port.nbytes, port.kind) == ("h", (3,), 12, "state")
        assert port.address == port.ort_address == lane.state["h"].ctypes.data
        audit.require_zero_copy()
        assert [each.name for each in audit.inputs] == ["x"]

    def test_runs_switch_between_two_buffers(self, lane):
        addresses = []
        for _ in range(4):
            addresses.append(lane.state["h"].ctypes.data)
            lane.run()
        assert addresses[0] == addresses[2] != addresses[1] == addresses[3]


class TestLifetimes:
    def test_state_outlives_lane_and_session(self):
        session = load(COUNTER)
        lane = session.lane(state={"hn": "h"}, inputs=LaneMemory.allocated())
        lane.inputs["x"][...] = 1
        state = lane.new_state()
        lane.run(state)
        lane.close()
        session.close()
        del lane, session
        gc.collect()
        assert state["h"].tolist() == [1, 1, 1]
        state["h"][...] = 5
        assert state.copy()["h"].tolist() == [5, 5, 5]

    def test_view_outlives_the_state(self, lane):
        state = lane.new_state()
        view = state["h"]
        lane.run(state)
        state.close()
        del state
        gc.collect()
        assert view.tolist() == [0, 0, 0]

    def test_lane_runs_after_its_session_is_closed(self, session, lane):
        session.close()
        lane.run()
        assert lane.new_state()["h"].tolist() == [0, 0, 0]

    def test_lane_runs_after_the_last_state_is_gone(self, lane):
        state = lane.new_state()
        lane.run(state)
        state.close()
        del state
        gc.collect()
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
                try:
                    lanes[which].run(states[turn % 4])
                    runs[which] += 1
                except BusyError:
                    pass

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        assert sum(int(state["h"][0]) for state in states) == sum(runs)

    def test_states_closed_by_another_thread(self, lane):
        states = [lane.new_state() for _ in range(200)]
        stop = threading.Event()

        def close():
            for state in states:
                state.close()
            stop.set()

        thread = threading.Thread(target=close)
        thread.start()
        while not stop.is_set():
            for state in states:
                try:
                    lane.run(state)
                except (ClosedError, BusyError):
                    continue
        thread.join()


class TestRuntimes:
    def test_runtime_lanes_share_states(self, session):
        runtime = zrt.Runtime(session, 2, state={"hn": "h"})
        state = runtime[0].new_state()
        for lane in runtime:
            assert isinstance(lane, zrt.StatefulLane)
            lane.inputs["x"][...] = 1
            lane.run(state)
        assert state["h"].tolist() == [2, 2, 2]
        runtime.prime(2)
        assert runtime.audit()[0].state

    def test_dynamic_runtime_takes_shapes_without_those_of_the_state(self):
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


def test_pairs_may_be_written_in_place():
    session = load("(float[3] x, float[3] h) => (float[3] hn) { hn = Add(h, x) }")
    lane = session.lane(state=[StatePair("hn", "h", in_place=True)])
    lane.inputs["x"][...] = 1
    view = lane.state["h"]
    for _ in range(3):
        lane.run()
    assert view.tolist() == [3, 3, 3]
    assert lane.state["h"].ctypes.data == view.ctypes.data


def test_timeout_leaves_the_state():
    lane = load(SLOW, intra_op_num_threads=1).lane(state={"hn": "h"})
    lane.inputs["n"][...] = 2
    lane.run(timeout=60)
    lane.inputs["n"][...] = FOR_EVER
    for call in (lane.run, lambda **options: lane.run_with(RunOptions(), lane.state, **options)):
        with pytest.raises(zrt.errors.TimeoutError):
            call(timeout=0.01)
        assert lane.state["h"].tolist() == [2, 2, 2]
    lane.inputs["n"][...] = 1
    lane.run(timeout=60)
    assert lane.state["h"].tolist() == [3, 3, 3]
