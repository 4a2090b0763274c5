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


def vectorizer() -> bytes:
    """A model that takes a map of int64 to float32."""
    vocabulary = "<int64_vocabulary = [1, 2, 3]>"
    return model(f"agraph (map(int64, float) x) => (float[1,3] z) {{ z = ai.onnx.ml.DictVectorizer {vocabulary} (x) }}")


def zip_map() -> bytes:
    """A model that returns a sequence of maps of strings to float32."""
    labels = '<classlabels_strings = ["a", "b"]>'
    return model(f"agraph (float[n,2] x) => (seq(map(string, float)) z) {{ z = ai.onnx.ml.ZipMap {labels} (x) }}")


def sparse_constant() -> bytes:
    """A model that returns a sparse tensor of shape [3, 3] with the values 1 and 2."""
    values = helper.make_tensor("values", TensorProto.FLOAT, [2], [1, 2])
    indices = helper.make_tensor("indices", TensorProto.INT64, [2], [0, 4])
    node = helper.make_node("Constant", [], ["z"], sparse_value=helper.make_sparse_tensor(values, indices, [3, 3]))
    declared = helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [3, 3])
    graph = helper.make_graph([node], "agraph", [], [helper.make_value_info("z", declared)])
    opsets = [helper.make_opsetid("", 17)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return data
