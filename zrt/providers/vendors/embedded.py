"""CPUs and accelerators of small devices: XNNPACK, NNAPI, ACL, RKNPU, VSI NPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from zrt._common.public import public_in
from zrt._common.records import record
from zrt.errors import ProviderError
from zrt.providers.attach import Attach, ByFunction
from zrt.providers.base import Provider
from zrt.providers.option import Route, flag, listed, number

NNAPI_BITS = {
    "NNAPI_FLAG_USE_FP16": 1,
    "NNAPI_FLAG_USE_NCHW": 2,
    "NNAPI_FLAG_CPU_DISABLED": 4,
    "NNAPI_FLAG_CPU_ONLY": 8,
}


def _is_set(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "0").lower() in ("1", "true")


def _only(settings: Mapping[str, str], known: Sequence[str]) -> None:
    for key in settings:
        if key not in known:
            raise ProviderError(f"it has no option {key!r}")


def _nothing(settings: Mapping[str, str]) -> tuple[Any, ...]:
    _only(settings, ())
    return ()


def _nnapi_flags(settings: Mapping[str, str]) -> tuple[Any, ...]:
    _only(settings, tuple(NNAPI_BITS))
    return (ctypes.c_uint32(sum(bit for key, bit in NNAPI_BITS.items() if _is_set(settings, key))),)


def _fast_math(settings: Mapping[str, str]) -> tuple[Any, ...]:
    _only(settings, ("enable_fast_math",))
    return (ctypes.c_bool(_is_set(settings, "enable_fast_math")),)


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class XNNPACK(Provider):
    """CPUs through XNNPACK.

    Not tested on hardware.
    """

    name: ClassVar[str] = "XnnpackExecutionProvider"
    comes_with: ClassVar[str] = "It comes with a build of ONNX Runtime with --use_xnnpack"
    source: ClassVar[str] = "onnxruntime/core/providers/xnnpack/xnnpack_execution_provider.h"

    intra_op_num_threads: int | None = number("threads of its own; 0: as many as the session has")


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class NNAPI(Provider):
    """Android's Neural Networks API.

    Not tested on hardware.
    """

    name: ClassVar[str] = "NnapiExecutionProvider"
    comes_with: ClassVar[str] = "It comes with a build of ONNX Runtime for Android with --use_nnapi"
    source: ClassVar[str] = "include/onnxruntime/core/providers/nnapi/nnapi_provider_factory.h"
    attach: ClassVar[Attach] = ByFunction("OrtSessionOptionsAppendExecutionProvider_Nnapi", _nnapi_flags)

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


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class ACL(Provider):
    """Arm CPUs through the Arm Compute Library.

    Not tested on hardware.
    """

    name: ClassVar[str] = "ACLExecutionProvider"
    comes_with: ClassVar[str] = "It comes with a build of ONNX Runtime with --use_acl"
    source: ClassVar[str] = "onnxruntime/core/providers/acl/acl_provider_factory.cc"
    attach: ClassVar[Attach] = ByFunction("OrtSessionOptionsAppendExecutionProvider_ACL", _fast_math)

    enable_fast_math: bool | None = flag("whether float32 products may use bfloat16")


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class RKNPU(Provider):
    """Rockchip's NPUs; it has no options.

    Not tested on hardware.
    """

    name: ClassVar[str] = "RknpuExecutionProvider"
    comes_with: ClassVar[str] = "It comes with a build of ONNX Runtime with --use_rknpu"
    source: ClassVar[str] = "onnxruntime/core/providers/rknpu/rknpu_provider_factory.cc"
    attach: ClassVar[Attach] = ByFunction("OrtSessionOptionsAppendExecutionProvider_Rknpu", _nothing)


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class VSINPU(Provider):
    """VeriSilicon's NPUs; it has no options.

    Not tested on hardware.
    """

    name: ClassVar[str] = "VSINPUExecutionProvider"
    comes_with: ClassVar[str] = "It comes with a build of ONNX Runtime with --use_vsinpu"
    source: ClassVar[str] = "onnxruntime/core/providers/vsinpu/vsinpu_provider_factory.cc"
    attach: ClassVar[Attach] = ByFunction("OrtSessionOptionsAppendExecutionProvider_VSINPU", _nothing)
