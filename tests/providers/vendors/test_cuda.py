"""CUDA where there is a GPU: sessions by every form, presets, strictness, and the options as ORT reads them."""

import ctypes

import numpy as np
import pytest

import zrt
from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import ArgumentError, ProviderError
from zrt.providers import CPU, CUDA

RELU = "(float[n] x) => (float[n] y) { y = Relu(x) }"
# Convolutions choose algorithms, and use TF32.
CONV = """(float[1, 3, 8, 8] x, float[4, 3, 3, 3] w) => (float[1, 4, 6, 6] y) { y = Conv(x, w) }"""
X = np.array([-1, 2], np.float32)

pytestmark = pytest.mark.gpu


class TestForms:
    @pytest.mark.parametrize(
        "form",
        [
            "cuda",
            "CUDA",
            "CUDAExecutionProvider",
            CUDA(),
            CUDA(use_tf32=False),
            ("cuda", {"device_id": 0}),
        ],
        ids=repr,
    )
    def test_forms(self, build, form):
        session = zrt.Session(build(RELU), providers=[form])
        assert session.providers == ("CUDAExecutionProvider", "CPUExecutionProvider")
        assert session.run([X])[0].tolist() == [0, 2]

    def test_it_is_preferred(self):
        assert zrt.prefer_gpu() == [CUDA(), CPU()]

    @pytest.mark.parametrize(
        "form", [CUDA(extra={"nonesuch": "1"}), ("cuda", {"arena_extend_strategy": "big"})], ids=repr
    )
    def test_options_that_it_does_not_know(self, build, form):
        with pytest.raises(ProviderError, match="CUDAExecutionProvider: "):
            zrt.Session(build(RELU), providers=[form])

    def test_a_device_that_is_not_there(self, build):
        with pytest.raises(zrt.Error):
            zrt.Session(build(RELU), providers=[CUDA(device_id=999)])


class TestPresets:
    @pytest.mark.parametrize(
        "preset", [CUDA.performance(), CUDA.low_memory(2**28), CUDA.performance(prefer_nhwc=True)], ids=repr
    )
    def test_results_equal_the_cpu_s(self, build, preset):
        feeds = {"x": np.ones((1, 3, 8, 8), np.float32), "w": np.ones((4, 3, 3, 3), np.float32)}
        [wanted] = zrt.Session(build(CONV)).run(feeds)
        [got] = zrt.Session(build(CONV), providers=[preset], strict=True).run(feeds)
        np.testing.assert_allclose(got, wanted, rtol=1e-2)

    def test_cuda_graph_makes_a_session(self, build):
        assert zrt.Session(build(RELU), providers=[CUDA.cuda_graph()]).providers[0] == CUDA.name


class TestStrict:
    def test_all_on_the_gpu(self, build):
        session = zrt.Session(build(RELU), providers=[CUDA()], strict=True)
        assert session.run([X])[0].tolist() == [0, 2]

    def test_what_has_no_kernel_there_is_named(self, build):
        model = build("(string[n] x) => (string[n] y) { t = Identity(x)  y = StringConcat(t, x) }")
        with pytest.raises(ProviderError, match="StringConcat"):
            zrt.Session(model, providers=[CUDA()], strict=True)
        zrt.Session(model, providers=[CUDA()], strict=True, allow=["StringConcat", "Identity"])


class TestEffective:
    def test_holds_what_was_given_and_the_defaults(self):
        read = CUDA(gpu_mem_limit=2**28, cudnn_conv_algo_search="heuristic", use_tf32=False).effective()
        assert read["gpu_mem_limit"] == str(2**28)
        assert read["cudnn_conv_algo_search"] == "HEURISTIC"
        assert read["use_tf32"] == "0"
        assert read["arena_extend_strategy"] == "kNextPowerOfTwo"
        assert read["user_compute_stream"] == "0"

    def test_of_an_unknown_key_is_ort_s_refusal(self):
        with pytest.raises(ProviderError, match=r"CUDAExecutionProvider: .*nonesuch"):
            CUDA(extra={"nonesuch": "1"}).effective()


class TestPointers:
    @pytest.fixture
    def stream(self):
        """A stream of CUDA's own runtime."""
        try:
            runtime = ctypes.CDLL("libcudart.so.13")
        except OSError as error:
            pytest.skip(f"CUDA's runtime is not on the loader's path: {error}")
        stream = ctypes.c_void_p()
        assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
        yield stream.value
        assert runtime.cudaStreamDestroy(stream) == 0

    def test_a_stream(self, build, stream):
        provider = CUDA(user_compute_stream=stream)
        assert provider.effective()["user_compute_stream"] == str(stream)
        with zrt.Session(build(RELU), providers=[provider]) as session:
            assert session.run([X])[0].tolist() == [0, 2]

    def test_an_arena_s_configuration(self, build):
        table = api()
        pointer = status.make(table.CreateArenaCfg, "OrtArenaCfg", 2**28, 1, -1, -1)
        arena = Handle.own(pointer, table.ReleaseArenaCfg)
        provider = CUDA(default_memory_arena_cfg=int(ffi.cast("uintptr_t", arena.pointer)))
        with zrt.Session(build(RELU), providers=[provider], strict=True) as session:
            assert session.run([X])[0].tolist() == [0, 2]


class TestCurrentDevice:
    def test_it_is_the_thread_s_own(self, background):
        CUDA.set_current_device(0)
        assert CUDA.current_device() == 0
        assert background(CUDA.current_device).result() == 0

    def test_there_are_not_so_many(self):
        with pytest.raises(ArgumentError, match="device_id: 9999"):
            CUDA.set_current_device(9999)
        assert CUDA.current_device() == 0
