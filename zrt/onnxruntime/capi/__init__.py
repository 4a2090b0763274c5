"""The modules of `onnxruntime.capi` that programs reach into; each is imported at its first use."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = (
    "_pybind_state",
    "build_and_package_info",
    "convert_npz_to_onnx_adapter",
    "onnxruntime_inference_collection",
    "onnxruntime_pybind11_state",
    "onnxruntime_validation",
)

__all__ = list(_MODULES)


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(_MODULES)
