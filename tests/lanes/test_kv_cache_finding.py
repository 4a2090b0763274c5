"""The pairs that `kv_cache` finds, by names, shapes and arguments."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.lanes import run_on
from zrt import Session, SessionOptions, StatePair, StatePorts
from zrt.errors import ArgumentError, DTypeError, ModelError

QUIET = SessionOptions(log_severity_level="ERROR", intra_op_num_threads=1)


def appending(past: str, present: str, shape: list, grown: list, axis: int) -> Session:
    """A model whose cache is its past and x."""
    fresh = [*shape[:axis], 1, *shape[axis + 1 :]]
    node = models.node("Concat", [past, "x"], [present], axis=axis)
    inputs = [models.tensor("x", models.FLOAT, fresh), models.tensor(past, models.FLOAT, shape)]
    return Session(models.build([node], inputs, [models.tensor(present, models.FLOAT, grown)]), QUIET)


FOUR, GROWN = [1, 2, "past", 4], [1, 2, "total", 4]


@pytest.mark.parametrize(
    ("past", "present", "shape", "grown", "axis"),
    [
        ("past_key_values.0.key", "present.0.key", FOUR, GROWN, 2),
        ("past_key_values.0.key", "present_key_values.0.key", FOUR, GROWN, 2),
        ("past_0", "present_0", FOUR, GROWN, 2),
        ("past_key_0", "present_key_0", FOUR, GROWN, 2),
        ("past_key_values.0.decoder.key", "present.0.decoder.key", FOUR, GROWN, 2),
        ("cache_in", "cache_out", FOUR, GROWN, 2),
        ("past_0", "present_0", FOUR, [1, 2, "past + 1", 4], 2),
        ("past_0", "present_0", [1, "past", 2, 4], [1, "total", 2, 4], 1),
        ("past_0", "present_0", [2, 1, 2, "past", 4], [2, 1, 2, "all", 4], 3),
        ("past_0", "present_0", ["past", 4], ["total", 4], 0),
        ("past_0", "present_0", [1, 2, None, 4], [1, 2, None, 4], 2),
    ],
)
def test_names_and_axes(past, present, shape, grown, axis):
    session = appending(past, present, shape, grown, axis)
    caches = zrt.kv_cache(session, 5)
    assert caches.pairs == (StatePair(present, past, axis),)
    lane = session.lane(state=caches)
    for turn in range(5):
        run_on(lane, x=turn)
    assert lane.state[past].shape == tuple(5 if index == axis else size for index, size in enumerate(shape))
    along = np.moveaxis(lane.state[past], axis, 0).reshape(5, -1)
    assert (along == np.arange(5)[:, np.newaxis]).all()


def test_given_axis_and_pairs():
    session = appending("old", "new", [1, "a", "b", 4], [1, "c", "d", 4], 1)
    with pytest.raises(ModelError, match="no inputs such as past_key_values"):
        zrt.kv_cache(session, 4)
    caches = zrt.kv_cache(session, 4, pairs={"new": "old"}, axis=1)
    assert caches.pairs == (StatePair("new", "old", 1),)
    lane = session.lane({"x": (1, 1, 2, 4), "old": (1, 0, 2, 4)}, state=caches)
    lane.run()
    assert lane.state["old"].shape == (1, 1, 2, 4)
    assert zrt.kv_cache(session, 4, pairs=[StatePair("new", "old", 2)]).pairs[0].axis == 2


@pytest.mark.parametrize("pairs", [None, {"present_0": "past_0"}, [StatePair("present_0", "past_0", in_place=True)]])
def test_pairs_of_one_shape_grow_where_the_arguments_say_so(load, pairs):
    session = load(
        "(int64[1, 1] input_ids, int64[1, 1] at, float[1, 8] past_0) => (float[1, 8] present_0) "
        "{ x = Cast <to = 1> (input_ids) present_0 = ScatterElements <axis = 1> (past_0, at, x) }"
    )
    settings = {"pairs": pairs, "in_place": True, "window": 4, "follow": {"at": "last"}}
    caches = zrt.kv_cache(session, 8, axis=1, **settings)
    assert caches.pairs == (StatePair("present_0", "past_0", axis=1, in_place=True),)
    lane = session.lane(state=caches)
    for turn in range(1, 11):
        run_on(lane, input_ids=turn)
    assert lane.state.steps == 6
    assert lane.state["past_0"][0, :6].tolist() == [5, 6, 7, 8, 9, 10]
    assert zrt.kv_cache(session, 8, **settings).pairs[0].axis == -2
    with pytest.raises(ArgumentError, match=r"state 'past_0': axis 1 has the size 8 in the model; .*, 100"):
        session.lane(state=zrt.kv_cache(session, 100, axis=1, **settings))
    with pytest.raises(ArgumentError, match=r"state 'past_0': axis 1 has the size 8 in the model$"):
        session.lane(state=zrt.kv_cache(session, 8, axis=1, pairs={"present_0": "past_0"}))


def test_given_pair_keeps_what_it_says():
    session = appending("old", "new", [1, "a", 2, 4], [1, "b", 2, 4], 1)
    caches = zrt.kv_cache(session, 4, pairs=[StatePair("new", "old", in_place=True)])
    assert caches.pairs == (StatePair("new", "old", 1, in_place=True),)


def test_axis_and_in_place_are_not_for_values_that_are_made_once(load):
    session = load(
        '(float[1, 8] past_0, float[1, 4, k] cross, float[1, m] "past.encoder.0") '
        '=> (float[1, 8] present_0, float[1, 4, k] made, float[1, m] "present.encoder.0") '
        '{ present_0 = Neg(past_0) made = Neg(cross) "present.encoder.0" = Neg("past.encoder.0") }'
    )
    once = StatePair("made", "cross", axis=2, once=True)
    for pairs in ([StatePair("present_0", "past_0"), once], [StatePair("present_0", "past_0", axis=1), once]):
        caches = zrt.kv_cache(session, 8, pairs=pairs, axis=1, in_place=True)
        assert caches.pairs == (StatePair("present_0", "past_0", axis=1, in_place=True), once)
    # A flag of the caller's counts more than a name.
    own = StatePair("present.encoder.0", "past.encoder.0", in_place=True)
    assert zrt.kv_cache(session, 8, pairs=[own]).pairs == (own,)


def test_pair_of_one_shape_is_carried_as_it_is(load):
    session = load(
        "(float[1, 4] past_conv_0, float[past, 2] past_0, float[1, 2] x) "
        "=> (float[1, 4] present_conv_0, float[total, 2] present_0) "
        "{ present_conv_0 = Neg(past_conv_0) present_0 = Concat <axis = 0> (past_0, x) }"
    )
    caches = zrt.kv_cache(session, 4)
    assert {pair.input: pair.axis for pair in caches.pairs} == {"past_conv_0": None, "past_0": 0}
    lane = session.lane(state=caches)
    lane.state["past_conv_0"][...] = 1
    lane.run()
    lane.run()
    assert (lane.state["past_conv_0"].tolist(), lane.state["past_0"].shape) == ([[1, 1, 1, 1]], (2, 2))


@pytest.mark.parametrize(
    ("follow", "error", "words"),
    [
        (["input_ids"], ArgumentError, "'input_ids' is none of"),
        ([["position_ids"]], ArgumentError, r"\['position_ids'\] is none of"),
        ("attention_mask", DTypeError, "follow"),
        ({"attention_mask": "nope"}, ArgumentError, "'nope' is none of mask"),
    ],
)
def test_wrong_follow(decoder, follow, error, words):
    with pytest.raises(error, match=words):
        zrt.kv_cache(decoder, 4, follow=follow)


@pytest.mark.parametrize("argument", ["follow", "initial"])
def test_ports_take_dicts_by_input(argument):
    with pytest.raises(DTypeError, match=f"^{argument}: expected a dict by input, got list"):
        StatePorts({"present_0": "past_0"}, **{argument: ["past_0"]})


def test_names_of_decoders_behind_an_encoder():
    text = """
    (float[past, 2] past_0, float[s, 2] x, int64[1, total] decoder_attention_mask, int64[1, s] decoder_position_ids)
      => (float[all, 2] present_0, int64[1, total] m, int64[1, s] p) {
        present_0 = Concat <axis = 0> (past_0, x)
        m = Identity(decoder_attention_mask)
        p = Identity(decoder_position_ids)
    }
    """
    caches = zrt.kv_cache(Session(models.parsed(text), QUIET), 4)
    assert caches.follow == {"decoder_attention_mask": "mask", "decoder_position_ids": "positions"}


def test_found_ports_are_data(decoder):
    caches = zrt.kv_cache(decoder, 4)
    assert pickle.loads(pickle.dumps(caches)) == caches
    assert copy.deepcopy(caches) == caches
    assert dataclasses.asdict(caches)["capacity"] == 4


def test_changes_of_a_given_dict_come_too_late(decoder):
    follow = {"attention_mask": "mask"}
    caches = zrt.kv_cache(decoder, 4, follow=follow)
    ports = StatePorts(caches.pairs, 4, follow=follow)
    follow["position_ids"] = "nope"
    assert ports == caches
    assert decoder.lane({"input_ids": (1, 1)}, state=ports).step == 1
