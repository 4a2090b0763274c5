"""The fields of the typed providers: their values, their strings, and their errors."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.kinds import FIELDS, KINDS, bad, sample
from zrt import providers
from zrt.errors import ArgumentError, DTypeError, ProviderError
from zrt.providers import known


def field_id(value: object) -> str | None:
    return getattr(value, "__name__", value if isinstance(value, str) else "")


class TestEveryField:
    @pytest.mark.parametrize("kind", KINDS, ids=field_id)
    def test_is_written_as_its_provider_reads_it(self, kind):
        for name, option in kind.options().items():
            value, written = sample(kind, name, option)
            assert kind(**{name: value}).settings()[option.key or name] == written, name

    @pytest.mark.parametrize("kind", KINDS, ids=field_id)
    def test_refuses_by_name(self, kind):
        for name, option in kind.options().items():
            value, words = bad(option)
            with pytest.raises((ArgumentError, DTypeError), match=rf"{kind.__name__}\.{name}: .*{words}"):
                kind(**{name: value}).settings()

    def test_has_a_meaning_and_a_source(self):
        for kind, name, option in FIELDS:
            assert option.meaning.rstrip(".") == option.meaning != "", name
            assert option.source or kind.source, name


@pytest.mark.parametrize("kind", KINDS, ids=field_id)
class TestEveryProvider:
    def test_none_is_left_to_ort(self, kind):
        assert set(kind().settings()) <= {"device_id"}

    def test_is_a_value(self, kind):
        assert kind() == kind() != kind(extra={"a": "b"})
        with pytest.raises(dataclasses.FrozenInstanceError):
            kind().extra = {}
        with pytest.raises(TypeError):
            kind(nonesuch=5)

    def test_repr_shows_set_fields(self, kind):
        for name, option in kind.options().items():
            provider = kind(**{name: sample(kind, name, option)[0]}, extra={"a": "b"})
            assert eval(repr(provider), {kind.__name__: kind}) == provider
            assert "None" not in repr(provider)


class TestExtra:
    def test_unknown_keys_are_passed_through(self):
        assert providers.QNN(extra={"a": "b", "c": "ü"}).settings() == {"a": "b", "c": "ü"}

    @pytest.mark.parametrize(
        ("provider", "error", "words"),
        [
            (providers.DNNL(extra=["a"]), DTypeError, "Dnnl.* extra: expected a dict of strings, got list"),
            (providers.DNNL(extra={"a": 1}), DTypeError, r"Dnnl.* extra\['a'\]: expected a str, got int 1"),
            (providers.DNNL(extra={5: "a"}), DTypeError, "Dnnl.* extra.* got int 5"),
            (providers.DNNL(extra={"a": "b\0"}), ArgumentError, "Dnnl.* extra.* NUL"),
            (providers.CUDA(extra={"device_id": "1"}), ProviderError, "CUDA.* option 'device_id' is given twice"),
            (
                providers.CoreML(model_format="MLProgram", extra={"ModelFormat": "1"}),
                ProviderError,
                "CoreML.* option 'ModelFormat' is given twice",
            ),
        ],
        ids=repr,
    )
    def test_wrong_extra_raises(self, provider, error, words):
        with pytest.raises(error, match=words):
            provider.settings()


class TestModules:
    def test_class_is_reached_by_its_name_and_its_full_name(self):
        for full, (_, name) in known.HOMES.items():
            kind = getattr(providers, name)
            assert kind.name == full
            assert kind.__name__ == name
            assert known.kind_of(full) is known.kind_of(known.short(full)) is kind
            assert name in dir(providers)
        assert known.kind_of("nonesuch") is None
        with pytest.raises(AttributeError, match=r"'zrt\.providers' has no attribute 'Nonesuch'"):
            providers.Nonesuch  # noqa: B018

    def test_module_is_imported_at_first_use(self, script):
        assert not script("lazy_vendors.py").stderr


class TestKinds:
    @given(st.integers())
    def test_numbers_stay_within_their_bounds(self, number):
        option = providers.TensorRT(trt_builder_optimization_level=number)
        if 0 <= number <= 5:
            assert option.settings() == {"trt_builder_optimization_level": str(number)}
        else:
            with pytest.raises(ArgumentError, match="is not between 0 and 5"):
                option.settings()

    @given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
    def test_texts_are_passed_unchanged(self, text):
        assert providers.OpenVINO(layout=text).settings() == {"layout": text}

    @given(st.dictionaries(st.text(), st.booleans() | st.integers() | st.text() | st.just({"a": [1]}), max_size=3))
    def test_documents_are_json(self, content):
        written = providers.OpenVINO(load_config=content).settings()["load_config"]
        assert json.loads(written) == content

    @given(st.lists(st.text("abc:/", min_size=1), min_size=1))
    def test_lists_are_joined(self, names):
        settings = providers.QNN(op_packages=names).settings()
        assert settings == providers.QNN(op_packages=",".join(names)).settings()
        assert settings == {"op_packages": ",".join(names)}

    def test_paths_may_be_objects(self):
        assert providers.CoreML(model_cache_directory=Path("a")).settings() == {"ModelCacheDirectory": "a"}

    def test_document_that_is_too_deep_raises(self):
        deep: dict[str, Any] = {}
        for _ in range(100_000):
            deep = {"a": deep}
        with pytest.raises(ArgumentError, match=r"OpenVINO\.load_config: .* as JSON"):
            providers.OpenVINO(load_config=deep).settings()

    @pytest.mark.parametrize(
        ("provider", "error", "words"),
        [
            (providers.QNN(backend_type=5), DTypeError, r"QNN\.backend_type: expected one of cpu, .* got int 5"),
            (providers.QNN(backend_path=""), ArgumentError, r"QNN\.backend_path: it is empty"),
            (providers.QNN(op_packages=[]), ArgumentError, r"QNN\.op_packages: it is empty"),
            (providers.QNN(op_packages=["a", 5]), DTypeError, r"QNN\.op_packages\[1\]: expected a str, got int 5"),
            (providers.OpenVINO(layout="\0"), ArgumentError, r"OpenVINO\.layout: '\\x00' holds a NUL"),
            (providers.OpenVINO(load_config={"a": ...}), ArgumentError, r"OpenVINO\.load_config: .* as JSON"),
            (providers.OpenVINO(load_config={"a": float("nan")}), ArgumentError, r"OpenVINO\.load_config: .* as JSON"),
            (providers.OpenVINO(load_config=""), ArgumentError, r"OpenVINO\.load_config: it is empty"),
            (providers.CUDA(gpu_mem_limit=2**64), ArgumentError, r"CUDA\.gpu_mem_limit: "),
        ],
        ids=repr,
    )
    def test_wrong_values_raise(self, provider, error, words):
        with pytest.raises(error, match=words):
            provider.settings()


class TestAddresses:
    def test_addresses_are_listed(self):
        assert providers.CUDA(device_id=1).addresses() == ()
        assert providers.CUDA(user_compute_stream=16).addresses() == ("user_compute_stream",)
        openvino = providers.OpenVINO(context=0xABC, device_type="GPU")
        assert openvino.addresses() == ("context",)
        assert openvino.settings() == {"device_type": "GPU", "context": "0xabc"}


PERFORMANCE = {
    "device_id": 0,
    "arena_extend_strategy": "kNextPowerOfTwo",
    "cudnn_conv_algo_search": "EXHAUSTIVE",
    "do_copy_in_default_stream": True,
    "use_tf32": True,
}
LOW_MEMORY = {
    "gpu_mem_limit": 2**30,
    "arena_extend_strategy": "kSameAsRequested",
    "cudnn_conv_algo_search": "HEURISTIC",
    "use_tf32": True,
}
MORE = {"device_id": 2, "use_tf32": False}


@pytest.mark.parametrize(
    ("preset", "fields"),
    [
        (providers.CUDA.performance(), PERFORMANCE),
        (providers.CUDA.performance(**MORE), PERFORMANCE | MORE),
        (providers.CUDA.cuda_graph(), PERFORMANCE | {"enable_cuda_graph": True}),
        (providers.CUDA.cuda_graph(**MORE), PERFORMANCE | {"enable_cuda_graph": True} | MORE),
        (providers.CUDA.low_memory(2**30), LOW_MEMORY),
        (providers.CUDA.low_memory(2**30, **MORE), LOW_MEMORY | MORE),
    ],
    ids=repr,
)
def test_presets(preset, fields):
    assert preset == providers.CUDA(**fields)
