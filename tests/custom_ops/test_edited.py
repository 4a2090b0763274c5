"""Custom operators in a model that is edited."""

import gc

import numpy as np

import zrt
from tests.custom_ops.support import Op, build, caused_by, options
from zrt.custom_ops import KernelContext, ShapeContext


class Twice(Op):
    fails = False

    def infer_shapes(self, context: ShapeContext) -> None:
        if self.fails:
            raise ZeroDivisionError("while shapes are inferred")
        element_type, shape = context.input(0)
        context.set_output(0, shape, element_type)

    def compute(self, context: KernelContext) -> None:
        [x] = context.inputs
        np.multiply(x, 2, out=context.output(0, x.shape))


def finalized(op: Twice) -> zrt.Session:
    """A model of the operator to which a node was added."""
    with zrt.edit(build("(float[n] x) => (float[n] y) { y = test.ops.Op(x) }"), options([op])) as graph:
        graph.output(graph.op("Neg", graph.value("y"), outputs="z"), "float32", ("n",))
        return graph.finalize()


def test_kernels_of_an_edited_model_live_as_long_as_the_session() -> None:
    session = finalized(Twice())
    gc.collect()
    results = dict(zip(session.output_names, session.run([np.ones(2, np.float32)]), strict=True))
    assert results["z"].tolist() == [-2, -2]


def test_exception_of_shape_inference_is_the_cause() -> None:
    op = Twice()
    op.fails = True
    with caused_by(ZeroDivisionError):
        finalized(op)
