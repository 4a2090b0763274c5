import ml_dtypes
import numpy as np
import pytest

from tests.support import models
from zrt import Session
from zrt.bench import synthetic
from zrt.bench.inputs import UserInputs, make_inputs
from zrt.errors import UnsupportedError
from zrt.types import ElementType

FLOATS = (ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16, ElementType.BFLOAT16)
INTEGERS = (ElementType.INT64, ElementType.INT32, ElementType.UINT8, ElementType.INT8, ElementType.UINT64)


def make(kind: ElementType, shape: tuple[int, ...] = (50, 4)) -> np.ndarray:
    return synthetic.make(kind, shape, np.random.default_rng(0))


class TestMake:
    @pytest.mark.parametrize("kind", [kind for kind in ElementType if kind.bits and not kind.refused])
    def test_every_type_has_its_dtype_and_finite_values(self, kind):
        array = make(kind)
        if kind.packed:
            assert array.dtype == np.uint8
            assert array.nbytes == (200 * kind.bits + 7) // 8
        else:
            assert (array.dtype, array.shape) == (kind.dtype, (50, 4))
            assert np.isfinite(array.astype(np.float64)).all()

    @pytest.mark.parametrize("kind", FLOATS)
    def test_floats_are_noise_around_zero(self, kind):
        array = make(kind).astype(np.float64)
        assert abs(array.mean()) < 0.5
        assert 0.5 < array.std() < 1.5

    @pytest.mark.parametrize("kind", INTEGERS)
    def test_integers_are_valid_indices_masks_and_token_types(self, kind):
        assert set(make(kind).ravel().tolist()) == {0, 1}
        # A mask of one token that hides it would make NaN of an attention.
        assert make(kind, (1, 1)).tolist() == [[1]]

    def test_scalars_and_empty_arrays(self):
        assert make(ElementType.INT64, ()).shape == ()
        assert make(ElementType.INT64, (0, 3)).shape == (0, 3)

    def test_unsigned_exponent_type_gets_no_nan(self):
        assert not np.isnan(make(ElementType.FLOAT8E8M0).astype(np.float32)).any()

    def test_inputs_are_the_same_each_time(self):
        session = Session(models.add(["n"]))
        wanted = synthetic.input_shapes(session.inputs, {"x": (5,)})
        first, again = (synthetic.make_all(session.inputs, wanted) for _ in range(2))
        assert all(np.array_equal(first[name], again[name]) for name in ("x", "y"))
        assert not np.array_equal(first["x"], first["y"])


class TestShapes:
    def test_scalar_shape_is_accepted_for_an_open_rank(self):
        inputs = Session(models.gather()).inputs
        shapes = synthetic.input_shapes(inputs, {info.name: () for info in inputs if info.shape is None})
        assert () in shapes.values()

    def test_non_tensor_input_raises(self):
        with pytest.raises(UnsupportedError, match="'x' is a sequence"):
            synthetic.input_shapes(Session(models.from_sequence()).inputs)


def test_packed_input_is_fed_as_a_value():
    session = Session(models.untouched(ElementType.INT4.onnx_code, [2, 4]))
    feeds = make_inputs(session.inputs, UserInputs()).feeds()
    (info, *_) = [info for info in session.inputs if info.element_type is ElementType.INT4]
    value = feeds[info.name]
    assert value.unpack().dtype == ml_dtypes.int4
    assert value.shape == (2, 4)
