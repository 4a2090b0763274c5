"""Sparse initializers: listed, and replaced by dense and sparse weights of the caller."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import zrt
from zrt.errors import ArgumentError, DTypeError, ModelError, ShapeError
from zrt.types import ElementType
from zrt.values import sparse

SMALL, LARGE = (2, 3), (20, 30)


def model(shape=SMALL, *, overridable: bool = False, below: bool = False) -> onnx.ModelProto:
    """y = x + w, where w is sparse: 3 at (0, 1) and 5 at (1, 1)."""
    values = numpy_helper.from_array(np.array([3, 5], np.float32), "w")
    places = numpy_helper.from_array(np.array([1, shape[1] + 1]), "places of w")
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xwy"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "test",
        info[:2] if overridable else info[:1],
        info[2:],
        sparse_initializer=[helper.make_sparse_tensor(values, places, list(shape))],
    )
    if below:
        outer = helper.make_graph([], "test", info[:1], info[2:])
        del graph.input[:]
        condition = numpy_helper.from_array(np.array(True), "yes")
        outer.initializer.append(condition)
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "else", [], info[2:])
        outer.node.append(helper.make_node("If", ["yes"], ["y"], then_branch=graph, else_branch=other))
        graph = outer
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def own(shape=SMALL) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def with_weight(weight, shape=SMALL) -> np.ndarray:
    """The weight as a session computes with it."""
    session = zrt.Session(model(shape), zrt.SessionOptions(initializers={"w": weight}))
    return session.run([np.zeros(shape, np.float32)])[0]


@pytest.mark.parametrize("overridable", [False, True])
def test_a_sparse_initializer_is_listed(overridable):
    (initializer,) = zrt.list_initializers(model(LARGE, overridable=overridable))
    assert initializer == zrt.Initializer("w", ElementType.FLOAT, LARGE, 2400, None, None, overridable, sparse=True)
    assert zrt.list_initializers(model(below=True))[0].name == "yes"


def test_dense_initializers_are_not_sparse(build):
    text = "(float[1] x) => (float[1] y) <float[1] w = {2}> { y = Add(x, w) }"
    assert [info.sparse for info in zrt.list_initializers(build(text))] == [False]


def test_an_overridable_one_is_fed_dense():
    session = zrt.Session(model(overridable=True), zrt.SessionOptions(log_severity_level="ERROR"))
    assert [info.name for info in session.initializers] == ["w"]
    x = np.zeros(SMALL, np.float32)
    assert session.run([x])[0].tolist() == [[0, 3, 0], [0, 5, 0]]
    assert session.run({"x": x, "w": own()})[0].tolist() == own().tolist()


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["small", "large"])
def test_a_dense_weight_takes_its_place(shape):
    assert with_weight(own(shape), shape).tolist() == own(shape).tolist()


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["small", "large"])
def test_a_sparse_weight_takes_its_place(shape):
    tensor = zrt.SparseTensor("coo", shape, np.array([7, 8], np.float32), np.array([[0, 0], [1, 2]]))
    expected = np.zeros(shape, np.float32)
    expected[0, 0], expected[1, 2] = 7, 8
    assert with_weight(tensor, shape).tolist() == expected.tolist()


def test_a_sparse_weight_takes_the_place_of_a_dense_one(build):
    text = "(float[2] x) => (float[2] y) <float[2] w = {2, 3}> { y = Add(x, w) }"
    tensor = zrt.SparseTensor("coo", (2,), np.array([7], np.float32), np.array([1]))
    session = zrt.Session(build(text), zrt.SessionOptions(initializers={"w": tensor}))
    assert session.run([np.zeros(2, np.float32)])[0].tolist() == [0, 7]


def test_a_sparse_weight_of_scipy_takes_its_place():
    scipy = pytest.importorskip("scipy.sparse")
    assert with_weight(scipy.csr_array(own())).tolist() == own().tolist()


@pytest.mark.parametrize(
    ("tensor", "dense"),
    [
        (zrt.SparseTensor("coo", (2, 2), np.array([1, 2]), np.array([0, 3])), [[1, 0], [0, 2]]),
        (zrt.SparseTensor("coo", (2, 2), np.array([1, 2]), np.array([[0, 1], [1, 0]])), [[0, 1], [2, 0]]),
        (zrt.SparseTensor("coo", (3,), np.array([]), np.array([])), [0, 0, 0]),
        (zrt.SparseTensor("coo", (1, 2, 2), np.array([5]), np.array([2])), [[[0, 0], [5, 0]]]),
        (
            zrt.SparseTensor("csr", (3, 2), np.array([1, 2]), np.array([1, 0]), np.array([0, 1, 1, 2])),
            [[0, 1], [0, 0], [2, 0]],
        ),
        (
            zrt.SparseTensor("block_sparse", (2, 6), np.arange(1, 7).reshape(2, 3, 1), np.array([[0], [1]])),
            [[0, 0, 0, 1, 2, 3], [0, 0, 0, 4, 5, 6]],
        ),
        (zrt.SparseTensor("block_sparse", (1, 2), np.empty((1, 1, 0)), np.empty((2, 0), int)), [[0, 0]]),
    ],
    ids=["coo", "coo-pairs", "coo-empty", "coo-3d", "csr", "blocks", "blocks-empty"],
)
def test_each_format_becomes_dense(tensor, dense):
    assert sparse.to_dense(tensor, np.shape(dense), "it").tolist() == dense


def twice(values):
    """In each format, two values at one place and one at another."""
    return [
        zrt.SparseTensor("coo", (2, 2), values, [0, 0, 3]),
        zrt.SparseTensor("coo", (2, 2), values, [[0, 0], [0, 0], [1, 1]]),
        zrt.SparseTensor("csr", (2, 2), values, [0, 0, 1], [0, 2, 3]),
        zrt.SparseTensor("block_sparse", (2, 2), values.reshape(1, 1, 3), [[0, 0, 1], [0, 0, 1]]),
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("number", range(4), ids=["coo", "coo-pairs", "csr", "blocks"])
def test_values_of_one_place_add_up(dtype, number):
    """As in SciPy and in a product; the last one counted here before."""
    tensor = twice(np.array([1, 2, 5], dtype))[number]
    assert sparse.to_dense(tensor, (2, 2), "it").tolist() == [[3, 0], [0, 5]]


@pytest.mark.parametrize("number", range(4), ids=["coo", "coo-pairs", "csr", "blocks"])
def test_flags_of_one_place_are_joined_and_texts_refused(number):
    tensor = twice(np.array([True, False, True]))[number]
    assert sparse.to_dense(tensor, (2, 2), "it").tolist() == [[True, False], [False, True]]
    texts = twice(np.array(["a", "b", "c"], object))[number]
    with pytest.raises(DTypeError, match="it: expected numbers, got strings"):
        sparse.to_dense(texts, (2, 2), "it")


def test_scipy_has_the_same_sums():
    scipy = pytest.importorskip("scipy.sparse")
    places = (np.array([0, 0, 1]), np.array([0, 0, 2]))
    matrix = scipy.coo_array((np.array([1, 2, 5], np.float32), places), shape=SMALL)
    for each in (matrix, matrix.tobsr((1, 3))):
        assert with_weight(each).tolist() == matrix.toarray().tolist()


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (own((3, 2)), ShapeError, r"initializer 'w': expected shape \[2, 3\], got \[3, 2\]"),
        (own().astype(np.float64), DTypeError, "initializer 'w': expected float32, got float64"),
        (zrt.SparseTensor("coo", (3, 2), np.array([1], np.float32), np.array([0])), ShapeError, r"got \[3, 2\]"),
        (zrt.SparseTensor("coo", SMALL, np.array([1.0]), np.array([0])), DTypeError, "got float64"),
        (zrt.SparseTensor("coo", SMALL, np.array([1], np.float32), np.array([6])), ArgumentError, "initializer 'w'"),
    ],
)
def test_a_wrong_weight_is_refused(weight, error, message):
    with pytest.raises(error, match=message):
        with_weight(weight)


@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**22, 2**20), (1,) * 70], ids=["bytes", "memory", "rank"])
def test_a_wrong_shape_is_refused_before_memory_is_taken(shape):
    with pytest.raises(ShapeError, match=r"^initializer 'w': expected shape \[2, 3\], got \["):
        with_weight(zrt.SparseTensor("coo", shape, np.ones(1, np.float32), [0]))


def test_a_negative_shape_is_not_a_model():
    broken = model()
    broken.graph.sparse_initializer[0].dims[0] = -2
    with pytest.raises(ModelError, match=r"sparse initializer 'w' has shape \[-2, 3\]"):
        zrt.list_initializers(broken)


def test_shared_weights_leave_it_out():
    assert zrt.read_weights(model(LARGE)) == {}
    runtime = zrt.Runtime.replicate(model(LARGE), 2, share_weights=True)
    for lane in runtime:
        lane.run()
        assert lane.outputs["y"][0, 1] == 3
