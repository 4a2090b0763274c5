"""Weights are quantized to the same bits as by the official package."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

RNG = np.random.default_rng(1)
SHAPES = [
    (64, 8, 16),
    (70, 5, 16),
    (33, 4, 32),
    (256, 7, 64),
    (300, 3, 128),
    (1024, 2, 256),
    (1, 1, 16),
    (4096, 32, 32),
]


def weights(rows: int, columns: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Columns of zeros, of positive and of negative numbers alone, and of both."""
    array = RNG.standard_normal((rows, columns))
    array[:, 0] = 0
    array[:, 1:2] = np.abs(array[:, 1:2])
    array[:, 2:3] = -np.abs(array[:, 2:3])
    return array.astype(dtype)


def unpacked(packed: np.ndarray[Any, Any], bits: int, count: int) -> np.ndarray[Any, Any]:
    """The elements in each row of bytes."""
    places = np.arange(0, 8, bits)
    return ((packed[..., None] >> places) & ((1 << bits) - 1)).reshape(*packed.shape[:-1], -1)[..., :count]


def reference() -> Any:
    return pytest.importorskip("onnxruntime.capi._pybind_state", reason="the official package is the reference")


def ours() -> Any:
    from zrt.onnxruntime.capi import _pybind_state

    return _pybind_state


def assert_same(quantize: Callable[..., tuple[Any, ...]], *arguments: Any) -> None:
    """The function of this module has the same results with both packages."""
    for mine, theirs in zip(quantize(ours(), *arguments), quantize(reference(), *arguments), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def by_column(module: Any, bits: int, weight: Any, block: int, symmetric: bool) -> tuple[Any, ...]:
    rows, columns = weight.shape
    blocks, packing = -(-rows // block), 8 // bits
    padded = np.pad(weight, ((0, blocks * block - rows), (0, 0)))
    target = np.zeros((columns, blocks, block // packing), np.uint8)
    zeros = np.zeros((columns, -(-blocks // packing)), np.uint8)
    scales = np.zeros((columns, blocks), weight.dtype)
    function = getattr(module, f"quantize_matmul_{bits}bits")
    assert function(target, padded, scales, zeros, block, columns, rows, symmetric) is None
    return unpacked(target.reshape(columns, -1), bits, rows), scales, zeros


@pytest.mark.official
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_blocks_of_columns_are_those_of_the_official_package(bits, dtype, symmetric) -> None:
    for rows, columns, block in SHAPES:
        assert_same(by_column, bits, weights(rows, columns, dtype), block, symmetric)


def by_row(module: Any, bits: int, weight: Any, block: int, symmetric: bool) -> tuple[Any, ...]:
    rows, columns = weight.shape
    blocks, packing = -(-rows // block), 8 // bits
    target = np.zeros(-(-rows * columns // packing), np.uint8)
    zeros = np.zeros(-(-blocks * columns // packing), np.uint8)
    scales = np.zeros((blocks, columns), weight.dtype)
    function = getattr(module, f"quantize_qdq_matmul_{bits}bits")
    signed = function(target, weight, scales, zeros, block, columns, rows, symmetric)
    return signed, unpacked(target, bits, rows * columns), scales, unpacked(zeros, bits, blocks * columns)


@pytest.mark.official
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_blocks_of_rows_are_those_of_the_official_package(dtype, symmetric) -> None:
    for rows, columns, block in SHAPES:
        assert_same(by_row, 4, weights(rows, columns, dtype), block, symmetric)


@pytest.mark.parametrize("symmetric", [True, False])
def test_two_bits_in_rows_are_close_to_the_weights(symmetric) -> None:
    """The official package writes beyond its arrays here, so that there is nothing to compare with."""
    weight = weights(64, 8, np.float32)
    signed, values, scales, zeros = by_row(ours(), 2, weight, 16, symmetric)
    values = values.reshape(64, 8).astype(int)
    zero = zeros.reshape(4, 8).astype(int).repeat(16, 0)
    values = np.where(values > 1, values - 4, values) if signed else values - zero
    scale = scales.repeat(16, 0)
    # The largest element of a symmetric block may be twice the largest that 2 signed bits reach.
    assert np.all(np.abs(values * scale - weight) <= np.abs(scale) * (1.001 if symmetric else 0.501))


def bnb4(module: Any, weight: Any, block: int, kind: int) -> tuple[Any, ...]:
    target = np.zeros(-(-weight.size // 2), np.uint8)
    largest = np.zeros(-(-weight.size // block), weight.dtype)
    assert module.quantize_matmul_bnb4(target, weight, largest, block, kind, *weight.shape) is None
    return target, largest


@pytest.mark.official
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_codes_of_bitsandbytes_are_those_of_the_official_package(dtype, kind) -> None:
    for rows, columns, block in SHAPES:
        assert_same(bnb4, weights(rows, columns, dtype).T.copy(), block, kind)


@pytest.mark.official
@pytest.mark.slow
def test_large_weights_are_quantized_in_parts() -> None:
    weight = RNG.standard_normal((4096, 2048)).astype(np.float32)
    for symmetric in (True, False):
        assert_same(by_column, 4, weight, 32, symmetric)
    for kind in (0, 1):
        assert_same(bnb4, weight, 64, kind)


class TestMistakes:
    """The official package writes beyond arrays that are too small."""

    GOOD = (
        np.zeros((1, 1, 8), np.uint8),
        np.zeros((16, 1), np.float32),
        np.zeros(1, np.float32),
        np.zeros(1, np.uint8),
    )

    @pytest.mark.parametrize("place", range(4))
    def test_small_array_raises(self, place) -> None:
        arrays = list(self.GOOD)
        arrays[place] = arrays[place].reshape(-1)[:-1]
        with pytest.raises(RuntimeError, match="elements, got"):
            ours().quantize_matmul_4bits(*arrays, 16, 1, 16, False)

    @pytest.mark.parametrize("place", range(4))
    @pytest.mark.parametrize("wrong", ["x", np.array(["x"]), None])
    def test_other_object_raises(self, place, wrong) -> None:
        arrays: list[Any] = list(self.GOOD)
        arrays[place] = wrong
        with pytest.raises(TypeError):
            ours().quantize_matmul_4bits(*arrays, 16, 1, 16, False)

    @pytest.mark.parametrize("block", [0, 1, 15, 512])
    def test_unknown_block_size_raises(self, block) -> None:
        with pytest.raises(RuntimeError, match="block_size"):
            ours().quantize_matmul_4bits(*self.GOOD, block, 1, 16, False)
        with pytest.raises(RuntimeError, match="block_size"):
            ours().quantize_matmul_bnb4(self.GOOD[0], self.GOOD[1], self.GOOD[2], block, 0, 1, 16)

    def test_read_only_or_strided_room_raises(self) -> None:
        frozen = np.zeros(8, np.uint8)
        frozen.flags.writeable = False
        for room in (frozen, np.zeros(16, np.uint8)[::2]):
            with pytest.raises(RuntimeError, match="target: expected a contiguous array"):
                ours().quantize_matmul_4bits(room, *self.GOOD[1:], 16, 1, 16, False)

    def test_unknown_kind_of_code_raises(self) -> None:
        with pytest.raises(RuntimeError, match="quant_type"):
            ours().quantize_matmul_bnb4(self.GOOD[0], self.GOOD[1], self.GOOD[2], 16, 2, 1, 16)
