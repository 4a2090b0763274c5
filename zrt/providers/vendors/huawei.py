"""Huawei: CANN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from zrt.environment.options import ARENA_STRATEGIES, choice, flag, listed, number, size, string
from zrt.providers.attach import Attach, ThroughObject
from zrt.providers.base import Provider, provider


@provider
class CANN(Provider):
    """Huawei's Ascend NPUs through CANN. Not tested on hardware."""

    name = "CANNExecutionProvider"
    comes_with = "It comes with the onnxruntime-cann package, or with a build of ONNX Runtime with --use_cann"
    source = "onnxruntime/core/providers/cann/cann_execution_provider_info.cc"
    attach: ClassVar[Attach] = ThroughObject(
        "CANN", "OrtCANNProviderOptions", "SessionOptionsAppendExecutionProvider_CANN"
    )

    device_id: int | None = number("which NPU")
    npu_mem_limit: int | None = size("the most that the arena takes")
    arena_extend_strategy: str | None = choice("how the arena grows", *ARENA_STRATEGIES)
    enable_cann_graph: bool | None = flag("whether CANN compiles graphs rather than running node by node")
    enable_cann_subgraph: bool | None = flag("whether it compiles parts where it cannot have the whole")
    dump_graphs: bool | None = flag("whether the graphs are written out")
    dump_om_model: bool | None = flag("whether compiled models are written out")
    precision_mode: str | None = string("what it computes in, such as `force_fp16`")
    op_select_impl_mode: str | None = string("`high_precision` or `high_performance`")
    optypelist_for_implmode: Sequence[str] | str | None = listed("the operators that this is for")
