"""The compatibility of compiled models: the strings of providers, and their verdicts."""

import onnx
import pytest

import zrt
from tests.support import models
from zrt import ModelCompatibility, compatibility_info, model_compatibility
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


def test_verdict_for_some_devices_of_a_provider() -> None:
    devices = [device for device in zrt.ep_devices() if device.provider == CPU]
    assert verdict("made elsewhere", devices) is ModelCompatibility.NOT_APPLICABLE
