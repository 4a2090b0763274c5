"""Sparse tensors as values: every format, copied and borrowed, through models and back."""

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import zrt
from tests.support import models
from tests.support.bindings import bind, ran
from zrt._common.installation import install_line
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from zrt.types import ElementType, SparseFormat, ValueKind
from zrt.values.sparse import SparseTensor

X = np.ones(1, np.float32)
KINDS = [
    kind
    for kind in ElementType
    if kind.value <= ElementType.BFLOAT16 and not kind.refused and kind is not ElementType.STRING
]
SILENT = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
DIGITS = st.integers(-9, 9)
_sessions: dict[int, zrt.Session] = {}


def passing(kind: ElementType) -> zrt.Session:
    """A session whose output is its sparse input."""
    if kind not in _sessions:
        of = helper.make_sparse_tensor_type_proto(kind.onnx_code, None)
        _sessions[kind] = zrt.Session(models.passing(of), SILENT)
    return _sessions[kind]


def product(element_type: int = TensorProto.FLOAT) -> zrt.Session:
    """`y = a @ b` with a sparse `a`."""
    sparse = helper.make_value_info("a", helper.make_sparse_tensor_type_proto(element_type, ["m", "k"]))
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft")
    dense = [models.tensor(name, element_type, sizes) for name, sizes in (("b", ["k", "n"]), ("y", ["m", "n"]))]
    return zrt.Session(models.build([node], [sparse, dense[0]], dense[1:], domains={"com.microsoft": 1}), SILENT)


@pytest.fixture(scope="module")
def matmul() -> zrt.Session:
    return product()


@st.composite
def places(draw: st.DrawFn, size: int) -> np.ndarray:
    """Positions in a tensor of that size, in any order, with duplicates."""
    return np.array(draw(st.lists(st.integers(0, size - 1), max_size=6)) if size else [], np.int64)


@st.composite
def matrices(draw: st.DrawFn, values=DIGITS, dtype: object = np.float32) -> SparseTensor:
    """A sparse matrix of any format."""
    form = draw(st.sampled_from(SparseFormat))
    if form is SparseFormat.BLOCK_SPARSE:
        height, width, down, across = (draw(st.integers(1, 3)) for _ in range(4))
        blocks = draw(places(down * across))
        shape = (height * down, width * across)
        held = (height, width, len(blocks))
        indices = np.stack(np.unravel_index(blocks, (down, across)))
    else:
        shape = (draw(st.integers(0, 4)), draw(st.integers(0, 4)))
        indices = draw(places(shape[0] * shape[1]))
        held = (len(indices),)
    count = int(np.prod(held))
    array = np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype).reshape(held)
    if form is SparseFormat.CSR:
        rows, columns = np.unravel_index(np.sort(indices), shape) if indices.size else (indices, indices)
        return SparseTensor(form, shape, array, columns, np.searchsorted(rows, np.arange(shape[0] + 1)))
    if form is SparseFormat.COO and draw(st.booleans()):
        indices = np.stack(np.unravel_index(indices, shape), axis=1) if indices.size else np.empty((0, 2), np.int64)
    return SparseTensor(form, shape, array, indices)


def dense(matrix: SparseTensor) -> np.ndarray:
    """The dense tensor, computed by hand; values of duplicate positions add up."""
    result = np.zeros(matrix.shape, matrix.values.dtype)
    if not matrix.values.size:
        return result
    if matrix.format is SparseFormat.COO:
        flat = matrix.indices if matrix.indices.ndim == 1 else matrix.indices @ [matrix.shape[1], 1]
        np.add.at(result.reshape(-1), flat, matrix.values)
    elif matrix.format is SparseFormat.CSR:
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        np.add.at(result, (rows, matrix.indices), matrix.values)
    else:
        height, width, count = matrix.values.shape
        for block in range(count):
            row, column = matrix.indices[:, block] * [height, width]
            result[row : row + height, column : column + width] += matrix.values[:, :, block]
    return result


def same(left: SparseTensor, right: SparseTensor) -> bool:
    """Whether both have the same content. Without values, the shape of the indices may differ."""
    if not right.values.size:
        return (left.format, left.shape, left.values.size) == (right.format, right.shape, 0)
    pairs = [(left.values, right.values), (left.indices, right.indices), (left.indptr, right.indptr)]
    return (left.format, left.shape) == (right.format, right.shape) and all(
        (a is None) == (b is None) and (a is None or (a.shape == b.shape and (a == b).all())) for a, b in pairs
    )


class TestRoundTrip:
    @given(matrix=matrices())
    def test_through_a_model(self, matrix):
        session = passing(ElementType.FLOAT)
        for feed in (matrix, zrt.Value.from_sparse(matrix), zrt.Value.from_sparse(matrix, copy=True)):
            result, _ = session.run([feed, X])
            assert type(result) is SparseTensor
            assert same(result, matrix)

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
    @settings(max_examples=10)
    @given(data=st.data())
    def test_every_element_type(self, kind, data):
        values = st.booleans() if kind is ElementType.BOOL else st.integers(0, 100)
        matrix = data.draw(matrices(values, kind.dtype))
        for copy in (False, True):
            value = zrt.Value.from_sparse(matrix, copy)
            assert (value.kind, value.element_type, value.shape) == (ValueKind.SPARSE_TENSOR, kind, matrix.shape)
            assert same(value.sparse(), matrix)
            assert same(passing(kind).run([value, X])[0], matrix)

    @given(
        matrix=matrices(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), object)
    )
    def test_strings(self, matrix):
        result, _ = passing(ElementType.STRING).run([matrix, X])
        assert same(result, matrix)

    @given(shape=hnp.array_shapes(min_dims=1, max_dims=4, max_side=3), data=st.data())
    def test_any_rank(self, shape, data):
        indices = data.draw(places(int(np.prod(shape))))
        tensor = SparseTensor("coo", shape, np.arange(len(indices), dtype=np.float32), indices)
        result, _ = passing(ElementType.FLOAT).run([tensor, X])
        assert (result.shape, result.indices.tolist()) == (shape, tensor.indices.tolist() if indices.size else [])

    @given(matrix=matrices(), form=st.sampled_from(["csr", "coo", "bsr", "csc", "lil", "dok"]))
    def test_from_scipy(self, matrix, form):
        wanted = sp.coo_array(dense(matrix)).asformat(form)
        result = passing(ElementType.FLOAT).run([wanted, X])[0].scipy()
        assert result.format == (form if form in ("csr", "coo", "bsr") else "csr")
        assert (result.toarray() == wanted.toarray()).all()
        assert (SparseTensor.from_scipy(sp.csr_matrix(wanted)).scipy() != wanted).nnz == 0

    @given(matrix=matrices())
    def test_to_scipy(self, matrix):
        assert (matrix.scipy().toarray() == dense(matrix)).all()

    @pytest.mark.parametrize("form", ["coo", "csr", "dok"])
    def test_from_scipy_in_one_dimension(self, form):
        array = sp.coo_array(([1.5, 2.5], ([1, 3],)), shape=(5,)).asformat(form)
        tensor = SparseTensor.from_scipy(array)
        assert (tensor.shape, tensor.indices.tolist(), tensor.values.tolist()) == ((5,), [1, 3], [1.5, 2.5])
        assert zrt.Value.from_sparse(array).shape == (5,)


class TestComputing:
    @given(matrix=matrices(), width=st.integers(1, 3))
    def test_product_with_a_dense_matrix(self, matmul, matrix, width):
        if matrix.format is SparseFormat.COO and matrix.indices.ndim == 1:
            pairs = np.stack(np.unravel_index(matrix.indices, matrix.shape), axis=1) if matrix.values.size else []
            matrix = SparseTensor(
                SparseFormat.COO, matrix.shape, matrix.values, np.reshape(pairs, (-1, 2)).astype(np.int64)
            )
        other = np.arange(matrix.shape[1] * width, dtype=np.float32).reshape(-1, width)
        # The operator takes neither blocks nor CSR without values.
        if matrix.format is SparseFormat.BLOCK_SPARSE or (matrix.format is SparseFormat.CSR and not matrix.values.size):
            with pytest.raises(zrt.OrtError, match="SparseToDenseMatMul"):
                matmul.run([matrix, other])
        else:
            assert (matmul.run([matrix, other])[0] == dense(matrix) @ other).all()

    @pytest.mark.parametrize("form", ["coo", "csr"])
    def test_borrowed_values_show_later_writes(self, matmul, form):
        matrix = sp.random(30, 20, 0.3, form, np.float32, rng=np.random.default_rng(1))
        other = np.random.default_rng(2).random((20, 4), np.float32)
        value = zrt.Value.from_sparse(matrix)
        copied = zrt.Value.from_sparse(matrix, copy=True)
        before = matrix @ other
        matrix.data *= 2
        np.testing.assert_allclose(matmul.run([value, other])[0], 2 * before, rtol=1e-5)
        np.testing.assert_allclose(matmul.run([copied, other])[0], before, rtol=1e-5)
        prepared = matmul.prepare([value, other])
        matrix.data *= 2
        np.testing.assert_allclose(prepared.run()[0], 4 * before, rtol=1e-5)

    def test_indices_are_copied(self, matmul):
        indices = np.array([[0, 0], [1, 1]])
        value = zrt.Value.from_sparse(SparseTensor("coo", (2, 2), np.ones(2, np.float32), indices))
        indices[...] = 2**40
        assert matmul.run([value, np.eye(2, dtype=np.float32)])[0].tolist() == [[1, 0], [0, 1]]
        with pytest.raises(ValueError, match="read-only"):
            value.sparse().indices[...] = 2**40
        with pytest.raises(ValueError, match="WRITEABLE"):
            value.sparse().indices.flags.writeable = True

    def test_io_binding(self, matmul):
        a = zrt.Value.from_sparse(sp.csr_array(np.eye(2, dtype=np.float32)))
        assert ran(bind(matmul, {"a": a, "b": np.ones((2, 1), np.float32)}, "y")) == {"y": [[1], [1]]}
        with pytest.raises(UnsupportedError, match="input 'a' is a sparse tensor"):
            matmul.lane([(2, 2), (2, 1)])


class TestValue:
    def test_results_belong_to_the_caller(self):
        values = np.ones(1, np.float32)
        result, _ = passing(ElementType.FLOAT).run([SparseTensor("coo", (2,), values, [1]), X])
        result.values[0] = 5
        assert values[0] == 1

    def test_read_only_values_stay_read_only(self):
        values = np.ones(1, np.float32)
        values.flags.writeable = False
        tensor = SparseTensor("coo", (2,), values, [1])
        assert not zrt.Value.from_sparse(tensor).sparse().values.flags.writeable
        assert zrt.Value.from_sparse(tensor, copy=True).sparse().values.flags.writeable

    def test_size_and_repr(self):
        value = zrt.Value.from_sparse(sp.csr_array(np.eye(2, dtype=np.float32)))
        assert value.nbytes == 2 * 4 + 2 * 8 + 3 * 8
        assert repr(value.sparse()) == "SparseTensor(CSR, shape=(2, 2), values=2)"

    def test_model_declarations(self, matmul):
        info = matmul.inputs[0]
        assert (info.kind, info.element_type, info.shape) == (ValueKind.SPARSE_TENSOR, ElementType.FLOAT, ("m", "k"))
        assert str(info) == "a: sparse float32[m, k]"


ONES = np.ones(2, np.float32)
REFUSED = [
    (("coo", (4,), ONES, np.array([0, 2**64 - 1], np.uint64)), ArgumentError, "indices: 18446744073709551615 is out"),
    (("coo", (4,), ONES, [[0, 0], [0, 1]]), ShapeError, r"expected \[2\] for 2 values, got \[2, 2\]"),
    (("coo", (2, 2), ONES, [[0, 0], [2, 0]]), ArgumentError, "indices, rows: 2 is not between 0 and 1"),
    (("coo", (2, 2), ONES, [0, 0, 0, 1]), ShapeError, r"expected \[2\] or \[2, 2\] for 2 values, got \[4\]"),
    (("coo", (0, 2), ONES, [[0, 0], [0, 1]]), ArgumentError, "indices, rows: 0 is not between 0 and -1"),
    (("coo", (4,), ONES, [[0], [0, 1]]), DTypeError, "indices: "),
    (("coo", (4,), [[1], [1, 2]], [0, 1]), DTypeError, "values: "),
    (("coo", 5.5, ONES, [0, 1]), ShapeError, "a shape is a tuple of integers"),
    (("coo", (4,), np.ones(2, ml_dtypes.int4), [0, 1]), UnsupportedError, "no sparse tensors of packed types"),
    (("coo", (4,), np.array(["a\0b", "c"], object), [0, 1]), ArgumentError, "string 0, 'a.x00b', has a NUL"),
    (("coo", (4,), ONES, [0, 1], [0, 1]), ArgumentError, "indptr is for CSR"),
    (("csr", (4,), ONES, [0, 1], [0, 2]), ShapeError, r"CSR is for matrices, and the shape is \(4,\)"),
    (("csr", (2, 2), ONES, [0], [0, 1, 2]), ShapeError, r"indices: expected \[2\] for 2 values, got \[1\]"),
    (("csr", (2, 2), ONES, [0, 1], [1, 1, 2]), ArgumentError, "indptr: expected to rise from 0 to 2"),
    (("csr", (2, 2), ONES, [0, 1], [0, 2**63 - 1, 2]), ArgumentError, "indptr: expected to rise from 0 to 2"),
    (("block_sparse", (4,), ONES, [0, 1]), ShapeError, "BLOCK_SPARSE is for matrices"),
    (("block_sparse", (4, 4), ONES, [0, 1]), ShapeError, r"\[height, width, n\], not \[2\]"),
    (("block_sparse", (4, 4), np.ones((2, 2, 1)), [[0, 1]]), ShapeError, r"expected \[2, 1\] for 1 blocks"),
    (("block_sparse", (4, 4), np.ones((2, 2, 1)), [[0], [2]]), ArgumentError, "columns: 2 is not between 0 and 1"),
    (("block_sparse", (4, 4), np.ones((2, 2, 1)), [[0], [2**31]]), ArgumentError, "2147483648 is out of range"),
]


class TestRefused:
    @pytest.mark.parametrize(("arguments", "error", "message"), REFUSED)
    def test_errors_name_the_field(self, arguments, error, message):
        tensor = SparseTensor(*arguments)
        for copy in (False, True):
            with pytest.raises(error, match=f"weights: .*{message}"):
                zrt.Value.from_sparse(tensor, copy, "weights")

    def test_wrong_string_names_the_tensor_once(self):
        for text, reason in (("\ud800", "is no UTF-8"), ("a\0b", "has a NUL")):
            with pytest.raises(ArgumentError, match=f"^weights: values: string 0, .*{reason}"):
                zrt.Value.from_sparse(SparseTensor("coo", (4,), np.array([text], object), [0]), subject="weights")

    def test_errors_of_a_run_name_the_input(self, matmul):
        other = np.ones((2, 1), np.float32)
        for feed, error, message in (
            (np.eye(2, dtype=np.float32), DTypeError, "input 'a': expected a SparseTensor or .* got ndarray"),
            (
                sp.csr_array(np.eye(2)),
                DTypeError,
                r"input 'a': expected sparse float32\[m, k\], got Value\(sparse double",
            ),
            (SparseTensor("coo", (2,), ONES, [0, 1]), ShapeError, r"input 'a': expected shape \[m, k\], got \[2\]"),
            (SparseTensor("coo", (2, 2), ONES, [0, 9]), ArgumentError, "input 'a': indices: 9"),
            (
                zrt.Value.from_array(np.eye(2, dtype=np.float32)),
                DTypeError,
                "input 'a': expected sparse.*, got a tensor",
            ),
        ):
            with pytest.raises(error, match=message):
                matmul.run([feed, other])
        with pytest.raises(zrt.OrtError, match="2-D"):
            matmul.run([SparseTensor("coo", (2, 2), ONES, [0, 3]), other])

    def test_inconsistent_scipy_matrix(self):
        matrix = sp.csr_array(np.eye(3, dtype=np.float32))
        matrix.indices[1] = 1000
        with pytest.raises(ArgumentError, match="indices: 1000 is not between 0 and 2"):
            zrt.Value.from_sparse(matrix)
        blocks = sp.bsr_array(np.eye(4, dtype=np.float32), blocksize=(2, 2))
        blocks.indptr[1] = -5
        with pytest.raises(ArgumentError, match="is inconsistent"):
            zrt.Value.from_sparse(blocks)

    def test_tensors_that_scipy_cannot_represent(self):
        texts = np.array(["a", "b"], object)
        for tensor in (SparseTensor("coo", (4, 1), texts, [0, 1]), SparseTensor("csr", (1, 2), texts, [0, 1], [0, 2])):
            with pytest.raises(UnsupportedError, match="SciPy has no sparse arrays of strings"):
                tensor.scipy()


def test_sparse_tensors_work_without_scipy(script):
    out = script("without_scipy.py").stdout.splitlines()
    assert out == [
        "SparseTensor(COO, shape=(4,), values=2)",
        f"an array of SciPy needs the scipy package: {install_line('sparse')}",
    ]


def test_subclass_with_another_shape_is_read_as_its_memory_is():
    """It read 24 KB beyond 16 bytes."""

    class Other(np.ndarray):
        shape = property(lambda self: (6000,))
        dtype = property(lambda self: np.dtype(np.float32))
        ndim = property(lambda self: 1)

        def __len__(self):
            return 6000

    tensor = zrt.SparseTensor("coo", (6000,), np.zeros(2).view(Other), np.arange(6000))
    with pytest.raises(zrt.errors.ShapeError, match=r"expected \[2\] for 2 values"):
        zrt.Value.from_sparse(tensor)
