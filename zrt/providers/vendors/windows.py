"""Windows: DirectML."""

from __future__ import annotations

from typing import ClassVar

from zrt._common.public import public_in
from zrt._common.records import record
from zrt.providers.base import Provider
from zrt.providers.option import Route, choice, flag, number

CONFIG = "onnxruntime/core/providers/dml/dml_session_options_config_keys.h"


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class DML(Provider):
    """GPUs of any make through DirectML.

    Not tested on hardware.
    """

    name: ClassVar[str] = "DmlExecutionProvider"
    comes_with: ClassVar[str] = (
        "It comes with the onnxruntime-directml package for Windows, or with a build of ONNX Runtime with --use_dml"
    )
    source: ClassVar[str] = "onnxruntime/core/providers/dml/dml_provider_factory.cc"

    device_id: int | None = number("which adapter")
    performance_preference: str | None = choice(
        "which adapter, where `device_id` is not given", "default", "high_performance", "minimum_power"
    )
    device_filter: str | None = choice("which kind of adapter", "gpu", "npu", "any")
    disable_metacommands: bool | None = flag("whether the drivers' own kernels are left out", words=("false", "true"))
    disable_graph_fusion: bool | None = flag(
        "whether nodes run one by one", key="ep.dml.disable_graph_fusion", source=CONFIG, route=Route.SESSION
    )
    enable_graph_serialization: bool | None = flag(
        "whether the fused graph is written out",
        key="ep.dml.enable_graph_serialization",
        source=CONFIG,
        route=Route.SESSION,
    )
    enable_graph_capture: bool | None = flag(
        "whether runs are captured and replayed", key="ep.dml.enable_graph_capture", source=CONFIG, route=Route.SESSION
    )
    enable_cpu_sync_spinning: bool | None = flag(
        "whether the CPU spins while it waits for the GPU",
        key="ep.dml.enable_cpu_sync_spinning",
        source=CONFIG,
        route=Route.SESSION,
    )
    disable_memory_arena: bool | None = flag(
        "whether freed memory goes back", key="ep.dml.disable_memory_arena", source=CONFIG, route=Route.SESSION
    )
