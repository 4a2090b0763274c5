"""Intel: OpenVINO and oneDNN."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar

from zrt.environment.options import address, choice, document, flag, number, path, string
from zrt.providers.attach import Attach, ThroughObject
from zrt.providers.base import Provider, provider

WORDS = ("false", "true")


@provider
class OpenVINO(Provider):
    """Intel CPUs, GPUs and NPUs through OpenVINO. Not tested on hardware."""

    name = "OpenVINOExecutionProvider"
    comes_with = "It comes with the onnxruntime-openvino package, or with a build of ONNX Runtime with --use_openvino"
    source = "onnxruntime/core/providers/openvino/contexts.h"

    device_type: str | None = string("which devices: such as `CPU`, `GPU.1`, `AUTO:GPU,CPU` or `HETERO:NPU,CPU`")
    device_id: str | None = choice("the older form of `device_type`", "CPU", "GPU", "NPU")
    device_luid: str | None = string("the same by Windows' identifiers, separated by commas")
    precision: str | None = choice("what it computes in", "FP32", "FP16", "ACCURACY")
    cache_dir: str | PathLike[str] | None = path("where compiled models are kept")
    load_config: Mapping[str, Any] | str | None = document("OpenVINO's own settings, by device")
    num_of_threads: int | None = number("threads on the CPU", 1)
    num_streams: int | None = number("inferences at the same time", 1)
    model_priority: str | None = choice("which model the device serves first", "LOW", "MEDIUM", "HIGH", "DEFAULT")
    enable_opencl_throttling: bool | None = flag("whether the GPU's queue is throttled to save CPU time", words=WORDS)
    enable_qdq_optimizer: bool | None = flag("whether quantized graphs are rewritten for the NPU", words=WORDS)
    enable_causallm: bool | None = flag("whether language models keep their state inside", words=WORDS)
    disable_dynamic_shapes: bool | None = flag("whether shapes are fixed before compiling", words=WORDS)
    reshape_input: str | None = string("shapes of the inputs, such as `x[1,3,60..80,60..80]`")
    layout: str | None = string("layouts of the inputs and outputs, such as `x[NCHW],y[NC]`")
    context: int | None = address("an OpenCL context of yours", hexadecimal=True)


@provider
class DNNL(Provider):
    """CPUs through oneDNN. Not tested on hardware."""

    name = "DnnlExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime with --use_dnnl"
    source = "onnxruntime/core/providers/dnnl/dnnl_execution_provider_info.cc"
    attach: ClassVar[Attach] = ThroughObject(
        "Dnnl", "OrtDnnlProviderOptions", "SessionOptionsAppendExecutionProvider_Dnnl"
    )

    use_arena: bool | None = flag("whether freed memory is kept for the next run")
    threadpool_args: int | None = address("an int of yours in memory: how many threads")
