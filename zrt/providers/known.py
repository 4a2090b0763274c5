"""The providers that ONNX Runtime 1.27 knows, and their classes, which are imported at their first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zrt.providers.base import Provider

# ORT's full name: the module of `zrt.providers.vendors`, the class.
HOMES: dict[str, tuple[str, str]] = {
    "CPUExecutionProvider": ("cpu", "CPU"),
    "CUDAExecutionProvider": ("cuda", "CUDA"),
    "CudaPluginExecutionProvider": ("cuda", "CUDAPlugin"),
    "TensorrtExecutionProvider": ("tensorrt", "TensorRT"),
    "NvTensorRTRTXExecutionProvider": ("tensorrt", "NvTensorRTRTX"),
    "MIGraphXExecutionProvider": ("amd", "MIGraphX"),
    "ROCMExecutionProvider": ("amd", "ROCM"),
    "VitisAIExecutionProvider": ("amd", "VitisAI"),
    "OpenVINOExecutionProvider": ("intel", "OpenVINO"),
    "DnnlExecutionProvider": ("intel", "DNNL"),
    "CANNExecutionProvider": ("huawei", "CANN"),
    "QNNExecutionProvider": ("qualcomm", "QNN"),
    "SNPEExecutionProvider": ("qualcomm", "SNPE"),
    "CoreMLExecutionProvider": ("apple", "CoreML"),
    "DmlExecutionProvider": ("microsoft", "DML"),
    "WebGpuExecutionProvider": ("web", "WebGPU"),
    "WebNNExecutionProvider": ("web", "WebNN"),
    "JsExecutionProvider": ("web", "JS"),
    "XnnpackExecutionProvider": ("embedded", "XNNPACK"),
    "NnapiExecutionProvider": ("embedded", "NNAPI"),
    "ACLExecutionProvider": ("embedded", "ACL"),
    "RknpuExecutionProvider": ("embedded", "RKNPU"),
    "VSINPUExecutionProvider": ("embedded", "VSINPU"),
    "AzureExecutionProvider": ("microsoft", "Azure"),
}

# Providers of earlier versions.
GONE = {
    "armnn": "ONNX Runtime has removed it: before 1.32 ACL (zrt.providers.ACL) runs on the same CPUs",
    "tvm": "ONNX Runtime has removed it",
}


def short(name: str) -> str:
    """A provider's name in the form for comparisons: "cuda" for "CUDAExecutionProvider" and "CUDA"."""
    return name.lower().removesuffix("executionprovider")


def kind_of(name: str) -> type[Provider] | None:
    """The typed options of the provider with that short or full name, in any case; None if there are none."""
    for full, (home, kind) in HOMES.items():
        if short(full) == short(name):
            # By name: all classes together take 30 ms to import.
            provider: type[Provider] = getattr(importlib.import_module(f"zrt.providers.vendors.{home}"), kind)
            return provider
    return None
