"""The names and conventions of the `onnxruntime` package over zrt: `import zrt.onnxruntime as ort`.

A program that is written for that package runs on zrt with this one line changed. Each name is imported at its first
use, so that importing this module costs little and opens no library.
"""

from __future__ import annotations

import importlib
from typing import Any

from zrt.onnxruntime.homes import HOMES, serve

_SUBMODULES = {"capi": "capi", "onnxruntime_validation": "capi.onnxruntime_validation"}

__author__ = "zrt developers"
__all__ = [
    "AdapterFormat",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtExternalInitializerInfo",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtSyncStream",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "__version__",
    "capi",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "cuda_version",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "onnxruntime_validation",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "unregister_execution_provider_library",
    "version",
]


def install() -> None:
    """Make this package the `onnxruntime` of all code in the process; call it before the first import of onnxruntime.

    `onnxruntime.quantization`, `.transformers`, `.tools` and `.datasets` are then those of the official package, if it
    is installed, and run on this one. A second call does nothing. Raises `ImportError` if the official package is
    imported already.
    """
    from zrt.onnxruntime import finder

    finder.install()


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"zrt.onnxruntime.{_SUBMODULES[name]}")
    value = globals()[name] = serve(__name__, name, HOMES)
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, "install"))
