"""Lanes with state on a device: that of the tests' own provider library, and CUDA's where there is one."""

import copy
import gc
import pickle

import numpy as np
import pytest

import zrt
from benches.models.decoder import decoder
from tests.support.arrays import f32
from zrt import Session, SessionOptions, StatePair, StatePorts
from zrt.errors import UnsupportedError


def host(state: zrt.State, name: str = "x") -> list[float]:
    """The content of a state on a device."""
    value = state[name]
    assert isinstance(value, zrt.Value)
    assert not value.memory.is_host
    content = np.empty(value.shape, np.float32)
    zrt.copy(value, content)
    return content.tolist()


@pytest.fixture
def lane(negate) -> zrt.StatefulLane:
    """x becomes -x, on the device of the tests' provider library."""
    return negate().lane({"x": (2,)}, state=StatePorts({"y": "x"}, initial={"x": f32(1, 2)}))


class TestOwnDevice:
    def test_state_stays_on_the_device(self, lane):
        assert host(lane.state) == [1, 2]
        addresses = []
        for turn in range(4):
            addresses.append(lane.state["x"].address)
            lane.run()
            assert host(lane.state) == ([-1, -2] if turn % 2 == 0 else [1, 2])
        assert addresses[0] == addresses[2] != addresses[1] == addresses[3]
        audit = lane.audit()
        audit.require_zero_copy()
        assert not audit.state[0].memory.is_host

    def test_states_switch(self, lane):
        one, two = lane.new_state({"x": f32(3, 4)}), lane.new_state()
        lane.run(one)
        lane.run(two)
        lane.run(one)
        assert (host(one), host(two)) == ([3, 4], [-1, -2])

    def test_reset_write_and_copies(self, lane, tmp_path):
        lane.run()
        twins = [lane.state.copy(), copy.deepcopy(lane.state), lane.new_state(pickle.loads(pickle.dumps(lane.state)))]
        lane.state.save(tmp_path / "state.npz")
        twins.append(lane.new_state())
        twins[-1].load(tmp_path / "state.npz")
        lane.state.reset()
        assert host(lane.state) == [1, 2]
        assert [host(twin) for twin in twins] == [[-1, -2]] * 4
        lane.state["x"] = f32(7, 8)
        assert host(lane.state) == [7, 8]

    def test_state_outlives_the_session(self, negate):
        session = negate()
        lane = session.lane({"x": (2,)}, state={"y": "x"})
        assert host(lane.state) == [0, 0]
        state = lane.new_state({"x": f32(1, 2)})
        lane.run(state)
        session.close()
        lane.close()
        del session, lane
        gc.collect()
        assert host(state) == [-1, -2]

    def test_mask_lies_on_the_host(self, build, plugin):
        model = build(
            "(float[n] x, float[b, s] m) => (float[n] y, float sum) {"
            " y = Neg(x) negated = Neg(m) sum = ReduceSum<keepdims = 0>(negated) }"
        )
        session = Session(model, SessionOptions(log_severity_level="FATAL"), [plugin.own, "cpu"])
        ports = StatePorts({"y": "x"}, capacity=4, follow={"m": "mask"})
        lane = session.lane({"x": (2,), "m": (1, 1)}, state=ports)
        for run in range(1, 4):
            lane.run()
            assert lane.outputs["sum"] == -run
        assert [port.memory.is_host for port in lane.audit().state] == [False, True]

    def test_window_is_refused(self, negate):
        ports = StatePorts([StatePair("y", "x", axis=0)], 4, window=2)
        with pytest.raises(UnsupportedError, match="window: 'x' lies on"):
            negate().lane(state=ports, trials=False)


@pytest.mark.gpu
class TestCuda:
    @pytest.fixture
    def session(self) -> Session:
        return Session(decoder(), SessionOptions(log_severity_level="ERROR"), ["cuda", "cpu"])

    def test_decoder_equals_that_on_the_host(self, session):
        plain = Session(decoder(), SessionOptions(log_severity_level="ERROR"))
        lanes = [each.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(each, 16)) for each in (session, plain)]
        assert not lanes[0].audit().state[0].memory.is_host
        for token in range(16):
            for lane in lanes:
                lane.inputs["input_ids"][...] = token
                lane.run()
            np.testing.assert_allclose(lanes[0].outputs["logits"], lanes[1].outputs["logits"], atol=1e-3)

    def test_copies_go_on_alike(self, session):
        lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, 8))
        lane.run()
        twin = lane.new_state(pickle.loads(pickle.dumps(lane.state)))
        lane.run()
        logits = lane.outputs["logits"].copy()
        lane.run(twin)
        np.testing.assert_array_equal(lane.outputs["logits"], logits)
