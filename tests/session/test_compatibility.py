"""The compatibility of compiled models: the strings of providers, and their verdicts."""

from __future__ import annotations

import onnx
import pytest

import zrt
from tests.support import models
from zrt import ModelCompatibility, compatibility_info, model_compatibility
from zrt.errors import ArgumentError, DTypeError, InvalidGraphError, ModelError, ModelNotFoundError, ProviderError
from zrt.session.compatibility import verdict

CPU = "CPUExecutionProvider"


@pytest.fixture
def compiled() -> onnx.ModelProto:
    """A model with compatibility strings of providers."""
    model = onnx.load_from_string(models.add())
    for provider, info in ((CPU, "avx2;v1"), ("Other", "")):
        entry = model.metadata_props.add()
        entry.key, entry.value = f"ep_compatibility_info.{provider}", info
    return model


def test_compatibility_info_is_the_provider_string(compiled, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(compiled, path)
    for form in (compiled, path, compiled.SerializeToString()):
        assert compatibility_info(form, CPU) == "avx2;v1"
        assert compatibility_info(form, "Other") == ""
        assert compatibility_info(form, "CUDAExecutionProvider") is None


def test_cpu_provider_is_not_applicable(compiled):
    info = compatibility_info(compiled, CPU)
    assert model_compatibility(info, CPU) is ModelCompatibility.NOT_APPLICABLE


def test_bad_arguments_raise(tmp_path):
    with pytest.raises(ProviderError, match=f"provider 'Nope' has no devices here; those that have: .*{CPU}"):
        model_compatibility("v1", "Nope")
    with pytest.raises(ModelNotFoundError, match="no such file"):
        compatibility_info(tmp_path / "no.onnx", CPU)
    with pytest.raises(InvalidGraphError, match="model in memory"):
        compatibility_info(b"\xff" * 9, CPU)
    with pytest.raises(ModelError, match="is empty"):
        compatibility_info(b"", CPU)
    for provider in ("", None, 5):
        with pytest.raises(DTypeError, match="provider"):
            compatibility_info(models.add(), provider)
    with pytest.raises(ArgumentError, match="NUL"):
        model_compatibility("a\0b", CPU)
    with pytest.raises(DTypeError, match="info"):
        model_compatibility(None, CPU)
    assert issubclass(zrt.ModelCompatibility, int)


def test_verdict_for_some_devices_of_a_provider() -> None:
    devices = [device for device in zrt.ep_devices() if device.provider == CPU]
    assert verdict("made elsewhere", devices) is ModelCompatibility.NOT_APPLICABLE
