"""Weights of matrix products in blocks of few bits, as `onnxruntime.quantization` has them quantized.

A block is a run of `block_size` rows of one column: its elements have one scale, and one zero point unless the
quantization is symmetric. Bits are packed from the low end of each byte. The functions write their results into the
arrays that they are given, as those of the official package do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from zrt._common.arguments import wrong_type
from zrt.onnxruntime import conversions

_Array = npt.NDArray[Any]
_Floats = npt.NDArray[np.float32]
_Bytes = npt.NDArray[np.uint8]

_Answer = TypeVar("_Answer")
# The arrays of the results and of the weights, the size of a block, N, K, and whether it is symmetric.
_Quantize = Callable[[_Array, _Array, _Array, _Array, int, int, int, bool], _Answer]

_BLOCK_SIZES = (16, 32, 64, 128, 256)

# Quantized at once, to bound the memory that the steps take.
_ELEMENTS = 1 << 22

_FP4, _NF4 = 0, 1
# The greatest size of an element that still has each code, and the codes in that order; 8 marks a negative element.
_FP4_LIMITS = np.array([0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333], np.float32)
_FP4_CODES = np.array([0, 1, 6, 7, 4, 5, 2, 3], np.uint8)
# The greatest element that still has each code.
_NF4_LIMITS = np.array(
    [
        -0.8480964303016663,
        -0.6106328964233398,
        -0.4599952697753906,
        -0.33967941999435425,
        -0.23460739850997925,
        -0.13791173696517944,
        -0.045525018125772476,
        0.03979014977812767,
        0.1202552542090416,
        0.2035212516784668,
        0.2920137643814087,
        0.3893125355243683,
        0.5016633868217468,
        0.6427869200706482,
        0.8614783883094788,
    ],
    np.float32,
)


def pack_fp4_weights_for_cuda_moe_gemm(q_weights: _Array, N: int, K: int) -> _Bytes:  # noqa: N803
    """Transpose a matrix of FP4 codes, [N, K / 2] bytes with two codes of a row each, to [K, N / 2], as one row.

    The first code of a pair is in the low bits, before and after. Raises `ValueError` for odd sizes and for another
    shape.
    """
    columns, rows = conversions.integer(N, "N"), conversions.integer(K, "K")
    packed = np.asarray(q_weights).astype(np.uint8)
    if columns <= 0 or rows <= 0:
        raise ValueError("N and K must be positive")
    if columns % 2 or rows % 2:
        raise ValueError("N and K must be even for FP4 packing")
    if packed.shape != (columns, rows // 2):
        raise ValueError("q_weights must have shape (N, K / 2)")
    codes = np.stack((packed & 15, packed >> 4), axis=2).reshape(columns, rows).T
    return np.ascontiguousarray(codes[:, ::2] | codes[:, 1::2] << 4).reshape(-1)


def quantize_matmul_bnb4(
    target: _Array, weights: _Array, largest: _Array, block_size: int, kind: int, columns: int, rows: int, /
) -> None:
    """Quantize `weights`, [columns, rows] in memory, to the codes of bitsandbytes, in blocks of following elements.

    `kind` is 0 for FP4, 1 for NF4. `largest` gets the largest size of an element in each block.
    """
    size, count = _size(block_size, "block_size"), _size(columns, "columns") * _size(rows, "rows")
    if size not in _BLOCK_SIZES:
        raise RuntimeError(f"block_size: {size} is none of {_BLOCK_SIZES}")
    if kind not in (_FP4, _NF4):
        raise RuntimeError(f"quant_type: {kind!r} is neither 0 (FP4) nor 1 (NF4)")
    flat = _floats(weights, count, "weights")
    codes = _result(target, -(-count // 2), np.uint8, "target")
    scales = _result(largest, -(-count // size), flat.dtype, "largest")
    step = _ELEMENTS // size * size
    for begin in range(0, count, step):
        part = flat[begin : begin + step].astype(np.float32)
        blocks = np.pad(part, (0, -part.size % size)).reshape(-1, size)
        top = np.abs(blocks).max(1)
        scales[begin // size :][: top.size] = top
        elements = (blocks * _reciprocal(top)[:, None]).reshape(-1)[: part.size]
        if kind == _NF4:
            values = np.searchsorted(_NF4_LIMITS, elements).astype(np.uint8)
        else:
            values = _FP4_CODES[np.searchsorted(_FP4_LIMITS, np.abs(elements))]
            values |= (elements < 0).astype(np.uint8) << 3
        if values.size % 2:
            values = np.append(values, np.uint8(7 if kind == _NF4 else 0))
        codes[begin // 2 :][: values.size // 2] = values[0::2] << 4 | values[1::2]


def _by_column(
    bits: int,
    target: _Array,
    weights: _Array,
    scales: _Array,
    zeros: _Array,
    block_size: int,
    columns: int,
    rows: int,
    symmetric: bool,
    /,
) -> None:
    """Quantize to [columns, blocks, bytes of a block], with scales and packed zero points [columns, blocks].

    This is the layout of the operator MatMulNBits.
    """
    size, wide, high = _size(block_size, "block_size"), _size(columns, "N"), _size(rows, "K")
    if size not in _BLOCK_SIZES:
        raise RuntimeError(f"block_size: {size} is none of {_BLOCK_SIZES}")
    even = conversions.boolean(symmetric, "is_symmetric")
    blocks, packing = -(-high // size), 8 // bits
    matrix = _floats(weights, high * wide, "weights").reshape(high, wide)
    codes = _result(target, wide * blocks * size // packing, np.uint8, "target").reshape(wide, -1)
    steps = _result(scales, wide * blocks, matrix.dtype, "scales").reshape(wide, blocks)
    points = None if even else _result(zeros, wide * -(-blocks // packing), np.uint8, "zero_points").reshape(wide, -1)
    some = max(_ELEMENTS // (blocks * size), 1)
    for begin in range(0, wide, some):
        part = slice(begin, begin + some)
        values, scale, zero = _quantized(bits, matrix[:, part], size, even, True)
        # Whole bytes behind the last row stay as they are.
        packed = _packed(values.T[:, :high], bits, 0)
        codes[part, : packed.shape[1]] = packed
        steps[part] = scale.T
        if points is not None:
            points[part] = _packed(zero.T, bits, 1 << (bits - 1))


def _by_row(
    bits: int,
    target: _Array,
    weights: _Array,
    scales: _Array,
    zeros: _Array,
    block_size: int,
    columns: int,
    rows: int,
    symmetric: bool,
    /,
) -> bool:
    """Quantize to [rows, columns], with scales and packed zero points [blocks, columns].

    Returns whether the elements are signed; they are if the quantization is symmetric.
    """
    size, wide, high = _size(block_size, "block_size"), _size(columns, "N"), _size(rows, "K")
    if not size:
        raise RuntimeError("block_size: 0 is not a size")
    even = conversions.boolean(symmetric, "is_symmetric")
    blocks, packing = -(-high // size), 8 // bits
    matrix = _floats(weights, high * wide, "weights").reshape(high, wide)
    codes = _result(target, -(-high * wide // packing), np.uint8, "target")
    steps = _result(scales, blocks * wide, matrix.dtype, "scales").reshape(blocks, wide)
    points = _result(zeros, 0 if even else -(-blocks * wide // packing), np.uint8, "zero_points")
    values, scale, zero = _quantized(bits, matrix, size, even, False)
    # Signed elements, whose zero point is 0, differ from the others in the highest bit.
    signs = np.uint8(1 << (bits - 1) if even else 0)
    codes[:] = _packed((values[:high] ^ signs).reshape(1, -1), bits, 0)[0]
    steps[:] = scale
    if not even:
        points[:] = _packed(zero.reshape(1, -1), bits, 0)[0]
    return even


quantize_matmul_2bits: _Quantize[None] = partial(_by_column, 2)
quantize_matmul_4bits: _Quantize[None] = partial(_by_column, 4)
quantize_matmul_8bits: _Quantize[None] = partial(_by_column, 8)
quantize_qdq_matmul_2bits: _Quantize[bool] = partial(_by_row, 2)
quantize_qdq_matmul_4bits: _Quantize[bool] = partial(_by_row, 4)


def _quantized(bits: int, matrix: _Array, size: int, symmetric: bool, sum_first: bool) -> tuple[_Bytes, _Array, _Bytes]:
    """The elements of a matrix, with rows of padding, and the scale and the zero point of each block of each column.

    `sum_first` says whether the zero point is added before the elements are rounded, which decides some ties.
    """
    high, wide = matrix.shape
    padded = np.pad(matrix.astype(np.float32), ((0, -high % size), (0, 0))).reshape(-1, size, wide)
    low, top = padded.min(1), padded.max(1)
    most, middle = (1 << bits) - 1, 1 << (bits - 1)
    if symmetric:
        scale = np.where(np.abs(top) > np.abs(low), top, low) / np.float32(-middle)
        zero = np.full_like(scale, middle)
    else:
        low, top = np.minimum(low, 0), np.maximum(top, 0)
        scale = (top - low) / np.float32(most)
        zero = np.clip(_rounded(-low / np.where(scale != 0, scale, 1)), 0, most)
    stored = scale.astype(matrix.dtype)
    factors = _reciprocal(stored.astype(np.float32))
    steps, zeros = padded * factors[:, None], zero[:, None]
    values = np.clip(_rounded(steps + zeros) if sum_first else _rounded(steps) + zeros, 0, most)
    return values.astype(np.uint8).reshape(-1, wide), stored, zero.astype(np.uint8)


def _rounded(values: _Floats) -> _Floats:
    """Rounded to the nearest integer, halves away from 0, as C's `roundf` does."""
    whole = np.trunc(values)
    return whole + np.copysign(np.abs(values - whole) >= 0.5, values)


def _reciprocal(values: _Floats) -> _Floats:
    """1 / value, 0 for 0."""
    return np.where(values != 0, np.float32(1) / np.where(values != 0, values, np.float32(1)), np.float32(0))


def _packed(values: _Bytes, bits: int, fill: int) -> _Bytes:
    """Each row's elements in bytes, from the low end; `fill` for those that are missing in the last byte."""
    packing = 8 // bits
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % packing)), constant_values=fill)
    packed = np.zeros((values.shape[0], padded.shape[1] // packing), np.uint8)
    for place in range(packing):
        packed |= padded[:, place::packing] << np.uint8(place * bits)
    return packed


def _size(value: Any, subject: str) -> int:
    return conversions.integer(value, subject, (0, conversions.INT32[1]))


def _floats(array: Any, count: int, subject: str) -> _Array:
    """The first `count` elements of an array as float16 or, from any other type, as float32."""
    numbers = np.asarray(array)
    if numbers.dtype.kind not in "fiub":
        raise wrong_type(subject, "an array of numbers", array)
    flat = np.ascontiguousarray(numbers if numbers.dtype == np.float16 else numbers.astype(np.float32)).reshape(-1)
    if flat.size < count:
        raise RuntimeError(f"{subject}: expected {count} elements, got {flat.size}")
    return flat[:count]


def _result(array: Any, count: int, dtype: npt.DTypeLike, subject: str) -> _Array:
    """The first `count` elements of a caller's array, into which the result is written."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        raise wrong_type(subject, f"an array of {np.dtype(dtype)}", array)
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise RuntimeError(f"{subject}: expected a contiguous array that can be written to")
    if array.size < count:
        raise RuntimeError(f"{subject}: expected {count} elements, got {array.size}")
    return array.reshape(-1)[:count]
