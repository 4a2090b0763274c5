"""`kv_cache` and states that grow: what is found, and runs of decoders beside runs without a cache."""

from __future__ import annotations

import copy
import dataclasses
import gc
import mmap
import pickle
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import zrt
from tests.support import models
from tests.support.decoding import CACHES, HEAD, HEADS, WORDS, decoder_session, plain, step, tokens
from zrt import LaneMemory, RunOptions, Session, SessionOptions, StatePair, StatePorts
from zrt.errors import (
    AllocationError,
    ArgumentError,
    CapacityError,
    DTypeError,
    ModelError,
    ShapeError,
    UnknownNameError,
)

QUIET = SessionOptions(log_severity_level="ERROR", intra_op_num_threads=1)


@pytest.fixture(scope="module")
def session() -> Session:
    return decoder_session()


def resident() -> int:
    """The bytes of this process that are in memory."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        pytest.skip("this system has no /proc/self/statm")


class TestDecoding:
    def test_each_token_equals_a_run_without_cache(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 40))
        ids = tokens(40)
        expected = plain(session, ids)
        for place in range(40):
            logits = step(lane, ids[:, place : place + 1])
            np.testing.assert_allclose(logits[0, 0], expected[0, place], atol=1e-5)
            assert logits.argmax() == expected[0, place].argmax()

    def test_prefill_and_generation_share_a_state(self, session):
        caches = zrt.kv_cache(session, 24)
        prefill = session.lane({"input_ids": (1, 9)}, state=caches)
        generate = session.lane({"input_ids": (1, 1)}, state=caches)
        assert (prefill.step, generate.step) == (9, 1)
        ids = tokens(9)
        state = prefill.new_state()
        logits = step(prefill, ids, state)
        for _ in range(15):
            expected = plain(session, ids)
            np.testing.assert_allclose(logits[0, -1], expected[0, -1], atol=1e-5)
            ids = np.concatenate([ids, expected[:, -1:].argmax(-1)], axis=1)
            logits = step(generate, ids[:, -1:], state)
        assert state.steps == 24

    def test_prompt_in_two_parts(self, session):
        lane = session.lane({"input_ids": (1, 4)}, state=zrt.kv_cache(session, 8))
        ids = tokens(8)
        step(lane, ids[:, :4])
        np.testing.assert_allclose(step(lane, ids[:, 4:])[0], plain(session, ids)[0, 4:], atol=1e-5)

    def test_rows_with_padding(self, session):
        caches = zrt.kv_cache(session, 12)
        prefill = session.lane({"input_ids": (3, 5)}, state=caches)
        generate = session.lane({"input_ids": (3, 1)}, state=caches)
        ids = tokens(9, rows=3)
        mask = np.ones_like(ids)
        mask[1, :2] = mask[2, :4] = 0
        state = prefill.new_state()
        state["attention_mask"][:, :9] = mask
        logits = [step(prefill, ids[:, :5], state)]
        logits += [step(generate, ids[:, place : place + 1], state) for place in range(5, 9)]
        expected = plain(session, ids, mask)
        found = np.concatenate(logits, axis=1)
        for row, first in enumerate((0, 2, 4)):
            np.testing.assert_allclose(found[row, first:], expected[row, first:], atol=1e-5)
        assert generate.inputs["position_ids"].tolist() == [[8], [6], [4]]

    def test_state_may_go_back(self, session):
        caches = zrt.kv_cache(session, 12)
        lane = session.lane({"input_ids": (2, 1)}, state=caches)
        lane.state["attention_mask"][0, :2] = 0
        ids = tokens(8, rows=2)
        logits = [step(lane, ids[:, place : place + 1]) for place in range(8)]
        lane.state.write({name: lane.state[name][:, :, :5] for name in CACHES})
        assert (lane.state.steps, lane.state.seen) == (5, 5)
        for place in range(5, 8):
            assert np.array_equal(step(lane, ids[:, place : place + 1]), logits[place])
        assert lane.inputs["position_ids"].tolist() == [[5], [7]]

    @pytest.mark.parametrize(("rows", "count"), [(0, 1), (1, 0)])
    def test_nothing_to_decode(self, session, rows, count):
        lane = session.lane({"input_ids": (rows, count)}, state=zrt.kv_cache(session, 4))
        lane.run()
        lane.run()
        assert lane.state.steps == 2 * count
        assert lane.state.copy()[CACHES[0]].shape == (rows, HEADS, 2 * count, HEAD)

    def test_resident_memory_is_flat(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 2000))
        taken = []
        for _ in range(3):
            for _ in range(2000):
                lane.run()
            taken.append(resident())
            lane.state.reset()
        assert taken[-1] - taken[0] < 1 << 18

    def test_many_states(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 6))
        states = [lane.new_state() for _ in range(5)]
        ids = tokens(6, rows=5)
        expected = plain(session, ids)
        for place in range(6):
            for row, state in enumerate(states):
                logits = step(lane, ids[row : row + 1, place : place + 1], state)
                np.testing.assert_allclose(logits[0, 0], expected[row, place], atol=1e-5)

    def test_caches_on_the_session_s_allocator(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 6), inputs=LaneMemory.allocated())
        ids = tokens(6)
        expected = plain(session, ids)
        for place in range(6):
            np.testing.assert_allclose(step(lane, ids[:, place : place + 1])[0, 0], expected[0, place], atol=1e-5)

    def test_own_inputs_in_place_of_followed_ones(self, session):
        caches = zrt.kv_cache(session, 6, follow=["attention_mask"])
        lane = session.lane({"input_ids": (1, 1)}, state=caches)
        ids = tokens(6)
        expected = plain(session, ids)
        for place in range(6):
            lane.inputs["position_ids"][...] = place
            np.testing.assert_allclose(step(lane, ids[:, place : place + 1])[0, 0], expected[0, place], atol=1e-5)

    def test_memory_is_taken_once(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 64))
        addresses = set()
        for _ in range(64):
            lane.run()
            addresses.add(lane.state[CACHES[0]].ctypes.data)
        assert len(addresses) == 2

    def test_audit_has_the_caches(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 64))
        lane.run()
        port = lane.audit().state[0]
        assert (port.name, port.shape, port.nbytes) == (CACHES[0], (1, HEADS, 1, HEAD), 64 * HEADS * HEAD * 4)

    def test_layout_lives_as_long_as_lanes_and_states(self):
        session = decoder_session()
        caches = zrt.kv_cache(session, 4)
        lane = session.lane({"input_ids": (1, 1)}, state=caches)
        state = lane.new_state()
        lane.run(state)
        del lane
        gc.collect()
        lane = session.lane({"input_ids": (1, 1)}, state=caches)
        lane.run(state)
        assert state.steps == 2
        del lane, state
        gc.collect()
        assert not session._layouts

    def test_dynamic_runtime_serves_prompts_of_any_length(self, session):
        runtime = zrt.DynamicRuntime(session, state=zrt.kv_cache(session, 16))
        generate = runtime.lane({"input_ids": (1, 1)})
        for length in (3, 5, 3):
            ids = tokens(length + 1, seed=length)
            state = generate.new_state()
            step(runtime.lane({"input_ids": (1, length)}), ids[:, :length], state)
            logits = step(generate, ids[:, length:], state)
            np.testing.assert_allclose(logits[0, 0], plain(session, ids)[0, -1], atol=1e-5)
        assert len(runtime) == 3


class TestCapacity:
    def test_run_beyond_the_capacity_is_refused(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 3))
        for _ in range(3):
            lane.run()
        for _ in range(2):
            with pytest.raises(CapacityError, match="holds 3 of 3 steps, which leaves no room for 1"):
                lane.run()
        assert lane.state.steps == 3
        lane.state.reset()
        lane.run()

    def test_prompt_longer_than_the_capacity_is_refused(self, session):
        with pytest.raises(ArgumentError, match="a run has 4 steps, more than 3"):
            session.lane({"input_ids": (1, 4)}, state=zrt.kv_cache(session, 3))

    def test_prime_starts_again_at_the_capacity(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 3))
        lane.prime(10)
        assert lane.state.steps == 0

    def test_window_drops_the_oldest_steps(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 8, window=3))
        wide = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 64))
        held = []
        for token in tokens(20)[0]:
            before = [lane.state[name].copy() for name in CACHES]
            step(lane, token)
            held.append(lane.state.steps)
            dropped = before[0].shape[2] + 1 - lane.state.steps
            assert dropped in (0, 3)
            for name, cache in zip(CACHES, before, strict=True):
                assert np.array_equal(lane.state[name][:, :, :-1], cache[:, :, dropped:])
            step(wide, token)
        assert held == [1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 6, 7, 8, 6, 7, 8, 6, 7, 8]
        assert lane.state.seen == 20
        assert lane.inputs["position_ids"].tolist() == [[19]]

    def test_window_equals_a_run_over_what_it_holds(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 8, window=2))
        ids = tokens(9)
        for token in ids[0, :8]:
            step(lane, token)
        caches = {name: lane.state[name][:, :, 2:].copy() for name in CACHES}
        feeds = {
            "input_ids": ids[:, 8:],
            "attention_mask": np.ones((1, 7), np.int64),
            "position_ids": np.array([[8]]),
            **caches,
        }
        np.testing.assert_allclose(step(lane, ids[0, 8]), session.run(feeds)[0], atol=1e-5)

    def test_window_moves_the_mask(self, session):
        lane = session.lane({"input_ids": (2, 1)}, state=zrt.kv_cache(session, 4, window=2))
        lane.state["attention_mask"][0, :3] = 0
        for _ in range(5):
            lane.run()
        assert lane.state["attention_mask"].tolist() == [[0, 1, 1, 1], [1, 1, 1, 1]]
        assert lane.inputs["position_ids"].tolist() == [[1], [4]]

    @pytest.mark.parametrize("window", [9, -1])
    def test_wrong_window(self, session, window):
        with pytest.raises(ArgumentError, match="window"):
            zrt.kv_cache(session, 8, window=window)

    def test_failed_run_leaves_the_steps(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 8))
        step(lane, 3)
        before = lane.state.snapshot()
        with pytest.raises(zrt.OrtError):
            step(lane, WORDS + 5)
        after = lane.state.snapshot()
        assert (after.steps, after.positions) == (1, (1,))
        assert all(np.array_equal(before.arrays[name], after.arrays[name]) for name in CACHES)
        other = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 8))
        step(other, 3)
        assert np.array_equal(step(lane, 4), step(other, 4))


def declared(inputs: dict[str, list], outputs: dict[str, list], nodes: list[onnx.NodeProto]) -> Session:
    def infos(ports):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items()]

    return Session(models.build(nodes, infos(inputs), infos(outputs)), QUIET)


def appending(past: str, present: str, shape: list, grown: list, axis: int) -> Session:
    """A model whose cache is its past and x."""
    fresh = [*shape[:axis], 1, *shape[axis + 1 :]]
    return declared(
        {"x": fresh, past: shape}, {present: grown}, [helper.make_node("Concat", [past, "x"], [present], axis=axis)]
    )


class TestFinding:
    @pytest.mark.parametrize(
        ("past", "present"),
        [
            ("past_key_values.0.key", "present.0.key"),
            ("past_key_values.0.key", "present_key_values.0.key"),
            ("past_0", "present_0"),
            ("past_key_0", "present_key_0"),
            ("past_key_values.0.decoder.key", "present.0.decoder.key"),
            ("cache_in", "cache_out"),
        ],
    )
    def test_names(self, past, present):
        session = appending(past, present, [1, 2, "past", 4], [1, 2, "total", 4], 2)
        (pair,) = zrt.kv_cache(session, 8).pairs
        assert pair == StatePair(present, past, 2)
        lane = session.lane(state=zrt.kv_cache(session, 8))
        lane.inputs["x"][...] = 3
        lane.run()
        lane.run()
        assert lane.state[past].shape == (1, 2, 2, 4)
        assert (lane.state[past] == 3).all()

    @pytest.mark.parametrize(
        ("shape", "grown", "axis"),
        [
            ([1, 2, "past", 4], [1, 2, "past + 1", 4], 2),
            ([1, "past", 2, 4], [1, "total", 2, 4], 1),
            ([2, 1, 2, "past", 4], [2, 1, 2, "all", 4], 3),
            (["past", 4], ["total", 4], 0),
            ([1, 2, None, 4], [1, 2, None, 4], 2),
        ],
    )
    def test_axes(self, shape, grown, axis):
        session = appending("past_0", "present_0", shape, grown, axis)
        caches = zrt.kv_cache(session, 5)
        assert [pair.axis for pair in caches.pairs] == [axis]
        lane = session.lane(state=caches)
        for turn in range(5):
            lane.inputs["x"][...] = turn
            lane.run()
        along = np.moveaxis(lane.state["past_0"], axis, 0).reshape(5, -1)
        assert along[:, 0].tolist() == [0, 1, 2, 3, 4]

    def test_given_axis_and_pairs(self):
        session = appending("old", "new", [1, "a", "b", 4], [1, "c", "d", 4], 1)
        with pytest.raises(ModelError, match="no inputs such as past_key_values"):
            zrt.kv_cache(session, 4)
        caches = zrt.kv_cache(session, 4, pairs={"new": "old"}, axis=1)
        assert caches.pairs == (StatePair("new", "old", 1),)
        lane = session.lane({"x": (1, 1, 2, 4), "old": (1, 0, 2, 4)}, state=caches)
        lane.run()
        assert lane.state["old"].shape == (1, 1, 2, 4)
        assert zrt.kv_cache(session, 4, pairs=[StatePair("new", "old", 2)]).pairs[0].axis == 2

    def test_pair_of_one_shape_is_carried_as_it_is(self):
        session = declared(
            {"past_conv.0": [1, 4], "past_0": ["past", 2], "x": [1, 2]},
            {"present_conv.0": [1, 4], "present_0": ["total", 2]},
            [
                helper.make_node("Neg", ["past_conv.0"], ["present_conv.0"]),
                helper.make_node("Concat", ["past_0", "x"], ["present_0"], axis=0),
            ],
        )
        caches = zrt.kv_cache(session, 4)
        assert {pair.input: pair.axis for pair in caches.pairs} == {"past_conv.0": None, "past_0": 0}
        lane = session.lane(state=caches)
        lane.state["past_conv.0"][...] = 1
        lane.run()
        lane.run()
        assert (lane.state["past_conv.0"].tolist(), lane.state["past_0"].shape) == ([[1, 1, 1, 1]], (2, 2))

    def test_unknown_pairs(self, session):
        with pytest.raises(UnknownNameError, match="'nope'"):
            zrt.kv_cache(session, 4, pairs={"nope": CACHES[0]})
        with pytest.raises(UnknownNameError, match="'nope'"):
            zrt.kv_cache(session, 4, pairs={"present.0.key": "nope"})

    def test_wrong_follow(self, session):
        with pytest.raises(ArgumentError, match="'input_ids' is none of"):
            zrt.kv_cache(session, 4, follow=["input_ids"])
        with pytest.raises(ArgumentError, match=r"\['position_ids'\] is none of"):
            zrt.kv_cache(session, 4, follow=[["position_ids"]])
        with pytest.raises(DTypeError, match="follow"):
            zrt.kv_cache(session, 4, follow="attention_mask")
        with pytest.raises(ArgumentError, match="'nope' is none of mask"):
            zrt.kv_cache(session, 4, follow={"attention_mask": "nope"})

    def test_found_ports_are_data(self, session):
        caches = zrt.kv_cache(session, 4)
        assert pickle.loads(pickle.dumps(caches)) == caches
        assert copy.deepcopy(caches) == caches
        assert dataclasses.asdict(caches)["capacity"] == 4

    def test_changes_of_a_given_dict_come_too_late(self, session):
        follow = {"attention_mask": "mask"}
        caches = zrt.kv_cache(session, 4, follow=follow)
        ports = StatePorts(caches.pairs, 4, follow=follow)
        follow["position_ids"] = "nope"
        assert ports == caches
        assert session.lane({"input_ids": (1, 1)}, state=ports).step == 1

    @pytest.mark.parametrize("capacity", [0, -1, True, "8", 1.5, None])
    def test_wrong_capacity(self, session, capacity):
        with pytest.raises((ArgumentError, DTypeError), match="capacity"):
            zrt.kv_cache(session, capacity)


FOLLOWING = """
<ir_version: 10, opset_import: ["" : 17]>
test (float[1, k] input_ids, float[past, 2] past_0, float[k, 2] x, int64[k] cache_position, bool[1] use_cache_branch,
      int32 total_sequence_length, int32[1] seqlens_k)
  => (float[total, 2] present_0, int64[k] p, bool[1] b, int32 t, int32[1] l, float[1, k] i) {
    present_0 = Concat <axis = 0> (past_0, x)
    p = Identity(cache_position)
    b = Identity(use_cache_branch)
    t = Identity(total_sequence_length)
    l = Identity(seqlens_k)
    i = Neg(input_ids)
}
"""


def test_every_input_that_follows_the_steps():
    session = Session(onnx.parser.parse_model(FOLLOWING), QUIET)
    lane = session.lane({"input_ids": (1, 2), "x": (2, 2)}, state=zrt.kv_cache(session, 6))
    seen = []
    for _ in range(3):
        lane.run()
        seen.append([lane.outputs[name].tolist() for name in "pbtl"])
    assert seen == [[[0, 1], [False], 2, [1]], [[2, 3], [True], 4, [3]], [[4, 5], [True], 6, [5]]]


# h is carried, and the model returns the mask and the positions.
COUNTED = """
<ir_version: 10, opset_import: ["" : 17]>
test (float[2] h, int64[rows, steps] attention_mask, int64[others, columns] position_ids)
  => (float[2] hn, int64[rows, held] mask, int64[others, columns] positions) {
    hn = Neg(h)
    mask = Identity(attention_mask)
    positions = Identity(position_ids)
}
"""


class TestShapesOfFollowers:
    @staticmethod
    def lane(mask: tuple[int, int], positions: tuple[int, int]) -> zrt.StatefulLane:
        session = Session(onnx.parser.parse_model(COUNTED), QUIET)
        follow = {"attention_mask": "mask", "position_ids": "positions"}
        return session.lane(
            {"attention_mask": mask, "position_ids": positions},
            state=StatePorts({"hn": "h"}, 4, follow=follow),
            outputs={"mask": LaneMemory.left()},
            trials=False,
        )

    @pytest.mark.parametrize(("rows", "others"), [(1, 1), (0, 2), (2, 3), (3, 1)])
    def test_positions_may_be_more_than_the_mask_has(self, rows, others):
        columns = 1 << 20
        lane = self.lane((rows, 1), (others, columns))
        for start in range(2):
            lane.run()
            assert (lane.outputs["positions"] == np.arange(start, start + columns)).all()

    def test_hidden_steps_do_not_count(self):
        lane = self.lane((2, 1), (3, 9))
        lane.state["attention_mask"][0, 1] = 0
        lane.state["attention_mask"][1, 3] = 0
        lane.run()
        assert lane.outputs["positions"].tolist() == [
            [0, 1, 1, 2, 3, 4, 5, 6, 7],
            [0, 1, 2, 3, 3, 4, 5, 6, 7],
            [0, 1, 2, 3, 3, 4, 5, 6, 7],
        ]

    @pytest.mark.parametrize("rows", [1 << 60, 2**63 - 1])
    def test_mask_beyond_an_address_space_is_refused(self, rows):
        with pytest.raises(AllocationError, match="state 'attention_mask': no memory for"):
            self.lane((rows, 1), (1, 1))


class TestErrors:
    def test_growing_by_other_than_the_steps_is_refused(self):
        session = declared(
            {"past_0": ["past", 2], "x": [3, 2]},
            {"present_0": ["total", 2]},
            [helper.make_node("Concat", ["past_0", "x"], ["present_0"], axis=0)],
        )
        with pytest.raises(ShapeError, match=r"state 'past_0': the model makes \[3, 2\]"):
            session.lane(state=StatePorts([StatePair("present_0", "past_0", 0)], 8))
        lane = session.lane(state=StatePorts([StatePair("present_0", "past_0", 0)], 8, step=3))
        lane.run()
        lane.run()
        assert lane.state.steps == 6

    def test_step_names_the_input_that_counts(self):
        session = declared(
            {"past_0": ["past", 2], "y": [5], "x": [1, "n", 2]},
            {"present_0": ["total", 2], "z": [5]},
            [
                helper.make_node("Constant", [], ["flat"], value_ints=[-1, 2]),
                helper.make_node("Reshape", ["x", "flat"], ["rows"]),
                helper.make_node("Concat", ["past_0", "rows"], ["present_0"], axis=0),
                helper.make_node("Neg", ["y"], ["z"]),
            ],
        )
        lane = session.lane({"x": (1, 3, 2)}, state=zrt.kv_cache(session, 8, step="x"))
        lane.run()
        assert (lane.step, lane.state.steps) == (3, 3)

    def test_growing_needs_a_capacity(self, session):
        with pytest.raises(ArgumentError, match="give the capacity"):
            StatePorts([StatePair("present_0", "past_0", 0)])

    def test_open_steps_are_named(self, session):
        with pytest.raises(ShapeError, match=r"input 'input_ids'.*number of steps"):
            session.lane(state=zrt.kv_cache(session, 8))

    def test_state_of_another_capacity_is_refused(self, session):
        one, two = (session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, size)) for size in (8, 9))
        with pytest.raises(ArgumentError, match=r"carries past_key_values.0.key: \[1, 2, 8, 8\], the state has"):
            one.run(two.state)

    def test_terminated_run_leaves_the_steps(self):
        text = """
        <ir_version: 8, opset_import: ["" : 17]>
        test (int64 n, float[past, 2] past_0, float[1, 2] x) => (float[total, 2] present_0, float[1, 2] y) {
            go = Constant <value = bool {1}> ()
            y = Loop (n, go, x) <body = step (int64 i, bool c, float[1, 2] a) => (bool d, float[1, 2] b) {
                d = Identity(c)
                b = Neg(a)
            }>
            present_0 = Concat <axis = 0> (past_0, y)
        }
        """
        session = Session(onnx.parser.parse_model(text), QUIET)
        lane = session.lane(state=zrt.kv_cache(session, 8), trials=False)
        lane.inputs["x"][...] = 4
        for turn in range(3):
            lane.inputs["n"][...] = 2
            lane.run()
            options, failures = RunOptions(), []

            def run(options=options, failures=failures):
                try:
                    lane.run_with(options)
                except zrt.Error as error:
                    failures.append(error)

            lane.inputs["n"][...] = 10**15
            thread = threading.Thread(target=run)
            thread.start()
            while not lane._open().pointer.busy:
                time.sleep(0.001)
            options.terminate()
            thread.join()
            assert failures
            assert lane.state["past_0"].tolist() == [[4, 4]] * (turn + 1)
