"""Custom operators in a model that is edited."""

from __future__ import annotations

import gc

import numpy as np
import onnx
import pytest

import zrt
from zrt.errors import CallbackError

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21, "my" : 1]> t (float[n] x) => (float[n] y) { y = my.Twice(x) }'
)


class Twice(zrt.CustomOp):
    inputs = ("float32",)
    outputs = ("float32",)
    fails = False

    def infer_shapes(self, context):
        if self.fails:
            raise ZeroDivisionError("while shapes are inferred")
        element_type, shape = context.input(0)
        context.set_output(0, shape, element_type)

    def compute(self, context):
        [x] = context.inputs
        np.multiply(x, 2, out=context.output(0, x.shape))


def options(op):
    domain = zrt.CustomOpDomain("my", [op])
    return zrt.SessionOptions(custom_ops=[domain], intra_op_num_threads=1, log_severity_level="FATAL")


def test_kernels_of_an_edited_model_live_as_long_as_the_session():
    with zrt.edit(MODEL, options(Twice())) as graph:
        y = graph.value("y")
        graph.output(graph.op("Neg", y, outputs="z"), "float32", ("n",))
        session = graph.finalize()
    gc.collect()
    found = dict(zip(session.output_names, session.run([np.ones(2, np.float32)]), strict=True))
    assert found["z"].tolist() == [-2, -2]


def test_exception_of_shape_inference_is_the_cause():
    op = Twice()
    op.fails = True

    def finalize():
        with zrt.edit(MODEL, options(op)) as graph:
            graph.output(graph.op("Neg", graph.value("y"), outputs="z"), "float32", ("n",))
            graph.finalize()

    with pytest.raises(CallbackError) as caught:
        finalize()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
