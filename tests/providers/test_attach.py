"""Adding each provider to session options: the C function, its arguments, and the errors of the library."""

import ctypes
from typing import Any

import numpy as np
import pytest

import zrt
from tests.providers.kinds import KINDS, sample
from zrt import providers
from zrt._native import ffi
from zrt._native.handle import Handle
from zrt.environment import cuda_parts
from zrt.environment.pool_options import PoolOptions
from zrt.errors import ProviderError, UnsupportedError
from zrt.providers import attach, base

X = np.array([-1, 2], np.float32)
MODEL = "(float[n] x) => (float[n] y) { y = Relu(x) }"


def kind_id(kind: type) -> str:
    return kind.__name__


def text(pointer: Any) -> str:
    return ffi.string(pointer).decode()


class Recorder:
    """A table that records each call and its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.released = ffi.callback("void(void *)", lambda pointer: self.calls.append(("Release",)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("Release"):
            return self.released
        return lambda *arguments: self.record(name, arguments)

    def record(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name.startswith("Create"):
            arguments[0][0] = ffi.cast(ffi.typeof(arguments[0]).item, 0x1000)
            self.calls.append((name,))
        elif name.endswith("WithValue"):
            self.calls.append((name, arguments[1].decode(), int(ffi.cast("uintptr_t", arguments[2]))))
        elif name == "AddSessionConfigEntry":
            self.calls.append((name, arguments[1].decode(), arguments[2].decode()))
        elif name == "SessionOptionsAppendExecutionProvider_CUDA":
            self.calls.append(
                (name, {field: getattr(arguments[1], field) for field, _ in ffi.typeof(arguments[1]).item.fields})
            )
        elif len(arguments) > 2 and not name.startswith("Get"):
            *named, keys, values, count = arguments[1:]
            assert len(keys) == len(values) == count
            names = [argument.decode() for argument in named]
            self.calls.append((name, *names, {text(key): text(value) for key, value in zip(keys, values, strict=True)}))
        else:
            self.calls.append((name,))
        return ffi.NULL


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    table = Recorder()
    monkeypatch.setattr(attach, "api", lambda: table)
    monkeypatch.setattr("zrt.environment.pool_options.api", lambda: table)
    monkeypatch.setattr("zrt.providers.vendors.cuda.api", lambda: table)
    # The machine has a driver and CUDA's libraries.
    monkeypatch.setattr(cuda_parts, "require", lambda library: None)
    return table


def added(provider: providers.Provider) -> None:
    base.append(PoolOptions.borrow(ffi.NULL), provider.name, provider.settings())


class TestCalls:
    def test_by_keys(self, recorded):
        added(providers.QNN(backend_type="htp", enable_htp_fp16_precision=True, extra={"a": "b"}))
        assert recorded.calls == [
            (
                "SessionOptionsAppendExecutionProvider",
                "QNNExecutionProvider",
                {"backend_type": "htp", "enable_htp_fp16_precision": "1", "a": "b"},
            )
        ]

    @pytest.mark.parametrize(
        ("provider", "label", "append", "settings"),
        [
            (providers.CUDA(), "CUDA", "CUDA_V2", {"device_id": "0"}),
            (providers.TensorRT(trt_fp16_enable=True), "TensorRT", "TensorRT_V2", {"trt_fp16_enable": "1"}),
            (providers.CANN(npu_mem_limit=5), "CANN", "CANN", {"npu_mem_limit": "5"}),
            (providers.DNNL(use_arena=False), "Dnnl", "Dnnl", {"use_arena": "0"}),
            (providers.ROCM(device_id=1), "ROCM", "ROCM", {"device_id": "1"}),
            # Without options there is no update.
            (providers.DNNL(), "Dnnl", "Dnnl", {}),
        ],
        ids=repr,
    )
    def test_through_an_object(self, recorded, provider, label, append, settings):
        added(provider)
        assert recorded.calls == [
            (f"Create{label}ProviderOptions",),
            *([(f"Update{label}ProviderOptions", settings)] if settings else []),
            (f"SessionOptionsAppendExecutionProvider_{append}",),
            ("Release",),
        ]

    @pytest.mark.parametrize("kind", [providers.CUDA, providers.TensorRT], ids=kind_id)
    def test_a_stream_is_a_pointer_and_comes_last(self, recorded, kind):
        added(kind(device_id=0, user_compute_stream=0xBEEF))
        label = kind.__name__
        assert recorded.calls[1:3] == [
            (f"Update{label}ProviderOptions", {"device_id": "0"}),
            (f"Update{label}ProviderOptionsWithValue", "user_compute_stream", 0xBEEF),
        ]

    def test_a_stream_in_strings_may_be_hexadecimal(self, recorded):
        base.append(PoolOptions.borrow(ffi.NULL), "CUDAExecutionProvider", {"user_compute_stream": "0xBEEF"})
        assert ("UpdateCUDAProviderOptionsWithValue", "user_compute_stream", 0xBEEF) in recorded.calls
        with pytest.raises(ProviderError, match="CUDAExecutionProvider: user_compute_stream: 'main' is no address"):
            base.append(PoolOptions.borrow(ffi.NULL), "CUDAExecutionProvider", {"user_compute_stream": "main"})

    def test_arena_configuration_uses_the_older_struct(self, recorded):
        added(
            providers.CUDA(
                device_id=1,
                gpu_mem_limit=5,
                arena_extend_strategy="kSameAsRequested",
                cudnn_conv_algo_search="HEURISTIC",
                do_copy_in_default_stream=False,
                user_compute_stream=0x20,
                default_memory_arena_cfg=0x10,
            )
        )
        [(name, struct)] = recorded.calls
        assert name == "SessionOptionsAppendExecutionProvider_CUDA"
        pointers = {
            key: int(ffi.cast("uintptr_t", struct.pop(key)))
            for key in ("user_compute_stream", "default_memory_arena_cfg")
        }
        assert pointers == {"user_compute_stream": 0x20, "default_memory_arena_cfg": 0x10}
        assert struct == {
            "device_id": 1,
            "cudnn_conv_algo_search": 1,
            "gpu_mem_limit": 5,
            "arena_extend_strategy": 1,
            "do_copy_in_default_stream": 0,
            "has_user_compute_stream": 1,
            "tunable_op_enable": 0,
            "tunable_op_tuning_enable": 0,
            "tunable_op_max_tuning_duration_ms": 0,
        }

    @pytest.mark.parametrize(("word", "copies"), [(None, 1), ("0", 0), ("False", 0), ("1", 1), ("true", 1)])
    def test_the_older_struct_has_ort_s_defaults_and_spellings(self, recorded, word, copies):
        settings = {"default_memory_arena_cfg": "0x10"} | ({"do_copy_in_default_stream": word} if word else {})
        base.append(PoolOptions.borrow(ffi.NULL), "CUDAExecutionProvider", settings)
        [(_, struct)] = recorded.calls
        assert (struct["gpu_mem_limit"], struct["do_copy_in_default_stream"]) == (2**64 - 1, copies)
        assert (struct["has_user_compute_stream"], struct["cudnn_conv_algo_search"]) == (0, 0)

    @pytest.mark.parametrize(
        ("key", "written"),
        [
            ("device_id", "first"),
            ("device_id", str(2**31)),
            ("gpu_mem_limit", "lots"),
            ("gpu_mem_limit", str(2**64)),
            ("gpu_mem_limit", "-1"),
            ("arena_extend_strategy", "big"),
            ("cudnn_conv_algo_search", "exhaustive"),
            ("do_copy_in_default_stream", "perhaps"),
        ],
    )
    def test_wrong_values_for_the_older_struct_raise(self, recorded, key, written):
        settings = {"default_memory_arena_cfg": "0x10", key: written}
        with pytest.raises(
            ProviderError, match=f"CUDAExecutionProvider: {key}: ORT does not take {written!r} together"
        ):
            base.append(PoolOptions.borrow(ffi.NULL), "CUDAExecutionProvider", settings)
        assert recorded.calls == []

    def test_fields_missing_in_the_older_struct_raise(self, recorded):
        with pytest.raises(ProviderError, match="prefer_nhwc, use_tf32 cannot be given together with default_memory_"):
            added(providers.CUDA(default_memory_arena_cfg=0x10, use_tf32=True, prefer_nhwc=True))
        assert recorded.calls == []

    @pytest.mark.parametrize(
        ("provider", "entries", "settings"),
        [
            (providers.WebNN(device_type="GPU"), [("deviceType", "gpu")], {}),
            (
                providers.JS(preferred_layout="NCHW", enable_graph_capture=True),
                [("enableGraphCapture", "true")],
                {"preferred_layout": "NCHW"},
            ),
            (
                providers.DML(device_id=1, disable_memory_arena=True),
                [("ep.dml.disable_memory_arena", "1")],
                {"device_id": "1"},
            ),
        ],
        ids=repr,
    )
    def test_session_entries_are_added_before_the_provider(self, recorded, provider, entries, settings):
        added(provider)
        *before, last = recorded.calls
        assert before == [("AddSessionConfigEntry", *entry) for entry in entries]
        assert last == ("SessionOptionsAppendExecutionProvider", provider.name, settings)

    @pytest.mark.parametrize(
        "name", [name for name, option in providers.CUDA.options().items() if option.route.name == "DROPPED"]
    )
    def test_options_that_the_c_api_drops_raise(self, recorded, name):
        value, _ = sample(providers.CUDA, name, providers.CUDA.options()[name])
        with pytest.raises(ProviderError, match=f"CUDAExecutionProvider option '{name}' has no effect"):
            added(providers.CUDA(**{name: value}))
        assert recorded.calls == []

    def test_effective_reads_the_object(self, recorded, monkeypatch):
        monkeypatch.setattr(attach, "default_allocator", lambda: ffi.NULL)
        monkeypatch.setattr(attach, "take_string", lambda allocator, pointer: "device_id=0;a=b=c;libraries=x;y;empty=")
        read = providers.CUDA.attach.read({"device_id": "0", "user_compute_stream": "16"})
        assert read == {"device_id": "0", "a": "b=c", "libraries": "x;y", "empty": "", "user_compute_stream": "0"}
        assert [name for name, *_ in recorded.calls[2:5]] == [
            "UpdateCUDAProviderOptionsWithValue",
            "GetCUDAProviderOptionsAsString",
            "GetCUDAProviderOptionsByName",
        ]


class TestFunctions:
    """Providers that are added by a function of their own, beside ORT's table."""

    @pytest.mark.parametrize(
        ("provider", "values"),
        [
            (providers.NNAPI(), [0]),
            (providers.NNAPI(use_fp16=True, cpu_disabled=True, use_nchw=False), [5]),
            (providers.NNAPI(use_nchw=True, cpu_only=True), [10]),
            (providers.ACL(), [False]),
            (providers.ACL(enable_fast_math=True), [True]),
            (providers.RKNPU(), []),
            (providers.VSINPU(), []),
        ],
        ids=repr,
    )
    def test_arguments(self, provider, values):
        arguments = type(provider).attach.arguments(provider.settings())
        assert [argument.value for argument in arguments] == values

    @pytest.mark.parametrize("kind", [providers.NNAPI, providers.ACL, providers.RKNPU, providers.VSINPU], ids=kind_id)
    def test_unknown_options_raise(self, kind):
        with pytest.raises(ProviderError, match=f"{kind.name}: it has no option 'a'"):
            added(kind(extra={"a": "b"}))

    def test_word_that_is_no_flag_raises(self):
        with pytest.raises(ProviderError, match="nnapi: NNAPI_FLAG_USE_FP16: 'yes' is none of 0, 1"):
            base.append(zrt.SessionOptions().handle(), "nnapi", {"NNAPI_FLAG_USE_FP16": "yes"})

    @pytest.mark.skipif(zrt._native.library.library().path is None, reason="a core that is built in exports nothing")
    def test_the_function_is_called(self):
        """Every shared library exports the function for the CPU's arena."""
        options = zrt.SessionOptions().handle()
        by_function = attach.ByFunction("OrtSessionOptionsAppendExecutionProvider_CPU", ctypes.c_int, {"arena": 1})
        by_function(options, "CPUExecutionProvider", {"arena": "1"})

    @pytest.mark.skipif(zrt._native.library.library().path is None, reason="a core that is built in exports nothing")
    def test_status_of_the_function_is_raised(self, monkeypatch):
        refusing = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
            lambda options: int(ffi.cast("uintptr_t", zrt._native.library.api().CreateStatus(2, b"not today")))
        )

        class Exported:
            def __init__(self, path: str) -> None:
                self.Refuse = refusing

        monkeypatch.setattr(attach.ctypes, "CDLL", Exported)
        with pytest.raises(zrt.errors.InvalidArgumentError, match="not today"):
            attach.ByFunction("Refuse")(Handle.borrow(ffi.NULL), "", {})


class TestTheLibrary:
    """The errors of a library without the provider, when its functions are called anyway."""

    @pytest.mark.parametrize(
        "kind", [kind for kind in KINDS if kind.name not in zrt.available_providers()], ids=kind_id
    )
    def test_missing_provider_raises(self, kind):
        options = zrt.SessionOptions().handle()
        with pytest.raises(ProviderError, match=kind.name):
            base.append(options, kind.name, {})

    @pytest.mark.azure
    def test_available_provider_is_added(self, build):
        session = zrt.Session(build(MODEL), providers=[providers.Azure()])
        assert session.providers == ("AzureExecutionProvider", "CPUExecutionProvider")
        assert session.run([X])[0].tolist() == [0, 2]


class TestEffective:
    @pytest.mark.parametrize("kind", [providers.CPU, providers.QNN, providers.NNAPI, providers.Azure], ids=kind_id)
    def test_providers_without_an_object_raise(self, kind):
        with pytest.raises(UnsupportedError, match=f"{kind.name}: ONNX Runtime does not tell"):
            kind().effective()
