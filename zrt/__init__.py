"""zrt: ONNX models through ONNX Runtime's C API with nothing in between.

The names here are all that most users need. Each is imported at its first use, so that ``import zrt`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zrt._common import installation
from zrt.version import __version__ as __version__

if TYPE_CHECKING:
    from zrt import custom_ops as custom_ops
    from zrt import errors as errors
    from zrt import graph as graph
    from zrt import providers as providers
    from zrt import typing as typing
    from zrt._common.config_keys import RunConfigKey as RunConfigKey
    from zrt._common.config_keys import SessionConfigKey as SessionConfigKey
    from zrt.custom_ops import CustomOp as CustomOp
    from zrt.custom_ops import CustomOpDomain as CustomOpDomain
    from zrt.diagnosis.check import check as check
    from zrt.diagnosis.diff import Diff as Diff
    from zrt.diagnosis.diff import diff as diff
    from zrt.diagnosis.differences import Difference as Difference
    from zrt.diagnosis.recorder import RecordedRun as RecordedRun
    from zrt.diagnosis.recorder import Recorder as Recorder
    from zrt.diagnosis.replay import Replay as Replay
    from zrt.diagnosis.replay import replay as replay
    from zrt.diagnosis.report import Check as Check
    from zrt.diagnosis.report import Problem as Problem
    from zrt.diagnosis.tune import Trial as Trial
    from zrt.diagnosis.tune import Tuning as Tuning
    from zrt.diagnosis.tune import tune as tune
    from zrt.environment.cpu_budget import CpuBudget as CpuBudget
    from zrt.environment.devices import EpDevice as EpDevice
    from zrt.environment.devices import HardwareDevice as HardwareDevice
    from zrt.environment.devices import HardwareType as HardwareType
    from zrt.environment.devices import Incompatibility as Incompatibility
    from zrt.environment.devices import IncompatibilityReason as IncompatibilityReason
    from zrt.environment.devices import ep_devices as ep_devices
    from zrt.environment.devices import hardware_devices as hardware_devices
    from zrt.environment.environment import Environment as Environment
    from zrt.environment.streams import SyncStream as SyncStream
    from zrt.environment.threading_options import ThreadingOptions as ThreadingOptions
    from zrt.errors import Error as Error
    from zrt.errors import OrtError as OrtError
    from zrt.errors import ZrtError as ZrtError
    from zrt.graph import Graph as Graph
    from zrt.graph import GraphEdit as GraphEdit
    from zrt.graph import GraphValue as GraphValue
    from zrt.graph import edit as edit
    from zrt.interop.dlpack import from_dlpack as from_dlpack
    from zrt.interop.external_memory import ExternalMemory as ExternalMemory
    from zrt.interop.external_memory import ExternalMemoryType as ExternalMemoryType
    from zrt.interop.external_memory import ExternalResourceImporter as ExternalResourceImporter
    from zrt.interop.external_memory import ExternalSemaphore as ExternalSemaphore
    from zrt.interop.external_memory import ExternalSemaphoreType as ExternalSemaphoreType
    from zrt.interop.external_memory import GraphicsApi as GraphicsApi
    from zrt.interop.external_memory import deinit_graphics_interop as deinit_graphics_interop
    from zrt.interop.external_memory import init_graphics_interop as init_graphics_interop
    from zrt.lanes.audit import LaneAudit as LaneAudit
    from zrt.lanes.audit import PortAudit as PortAudit
    from zrt.lanes.dynamic_runtime import DynamicRuntime as DynamicRuntime
    from zrt.lanes.kv_cache import kv_cache as kv_cache
    from zrt.lanes.lane import Lane as Lane
    from zrt.lanes.ports import LaneMemory as LaneMemory
    from zrt.lanes.runtime import Runtime as Runtime
    from zrt.lanes.state import State as State
    from zrt.lanes.state import StateSnapshot as StateSnapshot
    from zrt.lanes.state_ports import StatePair as StatePair
    from zrt.lanes.state_ports import StatePorts as StatePorts
    from zrt.lanes.stateful_lane import StatefulLane as StatefulLane
    from zrt.loading.caller_weights import PrepackedWeights as PrepackedWeights
    from zrt.loading.fingerprint import Fingerprint as Fingerprint
    from zrt.loading.fingerprint import fingerprint as fingerprint
    from zrt.loading.initializers import Initializer as Initializer
    from zrt.loading.initializers import list_initializers as list_initializers
    from zrt.loading.lora import LoraAdapter as LoraAdapter
    from zrt.loading.lora import save_lora_adapter as save_lora_adapter
    from zrt.loading.mapped_file import MappedFile as MappedFile
    from zrt.loading.options_files import Options as Options
    from zrt.loading.options_files import load_options as load_options
    from zrt.loading.read_weights import read_weights as read_weights
    from zrt.loading.run_options import RunOptions as RunOptions
    from zrt.loading.session_options import LoadCancellation as LoadCancellation
    from zrt.loading.session_options import SessionOptions as SessionOptions
    from zrt.memory.allocators import Allocation as Allocation
    from zrt.memory.allocators import Allocator as Allocator
    from zrt.memory.allocators import AllocatorStats as AllocatorStats
    from zrt.memory.allocators import MemoryInfo as MemoryInfo
    from zrt.memory.arena import ArenaConfig as ArenaConfig
    from zrt.memory.buffers import Buffer as Buffer
    from zrt.memory.buffers import BufferPolicy as BufferPolicy
    from zrt.providers import available_providers as available_providers
    from zrt.providers import prefer_gpu as prefer_gpu
    from zrt.providers.selection import DevicePolicy as DevicePolicy
    from zrt.session.compatibility import ModelCompatibility as ModelCompatibility
    from zrt.session.compatibility import compatibility_info as compatibility_info
    from zrt.session.compatibility import model_compatibility as model_compatibility
    from zrt.session.compile import compile as compile
    from zrt.session.io_binding import IoBinding as IoBinding
    from zrt.session.memory_report import MemoryReport as MemoryReport
    from zrt.session.memory_report import memory_report as memory_report
    from zrt.session.placement import NodePlacement as NodePlacement
    from zrt.session.placement import Placement as Placement
    from zrt.session.placement import PortPlacement as PortPlacement
    from zrt.session.prepared_run import PreparedRun as PreparedRun
    from zrt.session.profile import Profile as Profile
    from zrt.session.profile import ProfileEvent as ProfileEvent
    from zrt.session.profile import ProfileRow as ProfileRow
    from zrt.session.save_optimized import save_optimized as save_optimized
    from zrt.session.session import Session as Session
    from zrt.session.session import infer as infer
    from zrt.session.spec import SessionSpec as SessionSpec
    from zrt.types import ElementType as ElementType
    from zrt.types import ExecutionMode as ExecutionMode
    from zrt.types import GraphOptimizationLevel as GraphOptimizationLevel
    from zrt.types import LogSeverity as LogSeverity
    from zrt.types import SparseFormat as SparseFormat
    from zrt.types import ValueKind as ValueKind
    from zrt.values.copy import copy as copy
    from zrt.values.copy import copy_all as copy_all
    from zrt.values.model_metadata import ModelMetadata as ModelMetadata
    from zrt.values.sparse import SparseTensor as SparseTensor
    from zrt.values.type_info import ValueInfo as ValueInfo
    from zrt.values.value import Value as Value

installation.warn_of_other()

# The names of each module.
_NAMES = {
    "_common.config_keys": ("RunConfigKey", "SessionConfigKey"),
    "custom_ops": ("CustomOp", "CustomOpDomain"),
    "diagnosis.check": ("check",),
    "diagnosis.diff": ("Diff", "diff"),
    "diagnosis.differences": ("Difference",),
    "diagnosis.recorder": ("RecordedRun", "Recorder"),
    "diagnosis.replay": ("Replay", "replay"),
    "diagnosis.report": ("Check", "Problem"),
    "diagnosis.tune": ("Trial", "tune", "Tuning"),
    "environment.devices": (
        "ep_devices",
        "EpDevice",
        "hardware_devices",
        "HardwareDevice",
        "HardwareType",
        "Incompatibility",
        "IncompatibilityReason",
    ),
    "environment.cpu_budget": ("CpuBudget",),
    "environment.environment": ("Environment",),
    "environment.streams": ("SyncStream",),
    "environment.threading_options": ("ThreadingOptions",),
    "errors": ("Error", "OrtError", "ZrtError"),
    "graph": ("edit", "Graph", "GraphEdit", "GraphValue"),
    "interop.dlpack": ("from_dlpack",),
    "interop.external_memory": (
        "deinit_graphics_interop",
        "ExternalMemory",
        "ExternalMemoryType",
        "ExternalResourceImporter",
        "ExternalSemaphore",
        "ExternalSemaphoreType",
        "GraphicsApi",
        "init_graphics_interop",
    ),
    "lanes.audit": ("LaneAudit", "PortAudit"),
    "lanes.dynamic_runtime": ("DynamicRuntime",),
    "lanes.kv_cache": ("kv_cache",),
    "lanes.lane": ("Lane",),
    "lanes.ports": ("LaneMemory",),
    "lanes.runtime": ("Runtime",),
    "lanes.state": ("State", "StateSnapshot"),
    "lanes.state_ports": ("StatePair", "StatePorts"),
    "lanes.stateful_lane": ("StatefulLane",),
    "loading.caller_weights": ("PrepackedWeights",),
    "loading.fingerprint": ("Fingerprint", "fingerprint"),
    "loading.initializers": ("Initializer", "list_initializers"),
    "loading.lora": ("LoraAdapter", "save_lora_adapter"),
    "loading.mapped_file": ("MappedFile",),
    "loading.options_files": ("load_options", "Options"),
    "loading.read_weights": ("read_weights",),
    "loading.run_options": ("RunOptions",),
    "loading.session_options": ("LoadCancellation", "SessionOptions"),
    "memory.allocators": ("Allocation", "Allocator", "AllocatorStats", "MemoryInfo"),
    "memory.arena": ("ArenaConfig",),
    "memory.buffers": ("Buffer", "BufferPolicy"),
    "providers": ("available_providers", "prefer_gpu"),
    "providers.selection": ("DevicePolicy",),
    "session.compatibility": ("compatibility_info", "model_compatibility", "ModelCompatibility"),
    "session.compile": ("compile",),
    "session.io_binding": ("IoBinding",),
    "session.memory_report": ("memory_report", "MemoryReport"),
    "session.placement": ("NodePlacement", "Placement", "PortPlacement"),
    "session.prepared_run": ("PreparedRun",),
    "session.profile": ("Profile", "ProfileEvent", "ProfileRow"),
    "session.save_optimized": ("save_optimized",),
    "session.session": ("infer", "Session"),
    "session.spec": ("SessionSpec",),
    "types": ("ElementType", "ExecutionMode", "GraphOptimizationLevel", "LogSeverity", "SparseFormat", "ValueKind"),
    "values.copy": ("copy", "copy_all"),
    "values.model_metadata": ("ModelMetadata",),
    "values.sparse": ("SparseTensor",),
    "values.type_info": ("ValueInfo",),
    "values.value": ("Value",),
}
_MODULES = ("custom_ops", "errors", "graph", "providers", "typing")
# The names with which programs load models.
_LOADERS = ("DynamicRuntime", "Runtime", "Session", "infer")
_HOMES = {name: module for module, names in _NAMES.items() for name in names} | {name: name for name in _MODULES}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'zrt' has no attribute {name!r}")
    if name in _LOADERS:
        # ONNX Runtime starts beside the imports that follow.
        from zrt._native import early_start

        early_start.start()
    module = importlib.import_module(f"zrt.{_HOMES[name]}")
    value = globals()[name] = module if name in _MODULES else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
