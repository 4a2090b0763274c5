"""Apple: Core ML."""

from __future__ import annotations

from os import PathLike

from zrt.environment.options import choice, flag, path
from zrt.providers.base import Provider, provider


@provider
class CoreML(Provider):
    """Apple's CPUs, GPUs and Neural Engine through Core ML. Not tested on hardware."""

    name = "CoreMLExecutionProvider"
    comes_with = "It comes with the onnxruntime package on macOS, or with a build of ONNX Runtime with --use_coreml"
    source = "include/onnxruntime/core/providers/coreml/coreml_provider_factory.h"

    ml_compute_units: str | None = choice(
        "what it runs on", "ALL", "CPUOnly", "CPUAndGPU", "CPUAndNeuralEngine", key="MLComputeUnits"
    )
    model_format: str | None = choice("the form of the Core ML model", "NeuralNetwork", "MLProgram", key="ModelFormat")
    require_static_input_shapes: bool | None = flag(
        "whether it skips nodes of unknown shapes", key="RequireStaticInputShapes"
    )
    enable_on_subgraphs: bool | None = flag(
        "whether it takes the bodies of loops and branches", key="EnableOnSubgraphs"
    )
    specialization_strategy: str | None = choice(
        "what compiling is for", "Default", "FastPrediction", key="SpecializationStrategy"
    )
    profile_compute_plan: bool | None = flag("whether each operator's device is logged", key="ProfileComputePlan")
    allow_low_precision_accumulation_on_gpu: bool | None = flag(
        "whether the GPU sums in float16", key="AllowLowPrecisionAccumulationOnGPU"
    )
    model_cache_directory: str | PathLike[str] | None = path(
        "where compiled models are kept", key="ModelCacheDirectory"
    )
