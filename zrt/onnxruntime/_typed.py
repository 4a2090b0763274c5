"""The names that the package and its extension module share, for type checkers: no program imports this module."""

from __future__ import annotations

from zrt.onnxruntime.adapters import *  # noqa: F403
from zrt.onnxruntime.allocators import *  # noqa: F403
from zrt.onnxruntime.compiler import OrtExternalInitializerInfo as OrtExternalInitializerInfo
from zrt.onnxruntime.devices import *  # noqa: F403
from zrt.onnxruntime.engine import get_build_info as get_build_info
from zrt.onnxruntime.engine import get_device as get_device
from zrt.onnxruntime.engine import get_version_string as get_version_string
from zrt.onnxruntime.engine import has_collective_ops as has_collective_ops
from zrt.onnxruntime.enums import *  # noqa: F403
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
from zrt.onnxruntime.values import OrtValue as OrtValue
from zrt.onnxruntime.values import copy_tensors as copy_tensors
