"""The operators of onnxruntime-extensions: its own over texts, and two in Python."""

import json

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime_extensions import PyCustomOpDef, PyOrtFunction, get_library_path, onnx_op


@onnx_op(op_type="Reverse", inputs=[PyCustomOpDef.dt_string], outputs=[PyCustomOpDef.dt_string])
def reverse(texts):
    return np.array([text[::-1] for text in texts])


@onnx_op(op_type="Twice", inputs=[PyCustomOpDef.dt_float], outputs=[PyCustomOpDef.dt_float])
def twice(numbers):
    return numbers * 2


def model(operator, kind):
    ports = [helper.make_tensor_value_info(name, kind, [None]) for name in "xy"]
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.contrib")
    graph = helper.make_graph([node], operator, ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.contrib", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())


def run(operator, kind, feed):
    loaded = model(operator, kind).SerializeToString()
    session = onnxruntime.InferenceSession(loaded, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": feed})[0].tolist()


words = np.array(["abc", "Grüße", "日本"], dtype=object)
found = [run(operator, TensorProto.STRING, words) for operator in ("StringUpper", "StringLower", "Reverse")]
found.append(run("Twice", TensorProto.FLOAT, np.arange(3, dtype=np.float32)))
found.append(PyOrtFunction.from_model(model("StringUpper", TensorProto.STRING))(words).tolist())
print(json.dumps(found))
