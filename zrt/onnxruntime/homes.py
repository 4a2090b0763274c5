"""The names of the official package, and the module of this room in which each one is defined."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def words(text: str) -> list[str]:
    """The words of a table."""
    return text.split()


def _homes(modules: Mapping[str, str]) -> dict[str, str]:
    return {name: module for module, text in modules.items() for name in words(text)}


# The names of the extension module.
STATE = _homes(
    {
        "allocators": "OrtArenaCfg create_and_register_allocator create_and_register_allocator_v2",
        "engine": "get_build_info get_device get_version_string has_collective_ops",
        "enums": """
            ArenaExtendStrategy ExecutionMode ExecutionOrder GraphOptimizationLevel OrtAllocatorType OrtCompileApiFlags
            OrtCompiledModelCompatibility OrtDeviceEpIncompatibilityReason OrtDeviceMemoryType
            OrtExecutionProviderDevicePolicy OrtHardwareDeviceType OrtMemType OrtMemoryInfoDeviceType OrtSparseFormat
            kNextPowerOfTwo kSameAsRequested
        """,
        "errors": """
            DeviceReset EPFail EngineError Fail InvalidArgument InvalidGraph InvalidProtobuf ModelLoadCanceled
            ModelLoaded ModelRequiresCompilation NoModel NoSuchFile NotFound NotImplemented RuntimeException
        """,
        "forms": "InferenceSession ModelCompiler SessionIOBinding SparseTensor",
        "node_args": "ModelMetadata NodeArg OrtEpAssignedNode OrtEpAssignedSubgraph",
        "options": """
            RunOptions SessionObjectInitializer SessionOptions get_default_session_options get_session_initializer
        """,
        "process": """
            disable_telemetry_events enable_telemetry_events set_default_logger_callback set_default_logger_severity
            set_default_logger_verbosity set_global_thread_pool_sizes set_seed
        """,
        "provider_args": "get_all_providers get_available_providers",
        "quantize": """
            pack_fp4_weights_for_cuda_moe_gemm quantize_matmul_2bits quantize_matmul_4bits quantize_matmul_8bits
            quantize_matmul_bnb4 quantize_qdq_matmul_2bits quantize_qdq_matmul_4bits
        """,
        "adapters": "AdapterFormat LoraAdapter",
        "compiler": "OrtExternalInitializerInfo",
        "devices": """
            OrtDevice OrtEpDevice OrtHardwareDevice OrtMemoryInfo OrtSyncStream get_compatibility_info_from_model
            get_compatibility_info_from_model_bytes get_ep_devices get_hardware_device_ep_incompatibility_details
            get_hardware_devices get_model_compatibility_for_ep_devices register_execution_provider_library
            unregister_execution_provider_library
        """,
        "sparse": "SparseBlockSparseView SparseCooView SparseCsrView",
        "values": "OrtValue OrtValueVector copy_tensors is_dlpack_uint8_tensor",
    }
)

# The names of `onnxruntime_inference_collection` that are classes and functions of Python there.
COLLECTION = _homes(
    {
        "adapters": "AdapterFormat",
        "binding": "IOBinding",
        "compiler": """
            GetInitializerLocationFunc GetInitializerLocationWrapperFunc ModelCompiler
            make_get_initializer_location_func_wrapper
        """,
        "devices": "OrtDevice OrtDeviceVendorId get_ort_device_type get_vendor_id_for_device_type",
        "provider_args": "check_and_normalize_provider_args",
        "sessions": "InferenceSession Session",
        "sparse": "SparseTensor",
        "values": "OrtValue copy_tensors",
    }
)

# The names of the package itself that neither of the two has.
ENGINE = _homes({"engine": "__version__ cuda_version package_name preload_dlls print_debug_info version"})

HOMES = {**STATE, **COLLECTION, **ENGINE}

# The public names of the package.
PACKAGE = words(
    """
    AdapterFormat ExecutionMode ExecutionOrder GraphOptimizationLevel IOBinding InferenceSession LoraAdapter
    ModelCompiler ModelMetadata NodeArg OrtAllocatorType OrtArenaCfg OrtCompileApiFlags OrtDevice
    OrtDeviceMemoryType OrtDeviceVendorId OrtEpAssignedNode OrtEpAssignedSubgraph OrtEpDevice
    OrtExecutionProviderDevicePolicy OrtExternalInitializerInfo OrtHardwareDevice OrtHardwareDeviceType OrtMemType
    OrtMemoryInfo OrtMemoryInfoDeviceType OrtSparseFormat OrtSyncStream OrtValue RunOptions SessionIOBinding
    SessionOptions SparseTensor __version__ capi copy_tensors create_and_register_allocator
    create_and_register_allocator_v2 cuda_version disable_telemetry_events enable_telemetry_events get_all_providers
    get_available_providers get_build_info get_device get_ep_devices get_version_string has_collective_ops
    onnxruntime_validation package_name preload_dlls print_debug_info register_execution_provider_library
    set_default_logger_callback set_default_logger_severity set_default_logger_verbosity
    set_global_thread_pool_sizes set_seed unregister_execution_provider_library version
"""
)


_NO_REGISTRY = "ONNX Runtime's C API does not tell its kernels and schemas; onnx.defs has the schemas of the standard"
EP_CONTEXT_DATA = "zrt has no functions for the data of execution providers that ONNX Runtime 1.31 lets programs store"
_NO_PACKAGES = "zrt does not read or write the model packages of ONNX Runtime 1.32"

# The names that zrt cannot give, and why.
LACKING = _homes(
    {
        _NO_PACKAGES: "ModelPackage ModelPackageComponentContext ModelPackageContext ModelPackageOptions "
        "ModelPackageWriteMode",
        EP_CONTEXT_DATA: "OrtEpContextData OrtEpContextDataBuffer",
        _NO_REGISTRY: "get_all_operator_schema get_all_opkernel_def get_registered_ep_kernel_defs opkernel schemadef",
    }
)


def serve(module: str, name: str, homes: Mapping[str, str]) -> Any:
    """Import the object `name` for the `__getattr__` of `module`, whose names have these `homes`."""
    if name not in homes:
        reason = f": {LACKING[name]}" if name in LACKING else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{reason}")
    if name in ("InferenceSession", "SessionOptions"):
        # As in zrt/__init__.py.
        from zrt._native import early_start

        early_start.start()
    return getattr(importlib.import_module(f"zrt.onnxruntime.{homes[name]}"), name)
