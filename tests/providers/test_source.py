"""The fields are the keys of ONNX Runtime's own source, where `ZRT_ORT_SOURCE` names a tree of it."""

import os
import re
from pathlib import Path

import pytest

from tests.providers.kinds import FIELDS, KINDS
from zrt import providers

SOURCE = os.environ.get("ZRT_ORT_SOURCE")

pytestmark = pytest.mark.source

CONSTANT = r'constexpr (?:const char\*|auto) k\w+ = "([\w.]+)"'
BRACED = r"valid_provider_keys = \{([^}]*)\}"

# The pattern of the keys in each file. For the other files only the fields are checked against the source.
KEYS = {
    "CUDA": CONSTANT,
    "TensorRT": CONSTANT,
    "NvTensorRTRTX": CONSTANT,
    "MIGraphX": CONSTANT,
    "CANN": CONSTANT,
    "DNNL": CONSTANT,
    "WebGPU": r'constexpr const char\* k\w+ = "ep\.webgpuexecutionprovider\.(\w+)"',
    "CUDAPlugin": r'ep_options_prefix \+ "(\w+)"',
    "CoreML": r'kCoremlProviderOption_\w+ = "(\w+)"',
    "QNN": r'(?:static const std::string [A-Z_0-9]+ = |ParseBoolOption\()"(\w+)"',
    "SNPE": r'constexpr const char\* [A-Z_]+ = "([a-z_]+)"',
    "XNNPACK": r'po\.find\("(\w+)"\)',
    "JS": r'po\.find\("(\w+)"\)',
    "NNAPI": r"^  (NNAPI_FLAG_\w+) = 0x00[1248]",
    "VitisAI": r'info_\.find\("(\w+)"\)',
    "DML": r'(?:ParseBoolean\(provider_options, |string (?:PerformancePreference|Filter|DeviceId) = )"(\w+)"',
    "ROCM": r"struct OrtROCMProviderOptions \{(.*?)\} OrtROCMProviderOptions;",
    "OpenVINO": BRACED,
}

# Keys that are not options: aliases, or keys of other functions.
NO_OPTIONS = {
    "NvTensorRTRTX": {"nv_profile_index", "VkExternalComputeQueueDataParamsNV_data"},
    "CUDAPlugin": {"prefer_nhwc_layout", "cudnn_conv_algo"},
    # It has no string key, only a field of the struct.
    "ROCM": {"default_memory_arena_cfg"},
}


def read(path: str) -> str:
    return (Path(SOURCE or "") / path).read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_field_is_a_key_of_the_source(kind):
    for name, option in kind.options().items():
        key, file = option.key or name, option.source or kind.source
        assert re.search(rf"(?<!\w){re.escape(key)}(?!\w)", read(file)), f"{key} is not in {file}"


@pytest.mark.parametrize("name", KEYS)
def test_each_key_of_the_source_is_a_field(name):
    kind = getattr(providers, name)
    keys = set(re.findall(KEYS[name], read(kind.source), re.MULTILINE | re.DOTALL))
    if name == "OpenVINO":
        keys = set(re.findall(r'"(\w+)"', keys.pop()))
    if name == "ROCM":
        keys = set(re.findall(r"^  (?:int|size_t|void\*|OrtArenaCfg\*) (\w+);", keys.pop(), re.MULTILINE))
    assert keys, "the file writes its keys in another way now"
    ours = {key for key, (_, option) in kind.by_key().items() if not option.source}
    assert keys - NO_OPTIONS.get(name, set()) == ours


def test_each_choice_is_a_value_of_the_source():
    folders: dict[str, str] = {}
    for kind, name, option in FIELDS:
        if not option.type.startswith('"'):
            continue
        folder = str(Path(option.source or kind.source).parent)
        if folder not in folders:
            files = (Path(SOURCE or "") / folder).rglob("*")
            folders[folder] = "\n".join(
                file.read_text("utf-8", errors="replace") for file in files if file.suffix in (".cc", ".h")
            )
        for value in re.findall(r'"([^"]+)"', option.type):
            place = folders[folder]
            if kind in (providers.CoreML, providers.NvTensorRTRTX, providers.ROCM, providers.WebNN):
                # Their keys are in a header, their values in the provider's folder.
                place = everywhere()
            assert f'"{value}"' in place or f"{value}," in place, f"{kind.__name__}.{name}: {value}"


def everywhere() -> str:
    folder = Path(SOURCE or "") / "onnxruntime/core/providers"
    parts = ("coreml", "webnn", "cuda")
    return "\n".join(
        file.read_text("utf-8", errors="replace") for part in parts for file in (folder / part).rglob("*.cc")
    )


def test_each_name_is_one_of_the_source():
    names = set(re.findall(r'k\w+ExecutionProvider = "(\w+)"', read("include/onnxruntime/core/graph/constants.h")))
    # Not providers to choose: CUDA's name for its kernels in another layout, and a provider without code.
    names -= {"CUDANHWCExecutionProvider", "TvmExecutionProvider"}
    # Only the header of the C API still has this one.
    assert {kind.name for kind in KINDS} - {"ROCMExecutionProvider"} == names
