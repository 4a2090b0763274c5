"""CPUs and accelerators of small devices: XNNPACK, NNAPI, ACL, RKNPU, VSI NPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import ClassVar

from zrt.environment.options import Route, flag, listed, number
from zrt.providers.attach import Attach, ByFunction
from zrt.providers.base import Provider, provider

NNAPI_BITS = {
    "NNAPI_FLAG_USE_FP16": 1,
    "NNAPI_FLAG_USE_NCHW": 2,
    "NNAPI_FLAG_CPU_DISABLED": 4,
    "NNAPI_FLAG_CPU_ONLY": 8,
}


@provider
class XNNPACK(Provider):
    """CPUs through XNNPACK. Not tested on hardware."""

    name = "XnnpackExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime with --use_xnnpack"
    source = "onnxruntime/core/providers/xnnpack/xnnpack_execution_provider.h"

    intra_op_num_threads: int | None = number("threads of its own; 0: as many as the session has")


@provider
class NNAPI(Provider):
    """Android's Neural Networks API. Not tested on hardware."""

    name = "NnapiExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime for Android with --use_nnapi"
    source = "include/onnxruntime/core/providers/nnapi/nnapi_provider_factory.h"
    attach: ClassVar[Attach] = ByFunction("OrtSessionOptionsAppendExecutionProvider_Nnapi", ctypes.c_uint32, NNAPI_BITS)

    use_fp16: bool | None = flag("whether it computes in float16", key="NNAPI_FLAG_USE_FP16")
    use_nchw: bool | None = flag("whether the layout is NCHW", key="NNAPI_FLAG_USE_NCHW")
    cpu_disabled: bool | None = flag("whether its own kernels for the CPU are left out", key="NNAPI_FLAG_CPU_DISABLED")
    cpu_only: bool | None = flag("whether it runs on the CPU only", key="NNAPI_FLAG_CPU_ONLY")
    partitioning_stop_ops: Sequence[str] | str | None = listed(
        "operators from which on it takes no more nodes",
        key="ep.nnapi.partitioning_stop_ops",
        source="include/onnxruntime/core/session/onnxruntime_session_options_config_keys.h",
        route=Route.SESSION,
    )


@provider
class ACL(Provider):
    """Arm CPUs through the Arm Compute Library. Not tested on hardware."""

    name = "ACLExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime with --use_acl"
    source = "onnxruntime/core/providers/acl/acl_provider_factory.cc"
    attach: ClassVar[Attach] = ByFunction(
        "OrtSessionOptionsAppendExecutionProvider_ACL", ctypes.c_bool, {"enable_fast_math": 1}
    )

    enable_fast_math: bool | None = flag("whether float32 products may use bfloat16")


@provider
class RKNPU(Provider):
    """Rockchip's NPUs; it has no options. Not tested on hardware."""

    name = "RknpuExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime with --use_rknpu"
    source = "onnxruntime/core/providers/rknpu/rknpu_provider_factory.cc"
    attach: ClassVar[Attach] = ByFunction("OrtSessionOptionsAppendExecutionProvider_Rknpu")


@provider
class VSINPU(Provider):
    """VeriSilicon's NPUs; it has no options. Not tested on hardware."""

    name = "VSINPUExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime with --use_vsinpu"
    source = "onnxruntime/core/providers/vsinpu/vsinpu_provider_factory.cc"
    attach: ClassVar[Attach] = ByFunction("OrtSessionOptionsAppendExecutionProvider_VSINPU")
