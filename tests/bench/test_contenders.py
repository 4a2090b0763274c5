from __future__ import annotations

import numpy as np
import pytest

from tests.support import models
from zrt import LaneMemory, Session
from zrt.bench.contenders import CLoop, bound_lane, own_contenders, stop_rebinding
from zrt.bench.given import Given, make_inputs
from zrt.errors import BusyError, ClosedError

X, Y = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)


@pytest.fixture
def session():
    with Session(models.add()) as session:
        yield session


def inputs_of(session: Session, **arrays: np.ndarray):
    return make_inputs(session, Given(arrays))


def lane_of(session: Session):
    return bound_lane(session, inputs_of(session, x=X, y=Y), LaneMemory())


def test_bound_lane_holds_the_inputs_and_has_run(session):
    lane = lane_of(session)
    assert lane.outputs["z"].tolist() == [10, 11, 12, 13]


class TestCLoop:
    def test_c_loop_runs_the_lanes_binding(self, session):
        lane = lane_of(session)
        lane.inputs["x"][...] = 0
        assert CLoop(lane).batch(3) > 0
        assert lane.outputs["z"].tolist() == [10] * 4

    def test_c_loop_times_each_run_and_its_own_timer(self, session):
        loop = CLoop(lane_of(session))
        assert len(loop.times(4)) == 4
        assert min(loop.times(4)) > max(0, min(loop.timer_times(100)))

    def test_closed_lane_raises(self, session):
        lane = lane_of(session)
        lane.close()
        with pytest.raises((BusyError, ClosedError)):
            CLoop(lane).batch(1)

    def test_c_loop_runs_models_with_data_dependent_outputs(self):
        with Session(models.non_zero()) as session:
            (name,) = session.input_names
            data = np.array([0, 1, 0, 1], session.inputs[0].element_type.dtype)
            lane = bound_lane(session, inputs_of(session, **{name: data}), LaneMemory())
            assert CLoop(lane).batch(3) > 0
            lane.run()
            assert lane.outputs[0].ravel().tolist() == [1, 3]


class TestOwnContenders:
    def test_contenders_share_one_session(self, session):
        found = own_contenders(session, inputs_of(session, x=X, y=Y), LaneMemory(), lane_of(session))
        assert [contender.key for contender in found] == ["c_loop", "lane", "prepared_run", "session_run"]
        for contender in found:
            assert contender.batch(2) > 0
            assert len(contender.times(2)) == 2

    def test_lane_that_copies_inputs_has_a_counterpart_that_does_not(self, session):
        lane = session.lane(rebind_inputs=True)
        found = own_contenders(session, inputs_of(session, x=X, y=Y), LaneMemory(), lane)
        assert [contender.key for contender in found][:3] == ["c_loop", "lane", "lane_copying"]
        assert all(contender.batch(2) > 0 for contender in found)

    def test_lane_without_rebinding_still_computes(self, session):
        lane = session.lane(rebind_inputs=True)
        lane.inputs["x"][...] = X
        lane.inputs["y"][...] = Y
        lane.run()
        stop_rebinding(lane)
        lane.outputs["z"][...] = 0
        lane.run()
        assert lane.outputs["z"].tolist() == [10, 11, 12, 13]
