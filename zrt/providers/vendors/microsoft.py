"""Microsoft: DirectML, and operators that call models in the cloud."""

from __future__ import annotations

from typing import Any

from zrt.environment.options import Route, choice, flag, number
from zrt.providers.base import Provider, provider

CONFIG = "onnxruntime/core/providers/dml/dml_session_options_config_keys.h"


def _entry(meaning: str, key: str) -> Any:
    """True or False in an entry of the session's."""
    return flag(meaning, key=f"ep.dml.{key}", source=CONFIG, route=Route.SESSION)


@provider
class DML(Provider):
    """GPUs of any make through DirectML. Not tested on hardware."""

    name = "DmlExecutionProvider"
    comes_with = (
        "It comes with the onnxruntime-directml package for Windows, or with a build of ONNX Runtime with --use_dml"
    )
    source = "onnxruntime/core/providers/dml/dml_provider_factory.cc"

    device_id: int | None = number("which adapter")
    performance_preference: str | None = choice(
        "which adapter, where `device_id` is not given", "default", "high_performance", "minimum_power"
    )
    device_filter: str | None = choice("which kind of adapter", "gpu", "npu", "any")
    disable_metacommands: bool | None = flag("whether the drivers' own kernels are left out", words=("false", "true"))
    disable_graph_fusion: bool | None = _entry("whether nodes run one by one", "disable_graph_fusion")
    enable_graph_serialization: bool | None = _entry(
        "whether the fused graph is written out", "enable_graph_serialization"
    )
    enable_graph_capture: bool | None = _entry("whether runs are captured and replayed", "enable_graph_capture")
    enable_cpu_sync_spinning: bool | None = _entry(
        "whether the CPU spins while it waits for the GPU", "enable_cpu_sync_spinning"
    )
    disable_memory_arena: bool | None = _entry("whether freed memory goes back", "disable_memory_arena")


@provider
class Azure(Provider):
    """Operators that call models in the cloud; all other nodes run on the CPU. It has no options."""

    name = "AzureExecutionProvider"
    comes_with = "It comes with the onnxruntime package for the CPU, or with a build of ONNX Runtime with --use_azure"
    source = "onnxruntime/core/providers/azure/azure_execution_provider.h"
