"""zrt: ONNX models through ONNX Runtime's C API with nothing in between.

The names here are all that most users need. Each is imported at its first use, so that ``import zrt`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zrt import custom_ops as custom_ops
    from zrt import errors as errors
    from zrt import graph as graph
    from zrt import providers as providers
    from zrt.audit import LaneAudit as LaneAudit
    from zrt.audit import PortAudit as PortAudit
    from zrt.binding import IoBinding as IoBinding
    from zrt.buffers import Buffer as Buffer
    from zrt.buffers import BufferPolicy as BufferPolicy
    from zrt.cancellation import LoadCancellation as LoadCancellation
    from zrt.compatibility import ModelCompatibility as ModelCompatibility
    from zrt.compatibility import compatibility_info as compatibility_info
    from zrt.compatibility import model_compatibility as model_compatibility
    from zrt.compiling import compile as compile
    from zrt.config_keys import RunConfigKey as RunConfigKey
    from zrt.config_keys import SessionConfigKey as SessionConfigKey
    from zrt.custom_ops import CustomOp as CustomOp
    from zrt.custom_ops import CustomOpDomain as CustomOpDomain
    from zrt.devices import EpDevice as EpDevice
    from zrt.devices import HardwareDevice as HardwareDevice
    from zrt.devices import HardwareType as HardwareType
    from zrt.devices import Incompatibility as Incompatibility
    from zrt.devices import IncompatibilityReason as IncompatibilityReason
    from zrt.devices import ep_devices as ep_devices
    from zrt.devices import hardware_devices as hardware_devices
    from zrt.dlpack import from_dlpack as from_dlpack
    from zrt.dynamic import DynamicRuntime as DynamicRuntime
    from zrt.environment import Environment as Environment
    from zrt.errors import Error as Error
    from zrt.errors import OrtError as OrtError
    from zrt.errors import ZrtError as ZrtError
    from zrt.graph import Graph as Graph
    from zrt.graph import GraphEdit as GraphEdit
    from zrt.graph import GraphValue as GraphValue
    from zrt.graph import edit as edit
    from zrt.interop import ExternalMemory as ExternalMemory
    from zrt.interop import ExternalMemoryType as ExternalMemoryType
    from zrt.interop import ExternalResourceImporter as ExternalResourceImporter
    from zrt.interop import ExternalSemaphore as ExternalSemaphore
    from zrt.interop import ExternalSemaphoreType as ExternalSemaphoreType
    from zrt.interop import GraphicsApi as GraphicsApi
    from zrt.interop import deinit_graphics_interop as deinit_graphics_interop
    from zrt.interop import init_graphics_interop as init_graphics_interop
    from zrt.lane import Lane as Lane
    from zrt.lora import LoraAdapter as LoraAdapter
    from zrt.lora import save_lora_adapter as save_lora_adapter
    from zrt.mapping import MappedFile as MappedFile
    from zrt.memory import Allocation as Allocation
    from zrt.memory import Allocator as Allocator
    from zrt.memory import AllocatorStats as AllocatorStats
    from zrt.memory import ArenaConfig as ArenaConfig
    from zrt.memory import MemoryInfo as MemoryInfo
    from zrt.metadata import ModelMetadata as ModelMetadata
    from zrt.metadata import ValueInfo as ValueInfo
    from zrt.options import RunOptions as RunOptions
    from zrt.options import SessionOptions as SessionOptions
    from zrt.options_file import Options as Options
    from zrt.options_file import load_options as load_options
    from zrt.placement import NodePlacement as NodePlacement
    from zrt.placement import Placement as Placement
    from zrt.placement import PortPlacement as PortPlacement
    from zrt.ports import LaneMemory as LaneMemory
    from zrt.prepared import PreparedRun as PreparedRun
    from zrt.profile import Profile as Profile
    from zrt.profile import ProfileEvent as ProfileEvent
    from zrt.profile import ProfileRow as ProfileRow
    from zrt.proto import Initializer as Initializer
    from zrt.proto import list_initializers as list_initializers
    from zrt.providers import available_providers as available_providers
    from zrt.providers import prefer_gpu as prefer_gpu
    from zrt.runtime import Runtime as Runtime
    from zrt.saving import save_optimized as save_optimized
    from zrt.selection import DevicePolicy as DevicePolicy
    from zrt.session import Session as Session
    from zrt.session import infer as infer
    from zrt.sharing import read_weights as read_weights
    from zrt.streams import SyncStream as SyncStream
    from zrt.threading_options import ThreadingOptions as ThreadingOptions
    from zrt.transfer import copy as copy
    from zrt.transfer import copy_all as copy_all
    from zrt.types import ElementType as ElementType
    from zrt.types import ExecutionMode as ExecutionMode
    from zrt.types import GraphOptimizationLevel as GraphOptimizationLevel
    from zrt.types import LogSeverity as LogSeverity
    from zrt.types import SparseFormat as SparseFormat
    from zrt.types import ValueKind as ValueKind
    from zrt.values import SparseTensor as SparseTensor
    from zrt.values import Value as Value
    from zrt.weights import PrepackedWeights as PrepackedWeights

# Where each name lives; None stands for a module that is a name itself.
_HOMES: dict[str, str | None] = {
    "Allocation": "memory",
    "Allocator": "memory",
    "AllocatorStats": "memory",
    "ArenaConfig": "memory",
    "Buffer": "buffers",
    "BufferPolicy": "buffers",
    "CustomOp": "custom_ops",
    "CustomOpDomain": "custom_ops",
    "DevicePolicy": "selection",
    "DynamicRuntime": "dynamic",
    "ElementType": "types",
    "Environment": "environment",
    "EpDevice": "devices",
    "Error": "errors",
    "ExecutionMode": "types",
    "ExternalMemory": "interop",
    "ExternalMemoryType": "interop",
    "ExternalResourceImporter": "interop",
    "ExternalSemaphore": "interop",
    "ExternalSemaphoreType": "interop",
    "Graph": "graph",
    "GraphEdit": "graph",
    "GraphOptimizationLevel": "types",
    "GraphValue": "graph",
    "GraphicsApi": "interop",
    "HardwareDevice": "devices",
    "HardwareType": "devices",
    "Incompatibility": "devices",
    "IncompatibilityReason": "devices",
    "Initializer": "proto",
    "IoBinding": "binding",
    "Lane": "lane",
    "LaneAudit": "audit",
    "LaneMemory": "ports",
    "LoadCancellation": "cancellation",
    "LogSeverity": "types",
    "LoraAdapter": "lora",
    "MappedFile": "mapping",
    "MemoryInfo": "memory",
    "ModelCompatibility": "compatibility",
    "ModelMetadata": "metadata",
    "NodePlacement": "placement",
    "Options": "options_file",
    "OrtError": "errors",
    "Placement": "placement",
    "PortAudit": "audit",
    "PortPlacement": "placement",
    "PrepackedWeights": "weights",
    "PreparedRun": "prepared",
    "Profile": "profile",
    "ProfileEvent": "profile",
    "ProfileRow": "profile",
    "RunConfigKey": "config_keys",
    "RunOptions": "options",
    "Runtime": "runtime",
    "Session": "session",
    "SessionConfigKey": "config_keys",
    "SessionOptions": "options",
    "SparseFormat": "types",
    "SparseTensor": "values",
    "SyncStream": "streams",
    "ThreadingOptions": "threading_options",
    "Value": "values",
    "ValueInfo": "metadata",
    "ValueKind": "types",
    "ZrtError": "errors",
    "available_providers": "providers",
    "compatibility_info": "compatibility",
    "compile": "compiling",
    "copy": "transfer",
    "copy_all": "transfer",
    "deinit_graphics_interop": "interop",
    "custom_ops": None,
    "edit": "graph",
    "ep_devices": "devices",
    "errors": None,
    "from_dlpack": "dlpack",
    "graph": None,
    "hardware_devices": "devices",
    "infer": "session",
    "init_graphics_interop": "interop",
    "list_initializers": "proto",
    "load_options": "options_file",
    "model_compatibility": "compatibility",
    "prefer_gpu": "providers",
    "providers": None,
    "read_weights": "sharing",
    "save_lora_adapter": "lora",
    "save_optimized": "saving",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'zrt' has no attribute {name!r}")
    home = _HOMES[name]
    module = importlib.import_module(f"zrt.{home or name}")
    value = module if home is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
