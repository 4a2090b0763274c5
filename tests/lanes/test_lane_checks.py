"""The checks of a lane's shapes when the lane is made: wrong declarations, contradictions, shapes that cannot run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.custom_ops import support
from tests.support import models
from tests.support.lanes import run_on
from zrt import DynamicRuntime, Lane, LaneMemory, Runtime, Session, SessionOptions
from zrt.custom_ops import KernelContext
from zrt.errors import ArgumentError, CallbackError, DTypeError, OrtError, ShapeError, UnsupportedError
from zrt.lanes import lane_shapes
from zrt.types import ValueKind

Load = Callable[..., Session]

SUM = "(float[n] x, float[n] w) => (float[n] y) { y = Add(x, w) }"
PRODUCT = "(float[a, b] x, float[c, d] w) => (float[a, d] y) { y = MatMul(x, w) }"
JOINED = "(float[n] x, float[n] w) => (float[m] y) { y = Concat<axis = 0>(x, w) }"
INDEXED = "(float[n] x, int64[m] at) => (float[m] y) { y = Gather(x, at) }"
DIVIDED = "(int64[n] x, int64[n] w) => (int64[n] y) { y = Div(x, w) }"
BRANCHES = """(float[a] x, float[b] w, int64 rate) => (float[c] y) {
    wide = Constant <value = int64 {16000}> ()
    chosen = Equal(rate, wide)
    y = If(chosen) <
        then_branch = whole () => (same) { same = Neg(x) },
        else_branch = part () => (sum) { sum = Add(x, w) }
    >
}"""

WAYS: dict[str, Callable[[Session, Any], object]] = {
    "Session.lane": lambda session, shapes: session.lane(shapes),
    "a lane that leaves its outputs": lambda session, shapes: session.lane(shapes, outputs=LaneMemory.left()),
    "Runtime": lambda session, shapes: Runtime(session, lanes=2, shapes=shapes),
    "DynamicRuntime.lane": lambda session, shapes: DynamicRuntime(session).lane(shapes),
    "DynamicRuntime.prebuild": lambda session, shapes: DynamicRuntime(session).prebuild([shapes]),
}

each_way = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS.keys())


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, trials: list[str]) -> list[str]:
    """The runs that making lanes takes: "zeros" for a lane's own run, "trial" for each trial run."""
    on_zeros = Lane._tries

    def counted_zeros(lane: Lane) -> bool:
        trials.append("zeros")
        return on_zeros(lane)

    monkeypatch.setattr(Lane, "_tries", counted_zeros)
    return trials


def declared_as(text: str, shape: list[int | str]) -> bytes:
    """A model that declares its first output with another shape than onnx's checker would let it have."""
    model = models.parsed(text)
    tensor = model.graph.output[0].type.tensor_type
    tensor.ClearField("shape")
    for size in shape:
        tensor.shape.dim.add(**({"dim_value": size} if isinstance(size, int) else {"dim_param": size}))
    return model.SerializeToString()


# y has one element more than x.
LONGER = "(float[1, n] x) => (float[1, n] y, float[1, n] z) <float[1, 1] one = {1.0}> " + (
    "{ y = Concat<axis = 1>(x, one) z = Neg(x) }"
)

# y has the rank that the shape in the feed gives it, which no declaration can know.
EXPANDED = "(float[1] x, int64[k] shape) => (float[a, b] y) { y = Expand(x, shape) }"


class TestWronglyDeclaredOutputs:
    def check(self, lane: Lane, why: str, session: Session) -> None:
        """The lane leaves its first output to ORT for that reason, and computes the same as the session."""
        assert lane.audit().allocations == (why,)
        with pytest.raises(ArgumentError, match="the lane has not run yet"):
            lane.outputs[0]
        for view in lane.inputs.values():
            view[...] = np.arange(view.size).reshape(view.shape) + 1
        for _ in range(2):
            lane.run()
            expected = session.run({name: view.copy() for name, view in lane.inputs.items()})
            for mine, right in zip(lane.outputs.values(), expected, strict=True):
                np.testing.assert_array_equal(mine, right)

    @pytest.mark.parametrize("size", ["n", 4])
    def test_size_is_left_to_ort(self, size: int | str) -> None:
        session = Session(declared_as(LONGER, [1, size]), SessionOptions(log_severity_level="FATAL"))
        lane = session.lane([(1, 4)])
        self.check(lane, f"y: the model declares [1, {size}], ORT makes [1, 5]", session)
        # The other output is declared correctly, so that the lane binds it.
        assert lane.outputs["z"].shape == (1, 4)
        assert lane.outputs["z"] is lane.outputs["z"]

    def test_rank_is_left_to_ort(self) -> None:
        session = Session(declared_as(EXPANDED, ["a", "b"]))
        lane = session.lane({"x": (1,), "shape": (3,)})
        self.check(lane, "y: the model declares [a, b], ORT makes [0, 0, 0]", session)
        assert session.lane({"x": (1,), "shape": (2,)}).audit().allocations == ("y: its shape depends on the data",)

    def test_shape_that_the_caller_gives_is_bound(self) -> None:
        session = Session(models.wrongly_declared())
        lane = session.lane([(5,)], output_shapes={"y": (4,)})
        run_on(lane, x=range(5))
        assert lane.audit().allocations == ()
        np.testing.assert_array_equal(lane.outputs["y"], [1, 2, 3, 4])

    def test_lanes_share_the_finding(self, runs: list[str]) -> None:
        why = ("y: the model declares [n], ORT makes [4]",)
        session = Session(models.wrongly_declared())
        runtime = Runtime(session, lanes=8, shapes=[(5,)])
        assert {lane.audit().allocations for lane in runtime} == {why}
        assert runs == ["zeros", "trial"]
        dynamic = DynamicRuntime(session, lanes=2)
        assert dynamic.lane([(5,)]).audit().allocations == why
        assert runs == ["zeros", "trial"]
        replicas = Runtime.replicate(models.wrongly_declared(), lanes=3, shapes=[(5,)])
        assert {lane.audit().allocations for lane in replicas} == {why}
        assert runs == ["zeros", "trial"] * 2

    def test_sparse_tensor_is_a_value(self) -> None:
        session = Session(models.sparse_constant(), SessionOptions(log_severity_level="FATAL"))
        for options in ({}, {"outputs": LaneMemory.left()}):
            lane = session.lane([2], **options)
            sparse = run_on(lane, x=3)["s"]
            assert sparse.kind is ValueKind.SPARSE_TENSOR
            assert sparse.sparse().values.tolist() == [3, 5]
            np.testing.assert_array_equal(lane.outputs["y"], [-3, -3])
            (audit, _) = lane.audit().outputs
            assert (audit.shape, audit.nbytes, audit.address, audit.ort_address) == (None, 0, None, None)
        with pytest.raises(UnsupportedError, match=r"an output is sparse.*LaneMemory.left\(\)"):
            session.lane([2], trials=False).run()
        assert session.lane([2]).audit().allocations == ("s: the model declares a tensor, ORT makes a sparse tensor",)


class TestContradictions:
    @each_way
    def test_two_sizes_for_one_name_raise_before_anything_runs(self, load: Load, runs: list[str], make: Any) -> None:
        session = load(SUM)
        words = "inputs 'x' and 'w' give the size 'n' two values, 2 and 3 .*trials=False"
        for shapes in ({"x": (2,), "w": (3,)}, [(2,), (3,)]):
            with pytest.raises(ShapeError, match=words):
                make(session, shapes)
        assert runs == []

    @each_way
    def test_size_of_1_may_broadcast(self, load: Load, make: Any) -> None:
        make(load(SUM), [(2,), (1,)])
        lane = load(SUM).lane([(1,), (2,)])
        np.testing.assert_array_equal(run_on(lane, x=3, w=[4, 5])["y"], [7, 8])

    def test_size_of_1_that_does_not_broadcast_raises(self, load: Load) -> None:
        session = load("(float[n, k] x, float[k, m] w) => (float[n, m] y) { y = MatMul(x, w) }")
        words = r"x \[2, 3\], w \[1, 4\]; inputs 'x' and 'w' give the size 'k' two values, 3 and 1.*MatMul"
        with pytest.raises(ShapeError, match=words):
            session.lane([(2, 3), (1, 4)])

    def test_name_that_one_input_uses_twice_says_nothing(self, load: Load) -> None:
        lane = load("(float[n, n] x, float[n] w) => (float y) { y = ReduceSum<keepdims = 0>(x) }").lane([(2, 3), (4,)])
        lane.run()

    def test_inputs_on_a_device_are_compared_too(self, build: Any, plugin: Any, runs: list[str]) -> None:
        model = build("(float[n] x, float[n] w) => (float[n] a, float[n] b) { a = Neg(x) b = Neg(w) }")
        session = Session(model, providers=[plugin.own])
        device = LaneMemory.allocated(session.placement().inputs[0].memory)
        with pytest.raises(ShapeError, match="the size 'n' two values"):
            session.lane([(2,), (3,)], inputs=device)
        assert not session.lane([(2,), (2,)], inputs=device).inputs["w"].memory.is_host
        assert runs == []

    def test_model_that_uses_a_name_loosely_runs_without_trials(self, load: Load, runs: list[str]) -> None:
        session = load(JOINED)
        with pytest.raises(ShapeError, match="two values, 2 and 3"):
            session.lane([(2,), (3,)])
        for lane in (
            session.lane([(2,), (3,)], trials=False),
            DynamicRuntime(session, trials=False).lane([(2,), (3,)]),
            Runtime(session, shapes=[(2,), (3,)], trials=False)[0],
        ):
            np.testing.assert_array_equal(run_on(lane, x=1, w=2)["y"], [1, 1, 2, 2, 2])
        assert runs == []


class TestShapesThatCannotRun:
    @each_way
    def test_raise_with_the_shapes_and_ort_message(self, load: Load, capfd: Any, make: Any) -> None:
        session = load(PRODUCT)
        words = r"the model does not run with x \[2, 3\], w \[4, 5\] \(trials=False.*\): .*MatMul dimension mismatch"
        for _ in range(2):
            with pytest.raises(ShapeError, match=words) as caught:
                make(session, [(2, 3), (4, 5)])
            assert isinstance(caught.value.__cause__, OrtError)
        assert capfd.readouterr() == ("", "")
        lane = session.lane([(2, 3), (3, 5)])
        np.testing.assert_array_equal(run_on(lane, x=1, w=1)["y"], np.full((2, 5), 3, np.float32))

    def test_raise_for_outputs_that_trials_find_and_for_given_ones(self, load: Load) -> None:
        session = load("(float[a] x, float[b] w) => (float[c] y) { y = Add(x, w) }")
        for output_shapes in (None, [(3,)]):
            with pytest.raises(ShapeError, match=r"does not run with x \[2\], w \[3\].*Add node"):
                session.lane([(2,), (3,)], output_shapes)

    def test_prebuild_keeps_the_buckets_that_it_has(self, load: Load) -> None:
        dynamic = DynamicRuntime(load(PRODUCT))
        dynamic.prebuild([[(2, 3), (3, 5)]])
        with pytest.raises(ShapeError, match="does not run with"):
            dynamic.prebuild([[(2, 3), (4, 5)]])
        assert [bucket.shapes for bucket in dynamic.buckets] == [{"x": (2, 3), "w": (3, 5)}]

    def test_failure_on_zeros_alone_is_none_of_the_shapes(self, load: Load, runs: list[str]) -> None:
        session = load(DIVIDED)
        lane = session.lane([(2,), (2,)])
        assert runs == ["zeros", "trial", "trial"]
        np.testing.assert_array_equal(run_on(lane, x=6, w=[2, 3])["y"], [3, 2])
        assert lane.audit().allocations == ()
        # The finding holds for other lanes.
        session.lane([(2,), (2,)])
        assert len(runs) == 3

    @pytest.mark.parametrize(
        ("text", "shapes", "inputs", "expected"),
        [
            # No made-up shape has six elements.
            (
                "(float[6] x, int64[2] shape) => (float[a, b] y) { y = Reshape(x, shape) }",
                [],
                {"x": range(6), "shape": (2, 3)},
                [[0, 1, 2], [3, 4, 5]],
            ),
            # Made-up axes are all the same, which the kernel refuses in the same words each time.
            (
                "(float[n] x, int64[2] axes) => (float[a, b, c] y) { y = Unsqueeze(x, axes) }",
                [(2,)],
                {"x": (5, 6), "axes": (0, 2)},
                [[[5], [6]]],
            ),
            # Only the rate 16000 takes the branch that takes these shapes, and no made-up rate is that.
            (BRANCHES, [(2,), (3,)], {"x": (1, 2), "rate": 16000}, [-1, -2]),
        ],
        ids=["shape", "axes", "branch"],
    )
    def test_failures_that_tell_of_the_data_are_none_of_the_shapes(
        self, load: Load, text: str, shapes: Any, inputs: dict[str, Any], expected: list[Any]
    ) -> None:
        assert run_on(load(text).lane(shapes), **inputs)["y"].tolist() == expected

    def test_index_that_no_axis_has_is_none_of_the_shapes(self, load: Load) -> None:
        # No made-up index is in an axis of no elements.
        lane = load(INDEXED).lane([(0,), (2,)])
        with pytest.raises(OrtError, match="out of data bounds"):
            lane.run()

    def test_custom_operator_that_refuses_the_data_makes_a_lane(self) -> None:
        class Op(support.Op):
            """Takes data that begins with 7."""

            def compute(self, context: KernelContext) -> None:
                if context.inputs[0][0] != 7:
                    raise ValueError("the data has no 7")
                super().compute(context)

        lane = support.load(support.ONE, Op()).lane([(4,)])
        with pytest.raises(CallbackError, match="no 7"):
            lane.run()
        np.testing.assert_array_equal(run_on(lane, x=7)["y"], [7] * 4)


class TestRunOnZeros:
    def test_first_lane_of_new_shapes_runs_once(self, runs: list[str]) -> None:
        session = Session(models.double())
        Runtime(session, lanes=8, shapes=[(2, 4)])
        session.lane([(2, 4)])
        assert runs == ["zeros"]
        session.lane([(3, 4)])
        assert runs == ["zeros"] * 2
        dynamic = DynamicRuntime.replicate(models.double(), lanes=3)
        dynamic.prebuild([[(size, 4)] for size in (2, 3)])
        assert runs == ["zeros"] * 4

    def test_memory_is_zero_afterwards(self, load: Load) -> None:
        session = load("(float[3] x) => (float[3] y) { y = Exp(x) }")
        for memory in (LaneMemory(), LaneMemory.allocated()):
            lane = session.lane(inputs=memory, outputs=memory)
            assert not lane.inputs["x"].any()
            assert not lane.outputs["y"].any()
            assert run_on(lane)["y"].tolist() == [1, 1, 1]

    def test_trials_off_runs_nothing(self, runs: list[str]) -> None:
        session = Session(models.non_zero())
        lane = session.lane(trials=False)
        assert lane.audit().allocations == (f"indices: {lane_shapes.NOT_TRIED}",)
        Session(models.double()).lane([(2, 4)], trials=False).run()
        Runtime.replicate(models.double(), lanes=2, shapes=[(2, 4)], trials=False).prime()
        assert runs == []
        with pytest.raises(DTypeError, match="trials: expected True or False"):
            session.lane(trials=1)


class TestSharedSizes:
    def test_need_be_given_once(self, load: Load) -> None:
        session = load(SUM)
        for shapes in ({"x": (2,)}, {"w": (2,)}, [(2,)], ((2,),)):
            lane = session.lane(shapes)
            assert [view.shape for view in lane.inputs.values()] == [(2,), (2,)]
        assert Runtime(session, shapes={"w": (3,)})[0].outputs["y"].shape == (3,)
        dynamic = DynamicRuntime(session)
        assert dynamic.lane({"x": (2,)}) is dynamic.lane([(2,), (2,)]) is dynamic.lane([(2,)])
        dynamic.prebuild([{"w": (4,)}])
        assert [bucket.shapes for bucket in dynamic.buckets] == [{"x": (n,), "w": (n,)} for n in (2, 4)]

    def test_sizes_that_stay_open_are_named(self, load: Load) -> None:
        session = load("(float[n] x, float[n, m, m] w, float[3] v) => (float[n] y) { y = Neg(x) }")
        with pytest.raises(
            ShapeError, match=r"input 'w': its shape \[n, m, m\] is open in m; give shapes=\{'w': ...\}"
        ):
            session.lane({"x": (2,)})
        with pytest.raises(ShapeError, match=r"'x': its shape \[n\] is open in n; input 'w': .* open in n, m; give"):
            session.lane()
        assert session.lane({"w": (2, 5, 5)}).inputs["x"].shape == (2,)

    def test_nameless_sizes_stay_open(self, load: Load) -> None:
        session = load("(float[?] x, float[?] w) => (float[?] y) { y = Add(x, w) }")
        with pytest.raises(ShapeError, match=r"input 'w': its shape \[\?\] is open in \?"):
            session.lane({"x": (2,)})

    def test_contradicting_sizes_are_not_shared(self, load: Load) -> None:
        session = load("(float[n] x, float[n] w, float[n] v) => (float[n] y) { y = Sum(x, w, v) }")
        with pytest.raises(ShapeError, match=r"input 'v': its shape .* is open in n"):
            session.lane({"x": (2,), "w": (1,)})
