"""The providers of the web: WebGPU, which also runs outside of browsers, WebNN and JavaScript."""

from __future__ import annotations

from collections.abc import Sequence

from zrt.environment.options import Route, address, choice, flag, listed, number, size
from zrt.providers.base import Provider, provider

CACHES = ("disabled", "lazyRelease", "simple", "bucket")


@provider
class WebGPU(Provider):
    """GPUs of any make through WebGPU (Dawn). Not tested on hardware."""

    name = "WebGpuExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime with --use_webgpu, or as a plugin library to register"
    source = "onnxruntime/core/providers/webgpu/webgpu_provider_options.h"

    preferred_layout: str | None = choice("the layout of convolutions", "NCHW", "NHWC", key="preferredLayout")
    enable_graph_capture: bool | None = flag("whether runs are captured and replayed", key="enableGraphCapture")
    enable_int64: bool | None = flag("whether it takes operators on int64", key="enableInt64")
    multi_rotary_cache_concat_offset: int | None = number(
        "where the second of two rotary caches in one begins", key="multiRotaryCacheConcatOffset"
    )
    dawn_backend_type: str | None = choice("what Dawn runs on", "D3D12", "Vulkan", key="dawnBackendType")
    power_preference: str | None = choice("which GPU", "high-performance", "low-power", key="powerPreference")
    device_id: int | None = number("which device of yours; 0: ORT makes it", key="deviceId")
    webgpu_instance: int | None = address("a ``WGPUInstance`` of yours", key="webgpuInstance")
    webgpu_device: int | None = address("a ``WGPUDevice`` of yours", key="webgpuDevice")
    dawn_proc_table: int | None = address("Dawn's table of functions", key="dawnProcTable")
    storage_buffer_cache_mode: str | None = choice(
        "how storage buffers are kept", *CACHES, key="storageBufferCacheMode"
    )
    uniform_buffer_cache_mode: str | None = choice(
        "how uniform buffers are kept", *CACHES, key="uniformBufferCacheMode"
    )
    query_resolve_buffer_cache_mode: str | None = choice(
        "how buffers of queries are kept", *CACHES, key="queryResolveBufferCacheMode"
    )
    default_buffer_cache_mode: str | None = choice("how others are kept", *CACHES, key="defaultBufferCacheMode")
    validation_mode: str | None = choice(
        "how much is checked", "disabled", "wgpuOnly", "basic", "full", key="validationMode"
    )
    force_cpu_node_names: Sequence[str] | str | None = listed(
        "nodes that stay on the CPU", "\n", key="forceCpuNodeNames"
    )
    enable_pix_capture: bool | None = flag("whether runs are captured for PIX", key="enablePIXCapture")
    preserve_device: bool | None = flag("whether the device stays when the last session goes", key="preserveDevice")
    max_storage_buffer_binding_size: int | None = size(
        "the largest part of a buffer that is bound at once", key="maxStorageBufferBindingSize"
    )


@provider
class WebNN(Provider):
    """The devices of a browser's WebNN. Not tested on hardware."""

    name = "WebNNExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime for browsers with --use_webnn"
    source = "onnxruntime/core/session/provider_registration.cc"

    device_type: str | None = choice("which device", "cpu", "gpu", "npu", key="deviceType", route=Route.SESSION)


@provider
class JS(Provider):
    """Kernels in JavaScript over a browser's WebGPU. Not tested on hardware."""

    name = "JsExecutionProvider"
    comes_with = "It comes with a build of ONNX Runtime for browsers with --use_jsep"
    source = "onnxruntime/core/providers/js/js_execution_provider.h"

    preferred_layout: str | None = choice("the layout of convolutions", "NCHW", "NHWC")
    enable_graph_capture: bool | None = flag(
        "whether runs are captured and replayed",
        words=("false", "true"),
        key="enableGraphCapture",
        source="onnxruntime/core/providers/js/js_execution_provider.cc",
        route=Route.SESSION,
    )
