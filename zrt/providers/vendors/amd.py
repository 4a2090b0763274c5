"""AMD: GPUs through MIGraphX, formerly ROCm, and NPUs through Vitis AI."""

from __future__ import annotations

from os import PathLike
from typing import ClassVar

from zrt.environment.options import ARENA_STRATEGIES, address, choice, flag, number, path, size, string
from zrt.providers.attach import Attach, ThroughObject
from zrt.providers.base import Provider, provider


@provider
class MIGraphX(Provider):
    """AMD GPUs through MIGraphX. Not tested on hardware."""

    name = "MIGraphXExecutionProvider"
    comes_with = "It comes with the onnxruntime-migraphx package, or with a build of ONNX Runtime with --use_migraphx"
    source = "onnxruntime/core/providers/migraphx/migraphx_execution_provider_info.h"

    device_id: int | None = number("which GPU")
    migraphx_fp16_enable: bool | None = flag("whether it computes in float16")
    migraphx_bf16_enable: bool | None = flag("whether it computes in bfloat16")
    migraphx_fp8_enable: bool | None = flag("whether it computes in float8")
    migraphx_int8_enable: bool | None = flag("whether it computes in int8")
    migraphx_int8_calibration_table_name: str | None = string("the calibration table for int8")
    migraphx_int8_use_native_calibration_table: bool | None = flag("whether that table is MIGraphX's own")
    migraphx_exhaustive_tune: bool | None = flag("whether kernels are tuned exhaustively")
    migraphx_mem_limit: int | None = size("the most that the arena takes")
    migraphx_arena_extend_strategy: str | None = choice("how the arena grows", *ARENA_STRATEGIES)
    migraphx_external_alloc: int | None = address("a function that allocates")
    migraphx_external_free: int | None = address("a function that frees")
    migraphx_external_empty_cache: int | None = address("a function that empties the cache")
    migraphx_model_cache_dir: str | PathLike[str] | None = path("where compiled models are kept")


@provider
class ROCM(Provider):
    """AMD GPUs through ROCm: ONNX Runtime has removed it, and its C API still has the options.

    Not tested on hardware.
    """

    name = "ROCMExecutionProvider"
    comes_with = "ONNX Runtime has removed it: MIGraphX (zrt.providers.MIGraphX) runs on the same GPUs"
    source = "include/onnxruntime/core/session/onnxruntime_c_api.h"
    attach: ClassVar[Attach] = ThroughObject(
        "ROCM", "OrtROCMProviderOptions", "SessionOptionsAppendExecutionProvider_ROCM"
    )

    device_id: int | None = number("which GPU")
    miopen_conv_exhaustive_search: bool | None = flag("whether MIOpen tries all algorithms for a convolution")
    gpu_mem_limit: int | None = size("the most that the arena takes")
    arena_extend_strategy: str | None = choice("how the arena grows", *ARENA_STRATEGIES)
    do_copy_in_default_stream: bool | None = flag("whether copies go through the stream of the computation")
    has_user_compute_stream: bool | None = flag("whether a stream is given")
    user_compute_stream: int | None = address("a HIP stream of yours to compute in")
    enable_hip_graph: bool | None = flag("whether runs are captured as a HIP graph and replayed")
    tunable_op_enable: bool | None = flag("whether tunable kernels are used")
    tunable_op_tuning_enable: bool | None = flag("whether they are tuned")
    tunable_op_max_tuning_duration_ms: int | None = number("how long tuning may take")


@provider
class VitisAI(Provider):
    """AMD NPUs and adaptive devices through Vitis AI, whose own keys (`config_file` ...) go into `extra`.

    Not tested on hardware.
    """

    name = "VitisAIExecutionProvider"
    comes_with = "It comes with AMD's Ryzen AI software, or with a build of ONNX Runtime with --use_vitisai"
    source = "onnxruntime/core/providers/vitisai/vitisai_execution_provider.cc"

    ep_context_enable: bool | None = flag("whether a model with the compiled parts in it is written")
    ep_context_embed_mode: bool | None = flag("whether it holds them, or names their file")
    ep_context_file_path: str | PathLike[str] | None = path("where that is written")
    external_ep_library: str | PathLike[str] | None = path(
        "a provider's library to use in its place",
        source="onnxruntime/core/providers/vitisai/vitisai_provider_factory.cc",
    )
