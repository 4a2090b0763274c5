"""Extensions of onnxruntime find the library in use beside the package, as onnxruntime-genai looks: [import] PATH."""

import glob
import importlib.util
import os
import sys

import zrt.onnxruntime

zrt.onnxruntime.install()
if sys.argv[1:-1] == ["import"]:
    import onnxruntime

    assert onnxruntime.__path__ == [os.path.dirname(zrt.onnxruntime.__file__)]

spec = importlib.util.find_spec("onnxruntime")
assert spec is not None
assert spec.submodule_search_locations is not None
found = glob.glob(os.path.join(spec.submodule_search_locations[0], "capi", "libonnxruntime.*"))
assert found == [sys.argv[-1]], found
assert spec.submodule_search_locations[-1] == os.path.dirname(zrt.onnxruntime.__file__)

from zrt._native.library import library  # noqa: E402

assert library().path == sys.argv[-1]
