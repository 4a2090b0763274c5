"""NVIDIA GPUs through TensorRT, and through TensorRT for RTX."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import ClassVar

from zrt.environment.options import address, flag, listed, number, path, size, string
from zrt.providers.attach import Attach, ThroughObject
from zrt.providers.base import Provider, provider


@provider
class TensorRT(Provider):
    """NVIDIA GPUs through TensorRT, which compiles subgraphs into engines. Not tested on hardware."""

    name = "TensorrtExecutionProvider"
    comes_with = (
        "It comes with the onnxruntime-gpu package beside an installed TensorRT, or with a build of ONNX Runtime with "
        "--use_tensorrt"
    )
    installed_by = "cuda"
    source = "onnxruntime/core/providers/tensorrt/tensorrt_execution_provider_info.cc"
    library = "libonnxruntime_providers_tensorrt.so"
    attach: ClassVar[Attach] = ThroughObject(
        "TensorRT", "OrtTensorRTProviderOptionsV2", "SessionOptionsAppendExecutionProvider_TensorRT_V2", stream=True
    )

    device_id: int | None = number("which GPU")
    has_user_compute_stream: bool | None = flag("whether a stream is given; follows from `user_compute_stream`")
    user_compute_stream: int | None = address("a CUDA stream of yours to compute in")
    trt_max_partition_iterations: int | None = number("how often the graph is cut up at most")
    trt_min_subgraph_size: int | None = number("the fewest nodes that make an engine")
    trt_max_workspace_size: int | None = size("the most workspace of an engine; 0: all of the device")
    trt_fp16_enable: bool | None = flag("whether engines may use float16")
    trt_bf16_enable: bool | None = flag("whether engines may use bfloat16")
    trt_int8_enable: bool | None = flag("whether engines may use int8")
    trt_int8_calibration_table_name: str | None = string("the calibration table for int8")
    trt_int8_use_native_calibration_table: bool | None = flag("whether that table is TensorRT's own")
    trt_dla_enable: bool | None = flag("whether the deep learning accelerator is used")
    trt_dla_core: int | None = number("which core of it")
    trt_dump_subgraphs: bool | None = flag("whether the subgraphs are written out")
    trt_engine_cache_enable: bool | None = flag("whether engines are kept on disk")
    trt_engine_cache_path: str | PathLike[str] | None = path("where they are kept")
    trt_engine_cache_prefix: str | None = string("what their file names begin with")
    trt_weight_stripped_engine_enable: bool | None = flag("whether engines are built without weights")
    trt_onnx_model_folder_path: str | PathLike[str] | None = path("where the model with their weights lies")
    trt_onnx_bytestream: int | None = address("that model in memory")
    trt_onnx_bytestream_size: int | None = size("its size")
    trt_external_data_bytestream: int | None = address("weights in memory that replace the model's")
    trt_external_data_bytestream_size: int | None = size("their size")
    trt_load_user_initializer: bool | None = flag("whether initializers stay in memory and off the disk")
    trt_engine_decryption_enable: bool | None = flag("whether engines on disk are encrypted")
    trt_engine_decryption_lib_path: str | PathLike[str] | None = path("the library that decrypts them")
    trt_force_sequential_engine_build: bool | None = flag("whether engines are built one after another")
    trt_context_memory_sharing_enable: bool | None = flag("whether subgraphs share the memory of their contexts")
    trt_layer_norm_fp32_fallback: bool | None = flag("whether layer norms compute in float32")
    trt_timing_cache_enable: bool | None = flag("whether the builder's timings are kept on disk")
    trt_timing_cache_path: str | PathLike[str] | None = path("where they are kept")
    trt_force_timing_cache: bool | None = flag("whether timings of another device are taken too")
    trt_detailed_build_log: bool | None = flag("whether each step of a build is logged with its time")
    trt_build_heuristics_enable: bool | None = flag("whether heuristics shorten the build")
    trt_sparsity_enable: bool | None = flag("whether sparse weights are made use of")
    trt_builder_optimization_level: int | None = number("how hard the builder tries", 0, 5)
    trt_auxiliary_streams: int | None = number("the most streams beside the main one; -1: TensorRT chooses", -1)
    trt_tactic_sources: str | None = string("tactics to add and to leave out, such as `-CUDNN,+CUBLAS`")
    trt_extra_plugin_lib_paths: Sequence[str] | str | None = listed("libraries with further TensorRT plugins", ";")
    trt_profile_min_shapes: str | None = string("the least shapes, such as `x:1x3x224x224`")
    trt_profile_max_shapes: str | None = string("the largest shapes")
    trt_profile_opt_shapes: str | None = string("the shapes to optimize for")
    trt_cuda_graph_enable: bool | None = flag("whether runs are captured as a CUDA graph and replayed")
    trt_dump_ep_context_model: bool | None = flag("whether a model with the engines in it is written")
    trt_ep_context_file_path: str | PathLike[str] | None = path("where that is written")
    trt_ep_context_embed_mode: int | None = number("0: it names the engine's file; 1: it holds the engine", 0, 1)
    trt_engine_hw_compatible: bool | None = flag("whether engines run on other generations of GPUs too")
    trt_op_types_to_exclude: Sequence[str] | str | None = listed("operators that TensorRT leaves alone")
    trt_preview_features: Sequence[str] | str | None = listed("preview features of TensorRT to turn on")


@provider
class NvTensorRTRTX(Provider):
    """NVIDIA RTX GPUs through TensorRT for RTX. Not tested on hardware."""

    name = "NvTensorRTRTXExecutionProvider"
    comes_with = (
        "It comes as a plugin library to register, before 1.32 also with a build of ONNX Runtime with "
        "--use_nv_tensorrt_rtx"
    )
    source = "include/onnxruntime/core/providers/nv_tensorrt_rtx/nv_provider_options.h"

    device_id: int | None = number("which GPU")
    has_user_compute_stream: bool | None = flag("whether a stream is given; follows from `user_compute_stream`")
    user_compute_stream: int | None = address("a CUDA stream of yours to compute in")
    user_aux_stream_array: int | None = address("an array of further streams of yours")
    nv_length_aux_stream_array: int | None = number("how many those are; -1: TensorRT chooses its own", -1)
    nv_max_workspace_size: int | None = size("the most workspace of an engine; 0: all of the device")
    nv_max_shared_mem_size: int | None = size("the most shared memory that a kernel may use")
    nv_dump_subgraphs: bool | None = flag("whether the subgraphs are written out")
    nv_detailed_build_log: bool | None = flag("whether each step of a build is logged with its time")
    nv_profile_min_shapes: str | None = string("the least shapes, such as `x:1x3x224x224`")
    nv_profile_max_shapes: str | None = string("the largest shapes")
    nv_profile_opt_shapes: str | None = string("the shapes to optimize for")
    nv_multi_profile_enable: bool | None = flag("whether there are several profiles of shapes")
    enable_cuda_graph: bool | None = flag("whether runs are captured as a CUDA graph and replayed")
    nv_use_external_data_initializer: bool | None = flag("whether weights are taken from the model's external data")
    nv_runtime_cache_path: str | PathLike[str] | None = path("where compiled kernels are kept")
