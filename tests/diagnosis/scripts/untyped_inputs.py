"""An operator behind one that ONNX does not know: shape inference of such an operator may end the process."""

import onnx
import pytest

import zrt

PARTS = ["DictVectorizer <int64_vocabulary = [1]>", "LabelEncoder", "TreeEnsemble"]
HEAD = '<ir_version: 8, opset_import: ["" : 20, "ai.onnx.ml" : 5, "com.microsoft" : 1]>'


def model(node: str, kind: str = "double[2, 3]") -> onnx.ModelProto:
    text = f"g (float[2, 3] x, float[3] b) => ({kind} y) {{ h = com.microsoft.BiasGelu(x, b) e = {node} y = Neg(e) }}"
    return onnx.parser.parse_model(HEAD + text)


eye = model("EyeLike <dtype = 11> (h)")
assert zrt.check(eye).verdict == "runs"
spec = zrt.SessionSpec(eye)
found = zrt.diff(spec, spec)
assert found.equal
assert [each.name for each in found.values] == ["y"]
zrt.Graph.from_onnx(eye).check()
eye.graph.output[0].ClearField("type")
with pytest.raises(zrt.errors.ModelError, match="type cannot be inferred"):
    zrt.Graph.from_onnx(eye).to_onnx()
for part in ("RegexFullMatch", *(f"ai.onnx.ml.{each}" for each in PARTS)):
    zrt.check(model(f"{part} (h)"))

# In functions too, with the types of their callers, and not those of other domains.
function = '<domain: "own", opset_import: ["" : 20, "own" : 1]>'
bodies = f"{function} F (p) => (q) {{ e = EyeLike(p) q = Neg(e) }} {function} G (p) => (q) {{ q = own.EyeLike(p) }}"
bodies += f"{function} EyeLike (p) => (q) {{ q = Relu(p) }}"
head = HEAD.replace("]>", ', "own" : 1]>')
called = onnx.parser.parse_model(
    f"{head} g (float[2, 3] x) => (y) {{ w = own.F(x) v = own.G(w) y = Relu(v) }} {bodies}"
)
typed = zrt.Graph.from_onnx(called).to_onnx()
assert [dim.dim_value for dim in typed.graph.output[0].type.tensor_type.shape.dim] == [2, 3]
assert [node.op_type for node in typed.graph.node] == ["F", "G", "Relu"]
spec = zrt.SessionSpec(typed)
assert [each.name for each in zrt.diff(spec, spec).values] == ["w", "v", "y"]
hidden = onnx.parser.parse_model(
    f"{head} g (float[2, 3] x, float[3] b) => (double y) {{ h = com.microsoft.BiasGelu(x, b) y = own.F(h) }} {bodies}"
)
zrt.check(hidden)

# Inputs that have a type are followed, also those that come from such an operator, and in subgraphs.
inner = "{ i = EyeLike (e) o = EyeLike <dtype = 7> (i) }"
branches = f"then_branch = t () => (o) {inner}, else_branch = f () => (o) {inner}"
text = f"g (float[2, 3] x, bool c) => (y) {{ e = EyeLike (x) y = If (c) <{branches}> }}"
nested = zrt.Graph.from_onnx(onnx.parser.parse_model(HEAD + text)).to_onnx()
assert nested.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT64
assert [node.op_type for node in nested.graph.node] == ["EyeLike", "If"]
