"""The names and conventions of the `onnxruntime` package over zrt: `import zrt.onnxruntime as ort`.

A program that is written for that package runs on zrt with this one line changed. Each name is imported at its first
use, so that importing this module costs little and opens no library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.homes import HOMES, PACKAGE, serve

if TYPE_CHECKING:
    from zrt.onnxruntime import capi as capi
    from zrt.onnxruntime.adapters import AdapterFormat as AdapterFormat
    from zrt.onnxruntime.adapters import LoraAdapter as LoraAdapter
    from zrt.onnxruntime.allocators import OrtArenaCfg as OrtArenaCfg
    from zrt.onnxruntime.allocators import create_and_register_allocator as create_and_register_allocator
    from zrt.onnxruntime.allocators import create_and_register_allocator_v2 as create_and_register_allocator_v2
    from zrt.onnxruntime.binding import IOBinding as IOBinding
    from zrt.onnxruntime.capi import onnxruntime_validation as onnxruntime_validation
    from zrt.onnxruntime.compiler import ModelCompiler as ModelCompiler
    from zrt.onnxruntime.compiler import OrtExternalInitializerInfo as OrtExternalInitializerInfo
    from zrt.onnxruntime.devices import OrtDevice as OrtDevice
    from zrt.onnxruntime.devices import OrtDeviceVendorId as OrtDeviceVendorId
    from zrt.onnxruntime.devices import OrtEpDevice as OrtEpDevice
    from zrt.onnxruntime.devices import OrtHardwareDevice as OrtHardwareDevice
    from zrt.onnxruntime.devices import OrtMemoryInfo as OrtMemoryInfo
    from zrt.onnxruntime.devices import OrtSyncStream as OrtSyncStream
    from zrt.onnxruntime.devices import get_ep_devices as get_ep_devices
    from zrt.onnxruntime.devices import register_execution_provider_library as register_execution_provider_library
    from zrt.onnxruntime.devices import unregister_execution_provider_library as unregister_execution_provider_library
    from zrt.onnxruntime.engine import get_build_info as get_build_info
    from zrt.onnxruntime.engine import get_device as get_device
    from zrt.onnxruntime.engine import get_version_string as get_version_string
    from zrt.onnxruntime.engine import has_collective_ops as has_collective_ops
    from zrt.onnxruntime.engine import preload_dlls as preload_dlls
    from zrt.onnxruntime.engine import print_debug_info as print_debug_info
    from zrt.onnxruntime.enums import ExecutionMode as ExecutionMode
    from zrt.onnxruntime.enums import ExecutionOrder as ExecutionOrder
    from zrt.onnxruntime.enums import GraphOptimizationLevel as GraphOptimizationLevel
    from zrt.onnxruntime.enums import OrtAllocatorType as OrtAllocatorType
    from zrt.onnxruntime.enums import OrtCompileApiFlags as OrtCompileApiFlags
    from zrt.onnxruntime.enums import OrtDeviceMemoryType as OrtDeviceMemoryType
    from zrt.onnxruntime.enums import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
    from zrt.onnxruntime.enums import OrtHardwareDeviceType as OrtHardwareDeviceType
    from zrt.onnxruntime.enums import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
    from zrt.onnxruntime.enums import OrtMemType as OrtMemType
    from zrt.onnxruntime.enums import OrtSparseFormat as OrtSparseFormat
    from zrt.onnxruntime.forms import SessionIOBinding as SessionIOBinding
    from zrt.onnxruntime.node_args import ModelMetadata as ModelMetadata
    from zrt.onnxruntime.node_args import NodeArg as NodeArg
    from zrt.onnxruntime.node_args import OrtEpAssignedNode as OrtEpAssignedNode
    from zrt.onnxruntime.node_args import OrtEpAssignedSubgraph as OrtEpAssignedSubgraph
    from zrt.onnxruntime.options import RunOptions as RunOptions
    from zrt.onnxruntime.options import SessionOptions as SessionOptions
    from zrt.onnxruntime.process import disable_telemetry_events as disable_telemetry_events
    from zrt.onnxruntime.process import enable_telemetry_events as enable_telemetry_events
    from zrt.onnxruntime.process import set_default_logger_callback as set_default_logger_callback
    from zrt.onnxruntime.process import set_default_logger_severity as set_default_logger_severity
    from zrt.onnxruntime.process import set_default_logger_verbosity as set_default_logger_verbosity
    from zrt.onnxruntime.process import set_global_thread_pool_sizes as set_global_thread_pool_sizes
    from zrt.onnxruntime.process import set_seed as set_seed
    from zrt.onnxruntime.provider_args import get_all_providers as get_all_providers
    from zrt.onnxruntime.provider_args import get_available_providers as get_available_providers
    from zrt.onnxruntime.sessions import InferenceSession as InferenceSession
    from zrt.onnxruntime.sparse import SparseTensor as SparseTensor
    from zrt.onnxruntime.values import OrtValue as OrtValue
    from zrt.onnxruntime.values import copy_tensors as copy_tensors

    __version__: str
    cuda_version: str
    package_name: str
    version: str

_SUBMODULES = {"capi": "capi", "onnxruntime_validation": "capi.onnxruntime_validation"}

__author__ = "zrt developers"
__all__ = list(PACKAGE)


def install() -> None:
    """Make this package the `onnxruntime` of all code in the process; call it before the first import of onnxruntime.

    The process's `PYTHONPATH` then has a folder that does the same in child processes that are a Python of this
    environment. A log message names those that are started without it.

    `onnxruntime.quantization`, `.transformers`, `.tools` and `.datasets` are then those of the official package, if it
    is installed, and run on this one. A second call does nothing. Raises `ImportError` if the official package is
    imported already.
    """
    from zrt.onnxruntime import finder

    if finder.install():
        from zrt.onnxruntime import children

        children.reach()


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"zrt.onnxruntime.{_SUBMODULES[name]}")
    value = globals()[name] = serve(__name__, name, HOMES)
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, "install"))
