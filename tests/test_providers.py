"""What a session may run on: the forms of `providers=`, their options, and what this machine has."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import zrt
from zrt import providers
from zrt.errors import ArgumentError, DTypeError, ProviderError
from zrt.providers import CPU, CUDA, full_name, parse, parse_all, usable

RELU = "(float[n] x) => (float[n] y) { y = Relu(x) }"
X = np.array([-1, 2], np.float32)


class TestAvailable:
    def test_the_processor_is_always_there_and_last(self):
        assert zrt.available_providers()[-1] == "CPUExecutionProvider"

    @pytest.mark.official
    def test_as_onnxruntime_has_them(self):
        import onnxruntime

        if onnxruntime.__version__ != zrt._native.library.library().version:
            pytest.skip("zrt runs on another library than the onnxruntime package")
        assert zrt.available_providers() == onnxruntime.get_available_providers()


class TestForms:
    @pytest.mark.parametrize(
        "form",
        [
            None,
            [],
            ["cpu"],
            ["CPU"],
            ("CPUExecutionProvider",),
            ["cpuexecutionprovider"],
            [CPU()],
            [("cpu", {})],
            iter(["cpu"]),
        ],
        ids=repr,
    )
    def test_of_the_processor(self, build, form):
        session = zrt.Session(build(RELU), providers=form)
        assert session.providers == ("CPUExecutionProvider",)
        assert session.run([X])[0].tolist() == [0, 2]

    def test_pairs_have_options_of_any_plain_type(self):
        name = zrt.available_providers()[0]
        assert parse((name, {"a": "b", "number": 5, "flag": True})) == (name, {"a": "b", "number": "5", "flag": "True"})

    def test_every_provider_in_the_library_goes_by_its_name(self, build):
        """Each makes a session or says why not: none is unknown to the library that lists it."""

        def outcome(name: str) -> str:
            try:
                return repr(zrt.Session(build(RELU), providers=[name]).run([X])[0].tolist())
            except ProviderError as error:
                return str(error)

        for name in zrt.available_providers():
            found = outcome(name)
            assert found == "[0.0, 2.0]" or found.startswith(f"{name}: ")
            assert "Unknown provider" not in found

    @pytest.mark.parametrize(
        ("form", "error", "message"),
        [
            (["nonesuch"], ProviderError, "provider 'nonesuch' is not in this library, which has .*CPUExecution"),
            ([""], ProviderError, "provider '' is not in this library"),
            ([("nonesuch", {})], ProviderError, "provider 'nonesuch'"),
            ("cpu", DTypeError, "providers: expected a list, got 'cpu' alone"),
            (CPU(), DTypeError, "providers: expected a list, got CPU"),
            (5, DTypeError, "providers: expected a list, got 5 alone"),
            ([5], DTypeError, "providers: 5 is neither a provider, a name nor a"),
            ([CPU], DTypeError, "is neither a provider, a name nor a"),
            ([("cpu",)], DTypeError, "is neither a provider"),
            ([(CPU(), {})], DTypeError, "is neither a provider"),
            ([("cpu", ["a"])], DTypeError, "provider 'cpu': expected a dict of options, got list"),
            ([("cpu", {5: "a"})], DTypeError, "provider 'cpu': expected a str, got int 5"),
            ([("cpu", {"a": "b"})], ProviderError, "CPUExecutionProvider takes no options, got a"),
            ([CPU(extra={"a": "b"})], ProviderError, "CPUExecutionProvider takes no options, got a"),
            (["cpu", "CPU"], ArgumentError, "provider 'CPUExecutionProvider' is given twice"),
        ],
        ids=repr,
    )
    def test_wrong_ones(self, build, form, error, message):
        with pytest.raises(error, match=message):
            zrt.Session(build(RELU), providers=form)

    def test_the_processor_comes_last(self):
        others = [name for name in zrt.available_providers() if name != "CPUExecutionProvider"]
        if not others:
            pytest.skip("this library has the processor alone")
        assert [name for name, _ in parse_all([others[0], "cpu"])] == [others[0], "CPUExecutionProvider"]
        with pytest.raises(ArgumentError, match="put it last"):
            parse_all(["cpu", others[0]])

    def test_full_name(self):
        assert full_name("cpu") == full_name("CPUEXECUTIONPROVIDER") == "CPUExecutionProvider"


class TestCudaOptions:
    """What the typed options turn into, which needs no GPU."""

    def test_defaults_leave_all_but_the_device_to_ort(self):
        assert CUDA().settings() == {"device_id": "0"}

    def test_fields_become_orts_strings(self):
        cuda = CUDA(
            device_id=1,
            gpu_mem_limit=2**40,
            arena_extend_strategy="kSameAsRequested",
            cudnn_conv_algo_search="HEURISTIC",
            do_copy_in_default_stream=False,
            cudnn_conv_use_max_workspace=True,
            enable_cuda_graph=False,
            use_tf32=False,
            prefer_nhwc=True,
            use_ep_level_unified_stream=True,
            extra={"cudnn_conv1d_pad_to_nc1d": "1"},
        )
        assert cuda.settings() == {
            "device_id": "1",
            "gpu_mem_limit": str(2**40),
            "arena_extend_strategy": "kSameAsRequested",
            "cudnn_conv_algo_search": "HEURISTIC",
            "do_copy_in_default_stream": "0",
            "cudnn_conv_use_max_workspace": "1",
            "enable_cuda_graph": "0",
            "use_tf32": "0",
            "prefer_nhwc": "1",
            "use_ep_level_unified_stream": "1",
            "cudnn_conv1d_pad_to_nc1d": "1",
        }

    @pytest.mark.parametrize(
        ("fields", "error", "message"),
        [
            ({"device_id": -1}, ArgumentError, r"CUDA\.device_id: -1 is not between"),
            ({"device_id": "0"}, DTypeError, r"CUDA\.device_id: expected an int, got str"),
            ({"device_id": None}, DTypeError, r"CUDA\.device_id: expected an int"),
            ({"gpu_mem_limit": 2**64}, ArgumentError, r"CUDA\.gpu_mem_limit: "),
            ({"use_tf32": 1}, DTypeError, r"CUDA\.use_tf32: expected True or False, got int 1"),
            ({"extra": {"device_id": "1"}}, ProviderError, "CUDAExecutionProvider option 'device_id' is given twice"),
            ({"extra": {"a": 1}}, DTypeError, r"CUDAExecutionProvider extra\['a'\]: expected a str, got int 1"),
            ({"extra": ["a"]}, DTypeError, "CUDAExecutionProvider extra: expected a dict of strings, got list"),
        ],
        ids=repr,
    )
    def test_wrong_ones(self, fields, error, message):
        with pytest.raises(error, match=message):
            CUDA(**fields).settings()

    def test_is_a_value(self):
        assert CUDA(device_id=1) == CUDA(device_id=1) != CUDA()
        with pytest.raises(dataclasses.FrozenInstanceError):
            CUDA().device_id = 1

    @pytest.mark.parametrize("form", ["cuda", CUDA(), ("CUDAExecutionProvider", {"device_id": 0})], ids=repr)
    def test_a_library_without_it_says_so(self, build, form):
        if CUDA.name in zrt.available_providers():
            pytest.skip("this library has CUDA")
        with pytest.raises(ProviderError, match="is not in this library, which has"):
            zrt.Session(build(RELU), providers=[form, "cpu"])


class TestUsable:
    def test_the_processor_is(self):
        assert usable("cpu") is None

    def test_what_is_not_there_is_not(self):
        assert "is not in this library" in usable("nonesuch")

    def test_is_tried_once(self):
        usable("cpu")
        hits = usable.cache_info().hits
        usable("cpu")
        assert usable.cache_info().hits == hits + 1

    def test_prefer_gpu(self, monkeypatch):
        monkeypatch.setattr(providers, "usable", lambda name: None)
        assert zrt.prefer_gpu() == [CUDA(), CPU()]
        monkeypatch.setattr(providers, "usable", lambda name: "no driver")
        assert zrt.prefer_gpu() == [CPU()]

    def test_prefer_gpu_always_makes_a_session(self, build):
        session = zrt.Session(build(RELU), providers=zrt.prefer_gpu())
        assert session.run([X])[0].tolist() == [0, 2]


@pytest.mark.gpu
class TestCuda:
    @pytest.mark.parametrize(
        "form",
        ["cuda", "CUDA", "CUDAExecutionProvider", CUDA(), CUDA(use_tf32=False), ("cuda", {"device_id": 0})],
        ids=repr,
    )
    def test_forms(self, build, form):
        session = zrt.Session(build(RELU), providers=[form])
        assert session.providers == ("CUDAExecutionProvider", "CPUExecutionProvider")
        assert session.run([X])[0].tolist() == [0, 2]

    def test_it_is_preferred(self):
        assert zrt.prefer_gpu() == [CUDA(), CPU()]

    @pytest.mark.parametrize("form", [CUDA(extra={"nonesuch": "1"}), CUDA(arena_extend_strategy="big")], ids=repr)
    def test_options_that_it_does_not_know(self, build, form):
        with pytest.raises(ProviderError, match="CUDAExecutionProvider: "):
            zrt.Session(build(RELU), providers=[form])

    def test_a_device_that_is_not_there(self, build):
        with pytest.raises(zrt.Error):
            zrt.Session(build(RELU), providers=[CUDA(device_id=999)])
