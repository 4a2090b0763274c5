"""The names of the official package's extension module, each imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.homes import STATE, serve

if TYPE_CHECKING:
    from zrt.onnxruntime.adapters import AdapterFormat as AdapterFormat
    from zrt.onnxruntime.adapters import LoraAdapter as LoraAdapter
    from zrt.onnxruntime.allocators import OrtArenaCfg as OrtArenaCfg
    from zrt.onnxruntime.allocators import create_and_register_allocator as create_and_register_allocator
    from zrt.onnxruntime.allocators import create_and_register_allocator_v2 as create_and_register_allocator_v2
    from zrt.onnxruntime.compiler import OrtExternalInitializerInfo as OrtExternalInitializerInfo
    from zrt.onnxruntime.devices import OrtDevice as OrtDevice
    from zrt.onnxruntime.devices import OrtEpDevice as OrtEpDevice
    from zrt.onnxruntime.devices import OrtHardwareDevice as OrtHardwareDevice
    from zrt.onnxruntime.devices import OrtMemoryInfo as OrtMemoryInfo
    from zrt.onnxruntime.devices import OrtSyncStream as OrtSyncStream
    from zrt.onnxruntime.devices import get_compatibility_info_from_model as get_compatibility_info_from_model
    from zrt.onnxruntime.devices import (
        get_compatibility_info_from_model_bytes as get_compatibility_info_from_model_bytes,
    )
    from zrt.onnxruntime.devices import get_ep_devices as get_ep_devices
    from zrt.onnxruntime.devices import (
        get_hardware_device_ep_incompatibility_details as get_hardware_device_ep_incompatibility_details,
    )
    from zrt.onnxruntime.devices import get_hardware_devices as get_hardware_devices
    from zrt.onnxruntime.devices import get_model_compatibility_for_ep_devices as get_model_compatibility_for_ep_devices
    from zrt.onnxruntime.devices import register_execution_provider_library as register_execution_provider_library
    from zrt.onnxruntime.devices import unregister_execution_provider_library as unregister_execution_provider_library
    from zrt.onnxruntime.engine import get_build_info as get_build_info
    from zrt.onnxruntime.engine import get_device as get_device
    from zrt.onnxruntime.engine import get_version_string as get_version_string
    from zrt.onnxruntime.engine import has_collective_ops as has_collective_ops
    from zrt.onnxruntime.enums import ArenaExtendStrategy as ArenaExtendStrategy
    from zrt.onnxruntime.enums import ExecutionMode as ExecutionMode
    from zrt.onnxruntime.enums import ExecutionOrder as ExecutionOrder
    from zrt.onnxruntime.enums import GraphOptimizationLevel as GraphOptimizationLevel
    from zrt.onnxruntime.enums import OrtAllocatorType as OrtAllocatorType
    from zrt.onnxruntime.enums import OrtCompileApiFlags as OrtCompileApiFlags
    from zrt.onnxruntime.enums import OrtCompiledModelCompatibility as OrtCompiledModelCompatibility
    from zrt.onnxruntime.enums import OrtDeviceEpIncompatibilityReason as OrtDeviceEpIncompatibilityReason
    from zrt.onnxruntime.enums import OrtDeviceMemoryType as OrtDeviceMemoryType
    from zrt.onnxruntime.enums import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
    from zrt.onnxruntime.enums import OrtHardwareDeviceType as OrtHardwareDeviceType
    from zrt.onnxruntime.enums import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
    from zrt.onnxruntime.enums import OrtMemType as OrtMemType
    from zrt.onnxruntime.enums import OrtSparseFormat as OrtSparseFormat
    from zrt.onnxruntime.enums import kNextPowerOfTwo as kNextPowerOfTwo
    from zrt.onnxruntime.enums import kSameAsRequested as kSameAsRequested
    from zrt.onnxruntime.errors import DeviceReset as DeviceReset
    from zrt.onnxruntime.errors import EngineError as EngineError
    from zrt.onnxruntime.errors import EPFail as EPFail
    from zrt.onnxruntime.errors import Fail as Fail
    from zrt.onnxruntime.errors import InvalidArgument as InvalidArgument
    from zrt.onnxruntime.errors import InvalidGraph as InvalidGraph
    from zrt.onnxruntime.errors import InvalidProtobuf as InvalidProtobuf
    from zrt.onnxruntime.errors import ModelLoadCanceled as ModelLoadCanceled
    from zrt.onnxruntime.errors import ModelLoaded as ModelLoaded
    from zrt.onnxruntime.errors import ModelRequiresCompilation as ModelRequiresCompilation
    from zrt.onnxruntime.errors import NoModel as NoModel
    from zrt.onnxruntime.errors import NoSuchFile as NoSuchFile
    from zrt.onnxruntime.errors import NotFound as NotFound
    from zrt.onnxruntime.errors import NotImplemented as NotImplemented
    from zrt.onnxruntime.errors import RuntimeException as RuntimeException
    from zrt.onnxruntime.forms import InferenceSession as InferenceSession
    from zrt.onnxruntime.forms import ModelCompiler as ModelCompiler
    from zrt.onnxruntime.forms import SessionIOBinding as SessionIOBinding
    from zrt.onnxruntime.forms import SparseTensor as SparseTensor
    from zrt.onnxruntime.node_args import ModelMetadata as ModelMetadata
    from zrt.onnxruntime.node_args import NodeArg as NodeArg
    from zrt.onnxruntime.node_args import OrtEpAssignedNode as OrtEpAssignedNode
    from zrt.onnxruntime.node_args import OrtEpAssignedSubgraph as OrtEpAssignedSubgraph
    from zrt.onnxruntime.options import RunOptions as RunOptions
    from zrt.onnxruntime.options import SessionObjectInitializer as SessionObjectInitializer
    from zrt.onnxruntime.options import SessionOptions as SessionOptions
    from zrt.onnxruntime.options import get_default_session_options as get_default_session_options
    from zrt.onnxruntime.options import get_session_initializer as get_session_initializer
    from zrt.onnxruntime.process import disable_telemetry_events as disable_telemetry_events
    from zrt.onnxruntime.process import enable_telemetry_events as enable_telemetry_events
    from zrt.onnxruntime.process import set_default_logger_callback as set_default_logger_callback
    from zrt.onnxruntime.process import set_default_logger_severity as set_default_logger_severity
    from zrt.onnxruntime.process import set_default_logger_verbosity as set_default_logger_verbosity
    from zrt.onnxruntime.process import set_global_thread_pool_sizes as set_global_thread_pool_sizes
    from zrt.onnxruntime.process import set_seed as set_seed
    from zrt.onnxruntime.provider_args import get_all_providers as get_all_providers
    from zrt.onnxruntime.provider_args import get_available_providers as get_available_providers
    from zrt.onnxruntime.quantize import pack_fp4_weights_for_cuda_moe_gemm as pack_fp4_weights_for_cuda_moe_gemm
    from zrt.onnxruntime.quantize import quantize_matmul_2bits as quantize_matmul_2bits
    from zrt.onnxruntime.quantize import quantize_matmul_4bits as quantize_matmul_4bits
    from zrt.onnxruntime.quantize import quantize_matmul_8bits as quantize_matmul_8bits
    from zrt.onnxruntime.quantize import quantize_matmul_bnb4 as quantize_matmul_bnb4
    from zrt.onnxruntime.quantize import quantize_qdq_matmul_2bits as quantize_qdq_matmul_2bits
    from zrt.onnxruntime.quantize import quantize_qdq_matmul_4bits as quantize_qdq_matmul_4bits
    from zrt.onnxruntime.sparse import SparseBlockSparseView as SparseBlockSparseView
    from zrt.onnxruntime.sparse import SparseCooView as SparseCooView
    from zrt.onnxruntime.sparse import SparseCsrView as SparseCsrView
    from zrt.onnxruntime.values import OrtValue as OrtValue
    from zrt.onnxruntime.values import OrtValueVector as OrtValueVector
    from zrt.onnxruntime.values import copy_tensors as copy_tensors
    from zrt.onnxruntime.values import is_dlpack_uint8_tensor as is_dlpack_uint8_tensor
else:
    # A list that type checkers cannot read would hide these names from them.
    __all__ = list(STATE)


def __getattr__(name: str) -> Any:
    value = globals()[name] = serve(__name__, name, STATE)
    return value


def __dir__() -> list[str]:
    return sorted(STATE)
