"""`OrtValue` as programs make and read it, and `copy_tensors`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zrt.onnxruntime.devices import OrtDeviceVendorId, state_device
from zrt.onnxruntime.sparse import SparseTensor
from zrt.onnxruntime.state import values as state

if TYPE_CHECKING:
    from zrt.onnxruntime.state.devices import OrtMemoryInfo


class OrtValue:
    """A value for runs and bindings: a tensor on the CPU or on a device, a sparse tensor, a sequence or a map."""

    def __init__(
        self, ortvalue: state.OrtValue, numpy_obj: np.ndarray[Any, Any] | None = None, session: Any = None
    ) -> None:
        if not isinstance(ortvalue, state.OrtValue):
            raise ValueError(
                "`Provided ortvalue` needs to be of type `onnxruntime.capi.onnxruntime_pybind11_state.OrtValue`"
            )
        self._ortvalue = ortvalue
        self._numpy_obj = numpy_obj
        self._session = session

    def _get_c_value(self) -> state.OrtValue:
        return self._ortvalue

    def _to_zrt(self) -> Any:
        return self._ortvalue._to_zrt()

    def __zrt_feed__(self) -> Any:
        return self._ortvalue.__zrt_feed__()

    @classmethod
    def ortvalue_from_numpy(
        cls,
        numpy_obj: np.ndarray[Any, Any],
        /,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int | OrtDeviceVendorId = -1,
    ) -> OrtValue:
        """A tensor from an array of numbers.

        On the CPU it shares the memory of the array, and keeps it alive; a strided array is copied. On another device
        it is a copy.
        """
        device = state_device(device_type, device_id, vendor_id)
        made = state.OrtValue.ortvalue_from_numpy(numpy_obj, device)
        return cls(made, numpy_obj if device_type.lower() == "cpu" else None)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray[Any, Any], /, onnx_element_type: int) -> OrtValue:
        """A tensor of an ONNX type (a number of `onnx.TensorProto`) over the memory of an array.

        It is for types that numpy lacks: the elements of the array have the same size, as uint16 for bfloat16. The
        tensor keeps the array alive.
        """
        return cls(state.OrtValue.ortvalue_from_numpy_with_onnx_type(data, onnx_element_type), data)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int | OrtDeviceVendorId = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """A tensor of undefined content. `element_type` is a type of numpy or a number of `onnx.TensorProto`.

        With `memory_info`, such as `OrtEpDevice.memory_info(...)`, it comes from the environment's shared allocator for
        that memory, and a device that is given too is ignored with a warning. Raises `RuntimeError` if there is none.
        """
        if memory_info is not None:
            if (device_type, device_id, vendor_id) != ("cpu", 0, -1):
                text = "device_type, device_id, and vendor_id are ignored when memory_info is provided."
                warnings.warn(text, stacklevel=2)
            by_number = isinstance(element_type, int)
            kind = "onnx_type" if by_number else "type"
            make = getattr(state.OrtValue, f"ortvalue_from_shape_and_{kind}_for_memory_info")
            return cls(make(shape, element_type, memory_info))
        device = state_device(device_type, device_id, vendor_id)
        if isinstance(element_type, int):
            return cls(state.OrtValue.ortvalue_from_shape_and_onnx_type(shape, element_type, device))
        return cls(state.OrtValue.ortvalue_from_shape_and_type(shape, element_type, device))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """A value that holds the sparse tensor."""
        return cls(state.OrtValue.ort_value_from_sparse_tensor(sparse_tensor._get_c_tensor()))

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor in this value; raises `RuntimeError` if it is none."""
        return SparseTensor(self._ortvalue.as_sparse_tensor())

    def data_ptr(self) -> int:
        """The address of the tensor's first element, on its own device."""
        return self._ortvalue.data_ptr()

    def device_name(self) -> str:
        """The name of the device with the content, in lower case: "cpu", "cuda"."""
        return self._ortvalue.device_name().lower()

    def shape(self) -> Sequence[int]:
        """The shape; of a sparse tensor the dense one."""
        return self._ortvalue.shape()

    def data_type(self) -> str:
        """The type, for example "tensor(int64)"."""
        return self._ortvalue.data_type()

    def element_type(self) -> int:
        """The number of the element type in `onnx.TensorProto`."""
        return self._ortvalue.element_type()

    def tensor_size_in_bytes(self) -> int:
        """The size of the tensor's memory in bytes."""
        return self._ortvalue.tensor_size_in_bytes()

    def has_value(self) -> bool:
        """Whether there is content; an optional value may have none."""
        return self._ortvalue.has_value()

    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return self._ortvalue.is_tensor()

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return self._ortvalue.is_sparse_tensor()

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return self._ortvalue.is_tensor_sequence()

    def numpy(self) -> Any:
        """The tensor as an array: of numbers over its memory, which the array keeps alive; of strings a copy.

        Raises `RuntimeError` for a value that is no tensor, and for types that numpy lacks.
        """
        return self._ortvalue.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        if copy is not None:
            return np.array(array, dtype=dtype, copy=copy)
        return array if dtype is None else np.asarray(array, dtype=dtype)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self._ortvalue.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._ortvalue.__dlpack_device__()

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value over the memory of another library's tensor, or of a DLPack capsule.

        bool is told from uint8 by the `dtype` of `data`, so a capsule alone gives uint8.
        """
        if isinstance(data, OrtValue):
            is_bool = data.data_type() == "tensor(bool)"
        else:
            dtype = getattr(data, "dtype", None)
            is_bool = getattr(dtype, "name", str(dtype)) in ("bool", "bool_", "torch.bool")
        return cls(state.OrtValue.from_dlpack(data, is_bool))

    def update_inplace(self, data: Any) -> None:
        """Writes the content of an array, or of another value, into this value's own memory."""
        if isinstance(data, OrtValue):
            self._ortvalue.update_inplace(data._ortvalue)
        elif isinstance(data, np.ndarray):
            self._ortvalue.update_inplace(data)
        else:
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each tensor of `src` into the one at the same place of `dst`, on a device's `stream` or with None."""
    state.copy_tensors([one._get_c_value() for one in src], [one._get_c_value() for one in dst], stream)
