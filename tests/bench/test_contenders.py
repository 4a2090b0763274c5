from dataclasses import replace

import numpy as np
import pytest

from tests.support import models
from zrt import LaneMemory, Session
from zrt.bench.contenders import CLoop, Subject, own_contenders, stop_rebinding
from zrt.bench.inputs import UserInputs, make_inputs
from zrt.errors import BusyError, ClosedError

X, Y = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)


@pytest.fixture
def session():
    with Session(models.add()) as session:
        yield session


def subject_of(session: Session, **arrays: np.ndarray) -> Subject:
    inputs = make_inputs(session.inputs, UserInputs(arrays or {"x": X, "y": Y}))
    return Subject(lambda: Session(models.add()), inputs, LaneMemory())


def lane_of(session: Session):
    return subject_of(session).lane(session)


def test_lane_holds_the_inputs_and_has_run(session):
    lane = lane_of(session)
    assert lane.outputs["z"].tolist() == [10, 11, 12, 13]


class TestCLoop:
    def test_c_loop_runs_the_lanes_binding(self, session):
        lane = lane_of(session)
        lane.inputs["x"][...] = 0
        assert CLoop(lane).batch(3) > 0
        assert lane.outputs["z"].tolist() == [10] * 4

    def test_c_loop_makes_no_run_to_read_its_timer(self, session):
        lane = lane_of(session)
        lane.outputs["z"][...] = 0
        assert CLoop(lane).batch(0) >= 0
        assert lane.outputs["z"].tolist() == [0] * 4

    def test_closed_lane_raises(self, session):
        lane = lane_of(session)
        lane.close()
        with pytest.raises((BusyError, ClosedError)):
            CLoop(lane).batch(1)

    def test_c_loop_runs_models_with_data_dependent_outputs(self):
        with Session(models.non_zero()) as session:
            (name,) = session.input_names
            data = np.array([0, 1, 0, 1], session.inputs[0].element_type.dtype)
            lane = subject_of(session, **{name: data}).lane(session)
            assert CLoop(lane).batch(3) > 0
            lane.run()
            assert lane.outputs[0].ravel().tolist() == [1, 3]


class TestOwnContenders:
    def test_each_contender_has_a_session_of_its_own(self, session):
        loads = []

        def load() -> Session:
            loads.append(Session(models.add()))
            return loads[-1]

        subject = replace(subject_of(session), load=load)
        contenders = own_contenders(subject, subject.lane(session))
        assert [contender.key for contender in contenders] == ["c_loop", "lane", "prepared_run", "session_run"]
        # The C loop runs over the lane, and so over its session.
        assert len(loads) == 3
        for contender in contenders:
            assert contender.batch(2) > 0
            assert len(contender.times(2)) == 2
            assert contender.cold_time() > 0

    def test_lane_that_copies_inputs_has_a_counterpart_that_does_not(self, session):
        contenders = own_contenders(subject_of(session), session.lane(rebind_inputs=True))
        assert [contender.key for contender in contenders][:3] == ["c_loop", "lane", "lane_copying"]
        assert all(contender.batch(2) > 0 for contender in contenders)

    def test_lane_without_rebinding_still_computes(self, session):
        lane = session.lane(rebind_inputs=True)
        lane.inputs["x"][...] = X
        lane.inputs["y"][...] = Y
        lane.run()
        stop_rebinding(lane)
        lane.outputs["z"][...] = 0
        lane.run()
        assert lane.outputs["z"].tolist() == [10, 11, 12, 13]
