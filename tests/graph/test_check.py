"""`Graph.check`: the data of initializers and their shapes."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import zrt
from zrt.errors import ModelError
from zrt.types import BY_ONNX_CODE

WRONG = [
    onnx.TensorProto(data_type=1, dims=[2], float_data=[1]),
    onnx.TensorProto(data_type=10, dims=[2], int32_data=[1, 1, 1]),
    onnx.TensorProto(data_type=8, dims=[2], string_data=[b"a"]),
    onnx.TensorProto(data_type=14, dims=[2], float_data=[1, 1]),
    onnx.TensorProto(data_type=22, dims=[3], int32_data=[1]),
    onnx.TensorProto(data_type=1, dims=[2], raw_data=b"1234"),
]


@pytest.mark.parametrize("tensor", WRONG, ids=lambda tensor: onnx.TensorProto.DataType.Name(tensor.data_type))
@pytest.mark.parametrize("inside", [False, True])
def test_check_counts_the_elements_of_initializers(tensor: Any, inside: bool) -> None:
    graph = zrt.Graph()
    x = graph.input("x", "float32", ("n",))
    flag = graph.input("flag", "bool", ())
    then, other = graph.subgraph("then"), graph.subgraph("other")
    (then if inside else graph).initializer("w", tensor)
    for branch in (then, other):
        branch.output(branch.op("Identity", x))
    graph.output(graph.op("If", flag, then_branch=then, else_branch=other))
    with pytest.raises(ModelError, match=rf"initializer 'w': \[{tensor.dims[0]}\] of its type takes \d+ .*, it has \d"):
        graph.check()


def test_check_accepts_elements_in_every_field() -> None:
    graph = zrt.Graph()
    x = graph.input("x", "float32", ("n",))
    make = helper.make_tensor
    for code in BY_ONNX_CODE.keys() & set(onnx.TensorProto.DataType.values()):
        if code not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
            graph.initializer(f"w{code}", make("", code, [5], np.ones(5, helper.tensor_dtype_to_np_dtype(code))))
    graph.initializer("strings", make("", onnx.TensorProto.STRING, [2], ["a", "b"]))
    graph.initializer("empty", make("", onnx.TensorProto.FLOAT, [0, 2], []))
    graph.output(graph.op("Relu", x))
    graph.check()
