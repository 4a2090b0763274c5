"""Small models, each with one property that tests need. The functions return the model's bytes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    external_data_helper,
    helper,
    load_model_from_string,
    numpy_helper,
    parser,
    save_model,
)

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

tensor = helper.make_tensor_value_info
node = helper.make_node


# y = x * 2**n, one doubling in each iteration: n sets the time of a run.
LOOP = """
(int64 n, float[k] x) => (float[k] y) {
    go = Constant <value = bool {1}> ()
    y = Loop (n, go, x) <body = step (int64 i, bool c, float[k] a) => (bool d, float[k] b) {
        d = Identity(c)
        b = Add(a, a)
    }>
}
"""
ENDLESS = np.array(2**62)


def build(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    initializers: dict[str, np.ndarray] | None = None,
    opset: int = 21,
    domains: dict[str, int] | None = None,
) -> bytes:
    """A model of these nodes. In a shape, a str is a symbolic size and None an unknown one; a shape None has no rank.

    `domains` maps operator sets, other than ONNX's own, to their versions.
    """
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in (initializers or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, constants)
    opsets = [helper.make_opsetid(*each) for each in {"": opset, **(domains or {})}.items()]
    model = helper.make_model(graph, ir_version=10, opset_imports=opsets)
    return model.SerializeToString()


def parsed(text: str, opset: int = 21, ir_version: int = 10, **weights: Any) -> ModelProto:
    """A model from ONNX's own notation, and arrays as further initializers."""
    model = parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> test {text}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def parse(text: str, **weights: Any) -> bytes:
    """The same as bytes."""
    return parsed(text, **weights).SerializeToString()


def add(shape: Iterable[int | str] = (4,)) -> bytes:
    """z = x + y, float32."""
    shape = list(shape)
    return build(
        [node("Add", ["x", "y"], ["z"])],
        [tensor("x", FLOAT, shape), tensor("y", FLOAT, shape)],
        [tensor("z", FLOAT, shape)],
    )


def weighted() -> bytes:
    """z = x + w, float32, with 64 weights."""
    return parse("(float[64] x) => (float[64] z) { z = Add(x, w) }", w=np.arange(64, dtype=np.float32))


def branches() -> bytes:
    """z is the 64 weights of one of two subgraphs; the graph itself has none."""
    weights = numpy_helper.from_array(np.ones(64, np.float32), "w")
    inner = helper.make_graph([node("Identity", ["w"], ["y"])], "branch", [], [tensor("y", FLOAT, [64])], [weights])
    return build(
        [node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)],
        [tensor("c", TensorProto.BOOL, [])],
        [tensor("z", FLOAT, [64])],
    )


def save_apart(model: bytes, path: Path, weights: str) -> Path:
    """Writes a model to `path`, and all its weights to the file `weights` beside it; returns `path`."""
    content = load_model_from_string(model)
    save_model(content, path, save_as_external_data=True, location=weights, size_threshold=0)
    return path


def save_sparse_apart(text: str, shape: tuple[int, ...], path: Path, values: str) -> Path:
    """Writes a model to `path`, the numbers of whose sparse weight "w" are those of the file `values` beside it."""
    content, size = parsed(text), int(np.prod(shape))
    numbers = numpy_helper.from_array(np.zeros(size, np.float32), "w")
    external_data_helper.set_external_data(numbers, values)
    numbers.ClearField("raw_data")
    places = numpy_helper.from_array(np.arange(size), "places")
    content.graph.sparse_initializer.append(helper.make_sparse_tensor(numbers, places, shape))
    path.write_bytes(content.SerializeToString())
    return path


def move(weight: TensorProto, **entries: object) -> None:
    """Changes where a weight lies outside the model: `location`, `offset` or `length`."""
    for entry in weight.external_data:
        entry.value = str(entries.get(entry.key, entry.value))


def double(shape: Sequence[int | str | None] = ("batch", 4), element_type: int = FLOAT) -> bytes:
    """y = x + x, of any type that Add takes and any shape."""
    return build(
        [node("Add", ["x", "x"], ["y"])], [tensor("x", element_type, shape)], [tensor("y", element_type, shape)]
    )


def sparse_constant(shape: Sequence[int | str] | None = (2, 3)) -> bytes:
    """s = 3 at (0, 1) and 5 at (1, 1), sparse, though declared dense with that shape; and y = -x."""
    values = numpy_helper.from_array(np.array([3, 5], np.float32), "values")
    places = numpy_helper.from_array(np.array([1, 4]), "places")
    return build(
        [
            node("Constant", [], ["s"], sparse_value=helper.make_sparse_tensor(values, places, [2, 3])),
            node("Neg", ["x"], ["y"]),
        ],
        [tensor("x", FLOAT, ["n"])],
        [tensor("s", FLOAT, shape), tensor("y", FLOAT, ["n"])],
    )


def mixed() -> bytes:
    """One input and one output each of float32, int64, bool, float16 and uint8; no two outputs are alike."""
    return parse("""
        (float[2, 3] f, int64[2, 3] i, bool[2, 3] b, float16[2, 3] h, uint8[2, 3] u) => (
            float[2, 3] f_doubled, int64[2, 3] i_negated, bool[2, 3] b_inverted, float16[2, 3] h_squared,
            uint8[2, 3] u_most
        ) {
            f_doubled = Add(f, f)
            i_negated = Neg(i)
            b_inverted = Not(b)
            h_squared = Mul(h, h)
            u_of_i = Cast <to = 2> (i)
            u_most = Max(u, u_of_i)
        }
    """)


def scalar_and_empty() -> bytes:
    """Rank 0 and zero-size: s_out = s + s of shape [], e_out = e + e of shape [0, 3]."""
    return parse("(float s, float[0, 3] e) => (float s_out, float[0, 3] e_out) { s_out = Add(s, s) e_out = Add(e, e) }")


def non_zero(size: int | str = 4) -> bytes:
    """The indices of the elements that are not zero: their number depends on the data."""
    return parse(f"(float[{size}] x) => (int64[1, n] indices) {{ indices = NonZero(x) }}")


def passing_through() -> bytes:
    """Its first output is its input, its second is computed."""
    return parse("(float[3] x) => (float[3] x, float[3] y) { y = Neg(x) }")


def constant_outputs() -> bytes:
    """One output is an initializer, one is folded by the optimizer, one is computed in each run."""
    text = "(float[2, 3] x) => (float[2] c, int64[2] shape, float[2, 3] y) { shape = Shape(x) y = Neg(x) }"
    return parse(text, c=np.array([5, 6], np.float32))


def convolution() -> bytes:
    """A convolution without padding over an image of any size: the output's sizes have names of their own."""
    image, features = "float[n, 1, height, width] image", "float[n, 2, out_height, out_width] features"
    weights = np.arange(18, dtype=np.float32).reshape(2, 1, 3, 3)
    return parse(f"({image}) => ({features}) {{ features = Conv(image, w) }}", w=weights)


def computed_reshape() -> bytes:
    """A reshape to a shape that is computed from the input's: [a, b] to [b, a]."""
    text = """
        (float[a, b] x) => (float[?, ?] y) {
            shape = Shape(x)
            target = Gather(shape, swapped)
            y = Reshape(x, target)
        }
    """
    return parse(text, swapped=np.array([1, 0]))


def flatten_of_unknown_rank() -> bytes:
    """The input's rank and the output's sizes are unknown."""
    return parse("(float[] x) => (float[?, ?] y) { y = Flatten(x) }")


def squeeze() -> bytes:
    """Removes every size that is 1: the output's rank is unknown until the input's shape is known."""
    return parse("(float[a, b, c] x) => (float[] y) { y = Squeeze(x) }")


def gather() -> bytes:
    """Indices into two rows: a run with an index outside -2 to 1 fails. The ranks are unknown."""
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    return parse("(int64[] indices) => (float[] y) { y = Gather(rows, indices) }", rows=rows)


def picky_reshape() -> bytes:
    """A reshape to the shape in a feed: a run with an arbitrary shape fails."""
    return parse("(float[6] x, int64[2] shape) => (float[?, ?] y) { y = Reshape(x, shape) }")


def wrongly_declared() -> bytes:
    """Declares an output as long as the input, and computes one that is one element shorter."""
    text = "(float[n] x) => (float[n] y) { y = Slice(x, one, end) }"
    return parse(text, one=np.array([1]), end=np.array([2**31]))


def counting_loop() -> bytes:
    """A loop of `turns` iterations that each add 1 to `start`: many iterations leave the time to terminate the run."""
    text = """
        (int64 turns, float[2] start) => (float[2] end) {
            end = Loop (turns, true, start) <
                body = body (int64 turn, bool go_on, float[2] sum) => (bool goes_on, float[2] next)
                    <float[2] one = {1, 1}> {
                        goes_on = Identity(go_on)
                        next = Add(sum, one)
                    }
            >
        }
    """
    return parse(text, true=np.array(True))


def to_strings() -> bytes:
    """Numbers in, strings out."""
    return parse("(int64[2] x) => (string[2] y) { y = Cast <to = 8> (x) }")


def from_strings() -> bytes:
    """Strings in, numbers out."""
    return parse("(string[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }")


def to_sequence() -> bytes:
    """A tensor in, a sequence of it out."""
    return parse("(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }")


def from_sequence() -> bytes:
    """A sequence in, its length out."""
    return parse("(seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }")


def longer() -> bytes:
    """A sequence and a tensor in, the sequence with the tensor appended out."""
    return parse("(seq(float[]) s, float[] t) => (seq(float[]) u) { u = SequenceInsert(s, t) }")


def passing(kind: TypeProto, opset: int = 21) -> bytes:
    """The input v, of type `kind`, is also an output; another output is y = -x."""
    value = helper.make_value_info("v", kind)
    return build(
        [node("Neg", ["x"], ["y"])], [value, tensor("x", FLOAT, [1])], [value, tensor("y", FLOAT, [1])], opset=opset
    )


def casts(element_type: int, shape: Sequence[int | str]) -> bytes:
    """Casts to `element_type` and from it: x_cast is x in `element_type`, q_cast is q in float32."""
    return build(
        [node("Cast", ["x"], ["x_cast"], to=element_type), node("Cast", ["q"], ["q_cast"], to=FLOAT)],
        [tensor("x", FLOAT, shape), tensor("q", element_type, shape)],
        [tensor("x_cast", element_type, shape), tensor("q_cast", FLOAT, shape)],
        opset=25,
    )


def untouched(element_type: int, shape: Sequence[int | str]) -> bytes:
    """The input q is also an output, for types without kernels; another output is y = -x in float32."""
    return build(
        [node("Neg", ["x"], ["y"])],
        [tensor("q", element_type, shape), tensor("x", FLOAT, [1])],
        [tensor("q", element_type, shape), tensor("y", FLOAT, [1])],
        opset=25,
    )


def tokens() -> bytes:
    """Two inputs that share their sizes, as language models have: score [batch] of ids and mask [batch, length]."""
    text = """
        (int64[batch, length] ids, int64[batch, length] mask) => (int64[batch] score) {
            kept = Mul(ids, mask)
            score = ReduceSum <keepdims = 0> (kept, axis)
        }
    """
    return parse(text, axis=np.array([1]))
