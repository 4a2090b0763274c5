"""The classes and functions that the official package defines in Python, each imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.capi import _pybind_state as C  # noqa: N812
from zrt.onnxruntime.homes import COLLECTION, serve

if TYPE_CHECKING:
    from zrt.onnxruntime.adapters import AdapterFormat as AdapterFormat
    from zrt.onnxruntime.binding import IOBinding as IOBinding
    from zrt.onnxruntime.compiler import GetInitializerLocationFunc as GetInitializerLocationFunc
    from zrt.onnxruntime.compiler import GetInitializerLocationWrapperFunc as GetInitializerLocationWrapperFunc
    from zrt.onnxruntime.compiler import ModelCompiler as ModelCompiler
    from zrt.onnxruntime.compiler import (
        make_get_initializer_location_func_wrapper as make_get_initializer_location_func_wrapper,
    )
    from zrt.onnxruntime.devices import OrtDevice as OrtDevice
    from zrt.onnxruntime.devices import OrtDeviceVendorId as OrtDeviceVendorId
    from zrt.onnxruntime.devices import get_ort_device_type as get_ort_device_type
    from zrt.onnxruntime.devices import get_vendor_id_for_device_type as get_vendor_id_for_device_type
    from zrt.onnxruntime.provider_args import check_and_normalize_provider_args as check_and_normalize_provider_args
    from zrt.onnxruntime.sessions import InferenceSession as InferenceSession
    from zrt.onnxruntime.sessions import Session as Session
    from zrt.onnxruntime.sparse import SparseTensor as SparseTensor
    from zrt.onnxruntime.values import OrtValue as OrtValue
    from zrt.onnxruntime.values import copy_tensors as copy_tensors

__all__ = ["C", *COLLECTION]


def __getattr__(name: str) -> Any:
    value = globals()[name] = serve(__name__, name, COLLECTION)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
