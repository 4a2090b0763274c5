"""The typed providers, and values that their fields take."""

from typing import Any

from zrt import providers
from zrt.environment.options import Option
from zrt.providers import known

KINDS: list[type[providers.Provider]] = [kind for name in known.HOMES if (kind := known.kind_of(name))]
FIELDS = [(kind, name, option) for kind in KINDS for name, option in kind.options().items()]

# By the type that the guide names: a value, its string, a wrong value, and a part of the error about it.
_SAMPLES: dict[str, tuple[Any, str, Any, str]] = {
    "int": (2, "2", "2", "expected an int, got str"), "bytes": (2**40, str(2**40), -1, "-1 is not between"),
    "str": ("a", "a", 5, "expected a str, got int"), "path": ("a/b", "a/b", 5, "expected a path, got int"),
    "address": (4096, "4096", 0, "0 is not between"),
    "list of str": (["a", "b"], "a,b", 5, "expected a list of names, got int"),
    "dict or JSON": ({"a": 1}, '{"a": 1}', 5, "expected a str, got int"),
    "bool": (True, "1", 1, "expected True or False, got int"),
}  # fmt: skip
_OWN_WAY = {
    ("OpenVINO", "context"): "0x1000",
    ("WebGPU", "force_cpu_node_names"): "a\nb",
    ("TensorRT", "trt_extra_plugin_lib_paths"): "a;b",
    ("TensorRT", "trt_ep_context_embed_mode"): "1",
    **{("OpenVINO", name): "true" for name in (
        "enable_opencl_throttling", "enable_qdq_optimizer", "enable_causallm", "disable_dynamic_shapes"
    )},
    ("DML", "disable_metacommands"): "true",
    ("JS", "enable_graph_capture"): "true",
}  # fmt: skip


def sample(kind: type[providers.Provider], name: str, option: Option) -> tuple[Any, str]:
    """A value that the field takes, and the string that ORT gets."""
    if option.type.startswith('"'):
        first = option.type.split('"')[1]
        return first.swapcase(), first
    value, written, *_ = _SAMPLES[option.type]
    own = _OWN_WAY.get((kind.__name__, name), written)
    return (1 if own == "1" and value == 2 else value), own


def bad(option: Option) -> tuple[Any, str]:
    """A value that the field refuses, and a part of the error."""
    if option.type.startswith('"'):
        return "nonesuch", "'nonesuch' is none of"
    return _SAMPLES[option.type][2:]
