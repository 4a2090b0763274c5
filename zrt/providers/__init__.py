"""Execution providers: the backends on which a session may run, and their options.

A provider is named by a typed object (`CPU()`, `CUDA(device_id=1)`), by its short or full name ("cuda",
"CUDAExecutionProvider"), or by a (name, options) pair as in ONNX Runtime's own package. There is a class for each
provider that ONNX Runtime 1.27 knows, with a field for each of its keys; the modules are imported at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zrt.providers import known

if TYPE_CHECKING:
    from zrt.providers.base import Provider as Provider
    from zrt.providers.base import append as append
    from zrt.providers.base import available_providers as available_providers
    from zrt.providers.base import full_name as full_name
    from zrt.providers.base import usable as usable
    from zrt.providers.selection import ProviderLike as ProviderLike
    from zrt.providers.selection import parse as parse
    from zrt.providers.selection import parse_all as parse_all
    from zrt.providers.selection import prefer_gpu as prefer_gpu
    from zrt.providers.vendors.amd import ROCM as ROCM
    from zrt.providers.vendors.amd import MIGraphX as MIGraphX
    from zrt.providers.vendors.amd import VitisAI as VitisAI
    from zrt.providers.vendors.apple import CoreML as CoreML
    from zrt.providers.vendors.cpu import CPU as CPU
    from zrt.providers.vendors.cuda import CUDA as CUDA
    from zrt.providers.vendors.cuda import CUDAPlugin as CUDAPlugin
    from zrt.providers.vendors.embedded import ACL as ACL
    from zrt.providers.vendors.embedded import NNAPI as NNAPI
    from zrt.providers.vendors.embedded import RKNPU as RKNPU
    from zrt.providers.vendors.embedded import VSINPU as VSINPU
    from zrt.providers.vendors.embedded import XNNPACK as XNNPACK
    from zrt.providers.vendors.huawei import CANN as CANN
    from zrt.providers.vendors.intel import DNNL as DNNL
    from zrt.providers.vendors.intel import OpenVINO as OpenVINO
    from zrt.providers.vendors.microsoft import DML as DML
    from zrt.providers.vendors.microsoft import Azure as Azure
    from zrt.providers.vendors.qualcomm import QNN as QNN
    from zrt.providers.vendors.qualcomm import SNPE as SNPE
    from zrt.providers.vendors.tensorrt import NvTensorRTRTX as NvTensorRTRTX
    from zrt.providers.vendors.tensorrt import TensorRT as TensorRT
    from zrt.providers.vendors.web import JS as JS
    from zrt.providers.vendors.web import WebGPU as WebGPU
    from zrt.providers.vendors.web import WebNN as WebNN

_HOMES = {
    **dict.fromkeys(("Provider", "append", "available_providers", "full_name", "usable"), "base"),
    **dict.fromkeys(("ProviderLike", "parse", "parse_all", "prefer_gpu"), "selection"),
    **{kind: f"vendors.{home}" for home, kind in known.HOMES.values()},
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'zrt.providers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"zrt.providers.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
