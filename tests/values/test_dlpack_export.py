"""`Value.__dlpack__` and `Value.__dlpack_device__`: the fields of capsules, and how long these keep the memory."""

import gc
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support.capsules import Plain, Versioned, read, watched
from zrt.errors import ArgumentError, DLPackError, DTypeError
from zrt.values.dlpack_export import Device


class TestCapsule:
    def test_fields_and_version(self) -> None:
        array = np.zeros((2, 3, 1), np.int16)
        value = zrt.Value.from_array(array)
        assert value.__dlpack_device__() == (Device.CPU, 0)
        for asked, kind in ((None, Plain), ((0, 8), Plain), ((1, 0), Versioned), ((9, 9), Versioned)):
            capsule = value.__dlpack__(max_version=asked)
            fields = read(capsule)
            assert type(fields) is kind
            tensor = fields.tensor
            assert (tensor.data, tensor.byte_offset) == (array.ctypes.data, 0)
            assert (tensor.device_type, tensor.device_id) == (1, 0)
            assert (tensor.ndim, tensor.shape[:3], tensor.strides[:3]) == (3, [2, 3, 1], [3, 1, 1])
            if isinstance(fields, Versioned):
                assert (fields.major, fields.minor) == min(asked or (0, 0), (1, 1))
                assert fields.flags == 0

    def test_copy_sets_the_copied_flag(self) -> None:
        value = zrt.Value.from_array(np.arange(3))
        capsule = value.__dlpack__(max_version=(1, 0), copy=True)
        fields = read(capsule)
        assert isinstance(fields, Versioned)
        assert fields.flags == 2
        assert fields.tensor.data != value.address

    def test_empty_tensor_has_no_address(self) -> None:
        capsule = zrt.Value.from_array(np.zeros((0, 2))).__dlpack__()
        assert read(capsule).tensor.data is None

    def test_empty_tensor_with_other_sizes_too_large_for_strides(self) -> None:
        value = zrt.Value.allocate((0, 2**62, 2**62), "float32")
        assert read(value.__dlpack__()).tensor.strides[:3] == [2**63 - 1, 2**62, 1]
        assert zrt.from_dlpack(value).shape == value.shape

    @pytest.mark.parametrize(
        ("asked", "error", "words"),
        [
            ({"stream": 1}, ArgumentError, "the host has none, got 1"),
            ({"stream": "1"}, DTypeError, "stream"),
            ({"max_version": 1}, DTypeError, "max_version"),
            ({"max_version": ("1", 0)}, DTypeError, "max_version"),
            ({"dl_device": (2, 0)}, DLPackError, r"\(2, 0\)"),
            ({"dl_device": 2}, DTypeError, "dl_device"),
            ({"copy": "yes"}, DTypeError, "copy"),
            ({"dl_device": (2, 0), "copy": False}, DLPackError, "copy=False"),
        ],
        ids=str,
    )
    def test_wrong_arguments_are_refused(self, asked: dict[str, Any], error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=words):
            zrt.Value.from_array(np.zeros(1)).__dlpack__(**asked)

    def test_closed_value_raises(self) -> None:
        value = zrt.Value.from_array(np.zeros(1))
        value.close()
        for ask in (value.__dlpack__, value.__dlpack_device__):
            with pytest.raises(zrt.errors.ClosedError):
                ask()


class TestElementTypes:
    def test_codes_and_bits(self) -> None:
        codes = {
            "bool": (6, 8),
            "int64": (0, 64),
            "uint8": (1, 8),
            "float16": (2, 16),
            "bfloat16": (4, 16),
            "float8_e4m3fn": (10, 8),
            "float8_e8m0fnu": (14, 8),
        }
        for name, (code, bits) in codes.items():
            tensor = read(zrt.Value.from_array(np.zeros(1, name)).__dlpack__()).tensor
            assert (tensor.code, tensor.bits, tensor.lanes) == (code, bits, 1)

    @pytest.mark.parametrize(
        "value",
        [
            zrt.Value.from_strings(["a"]),
            zrt.Value.from_sequence([np.ones(1)]),
            zrt.Value.from_map({"a": 1.5}),
            zrt.Value.from_sparse(zrt.SparseTensor("coo", (3,), np.ones(1), [1])),
        ],
        ids=repr,
    )
    def test_values_other_than_numeric_tensors_are_refused(self, value: zrt.Value) -> None:
        for ask in (value.__dlpack__, value.__dlpack_device__):
            with pytest.raises(DLPackError, match="tensors of numbers"):
                ask()


class TestLifetimes:
    @pytest.mark.parametrize("version", [None, (1, 0)])
    def test_unconsumed_capsule_releases_the_memory(self, version: tuple[int, int] | None) -> None:
        value, alive = watched()
        capsule = value.__dlpack__(max_version=version)
        value.close()
        gc.collect()
        assert alive() is not None
        del capsule
        assert alive() is None
