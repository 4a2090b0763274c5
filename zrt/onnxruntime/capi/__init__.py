"""The modules of `onnxruntime.capi` that programs reach into; each is imported at its first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.homes import words

if TYPE_CHECKING:
    from zrt.onnxruntime.capi import _pybind_state as _pybind_state
    from zrt.onnxruntime.capi import build_and_package_info as build_and_package_info
    from zrt.onnxruntime.capi import convert_npz_to_onnx_adapter as convert_npz_to_onnx_adapter
    from zrt.onnxruntime.capi import onnxruntime_inference_collection as onnxruntime_inference_collection
    from zrt.onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_pybind11_state
    from zrt.onnxruntime.capi import onnxruntime_validation as onnxruntime_validation

__all__ = words(
    "_pybind_state build_and_package_info convert_npz_to_onnx_adapter onnxruntime_inference_collection "
    "onnxruntime_pybind11_state onnxruntime_validation"
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
