"""States that grow: runs of decoders beside runs without a cache, at capacity, masks and positions."""

import dataclasses
import gc
import sys
import weakref

import numpy as np
import pytest

import zrt
from tests.support.decoding import CACHES, HEAD, HEADS, WORDS, decoder_session, plain, step, tokens
from tests.support.lanes import run_on
from zrt import LaneMemory, StatePair, StatePorts
from zrt.bench.machine import resident_bytes
from zrt.errors import AllocationError, ArgumentError, CapacityError, ShapeError


class TestDecoding:
    @pytest.mark.parametrize("memory", [LaneMemory.buffers(), LaneMemory.allocated()], ids=lambda memory: memory.kind)
    def test_each_token_equals_a_run_without_cache(self, decoder, memory):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 40), inputs=memory)
        ids = tokens(40)
        expected = plain(decoder, ids)
        for place in range(40):
            logits = step(lane, ids[:, place : place + 1])
            np.testing.assert_allclose(logits[0, 0], expected[0, place], atol=1e-5)
            assert logits.argmax() == expected[0, place].argmax()

    def test_prefill_and_generation_share_a_state(self, decoder):
        caches = zrt.kv_cache(decoder, 24)
        prefill = decoder.lane({"input_ids": (1, 5)}, state=caches)
        generate = decoder.lane({"input_ids": (1, 1)}, state=caches)
        assert (prefill.step, generate.step) == (5, 1)
        ids = tokens(10)
        state = prefill.new_state()
        # The prompt comes in two parts.
        step(prefill, ids[:, :5], state)
        logits = step(prefill, ids[:, 5:], state)
        for _ in range(14):
            expected = plain(decoder, ids)
            np.testing.assert_allclose(logits[0, -1], expected[0, -1], atol=1e-5)
            ids = np.concatenate([ids, expected[:, -1:].argmax(-1)], axis=1)
            logits = step(generate, ids[:, -1:], state)
        assert state.steps == 24

    def test_rows_with_padding(self, decoder):
        caches = zrt.kv_cache(decoder, 12)
        prefill = decoder.lane({"input_ids": (3, 5)}, state=caches)
        generate = decoder.lane({"input_ids": (3, 1)}, state=caches)
        ids = tokens(9, rows=3)
        mask = np.ones_like(ids)
        mask[1, :2] = mask[2, :4] = 0
        state = prefill.new_state()
        state["attention_mask"][:, :9] = mask
        logits = [step(prefill, ids[:, :5], state)]
        logits += [step(generate, ids[:, place : place + 1], state) for place in range(5, 9)]
        expected = plain(decoder, ids, mask)
        actual = np.concatenate(logits, axis=1)
        for row, first in enumerate((0, 2, 4)):
            np.testing.assert_allclose(actual[row, first:], expected[row, first:], atol=1e-5)
        assert generate.inputs["position_ids"].tolist() == [[8], [6], [4]]

    def test_state_may_go_back(self, decoder):
        caches = zrt.kv_cache(decoder, 12)
        lane = decoder.lane({"input_ids": (2, 1)}, state=caches)
        lane.state["attention_mask"][0, :2] = 0
        ids = tokens(8, rows=2)
        logits = [step(lane, ids[:, place : place + 1]) for place in range(8)]
        lane.state.write({name: lane.state[name][:, :, :5] for name in CACHES})
        assert (lane.state.steps, lane.state.seen) == (5, 5)
        for place in range(5, 8):
            assert np.array_equal(step(lane, ids[:, place : place + 1]), logits[place])
        assert lane.inputs["position_ids"].tolist() == [[5], [7]]

    @pytest.mark.parametrize(("rows", "count"), [(0, 1), (1, 0)])
    def test_nothing_to_decode(self, decoder, rows, count):
        lane = decoder.lane({"input_ids": (rows, count)}, state=zrt.kv_cache(decoder, 4))
        lane.run()
        lane.run()
        assert lane.state.steps == 2 * count
        assert lane.state.copy()[CACHES[0]].shape == (rows, HEADS, 2 * count, HEAD)

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_resident_memory_is_flat(self, decoder):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 2000))
        taken = []
        for _ in range(3):
            for _ in range(2000):
                lane.run()
            taken.append(resident_bytes())
            lane.state.reset()
        assert taken[-1] - taken[0] < 1 << 18

    def test_many_states(self, decoder):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 6))
        states = [lane.new_state() for _ in range(5)]
        ids = tokens(6, rows=5)
        expected = plain(decoder, ids)
        for place in range(6):
            for row, state in enumerate(states):
                logits = step(lane, ids[row : row + 1, place : place + 1], state)
                np.testing.assert_allclose(logits[0, 0], expected[row, place], atol=1e-5)

    def test_own_inputs_in_place_of_followed_ones(self, decoder):
        caches = zrt.kv_cache(decoder, 6, follow=["attention_mask"])
        lane = decoder.lane({"input_ids": (1, 1)}, state=caches)
        ids = tokens(6)
        expected = plain(decoder, ids)
        for place in range(6):
            lane.inputs["position_ids"][...] = place
            np.testing.assert_allclose(step(lane, ids[:, place : place + 1])[0, 0], expected[0, place], atol=1e-5)

    def test_memory_is_taken_once(self, decoder):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 64))
        addresses = set()
        for _ in range(64):
            lane.run()
            addresses.add(lane.state[CACHES[0]].ctypes.data)
            port = lane.audit().state[0]
            shape = (1, HEADS, lane.state.steps, HEAD)
            assert (port.name, port.shape, port.nbytes) == (CACHES[0], shape, 64 * HEADS * HEAD * 4)
        assert len(addresses) == 2

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
        layout = weakref.ref(state._layout)
        del lane, state
        gc.collect()
        assert layout() is None

    def test_dynamic_runtime_serves_prompts_of_any_length(self, decoder):
        runtime = zrt.DynamicRuntime(decoder, state=zrt.kv_cache(decoder, 16))
        generate = runtime.lane({"input_ids": (1, 1)})
        for length in (3, 5, 3):
            ids = tokens(length + 1, seed=length)
            state = generate.new_state()
            step(runtime.lane({"input_ids": (1, length)}), ids[:, :length], state)
            logits = step(generate, ids[:, length:], state)
            np.testing.assert_allclose(logits[0, 0], plain(decoder, ids)[0, -1], atol=1e-5)
        assert len(runtime) == 3


class TestCapacity:
    def test_run_beyond_the_capacity_is_refused(self, decoder):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 3))
        for _ in range(3):
            lane.run()
        for _ in range(2):
            with pytest.raises(CapacityError, match="holds 3 of 3 steps, and a run adds 1"):
                lane.run()
        assert lane.state.steps == 3
        lane.state.reset()
        # A state of its own, which starts again at the capacity.
        lane.prime(10)
        assert lane.state.steps == 0
        lane.run()
        # States may begin full.
        lane.run()
        lane.run()
        full = {name: array for name, array in lane.state.snapshot().arrays.items() if name.startswith("past")}
        lane = decoder.lane({"input_ids": (1, 1)}, state=dataclasses.replace(zrt.kv_cache(decoder, 3), initial=full))
        assert lane.state.steps == 3
        lane.prime(10)
        assert lane.state.steps == 3

    def test_prompt_longer_than_the_capacity_is_refused(self, decoder):
        with pytest.raises(ArgumentError, match="a run has 4 steps, more than 3"):
            decoder.lane({"input_ids": (1, 4)}, state=zrt.kv_cache(decoder, 3))

    def test_window_drops_the_oldest_steps(self, decoder):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 8, window=3))
        wide = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 64))
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

    def test_window_equals_a_run_over_what_it_holds(self, decoder):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 8, window=2))
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
        np.testing.assert_allclose(step(lane, ids[0, 8]), decoder.run(feeds)[0], atol=1e-5)

    def test_window_moves_the_mask(self, decoder):
        lane = decoder.lane({"input_ids": (2, 1)}, state=zrt.kv_cache(decoder, 4, window=2))
        lane.state["attention_mask"][0, :3] = 0
        for _ in range(5):
            lane.run()
        assert lane.state["attention_mask"].tolist() == [[0, 1, 1, 1], [1, 1, 1, 1]]
        assert lane.inputs["position_ids"].tolist() == [[1], [4]]

    def test_failed_run_leaves_the_steps(self, decoder):
        lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 8))
        step(lane, 3)
        before = lane.state.snapshot()
        with pytest.raises(zrt.OrtError):
            step(lane, WORDS + 5)
        after = lane.state.snapshot()
        assert (after.steps, after.positions) == (1, (1,))
        assert all(np.array_equal(before.arrays[name], after.arrays[name]) for name in CACHES)
        other = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 8))
        step(other, 3)
        assert np.array_equal(step(lane, 4), step(other, 4))


FOLLOWING = """
(float[1, k] input_ids, float[past, 2] past_0, float[k, 2] x, int64[k] cache_position, bool[1] use_cache_branch,
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


def test_every_input_that_follows_the_steps(load):
    session = load(FOLLOWING)
    lane = session.lane({"input_ids": (1, 2), "x": (2, 2)}, state=zrt.kv_cache(session, 6))
    seen = []
    for _ in range(3):
        lane.run()
        seen.append([lane.outputs[name].tolist() for name in "pbtl"])
    assert seen == [[[0, 1], [False], 2, [1]], [[2, 3], [True], 4, [3]], [[4, 5], [True], 6, [5]]]


# h is carried, and the model returns the mask and the positions.
COUNTED = """
(float[2] h, int64[rows, steps] attention_mask, int64[others, columns] position_ids)
  => (float[2] hn, int64[rows, held] mask, int64[others, columns] positions) {
    hn = Neg(h)
    mask = Identity(attention_mask)
    positions = Identity(position_ids)
}
"""


PLANES = """
(float[b, s] x, float[b, p] past_0, int64[b, m] attention_mask, int64[3, b, s] position_ids)
  => (float[b, t] present_0, int64[3, b, s] positions) {
    present_0 = Concat <axis = 1> (past_0, x)
    positions = Identity(position_ids)
}
"""


def test_planes_of_positions_follow_their_rows(load):
    """As models with three kinds of positions have them."""
    session = load(PLANES)
    lane = session.lane({"x": (2, 1)}, state=zrt.kv_cache(session, capacity=8, step=1))
    lane.state["attention_mask"][0, :2] = 0
    for _ in range(4):
        lane.run()
    assert lane.outputs["positions"].tolist() == [[[1], [3]]] * 3


ROWS = PLANES.replace("[3, b, s]", "[b, s]")


@pytest.mark.parametrize("size", ["total", "t", "unknown"])
def test_outputs_that_grow_with_the_cache_are_left_to_ort(load, size):
    session = load(
        f"""(float[b, s, 2] input_ids, float[b, p, 2] past_0, int64[b, total] attention_mask)
          => (float[b, t, 2] present_0, float[b, s, {size}] attentions, float[b, s, 2] y) {{
            present_0 = Concat <axis = 1> (past_0, input_ids)
            keys = Transpose <perm = [0, 2, 1]> (present_0)
            attentions = MatMul(input_ids, keys)
            y = Neg(input_ids)
        }}"""
    )
    lane = session.lane({"input_ids": (1, 2, 2)}, state=zrt.kv_cache(session, capacity=8))
    assert lane.audit().allocations == ("attentions: its shape may grow with the state",)
    shapes = []
    for _ in range(3):
        lane.run()
        shapes.append(lane.outputs["attentions"].shape)
    assert shapes == [(1, 2, 2), (1, 2, 4), (1, 2, 6)]
    given = session.lane({"input_ids": (1, 2, 2)}, {"attentions": (1, 2, 2)}, state=zrt.kv_cache(session, capacity=8))
    assert not given.audit().allocations


class TestWritesOfMasks:
    @pytest.fixture
    def lane(self, load):
        session = load(ROWS)
        return session.lane({"x": (1, 1)}, state=zrt.kv_cache(session, capacity=8, step=1))

    @staticmethod
    def next_position(lane, state):
        lane.run(state)
        return lane.outputs["positions"].tolist()

    def test_whole_content_of_as_many_steps_has_its_own_positions(self, lane):
        plain, padded = lane.new_state(), lane.new_state()
        padded["attention_mask"][0, :2] = 0
        for _ in range(4):
            lane.run(plain)
            lane.run(padded)
        plain.write(dict(padded))
        assert plain.seen == 4
        states = (plain, padded, lane.new_state(dict(plain)))
        assert [self.next_position(lane, state) for state in states] == [[[2]]] * 3

    def test_mask_may_hide_and_show_steps_that_are_held(self, lane):
        for _ in range(4):
            lane.run()
        lane.state["attention_mask"] = np.array([[1, 0, 0, 1, 1, 1, 1, 1]])
        assert self.next_position(lane, lane.state) == [[2]]
        lane.state["attention_mask"] = np.ones((1, 8), np.int64)
        assert self.next_position(lane, lane.state) == [[5]]
        # The positions of a snapshot stay, but for the steps that the mask hides or shows.
        lane.state.write(dataclasses.replace(lane.state.snapshot(), positions=(20,)))
        lane.state["attention_mask"] = np.array([[1, 1, 1, 1, 1, 0, 1, 1]])
        assert self.next_position(lane, lane.state) == [[19]]
        # Python changes the view, and then assigns it.
        with pytest.raises(ArgumentError, match="its own view, so that the positions cannot follow"):
            lane.state["attention_mask"] &= np.array([[1, 0, 0, 1, 1, 1, 1, 1]])

    def test_views_from_a_time_of_more_steps_may_change_places(self, load):
        text = """(float[b, s] x, float[b, p] past_0, float[b, q] past_1)
          => (float[b, t] present_0, float[b, u] present_1) {
            present_0 = Concat <axis = 1> (past_0, x)
            z = Neg(x)
            present_1 = Concat <axis = 1> (past_1, z)
        }"""
        session = load(text)
        lane = session.lane({"x": (1, 1)}, state=zrt.kv_cache(session, capacity=8, step=1))
        lane.inputs["x"][...] = 1
        for _ in range(3):
            lane.run()
        first, second = lane.state["past_0"], lane.state["past_1"]
        lane.state.reset()
        before = first.tolist(), second.tolist()
        lane.state.write({"past_0": second, "past_1": first})
        assert (lane.state["past_1"].tolist(), lane.state["past_0"].tolist()) == before

    def test_one_cache_leaves_the_positions(self, lane):
        lane.state["attention_mask"][0, :1] = 0
        for _ in range(3):
            lane.run()
        lane.state["past_0"] = np.zeros((1, 3), np.float32)
        assert self.next_position(lane, lane.state) == [[2]]


class TestShapesOfFollowers:
    @pytest.fixture
    def make(self, load):
        """A lane whose mask and positions have these shapes."""
        return lambda mask, positions: load(COUNTED).lane(
            {"attention_mask": mask, "position_ids": positions},
            state=StatePorts({"hn": "h"}, 4, follow={"attention_mask": "mask", "position_ids": "positions"}),
            outputs={"mask": LaneMemory.left()},
            trials=False,
        )

    @pytest.mark.parametrize(("rows", "others"), [(1, 1), (0, 2), (2, 3), (3, 1)])
    def test_positions_may_be_more_than_the_mask_has(self, make, rows, others):
        columns = 1 << 20
        lane = make((rows, 1), (others, columns))
        for start in range(2):
            lane.run()
            assert (lane.outputs["positions"] == np.arange(start, start + columns)).all()

    def test_snapshot_of_its_own_views_changes_nothing(self, make):
        state = make((1, 1), (1, 1)).state
        before = state.snapshot()
        state.write(zrt.StateSnapshot(dict(state), before.steps, before.seen, (3,)))
        assert state.snapshot().positions == (3,)

    def test_hidden_steps_do_not_count(self, make):
        lane = make((2, 1), (3, 9))
        lane.state["attention_mask"][0, 1] = 0
        lane.state["attention_mask"][1, 3] = 0
        assert run_on(lane)["positions"].tolist() == [
            [0, 1, 1, 2, 3, 4, 5, 6, 7],
            [0, 1, 2, 3, 3, 4, 5, 6, 7],
            [0, 1, 2, 3, 3, 4, 5, 6, 7],
        ]

    @pytest.mark.parametrize("rows", [1 << 60, 2**63 - 1])
    def test_mask_beyond_an_address_space_is_refused(self, make, rows):
        with pytest.raises(AllocationError, match="state 'attention_mask': no memory for"):
            make((rows, 1), (1, 1))


class TestErrors:
    def test_growing_by_other_than_the_steps_is_refused(self, load):
        session = load(
            "(float[past, 2] past_0, float[3, 2] x) => (float[total, 2] present_0) "
            "{ present_0 = Concat <axis = 0> (past_0, x) }"
        )
        with pytest.raises(ShapeError, match=r"state 'past_0': the model makes \[3, 2\].* as step=3, .* step='tokens'"):
            session.lane(state=StatePorts([StatePair("present_0", "past_0", 0)], 8))
        lane = session.lane(state=StatePorts([StatePair("present_0", "past_0", 0)], 8, step=3))
        lane.run()
        lane.run()
        assert lane.state.steps == 6

    def test_step_names_the_input_that_counts(self, load):
        session = load(
            "(float[past, 2] past_0, float[5] y, float[1, n, 2] x) => (float[total, 2] present_0, float[5] z) "
            "<int64[2] flat = {-1, 2}> "
            "{ rows = Reshape(x, flat) present_0 = Concat <axis = 0> (past_0, rows) z = Neg(y) }"
        )
        lane = session.lane({"x": (1, 3, 2)}, state=zrt.kv_cache(session, 8, step="x"))
        lane.run()
        assert (lane.step, lane.state.steps) == (3, 3)

    def test_growing_needs_a_capacity(self):
        with pytest.raises(ArgumentError, match="give the capacity"):
            StatePorts([StatePair("present_0", "past_0", 0)])

    def test_open_steps_are_named(self, decoder):
        with pytest.raises(ShapeError, match=r"input 'input_ids'.*number of steps"):
            decoder.lane(state=zrt.kv_cache(decoder, 8))

    def test_state_of_another_capacity_is_refused(self, decoder):
        one, two = (decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, size)) for size in (8, 9))
        with pytest.raises(ArgumentError, match=r"carries past_key_values.0.key: \[1, 2, 8, 8\], the state has"):
            one.run(two.state)
