"""Qualcomm: QNN, and SNPE before it."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from zrt.environment.options import choice, flag, listed, number, path
from zrt.providers.base import Provider, provider


@provider
class QNN(Provider):
    """Qualcomm's NPUs, GPUs and CPUs through the AI Engine Direct SDK. Not tested on hardware."""

    name = "QNNExecutionProvider"
    comes_with = "It comes with the onnxruntime-qnn package, or with a build of ONNX Runtime with --use_qnn"
    source = "onnxruntime/core/providers/qnn/qnn_execution_provider.cc"

    backend_type: str | None = choice("what it runs on", "cpu", "gpu", "htp", "saver", "ir")
    backend_path: str | PathLike[str] | None = path("the backend's library, in place of `backend_type`")
    profiling_level: str | None = choice("how much is profiled", "off", "basic", "detailed", "optrace")
    profiling_file_path: str | PathLike[str] | None = path("where the profile is written")
    rpc_control_latency: int | None = number("the latency that is asked of remote calls, in microseconds")
    vtcm_mb: int | None = number("the tightly coupled memory of the NPU, in MB", 1)
    htp_performance_mode: str | None = choice(
        "how the NPU is clocked",
        "burst",
        "balanced",
        "default",
        "high_performance",
        "high_power_saver",
        "low_balanced",
        "low_power_saver",
        "power_saver",
        "extreme_power_saver",
        "sustained_high_performance",
    )
    htp_graph_finalization_optimization_mode: int | None = number("how hard the graph is optimized for the NPU", 0, 3)
    htp_arch: str | None = choice("the NPU's architecture; 0: that of this machine", "0", "68", "69", "73", "75", "81")
    soc_model: int | None = number("the model of the chip; 0: unknown")
    device_id: int | None = number("which device")
    qnn_context_priority: str | None = choice("which context is served first", "low", "normal", "normal_high", "high")
    op_packages: Sequence[str] | str | None = listed("packages of operators, each `operator:path:interface[:target]`")
    qnn_saver_path: str | PathLike[str] | None = path("the library that writes the calls down for replay")
    dump_qnn_ir_dlc: bool | None = flag("whether the graphs are written as DLC files")
    dump_qnn_ir_dlc_dir: str | PathLike[str] | None = path("where those are written")
    qnn_ir_backend_path: str | PathLike[str] | None = path("the library that writes them")
    dump_json_qnn_graph: bool | None = flag("whether the graphs are written as JSON")
    json_qnn_graph_dir: str | PathLike[str] | None = path("where those are written")
    enable_htp_fp16_precision: bool | None = flag("whether the NPU computes float32 models in float16")
    htp_bf16_enable: bool | None = flag("whether the NPU computes in bfloat16")
    offload_graph_io_quantization: bool | None = flag("whether inputs and outputs are quantized by another provider")
    enable_htp_spill_fill_buffer: bool | None = flag("whether contexts share a buffer for what does not fit")
    enable_htp_shared_memory_allocator: bool | None = flag("whether tensors live in memory that the NPU shares")
    enable_vtcm_backup_buffer_sharing: bool | None = flag("whether contexts share the backup of that memory")
    disable_file_mapped_weights: bool | None = flag("whether weights are read rather than mapped")
    extended_udma: bool | None = flag("whether the NPU's extended DMA is used")
    skip_qnn_version_check: bool | None = flag("whether a backend of another version is taken")


@provider
class SNPE(Provider):
    """Qualcomm's older SDK, which QNN replaces. Not tested on hardware."""

    name = "SNPEExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime with --use_snpe; QNN is what replaces it"
    source = "onnxruntime/core/providers/snpe/snpe_runtime_options.cc"
    # ``GetAvailableProviders`` does not list it.
    listed = False

    runtime: str | None = choice(
        "what it runs on",
        "CPU",
        "CPU_FLOAT32",
        "GPU",
        "GPU_FLOAT32_16_HYBRID",
        "GPU_FLOAT16",
        "DSP",
        "DSP_FIXED8_TF",
        "AIP_FIXED_TF",
        "AIP_FIXED8_TF",
    )
    priority: str | None = choice("which network is served first", "low", "normal")
    buffer_type: str | None = choice("how tensors are handed over", "ITENSOR", "TF8", "TF16", "UINT8", "FLOAT")
    enable_init_cache: bool | None = flag("whether the initialized network is kept")
