"""`providers`, `provider_options` and the fallback of `InferenceSession`."""

import gc
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import zrt
from tests.onnxruntime.models import model
from tests.onnxruntime.packages import ours
from tests.support import plugin

CPU = "CPUExecutionProvider"
AZURE = "AzureExecutionProvider"
CUDA = "CUDAExecutionProvider"
AVAILABLE = zrt.available_providers()

needs_azure = pytest.mark.skipif(AZURE not in AVAILABLE, reason="the library lacks the Azure provider")
lacks_cuda = pytest.mark.skipif(CUDA in AVAILABLE, reason="the library has the CUDA provider")


def not_available(name: str) -> str:
    return re.escape(f"Specified provider '{name}' is not in available provider names.Available providers: '")


@pytest.mark.parametrize("providers", [None, [], (), [CPU], (CPU,), [(CPU, {})], [(CPU, {"use_arena": True, "a": 1})]])
def test_cpu_alone(ort: Any, providers: Any) -> None:
    session = ort.InferenceSession(model(), providers=providers)
    assert session.get_providers() == [CPU]
    assert session.get_provider_options() == {CPU: {}}
    assert session.get_providers() is session.get_providers()


def test_options_apart_from_the_names(ort: Any) -> None:
    assert ort.InferenceSession(model(), None, [CPU], [{"a": 1}]).get_provider_options() == {CPU: {}}
    assert ort.InferenceSession(model(), provider_options=[{}]).get_providers() == [CPU]


@needs_azure
@pytest.mark.parametrize(
    ("providers", "expected"), [([AZURE], [AZURE, CPU]), ([AZURE, CPU], [AZURE, CPU]), ([CPU, AZURE], [CPU, AZURE])]
)
def test_providers_stay_in_order_and_the_cpu_is_added(ort: Any, providers: list[str], expected: list[str]) -> None:
    session = ort.InferenceSession(model(), providers=providers)
    assert session.get_providers() == expected
    assert session.get_provider_options() == {AZURE: {}, CPU: {}}


@lacks_cuda
def test_known_provider_that_is_not_available_is_left_out_with_a_warning(ort: Any, capsys: Any) -> None:
    with pytest.warns(UserWarning, match=not_available(CUDA)):
        session = ort.InferenceSession(model(), providers=[CUDA, CPU], enable_fallback=False)
    assert session.get_providers() == [CPU]
    assert "EP Error" not in capsys.readouterr().out


@lacks_cuda
@pytest.mark.parametrize("module", ["onnxruntime", "onnxruntime.capi.onnxruntime_inference_collection"])
def test_warnings_are_filtered_by_the_name_of_the_official_module(ort: Any, module: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=UserWarning, module=module)
        ort.InferenceSession(model(), providers=[CUDA, CPU, CPU])
    assert caught == []


@ours
def test_warnings_show_the_line_that_called_into_zrt(ort: Any) -> None:
    with pytest.warns(UserWarning, match="Duplicate provider") as caught:
        ort.InferenceSession(model(), providers=[CPU, CPU])
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("name", ["Foo", "cpu"])
def test_unknown_provider_falls_back_and_says_so(ort: Any, capsys: Any, name: str) -> None:
    with pytest.warns(UserWarning, match=not_available(name)):
        session = ort.InferenceSession(model(), providers=[name, CPU])
    assert session.get_providers() == [CPU]
    stars = "*" * 15
    assert capsys.readouterr().out.splitlines() == [
        f"{stars} EP Error {stars}",
        f"EP Error Unknown Provider Type: {name} when using ['{name}', '{CPU}']",
        f"Falling back to ['{CPU}'] and retrying.",
        "*" * 40,
    ]


@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize("off", [False, 0, "0", 2])
def test_unknown_provider_without_fallback_raises(ort: Any, capsys: Any, off: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^Unknown Provider Type: Foo$"):
        ort.InferenceSession(model(), providers=["Foo"], enable_fallback=off)
    assert capsys.readouterr().out == ""


def test_duplicate_provider_is_ignored_with_a_warning(ort: Any) -> None:
    with pytest.warns(UserWarning, match=f"^Duplicate provider '{CPU}' encountered, ignoring.$"):
        assert ort.InferenceSession(model(), providers=[CPU, CPU]).get_providers() == [CPU]


WRONG = [
    ({CPU}, None, "'providers' should be a sequence."),
    ([1], None, "'providers' values must be either strings or (string, dict) tuples."),
    ([[CPU, {}]], None, "'providers' values must be either strings or (string, dict) tuples."),
    ([(CPU, {}, 1)], None, "'providers' values must be either strings or (string, dict) tuples."),
    ([CPU], [], "'providers' and 'provider_options' should be the same length if both are given."),
    ([CPU], {1}, "'provider_options' should be a sequence."),
    ([CPU], [1], "'provider_options' values must be dicts."),
    ([(CPU, {})], [{}], "Only string values for 'providers' are supported if 'provider_options' is given."),
]


@pytest.mark.parametrize(("providers", "options", "message"), WRONG)
def test_wrong_arguments_raise_or_fall_back(ort: Any, capsys: Any, providers: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ort.InferenceSession(model(), None, providers, options, enable_fallback=False)
    assert ort.InferenceSession(model(), None, providers, options).get_providers() == [CPU]
    assert f"EP Error {message} when using {providers}\n" in capsys.readouterr().out


@pytest.mark.parametrize("providers", [["\ud800"], [(CPU, {"\ud800": 1})], [(CPU, {"a": "\ud800"})]])
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_texts_that_are_no_utf_8_raise(ort: Any, providers: Any) -> None:
    with pytest.raises(TypeError):
        ort.InferenceSession(model(), providers=providers)


@needs_azure
def test_names_are_reported_as_plain_texts(ort: Any) -> None:
    session = ort.InferenceSession(model(), providers=[np.str_(AZURE), (np.str_(CPU), {})])
    assert {type(name) for name in (*session.get_providers(), *session.get_provider_options())} == {str}


def test_rivals_cannot_be_together(ort: Any) -> None:
    names = ["TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"]
    with pytest.raises(ValueError, match="Cannot enable both"):
        ort.InferenceSession(model(), providers=names, enable_fallback=False)


def test_lists_of_providers(ort: Any) -> None:
    known, available = ort.get_all_providers(), ort.get_available_providers()
    assert known[-1] == available[-1] == CPU
    assert set(available) <= set(known)
    assert known.index("TensorrtExecutionProvider") + 1 == known.index(CUDA) < 3
    known.clear()
    assert ort.get_all_providers()


def test_set_providers_loads_again(ort: Any, capsys: Any) -> None:
    session = ort.InferenceSession(model(), providers=[CPU])
    session.set_providers()
    assert session.get_providers() == [CPU]
    with pytest.warns(UserWarning, match=not_available("Foo")), pytest.raises(RuntimeError, match="Unknown Provider"):
        session.set_providers(["Foo"])
    assert capsys.readouterr().out == ""
    session.set_providers([CPU], [{}])
    assert session.run(None, {name: [[1.0] * 4] for name in "xy"})[0].tolist() == [[2] * 4]


def test_fallback_is_used_up_by_the_first_one(ort: Any) -> None:
    session = ort.InferenceSession(model())
    assert session._enable_fallback is True
    session.disable_fallback()
    assert session._enable_fallback is False
    session.enable_fallback()
    assert session._enable_fallback is True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ort.InferenceSession(model(), providers=["Foo"])._enable_fallback is False


@lacks_cuda
@ours
def test_provider_that_cannot_be_used_is_left_out_with_a_warning(ort: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from zrt.onnxruntime import provider_args

    monkeypatch.setattr(provider_args, "_available", lambda: (CUDA, CPU))
    with pytest.warns(UserWarning, match=f"^{CUDA} cannot be used and is left out: provider '{CUDA}' is not in"):
        assert ort.InferenceSession(model(), providers=[CUDA]).get_providers() == [CPU]
    monkeypatch.setenv("ZRT_STRICT", "1")
    with pytest.raises(zrt.errors.ProviderError, match=f"provider '{CUDA}' is not in"):
        ort.InferenceSession(model(), providers=[CUDA])


def test_options_that_the_c_api_drops_are_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    from zrt.onnxruntime import provider_args

    monkeypatch.setattr(provider_args, "_available", lambda: (CUDA, CPU))
    options = {"device_id": "0", "tunable_op_enable": "1", "gpu_external_alloc": "5"}
    with pytest.warns(UserWarning, match="CUDA.* drops gpu_external_alloc, tunable_op_enable, so there is no effect"):
        selection = provider_args.Selection([CUDA, CPU], [options, {}])
    assert selection.to_zrt() == [(CUDA, {"device_id": "0"})]
    monkeypatch.setenv("ZRT_STRICT", "1")
    assert provider_args.Selection([CUDA, CPU], [options, {}]).to_zrt() == [(CUDA, options)]


class TestPlugin:
    """A provider of a library that is registered at run time."""

    NEG = "agraph (float[n] x) => (float[n] z) { z = Neg(x) }"

    @pytest.fixture(autouse=True)
    def registered(self, ort: Any) -> Iterator[None]:
        ort.register_execution_provider_library("test_provider_args", str(plugin.path()))
        yield
        gc.collect()
        ort.unregister_execution_provider_library("test_provider_args")

    def test_its_name_is_available(self, ort: Any) -> None:
        assert ort.get_available_providers()[-1] == plugin.PROVIDER

    @pytest.mark.parametrize(
        ("providers", "options"),
        [([plugin.PROVIDER], {}), ([plugin.PROVIDER, CPU], {}), ([(plugin.PROVIDER, {"a": "b"})], {"a": "b"})],
    )
    def test_name_selects_its_devices(self, ort: Any, providers: Any, options: dict[str, str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            session = ort.InferenceSession(model(self.NEG), providers=providers, enable_fallback=False)
        assert session.get_providers() == [plugin.PROVIDER, CPU]
        reported = session.get_provider_options()
        assert reported[CPU] == {}
        assert reported[plugin.PROVIDER].items() >= options.items()
        assert session.run(None, {"x": [1.0, 2.0]})[0].tolist() == [-1, -2]

    def test_devices_of_the_options(self, ort: Any) -> None:
        device = next(each for each in ort.get_ep_devices() if each.ep_name == plugin.PROVIDER)
        options = ort.SessionOptions()
        options.add_provider_for_devices([device], {"a": "b"})
        session = ort.InferenceSession(model(self.NEG), options)
        assert session.get_providers() == [plugin.PROVIDER, CPU]
        assert session.get_provider_options()[plugin.PROVIDER]["a"] == "b"
        assert [each.ep_name for each in session.get_input_epdevices()] == [plugin.PROVIDER]
        with pytest.warns(UserWarning, match="SessionOptions has already been configured with providers"):
            session = ort.InferenceSession(model(self.NEG), options, [CPU])
        assert session.get_providers() == [CPU]

    @pytest.mark.parametrize(
        ("chosen", "expected"),
        [
            ([plugin.PROVIDER], [plugin.PROVIDER, CPU]),
            ([plugin.PROVIDER, CPU], [plugin.PROVIDER, CPU]),
            ([CPU, plugin.PROVIDER], [CPU, plugin.PROVIDER]),
        ],
    )
    def test_chosen_provider_without_nodes_is_reported(self, ort: Any, chosen: list[str], expected: list[str]) -> None:
        def choose(devices: Any, *_: Any) -> list[Any]:
            by_name = {each.ep_name: each for each in devices}
            return [by_name[name] for name in chosen]

        options = ort.SessionOptions()
        options.set_provider_selection_policy_delegate(choose)
        session = ort.InferenceSession(model(), options)
        assert session.get_providers() == expected
        assert session.get_provider_options().keys() == set(expected)


@ours
class TestStrict:
    """`ZRT_STRICT=1`: zrt's error in the place of every silent fallback."""

    @pytest.fixture(autouse=True)
    def strict(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZRT_STRICT", "1")

    @pytest.mark.filterwarnings("ignore:Specified provider")
    @pytest.mark.parametrize("name", ["Foo", pytest.param(CUDA, marks=lacks_cuda)])
    def test_provider_that_is_not_there_raises(self, ort: Any, capsys: Any, name: str) -> None:
        with pytest.raises(zrt.errors.ProviderError, match=f"provider '{name}' is not in this library"):
            ort.InferenceSession(model(), providers=[name, CPU])
        assert capsys.readouterr().out == ""

    @needs_azure
    def test_node_that_falls_back_to_the_cpu_raises(self, ort: Any) -> None:
        with pytest.raises(zrt.errors.ProviderError, match="Add"):
            ort.InferenceSession(model(), providers=[AZURE, CPU])

    def test_wrong_arguments_raise(self, ort: Any) -> None:
        with pytest.raises(ValueError, match="'providers' should be a sequence"):
            ort.InferenceSession(model(), providers={CPU})

    def test_cpu_alone_loads(self, ort: Any) -> None:
        assert ort.InferenceSession(model(), providers=[CPU]).get_providers() == [CPU]
        assert ort.InferenceSession(model()).get_providers() == [CPU]
