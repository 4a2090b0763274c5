"""After `install()` every name of onnxruntime is this package's module, for all ways to import and to look."""

import importlib
import importlib.util
import pickle
import pkgutil
import sys

import zrt.onnxruntime as ours

ours.install()
ours.install()

# A program may ask whether the package is there before it imports it.
spec = importlib.util.find_spec("onnxruntime")
assert spec is not None
assert spec.origin == ours.__file__
assert "onnxruntime" not in sys.modules

import onnxruntime  # noqa: E402
import onnxruntime.capi.onnxruntime_pybind11_state as state  # noqa: E402
from onnxruntime.capi import _pybind_state  # noqa: E402

import zrt.onnxruntime.capi.onnxruntime_pybind11_state as own_state  # noqa: E402

assert onnxruntime is ours
assert state is own_state
assert _pybind_state is sys.modules["zrt.onnxruntime.capi._pybind_state"]
assert onnxruntime.GraphOptimizationLevel is ours.GraphOptimizationLevel

# Each module keeps its own name and spec.
assert onnxruntime.__name__ == "zrt.onnxruntime"
assert onnxruntime.__spec__.name == "zrt.onnxruntime"
assert state.__spec__.name == "zrt.onnxruntime.capi.onnxruntime_pybind11_state"
assert importlib.util.find_spec("onnxruntime") is onnxruntime.__spec__
assert importlib.util.find_spec("onnxruntime.capi").origin == ours.capi.__file__
assert importlib.util.find_spec("onnxruntime.no_such_module") is None
assert importlib.reload(onnxruntime) is ours
assert "capi" in {module.name for module in pkgutil.iter_modules(onnxruntime.__path__)}

for name in ("onnxruntime.no_such_module", "onnxruntime.training"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert str(error) == f"No module named {name!r}"
    else:
        raise AssertionError(name)

# A pickle of the official package names its class by the official module.
named = b"connxruntime.capi.onnxruntime_pybind11_state\nGraphOptimizationLevel\n."
assert pickle.loads(named) is ours.GraphOptimizationLevel
