"""Small models, each with one property that tests need. The functions return the model's bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from onnx import (
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    load_model_from_string,
    numpy_helper,
    save_model,
)

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

tensor = helper.make_tensor_value_info
node = helper.make_node


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
    weights = {"w": np.arange(64, dtype=np.float32)}
    return build([node("Add", ["x", "w"], ["z"])], [tensor("x", FLOAT, [64])], [tensor("z", FLOAT, [64])], weights)


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
    types = {"f": FLOAT, "i": INT64, "b": TensorProto.BOOL, "h": TensorProto.FLOAT16, "u": TensorProto.UINT8}
    return build(
        [
            node("Add", ["f", "f"], ["f_doubled"]),
            node("Neg", ["i"], ["i_negated"]),
            node("Not", ["b"], ["b_inverted"]),
            node("Mul", ["h", "h"], ["h_squared"]),
            node("Cast", ["i"], ["u_of_i"], to=TensorProto.UINT8),
            node("Max", ["u", "u_of_i"], ["u_most"]),
        ],
        [tensor(name, kind, [2, 3]) for name, kind in types.items()],
        [
            tensor(name, kind, [2, 3])
            for name, kind in zip(
                ["f_doubled", "i_negated", "b_inverted", "h_squared", "u_most"], types.values(), strict=True
            )
        ],
    )


def scalar_and_empty() -> bytes:
    """Rank 0 and zero-size: s_out = s + s of shape [], e_out = e + e of shape [0, 3]."""
    return build(
        [node("Add", ["s", "s"], ["s_out"]), node("Add", ["e", "e"], ["e_out"])],
        [tensor("s", FLOAT, []), tensor("e", FLOAT, [0, 3])],
        [tensor("s_out", FLOAT, []), tensor("e_out", FLOAT, [0, 3])],
    )


def non_zero(size: int | str = 4) -> bytes:
    """The indices of the elements that are not zero: their number depends on the data."""
    return build(
        [node("NonZero", ["x"], ["indices"])], [tensor("x", FLOAT, [size])], [tensor("indices", INT64, [1, "n"])]
    )


def passing_through() -> bytes:
    """Its first output is its input, its second is computed."""
    return build(
        [node("Neg", ["x"], ["y"])], [tensor("x", FLOAT, [3])], [tensor("x", FLOAT, [3]), tensor("y", FLOAT, [3])]
    )


def constant_outputs() -> bytes:
    """One output is an initializer, one is folded by the optimizer, one is computed in each run."""
    return build(
        [node("Shape", ["x"], ["shape"]), node("Neg", ["x"], ["y"])],
        [tensor("x", FLOAT, [2, 3])],
        [tensor("c", FLOAT, [2]), tensor("shape", INT64, [2]), tensor("y", FLOAT, [2, 3])],
        {"c": np.array([5, 6], np.float32)},
    )


def convolution() -> bytes:
    """A convolution without padding over an image of any size: the output's sizes have names of their own."""
    return build(
        [node("Conv", ["image", "w"], ["features"])],
        [tensor("image", FLOAT, ["n", 1, "height", "width"])],
        [tensor("features", FLOAT, ["n", 2, "out_height", "out_width"])],
        {"w": np.arange(18, dtype=np.float32).reshape(2, 1, 3, 3)},
    )


def computed_reshape() -> bytes:
    """A reshape to a shape that is computed from the input's: [a, b] to [b, a]."""
    return build(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "swapped"], ["target"]),
            node("Reshape", ["x", "target"], ["y"]),
        ],
        [tensor("x", FLOAT, ["a", "b"])],
        [tensor("y", FLOAT, [None, None])],
        {"swapped": np.array([1, 0], np.int64)},
    )


def flatten_of_unknown_rank() -> bytes:
    """The input's rank and the output's sizes are unknown."""
    return build([node("Flatten", ["x"], ["y"])], [tensor("x", FLOAT, None)], [tensor("y", FLOAT, [None, None])])


def squeeze() -> bytes:
    """Removes every size that is 1: the output's rank is unknown until the input's shape is known."""
    return build([node("Squeeze", ["x"], ["y"])], [tensor("x", FLOAT, ["a", "b", "c"])], [tensor("y", FLOAT, None)])


def gather() -> bytes:
    """Indices into two rows: a run with an index outside -2 to 1 fails. The ranks are unknown."""
    return build(
        [node("Gather", ["rows", "indices"], ["y"])],
        [tensor("indices", INT64, None)],
        [tensor("y", FLOAT, None)],
        {"rows": np.arange(6, dtype=np.float32).reshape(2, 3)},
    )


def picky_reshape() -> bytes:
    """A reshape to the shape in a feed: a run with an arbitrary shape fails."""
    return build(
        [node("Reshape", ["x", "shape"], ["y"])],
        [tensor("x", FLOAT, [6]), tensor("shape", INT64, [2])],
        [tensor("y", FLOAT, [None, None])],
    )


def wrongly_declared() -> bytes:
    """Declares an output as long as the input, and computes one that is one element shorter."""
    return build(
        [node("Slice", ["x", "one", "end"], ["y"])],
        [tensor("x", FLOAT, ["n"])],
        [tensor("y", FLOAT, ["n"])],
        {"one": np.array([1], np.int64), "end": np.array([2**31], np.int64)},
    )


def counting_loop() -> bytes:
    """A loop of `turns` iterations that each add 1 to `start`: many iterations leave the time to terminate the run."""
    body = helper.make_graph(
        [node("Identity", ["go_on"], ["goes_on"]), node("Add", ["sum", "one"], ["next"])],
        "body",
        [tensor("turn", INT64, []), tensor("go_on", TensorProto.BOOL, []), tensor("sum", FLOAT, [2])],
        [tensor("goes_on", TensorProto.BOOL, []), tensor("next", FLOAT, [2])],
        [numpy_helper.from_array(np.array([1, 1], np.float32), "one")],
    )
    return build(
        [node("Loop", ["turns", "true", "start"], ["end"], body=body)],
        [tensor("turns", INT64, []), tensor("start", FLOAT, [2])],
        [tensor("end", FLOAT, [2])],
        {"true": np.array(True)},
    )


def to_strings() -> bytes:
    """Numbers in, strings out."""
    return build(
        [node("Cast", ["x"], ["y"], to=TensorProto.STRING)],
        [tensor("x", INT64, [2])],
        [tensor("y", TensorProto.STRING, [2])],
    )


def from_strings() -> bytes:
    """Strings in, numbers out."""
    return build(
        [node("Cast", ["x"], ["y"], to=INT64)], [tensor("x", TensorProto.STRING, [2])], [tensor("y", INT64, [2])]
    )


def to_sequence() -> bytes:
    """A tensor in, a sequence of it out."""
    return build(
        [node("SequenceConstruct", ["x"], ["y"])],
        [tensor("x", FLOAT, [2])],
        [helper.make_tensor_sequence_value_info("y", FLOAT, [2])],
    )


def from_sequence() -> bytes:
    """A sequence in, its length out."""
    return build(
        [node("SequenceLength", ["x"], ["y"])],
        [helper.make_tensor_sequence_value_info("x", FLOAT, [2])],
        [tensor("y", INT64, [])],
    )


def longer() -> bytes:
    """A sequence and a tensor in, the sequence with the tensor appended out."""
    return build(
        [node("SequenceInsert", ["s", "t"], ["u"])],
        [helper.make_tensor_sequence_value_info("s", FLOAT, None), tensor("t", FLOAT, None)],
        [helper.make_tensor_sequence_value_info("u", FLOAT, None)],
    )


def passing(kind: TypeProto, opset: int = 21) -> bytes:
    """The input v, of type `kind`, is also an output; another output is y = -x."""
    value = helper.make_value_info("v", kind)
    return build(
        [node("Neg", ["x"], ["y"])],
        [value, tensor("x", FLOAT, [1])],
        [value, tensor("y", FLOAT, [1])],
        opset=opset,
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
    return build(
        [node("Mul", ["ids", "mask"], ["kept"]), node("ReduceSum", ["kept", "axis"], ["score"], keepdims=0)],
        [tensor("ids", INT64, ["batch", "length"]), tensor("mask", INT64, ["batch", "length"])],
        [tensor("score", INT64, ["batch"])],
        {"axis": np.array([1], np.int64)},
    )
