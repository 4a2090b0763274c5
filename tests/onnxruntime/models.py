"""Small models for the tests of the drop-in, as bytes in ONNX's own notation."""

from functools import cache

import numpy as np
import onnx.parser
from onnx import TensorProto, helper

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1, "com.microsoft" : 1]>'

# Inputs and the output of the model ADD.
ONES = np.ones((1, 4), np.float32)
FEEDS = {"x": ONES, "y": ONES}
TWOS = [[2, 2, 2, 2]]

ADD = "agraph (float[n,4] x, float[n,4] y) => (float[n,4] z) { z = Add(x, y) }"


@cache
def model(text: str = ADD) -> bytes:
    """The bytes of a model."""
    proto = onnx.parser.parse_model(f"{HEAD}\n{text}")
    data: bytes = proto.SerializeToString()
    return data


@cache
def identity(element: str, shape: str = "[n]") -> bytes:
    """A model that returns its input."""
    return model(f"agraph ({element}{shape} x) => ({element}{shape} z) {{ z = Identity(x) }}")


def _graph(nodes: list[object], inputs: list[object], outputs: list[object]) -> bytes:
    graph = helper.make_graph(nodes, "agraph", inputs, outputs)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    data: bytes = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    return data


def vectorizer() -> bytes:
    """A model that takes a map of int64 to float32."""
    scalar = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    declared = helper.make_value_info("x", helper.make_map_type_proto(TensorProto.INT64, scalar))
    node = helper.make_node("DictVectorizer", ["x"], ["z"], domain="ai.onnx.ml", int64_vocabulary=[1, 2, 3])
    return _graph([node], [declared], [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3])])


def zip_map() -> bytes:
    """A model that returns a sequence of maps of strings to float32."""
    scalar = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, scalar))
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_strings=["a", "b"])
    declared = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    return _graph([node], [declared], [helper.make_value_info("z", maps)])


def sparse_constant() -> bytes:
    """A model that returns a sparse tensor of shape [3, 3] with the values 1 and 2."""
    values = helper.make_tensor("values", TensorProto.FLOAT, [2], [1, 2])
    indices = helper.make_tensor("indices", TensorProto.INT64, [2], [0, 4])
    node = helper.make_node("Constant", [], ["z"], sparse_value=helper.make_sparse_tensor(values, indices, [3, 3]))
    declared = helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [3, 3])
    return _graph([node], [], [helper.make_value_info("z", declared)])
