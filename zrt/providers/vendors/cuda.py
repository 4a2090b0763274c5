"""NVIDIA GPUs through CUDA: the provider of the library, and the plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from zrt._common.arguments import integer
from zrt._native import ffi, status
from zrt._native.cdata import pointer_to, sizeof
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import cuda_parts
from zrt.environment.options import ARENA_STRATEGIES, Route, address, choice, flag, number, size
from zrt.errors import ArgumentError, InvalidArgumentError, ProviderError
from zrt.providers.attach import STREAM, Attach, ThroughObject, to_pointer
from zrt.providers.base import Provider, provider, usable

ARENA = "default_memory_arena_cfg"
SEARCHES = ("EXHAUSTIVE", "HEURISTIC", "DEFAULT")

# ORT's words for False (even index) and True (odd index).
_WORDS = ("0", "1", "false", "true", "False", "True")

# The fields of ORT's older struct, the only one that takes an arena's configuration: a function that reads each field
# from its string, and the default of ORT's C++ constructor.
_READ: dict[str, tuple[Callable[[str], int], int]] = {
    "device_id": (int, 0),
    "gpu_mem_limit": (int, 2 ** (8 * sizeof("size_t")) - 1),
    "arena_extend_strategy": (ARENA_STRATEGIES.index, 0),
    "cudnn_conv_algo_search": (SEARCHES.index, 0),
    "do_copy_in_default_stream": (lambda word: _WORDS.index(word) % 2, 1),
}
IN_STRUCT = {*_READ, "has_user_compute_stream", STREAM, ARENA}


class _Attach(ThroughObject):
    """Through ORT's object, or through its older struct where an arena's configuration is given."""

    __slots__ = ()

    def __call__(self, options: Handle, name: str, settings: Mapping[str, str]) -> None:
        if ARENA not in settings:
            ThroughObject.__call__(self, options, name, settings)
            return
        unsupported = sorted(settings.keys() - IN_STRUCT)
        if unsupported:
            raise ProviderError(
                f"{', '.join(unsupported)} cannot be given together with {ARENA}: ORT has no function for both"
            )
        struct = ffi.new("OrtCUDAProviderOptions *")
        for key, (read, default) in _READ.items():
            try:
                setattr(struct, key, read(settings[key]) if key in settings else default)
            except (ValueError, OverflowError):
                raise ArgumentError(f"{key}: ORT does not take {settings[key]!r} together with {ARENA}") from None
        struct.default_memory_arena_cfg = pointer_to(to_pointer(ARENA, settings[ARENA]), "OrtArenaCfg")
        if STREAM in settings:
            struct.has_user_compute_stream = 1
            struct.user_compute_stream = to_pointer(STREAM, settings[STREAM])
        status.check(api().SessionOptionsAppendExecutionProvider_CUDA(options.pointer, struct))


@provider
class CUDA(Provider):
    """NVIDIA GPUs through CUDA and cuDNN.

    `performance`, `cuda_graph` and `low_memory` make it with options that suit one purpose.
    """

    name = "CUDAExecutionProvider"
    comes_with = "It comes with the onnxruntime-gpu package, or with a build of ONNX Runtime with --use_cuda"
    installed_by = "cuda"
    source = "onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc"
    library = cuda_parts.PROVIDER
    attach: ClassVar[Attach] = _Attach(
        "CUDA", "OrtCUDAProviderOptionsV2", "SessionOptionsAppendExecutionProvider_CUDA_V2", stream=True
    )

    device_id: int = number("which GPU", default=0)
    gpu_mem_limit: int | None = size("the most that the arena takes")
    arena_extend_strategy: str | None = choice("how the arena grows", *ARENA_STRATEGIES)
    cudnn_conv_algo_search: str | None = choice("how cuDNN's algorithm for a convolution is found", *SEARCHES)
    do_copy_in_default_stream: bool | None = flag("whether copies go through the stream of the computation")
    cudnn_conv_use_max_workspace: bool | None = flag("whether a convolution may take all the workspace it likes")
    cudnn_conv1d_pad_to_nc1d: bool | None = flag("whether 1-D convolutions become [N, C, 1, D] and not [N, C, D, 1]")
    enable_cuda_graph: bool | None = flag("whether runs are captured as a CUDA graph and replayed")
    enable_skip_layer_norm_strict_mode: bool | None = flag("whether SkipLayerNorm is exact rather than fast")
    prefer_nhwc: bool | None = flag("whether convolutions run channels-last")
    use_ep_level_unified_stream: bool | None = flag("whether all threads share one stream")
    use_tf32: bool | None = flag("whether float32 products may use TF32")
    fuse_conv_bias: bool | None = flag("whether cuDNN compiles a convolution together with its bias")
    sdpa_kernel: int | None = number("which attention kernels may be used, a sum of bits; 0: ORT chooses")
    has_user_compute_stream: bool | None = flag("whether a stream is given; follows from `user_compute_stream`")
    user_compute_stream: int | None = address("a CUDA stream of yours to compute in")
    default_memory_arena_cfg: int | None = address(
        "an arena's configuration (``OrtArenaCfg``) of yours",
        source="include/onnxruntime/core/session/onnxruntime_c_api.h",
    )
    gpu_external_alloc: int | None = address("a function that allocates", route=Route.DROPPED)
    gpu_external_free: int | None = address("a function that frees", route=Route.DROPPED)
    gpu_external_empty_cache: int | None = address("a function that empties the cache", route=Route.DROPPED)
    tunable_op_enable: bool | None = flag("whether tunable kernels are used", route=Route.DROPPED)
    tunable_op_tuning_enable: bool | None = flag("whether they are tuned", route=Route.DROPPED)
    tunable_op_max_tuning_duration_ms: int | None = number("how long tuning may take", route=Route.DROPPED)

    @classmethod
    def performance(cls, **options: Any) -> Self:
        """Options for speed: an arena that grows by powers of two, an exhaustive search for convolutions, copies in the
        compute stream, TF32. Further options add to these or replace them."""
        defaults: dict[str, Any] = {
            "arena_extend_strategy": "kNextPowerOfTwo",
            "cudnn_conv_algo_search": "EXHAUSTIVE",
            "do_copy_in_default_stream": True,
            "use_tf32": True,
        }
        return cls(**(defaults | options))

    @classmethod
    def cuda_graph(cls, **options: Any) -> Self:
        """`performance` with CUDA graphs: runs are captured and replayed, which needs fixed shapes and addresses."""
        return cls.performance(**({"enable_cuda_graph": True} | options))

    @classmethod
    def low_memory(cls, limit: int, **options: Any) -> Self:
        """Options for little memory: at most `limit` bytes in an arena that grows as requested, a heuristic search for
        convolutions, TF32. Further options add to these or replace them."""
        defaults: dict[str, Any] = {
            "gpu_mem_limit": limit,
            "arena_extend_strategy": "kSameAsRequested",
            "cudnn_conv_algo_search": "HEURISTIC",
            "use_tf32": True,
        }
        return cls(**(defaults | options))

    @staticmethod
    def current_device() -> int:
        """The number of the calling thread's current CUDA device; 0 until it is set.

        It affects other CUDA code only: sessions, memories and streams name their devices themselves. Raises
        `ProviderError` where CUDA cannot be used.
        """
        _require("current device")
        return int(status.fetch(api().GetCurrentGpuDeviceId, "int"))

    @staticmethod
    def set_current_device(device_id: int) -> None:
        """Sets the current CUDA device of the calling thread only.

        Raises `ArgumentError` where there is no such device, `ProviderError` where CUDA cannot be used.
        """
        device = integer(device_id, "device_id")
        _require(f"device {device}")
        try:
            status.check(api().SetCurrentGpuDeviceId(device))
        except InvalidArgumentError as error:
            raise ArgumentError(f"device_id: {device}: {error}") from error


def _require(subject: str) -> None:
    """Raises where no session on CUDA can be made."""
    reason = usable(CUDA.name)
    if reason is not None:
        raise ProviderError(f"{subject}: {reason}")


@provider
class CUDAPlugin(Provider):
    """The CUDA provider that is a plugin library; sessions use it through its devices (`EpDevice`).

    Not tested on hardware.
    """

    name = "CudaPluginExecutionProvider"
    comes_with = "It is a plugin: register its library, and give the session its devices"
    source = "onnxruntime/core/providers/cuda/plugin/cuda_ep_factory.cc"

    prefer_nhwc: bool | None = flag("whether convolutions run channels-last (also `prefer_nhwc_layout`)")
    use_tf32: bool | None = flag("whether float32 products may use TF32")
    enable_skip_layer_norm_strict_mode: bool | None = flag("whether SkipLayerNorm is exact rather than fast")
    cudnn_conv_use_max_workspace: bool | None = flag("whether a convolution may take all the workspace it likes")
    cudnn_conv1d_pad_to_nc1d: bool | None = flag("whether 1-D convolutions become [N, C, 1, D] and not [N, C, D, 1]")
    cudnn_conv_algo_search: str | None = choice(
        "how cuDNN's algorithm for a convolution is found (also `cudnn_conv_algo`)", *SEARCHES
    )
    fuse_conv_bias: bool | None = flag("whether cuDNN compiles a convolution together with its bias")
    sdpa_kernel: int | None = number("which attention kernels may be used, a sum of bits; 0: ORT chooses")
    enable_cuda_graph: bool | None = flag("whether runs are captured as a CUDA graph and replayed")
    min_num_runs_before_cuda_graph_capture: int | None = number("how many runs come before the capture")
    do_copy_in_default_stream: bool | None = flag("whether copies go through the stream of the computation")
    use_ep_level_unified_stream: bool | None = flag("whether all threads share one stream")
    has_user_compute_stream: bool | None = flag("whether a stream is given; follows from `user_compute_stream`")
    user_compute_stream: int | None = address("a CUDA stream of yours to compute in")
    gpu_external_alloc: int | None = address("a function that allocates")
    gpu_external_free: int | None = address("a function that frees")
    gpu_external_empty_cache: int | None = address("a function that empties the cache")
