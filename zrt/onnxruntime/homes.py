"""The names of the official package, and the module of this room in which each one is defined."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

_MODULES: dict[str, str] = {
    "adapters": "AdapterFormat LoraAdapter",
    "assignment": "OrtEpAssignedNode OrtEpAssignedSubgraph",
    "binding": "IOBinding SessionIOBinding",
    "compiler": "ModelCompiler OrtExternalInitializerInfo",
    "devices": """
        OrtDevice OrtDeviceVendorId OrtEpDevice OrtHardwareDevice OrtMemoryInfo OrtSyncStream get_ep_devices
        register_execution_provider_library unregister_execution_provider_library
    """,
    "enums": """
        ArenaExtendStrategy ExecutionMode ExecutionOrder GraphOptimizationLevel OrtAllocatorType OrtCompileApiFlags
        OrtCompiledModelCompatibility OrtDeviceEpIncompatibilityReason OrtDeviceMemoryType
        OrtExecutionProviderDevicePolicy OrtHardwareDeviceType OrtMemType OrtMemoryInfoDeviceType OrtSparseFormat
        kNextPowerOfTwo kSameAsRequested
    """,
    "errors": """
        EPFail EngineError Fail InvalidArgument InvalidGraph InvalidProtobuf ModelLoadCanceled ModelLoaded
        ModelRequiresCompilation NoModel NoSuchFile NotFound NotImplemented RuntimeException
    """,
    "node_args": "ModelMetadata NodeArg",
    "options": "RunOptions SessionOptions",
    "process": """
        OrtArenaCfg __version__ create_and_register_allocator create_and_register_allocator_v2 cuda_version
        disable_telemetry_events enable_telemetry_events get_build_info get_device get_version_string
        has_collective_ops package_name preload_dlls print_debug_info set_default_logger_severity
        set_default_logger_verbosity set_global_thread_pool_sizes set_seed version
    """,
    "provider_args": "check_and_normalize_provider_args get_all_providers get_available_providers",
    "sessions": "InferenceSession Session",
    "sparse": "SparseBlockSparseView SparseCooView SparseCsrView SparseTensor",
    "values": "OrtValue OrtValueVector copy_tensors",
}

HOMES: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}


def serve(module: str, name: str, names: Iterable[str], homes: Mapping[str, str] = HOMES) -> Any:
    """Import the object `name` for the `__getattr__` of `module`, which has the `names`."""
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"zrt.onnxruntime.{homes[name]}"), name)
