"""`samples`: values of the caller's for the trial runs of a lane, where made-up data fails or decides the shapes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support import models
from tests.support.lanes import run_on
from zrt import DynamicRuntime, Lane, LaneMemory, MemoryInfo, Runtime, Session
from zrt.errors import AllocationError, ArgumentError, DTypeError, Error, ShapeError, UnknownNameError
from zrt.lanes.samples import number
from zrt.types import ElementType

Load = Callable[[str], Session]

# The number of rows is the rate over 4,000; a table has no number for a rate of 0 or 1.
RATED = """(float[8] wave, int64 rate) => (float[a, b] rows)
<int64[1] base = {4000}, int64[1] nine = {9}, int64[1] rest = {-1}, int64[8] table = {1, 2, 3, 4, 5, 6, 7, 8}> {
    quotient = Div(rate, base)
    index = Sub(quotient, nine)
    count = Gather(table, index)
    shape = Concat<axis = 0>(count, rest)
    rows = Reshape(wave, shape)
}"""

# The same, with the shape declared that a rate of 16,000 makes.
DECLARED = RATED.replace("a, b", "4, 2")

WAYS: dict[str, Callable[[Session, dict[str, Any]], Lane]] = {
    "Session.lane": lambda session, samples: session.lane(samples=samples),
    "Runtime": lambda session, samples: Runtime(session, lanes=2, samples=samples)[1],
    "DynamicRuntime": lambda session, samples: DynamicRuntime(session, samples=samples).lane(()),
}

each_way = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS.keys())


@pytest.fixture
def rated(load: Load) -> Session:
    """A model that runs only on a few rates, which decide its output's shape."""
    return load(RATED)


@each_way
def test_sample_lets_trial_runs_find_the_shape(rated: Session, make: Callable[..., Lane]) -> None:
    lane = make(rated, {"rate": 16_000})
    assert lane.outputs["rows"].shape == (4, 2)
    audit = lane.audit()
    assert audit.allocations == ()
    assert audit.trial_error == ""
    # The inputs begin as zeros all the same.
    assert lane.inputs["rate"] == 0
    assert run_on(lane, wave=range(8), rate=16_000)["rows"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_without_samples_the_audit_says_that_trials_failed(rated: Session) -> None:
    lane = rated.lane()
    audit = lane.audit()
    assert audit.trial_error != ""
    (sentence,) = audit.allocations
    assert sentence.startswith("rows: a trial run failed, so its shape is not known; samples gives")
    assert sentence.endswith(audit.trial_error)
    assert "depends on the data" not in sentence
    assert run_on(lane, rate=8_000)["rows"].shape == (2, 4)


def test_audit_of_declared_shapes_says_that_trials_failed(load: Load) -> None:
    session = load(DECLARED)
    lane = session.lane()
    assert lane.outputs["rows"].shape == (4, 2)
    assert lane.audit().allocations == ()
    assert lane.audit().trial_error != ""
    tried = session.lane(samples={"rate": 16_000})
    assert tried.audit().trial_error == ""
    assert not tried.outputs["rows"].any()
    assert tried.inputs["rate"] == 0


def test_sample_shows_that_the_declared_shape_is_wrong(load: Load) -> None:
    lane = load(DECLARED).lane(samples={"rate": 8_000})
    assert lane.audit().allocations == ("rows: the model declares [4, 2], ORT makes [2, 4]",)


def test_array_is_a_sample(rated: Session) -> None:
    for rate in (np.int64(8_000), np.array(8_000), np.array([[8_000]])[0, 0]):
        assert rated.lane(samples={"rate": rate}).outputs["rows"].shape == (2, 4)


def test_number_fills_an_input(load: Load) -> None:
    session = load("(float[n] x, int64[2] shape) => (float[a, b] y) { y = Reshape(x, shape) }")
    shapes = {"x": (9,)}
    assert session.lane(shapes, samples={"shape": 3}).outputs["y"].shape == (3, 3)
    assert session.lane(shapes, samples={"shape": np.array([9, 1])}).outputs["y"].shape == (9, 1)
    assert session.lane(shapes, samples={"shape": np.array([1, 9])}).outputs["y"].shape == (1, 9)


def test_lanes_with_the_same_samples_share_trial_runs(rated: Session, trials: list[str]) -> None:
    for _ in range(2):
        assert rated.lane(samples={"rate": 8_000}).outputs["rows"].shape == (2, 4)
    assert len(trials) == 3
    assert rated.lane(samples={"rate": 4_000}).outputs["rows"].shape == (1, 8)
    assert len(trials) == 6


def test_memory_of_the_caller_stays_as_it_is(rated: Session) -> None:
    rate = np.array(8_000)
    lane = rated.lane(inputs={"rate": rate}, samples={"rate": 16_000})
    assert lane.outputs["rows"].shape == (4, 2)
    assert rate == 8_000


def test_lane_with_a_state_takes_samples(load: Load) -> None:
    session = load(
        """(float[8] wave, int64 rate, float[8] sum) => (float[a, b] rows, float[8] next)
        <int64[1] base = {4000}, int64[1] rest = {-1}> {
            next = Add(wave, sum)
            count = Div(rate, base)
            shape = Concat<axis = 0>(count, rest)
            rows = Reshape(next, shape)
        }"""
    )
    lane = session.lane(state={"next": "sum"}, samples={"rate": 16_000})
    assert lane.outputs["rows"].shape == (4, 2)
    assert not lane.state["sum"].any()
    with pytest.raises(ArgumentError, match="samples: input 'sum' is part of the state"):
        session.lane(state={"next": "sum"}, samples={"sum": 0})


@pytest.mark.parametrize("kind", [ElementType.FLOAT, ElementType.BFLOAT16, ElementType.COMPLEX64])
def test_number_is_rounded_to_the_type_and_not_to_infinity(kind: ElementType) -> None:
    info: Any = SimpleNamespace(name="x", element_type=kind)
    assert abs(complex(number(info, 0.1, "x")) - 0.1) < 1e-3
    with pytest.raises(DTypeError):
        number(info, 1e300, "x")


def test_packed_input_takes_a_sample(load: Load) -> None:
    session = load("(int4[3] x) => (float[n] y) { f = Cast<to = 1>(x) y = Relu(f) }")
    lane = session.lane(samples={"x": np.array([1, 2, 3], ml_dtypes.int4)})
    assert not lane.inputs["x"].any()
    assert session.lane(samples={"x": 3}).audit().trial_error == ""


@pytest.mark.parametrize(
    ("samples", "error", "words"),
    [
        ({"sr": 1}, UnknownNameError, "samples: the model has no input 'sr'; it has 'wave', 'rate'"),
        ({"rate": 0.5}, DTypeError, "samples: input 'rate': expected int64, got 0.5"),
        ({"rate": True}, DTypeError, "samples: input 'rate': expected int64, got True"),
        ({"rate": 2**63}, DTypeError, "samples: input 'rate': expected int64, got 9223372036854775808"),
        ({"rate": np.float32(1)}, DTypeError, "samples: input 'rate': expected int64, got float32"),
        ({"rate": "fast"}, DTypeError, "samples: input 'rate': expected int64"),
        ({"rate": None}, DTypeError, "samples: input 'rate': expected int64"),
        ({"wave": 1e300}, DTypeError, "samples: input 'wave': expected float32, got 1e\\+300"),
        ({"wave": 10**400}, DTypeError, "samples: input 'wave': expected float32"),
        (
            {"wave": np.zeros(7, np.float32)},
            ShapeError,
            r"'wave': expected the shape \[8\] or a single number, got \[7\]",
        ),
        ([16_000], DTypeError, "samples: expected a dict by input"),
    ],
)
@each_way
def test_wrong_samples_raise(
    rated: Session, make: Callable[..., Lane], samples: Any, error: type[Error], words: str
) -> None:
    with pytest.raises(error, match=words):
        make(rated, samples)


def test_sample_for_which_there_is_no_memory_raises(load: Load) -> None:
    session = load("(float[n] x) => (float[n] y) { y = Neg(x) }")
    with pytest.raises(AllocationError, match="samples: input 'x': Unable to allocate"):
        session.lane({"x": (1 << 45,)}, samples={"x": 1.0})


def test_samples_without_trials_raise(rated: Session) -> None:
    with pytest.raises(ArgumentError, match="samples: they are for trial runs, and trials=False makes none"):
        rated.lane(samples={"rate": 16_000}, trials=False)
    assert rated.lane(samples={}, trials=False).audit().allocations == (
        "rows: the model does not declare its shape, and trials=False makes no run that tells it",
    )


@pytest.mark.gpu
def test_samples_on_a_device_write_nothing_there() -> None:
    session = Session(models.squeeze(), providers=["CUDA"])
    lane = session.lane([(1, 6, 1)], inputs=LaneMemory.allocated(MemoryInfo.cuda()), samples={"x": 1.0})
    assert lane.audit().allocations == (
        "y: the model does not declare its shape, and no trial run writes data to a device",
    )
