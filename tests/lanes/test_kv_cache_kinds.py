"""`kv_cache` for caches of other kinds: of cross-attention, of grouped queries, and written in place."""

import numpy as np
import pytest

import zrt
from tests.support.decoding import CACHES, decoder_session, plain, step, tokens
from tests.support.lanes import run_on
from zrt import Session, StatePair
from zrt.errors import ArgumentError, CapacityError

# The first run makes the cross-attention's keys; later runs read them, and make none.
MERGED = """
(float[1, n] input_ids, float[1, 1, e, 2] encoder_hidden_states,
      float[1, 1, past, 2] past_key_values_0_decoder_key,
      float[1, 1, kept, 2] past_key_values_0_encoder_key, bool[1] use_cache_branch)
  => (float[1, 1, total, 2] present_0_decoder_key, float[b, 1, made, 2] present_0_encoder_key, float y)
  <float[1, 1, 1, 2] step = {1, 2}, float[0, 1, 1, 2] none = {}> {
    present_0_decoder_key = Concat <axis = 2> (past_key_values_0_decoder_key, step)
    cross, present_0_encoder_key = If (use_cache_branch) <
        then_branch = cached () => (float[1, 1, kept, 2] used, float[0, 1, 1, 2] nothing) {
            used = Identity(past_key_values_0_encoder_key)
            nothing = Identity(none)
        },
        else_branch = first () => (float[1, 1, e, 2] made, float[1, 1, e, 2] same) {
            made = Neg(encoder_hidden_states)
            same = Neg(encoder_hidden_states)
        }
    >
    sum = ReduceSum <keepdims = 0> (cross)
    ids = ReduceSum <keepdims = 0> (input_ids)
    y = Add(sum, ids)
}
"""


class TestCrossAttention:
    @pytest.fixture
    def lane(self, load) -> zrt.StatefulLane:
        merged = load(MERGED)
        shapes = {"input_ids": (1, 1), "encoder_hidden_states": (1, 1, 3, 2)}
        lane = merged.lane(shapes, state=zrt.kv_cache(merged, 4))
        lane.inputs["encoder_hidden_states"][...] = [[[[1, 2], [3, 4], [5, 6]]]]
        return lane

    def test_value_of_the_first_run_is_kept(self, lane):
        for turn in range(1, 5):
            assert run_on(lane)["y"] == -21
            assert lane.state.steps == turn
            assert lane.state["past_key_values_0_encoder_key"].tolist() == [[[[-1, -2], [-3, -4], [-5, -6]]]]
            lane.inputs["encoder_hidden_states"][...] = 0

    def test_reset_makes_it_anew(self, lane):
        lane.run()
        lane.state.reset()
        assert lane.state["past_key_values_0_encoder_key"].shape == (1, 1, 0, 2)
        run_on(lane, encoder_hidden_states=1)
        assert run_on(lane)["y"] == -6

    def test_copies_and_files_have_it(self, lane, tmp_path):
        lane.run()
        twin = lane.state.copy()
        lane.state.save(tmp_path / "state.npz")
        loaded = lane.new_state()
        loaded.load(tmp_path / "state.npz")
        for state in (twin, loaded):
            lane.run(state)
            assert lane.outputs["y"] == -21
            assert state.steps == 2

    def test_states_have_their_own(self, lane):
        one, two = lane.new_state(), lane.new_state()
        lane.run(one)
        lane.inputs["encoder_hidden_states"][...] = 1
        lane.run(two)
        lane.run(one)
        assert lane.outputs["y"] == -21
        lane.run(two)
        assert lane.outputs["y"] == -6

    def test_value_without_an_output_is_the_caller_s(self, load):
        text = """
        (float[1, 1, past, 2] past_key_values_0_decoder_key, float[1, 1, e, 2] past_key_values_0_encoder_key)
          => (float[1, 1, total, 2] present_0_decoder_key, float y) <float[1, 1, 1, 2] step = {1, 2}> {
            present_0_decoder_key = Concat <axis = 2> (past_key_values_0_decoder_key, step)
            y = ReduceSum <keepdims = 0> (past_key_values_0_encoder_key)
        }
        """
        session = load(text)
        lane = session.lane(state=zrt.kv_cache(session, 4))
        assert run_on(lane)["y"] == 0
        lane.state["past_key_values_0_encoder_key"] = np.ones((1, 1, 5, 2), np.float32)
        for _ in range(2):
            assert run_on(lane)["y"] == 10


# `past` holds `capacity` rows; the model writes row `total - 1` of it, and returns all of it.
IN_PLACE = """
(float[1, 2] x, float[rows, 2] past_0, int64 total_sequence_length)
  => (float[rows, 2] present_0) <int64 one = {1}, int64[2] place = {1, 1}> {
    index = Sub(total_sequence_length, one)
    indices = Reshape(index, place)
    present_0 = ScatterND(past_0, indices, x)
}
"""


class TestGroupQueryAttention:
    @pytest.fixture(scope="class")
    @classmethod
    def grouped(cls) -> Session:
        return decoder_session(grouped=True)

    @pytest.mark.parametrize("in_place", [True, False])
    def test_tokens_equal_those_of_a_run_without_cache(self, grouped, decoder, in_place):
        caches = zrt.kv_cache(grouped, 16, in_place=in_place)
        prefill = grouped.lane({"input_ids": (1, 5)}, state=caches)
        generate = grouped.lane({"input_ids": (1, 1)}, state=caches)
        ids = tokens(16)
        expected = plain(decoder, ids)
        state = prefill.new_state()
        np.testing.assert_allclose(step(prefill, ids[:, :5], state)[0], expected[0, :5], atol=1e-5)
        for place in range(5, 16):
            logits = step(generate, ids[:, place : place + 1], state)
            np.testing.assert_allclose(logits[0, 0], expected[0, place], atol=1e-5)
        with pytest.raises(CapacityError):
            generate.run(state)

    def test_window_in_place(self, grouped):
        apart = grouped.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(grouped, 6, window=2))
        shared = grouped.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(grouped, 6, window=2, in_place=True))
        for token in tokens(15)[0]:
            np.testing.assert_allclose(step(shared, token), step(apart, token), atol=1e-5)
        assert shared.state.steps == apart.state.steps
        steps = apart.state.steps
        for name in CACHES:
            np.testing.assert_allclose(shared.state[name][:, :, :steps], apart.state[name], atol=1e-6)


class TestInPlace:
    @pytest.fixture
    def lane(self, load) -> zrt.StatefulLane:
        session = load(IN_PLACE)
        pairs, follow = [StatePair("present_0", "past_0", axis=0)], ["total_sequence_length"]
        return session.lane(state=zrt.kv_cache(session, 3, pairs=pairs, in_place=True, follow=follow))

    def test_one_buffer_has_both_ends(self, lane):
        address = lane.state["past_0"].ctypes.data
        for turn in range(1, 4):
            run_on(lane, x=turn)
            assert lane.state["past_0"].ctypes.data == address
        assert lane.state["past_0"].tolist() == [[1, 1], [2, 2], [3, 3]]
        with pytest.raises(CapacityError):
            lane.run()

    def test_copies_have_all_of_it(self, lane):
        run_on(lane, x=1)
        twin = lane.state.copy()
        assert (twin.steps, twin["past_0"].tolist()) == (1, [[1, 1], [0, 0], [0, 0]])


def test_value_of_the_first_run_is_empty_along_an_open_axis(load):
    # Keys that are stored transposed: the axis before the last has a fixed size.
    session = load(
        """(float[1, 2, e] sound, float[1, 2, kept] cross, bool[1] again) => (float[1, 2, m] made, float y) {
            made = If (again) <
                then_branch = used () => (float[1, 2, n] o) { o = Identity(cross) },
                else_branch = made () => (float[1, 2, n] p) { p = Neg(sound) }
            >
            y = ReduceSum <keepdims = 0> (made)
        }"""
    )
    ports = zrt.StatePorts([StatePair("made", "cross", once=True)], 8, follow={"again": "past"})
    lane = session.lane({"sound": (1, 2, 3)}, state=ports)
    assert lane.state["cross"].shape == (1, 2, 0)
    lane.inputs["sound"][...] = 1
    for _ in range(2):
        lane.run()
        assert lane.outputs["y"] == -6
    with pytest.raises(ArgumentError, match="axis 1 has the size 2 in the model"):
        session.lane({"sound": (1, 2, 3)}, state=zrt.StatePorts([StatePair("made", "cross", 1, once=True)], 8))


@pytest.mark.parametrize("size", ["e", "?"])
@pytest.mark.parametrize("shapes", [{"x": (1, 2)}, {"x": (1, 2), "cross": (1, 5)}])
def test_output_takes_the_size_of_a_value_that_is_made_once(load, size, shapes):
    session = load(
        f"(float[b, 2] x, float[b, e] cross) => (float[b, {size}] y) {{ s = ReduceSum(x)  y = Add(cross, s) }}"
    )
    lane = session.lane(shapes, state=[StatePair(None, "cross", once=True)])
    # The rows are known from the other input.
    assert lane.state["cross"].shape == (1, 0)
    lane.inputs["x"][...] = 1
    for count in (5, 3):
        lane.state["cross"] = np.ones((1, count), np.float32)
        lane.run()
        assert lane.outputs["y"].tolist() == [[3] * count]


def test_prime_keeps_values_that_are_made_once(load):
    session = load(
        "(float[1, 1] x, float[1, p] past_0, float[k] cross, int64[1] at) => (float[1, t] present_0, float[1] y) "
        "{ present_0 = Concat <axis = 1> (past_0, x)  y = Gather(cross, at) }"
    )
    pairs = [StatePair("present_0", "past_0", 1), StatePair(None, "cross", once=True)]
    for full in (False, True):
        initial = {"cross": np.ones(3, np.float32)} | ({"past_0": np.ones((1, 3), np.float32)} if full else {})
        lane = session.lane(state=zrt.StatePorts(pairs, 3, initial=initial), trials=False)
        lane.inputs["at"][...] = 2
        lane.prime(10)


def test_output_grows_when_the_first_run_made_a_value(load):
    session = load(
        "(float[b, 2] x, float[b, e] cross) => (float[b, n] y, float[b, 2] made) "
        "{ made = Identity(x)  y = Concat <axis = 1> (cross, x) }"
    )
    lane = session.lane({"x": (1, 2)}, state=[StatePair("made", "cross", once=True)])
    for number, wanted in enumerate([[0, 0], [0, 0, 1, 1], [0, 0, 2, 2]]):
        run_on(lane, x=number)
        assert lane.outputs["y"].tolist() == [wanted]


def test_snapshot_has_the_values_that_first_runs_made(load):
    branches = " ".join(
        f"""made_{name} = If (again) <
                then_branch = used_{name} () => (float[m] o_{name}) {{ o_{name} = Identity({name}) }},
                else_branch = new_{name} () => (float[n] p_{name}) {{ p_{name} = {operator}(sound) }}
            >"""
        for name, operator in (("a", "Neg"), ("b", "Identity"), ("c", "Abs"))
    )
    session = load(
        f"""(float[n] sound, float[k] a, float[k] b, float[k] c, bool[1] again)
            => (float[m] made_a, float[m] made_b, float[m] made_c) {{ {branches} }}"""
    )
    pairs = [StatePair(f"made_{name}", name, once=True) for name in "abc"]
    lane = session.lane({"sound": (2,)}, state=zrt.StatePorts(pairs, 8, follow={"again": "past"}))
    assert lane.state.snapshot().arrays == {}
    run_on(lane, sound=-3)
    arrays = lane.state.snapshot().arrays
    assert {name: array.tolist() for name, array in arrays.items()} == {"a": [3, 3], "b": [-3, -3], "c": [3, 3]}
    # A state that begins with them does not make them again.
    lane.inputs["sound"][...] = 0
    again = lane.new_state(lane.state.snapshot())
    lane.run(again)
    assert again["b"].tolist() == [-3, -3]
