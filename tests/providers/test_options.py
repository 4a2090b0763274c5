"""The fields of the typed providers: their values, their strings, and their errors."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zrt
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


class TestEveryProvider:
    @pytest.mark.parametrize("kind", KINDS, ids=field_id)
    def test_none_is_left_to_ort(self, kind):
        assert set(kind().settings()) <= {"device_id"}

    @pytest.mark.parametrize("kind", KINDS, ids=field_id)
    def test_is_a_value(self, kind):
        assert kind() == kind() != kind(extra={"a": "b"})
        with pytest.raises(dataclasses.FrozenInstanceError):
            kind().extra = {}
        with pytest.raises(TypeError):
            kind(nonesuch=5)

    @pytest.mark.parametrize("kind", KINDS, ids=field_id)
    def test_repr_shows_set_fields(self, kind):
        for name, option in kind.options().items():
            made = kind(**{name: sample(kind, name, option)[0]}, extra={"a": "b"})
            assert eval(repr(made), {kind.__name__: kind}) == made
            assert "None" not in repr(made)

    @pytest.mark.parametrize("kind", KINDS, ids=field_id)
    def test_passes_unknown_keys_through(self, kind):
        assert kind(extra={"a": "b", "c": "ü"}).settings().items() >= {"a": "b", "c": "ü"}.items()

    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.options()], ids=field_id)
    def test_refuses_a_key_given_twice(self, kind):
        name, option = next(iter(kind.options().items()))
        value, _ = sample(kind, name, option)
        with pytest.raises(ProviderError, match=rf"{kind.name} option '{option.key or name}' is given twice"):
            kind(**{name: value}, extra={option.key or name: "1"}).settings()

    @pytest.mark.parametrize("kind", KINDS, ids=field_id)
    @pytest.mark.parametrize(
        ("extra", "error", "words"),
        [
            (["a"], DTypeError, "expected a dict of strings, got list"),
            ({"a": 1}, DTypeError, r"\['a'\]: expected a str, got int 1"),
            ({5: "a"}, DTypeError, "expected a str, got int 5"),
            ({"a": "b\0"}, ArgumentError, "NUL"),
        ],
        ids=repr,
    )
    def test_wrong_extra_raises(self, kind, extra, error, words):
        with pytest.raises(error, match=f"{kind.name} extra.*{words}"):
            kind(extra=extra).settings()

    def test_is_reached_by_its_class_name_and_its_full_name(self):
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
        done = script("lazy_vendors.py")
        assert not done.stderr


class TestKinds:
    @given(st.integers(0, 2**64 - 1))
    def test_sizes_are_bytes(self, number):
        assert providers.CUDA(gpu_mem_limit=number).settings()["gpu_mem_limit"] == str(number)

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

    @pytest.mark.parametrize(
        ("given", "error", "words"),
        [
            (providers.QNN(backend_path=""), ArgumentError, r"QNN\.backend_path: it is empty"),
            (providers.QNN(op_packages=[]), ArgumentError, r"QNN\.op_packages: it is empty"),
            (providers.QNN(op_packages=["a", 5]), DTypeError, r"QNN\.op_packages\[1\]: expected a str, got int 5"),
            (providers.QNN(backend_type=5), DTypeError, r"QNN\.backend_type: expected one of cpu, .*, got int 5"),
            (providers.OpenVINO(layout="\0"), ArgumentError, r"OpenVINO\.layout: '\\x00' holds a NUL"),
            (providers.OpenVINO(load_config={"a": ...}), ArgumentError, r"OpenVINO\.load_config: .* as JSON"),
            (providers.OpenVINO(load_config=""), ArgumentError, r"OpenVINO\.load_config: it is empty"),
            (providers.CUDA(gpu_mem_limit=2**64), ArgumentError, r"CUDA\.gpu_mem_limit: "),
            (providers.CUDA(device_id=True), DTypeError, r"CUDA\.device_id: expected an int, got bool"),
            (providers.CUDA(user_compute_stream="0x10"), DTypeError, r"CUDA\.user_compute_stream: expected an int"),
        ],
        ids=repr,
    )
    def test_wrong_values_raise(self, given, error, words):
        with pytest.raises(error, match=words):
            given.settings()


class TestAddresses:
    def test_addresses_are_listed(self):
        assert providers.CUDA(device_id=1).addresses() == ()
        assert providers.CUDA(user_compute_stream=16).addresses() == ("user_compute_stream",)
        given = providers.OpenVINO(context=0xABC, device_type="GPU")
        assert given.addresses() == ("context",)
        assert given.settings() == {"device_type": "GPU", "context": "0xabc"}


class TestPresets:
    def test_performance(self):
        assert providers.CUDA.performance() == providers.CUDA(
            arena_extend_strategy="kNextPowerOfTwo",
            cudnn_conv_algo_search="EXHAUSTIVE",
            do_copy_in_default_stream=True,
            use_tf32=True,
        )

    def test_cuda_graph_adds_capture_to_performance(self):
        assert providers.CUDA.cuda_graph(device_id=1) == dataclasses.replace(
            providers.CUDA.performance(), device_id=1, enable_cuda_graph=True
        )

    def test_low_memory(self):
        assert providers.CUDA.low_memory(2**30) == providers.CUDA(
            gpu_mem_limit=2**30,
            arena_extend_strategy="kSameAsRequested",
            cudnn_conv_algo_search="HEURISTIC",
            use_tf32=True,
        )

    @pytest.mark.parametrize(
        "made",
        [
            providers.CUDA.performance(device_id=2, use_tf32=False),
            providers.CUDA.cuda_graph(device_id=2, use_tf32=False),
            providers.CUDA.low_memory(5, device_id=2, use_tf32=False),
        ],
        ids=repr,
    )
    def test_further_options_take_precedence(self, made):
        assert made.settings().items() >= {"device_id": "2", "use_tf32": "0"}.items()

    def test_limit_is_checked(self):
        with pytest.raises(ArgumentError, match=r"CUDA\.gpu_mem_limit: -1"):
            providers.CUDA.low_memory(-1).settings()


def test_public_names():
    assert zrt.prefer_gpu is providers.prefer_gpu
    assert zrt.available_providers is providers.available_providers
