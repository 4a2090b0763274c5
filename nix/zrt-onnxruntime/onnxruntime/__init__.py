"""zrt in the place of the onnxruntime package: `import onnxruntime` is `zrt.onnxruntime`."""

import importlib
import sys

import zrt.onnxruntime

# Python returns the module that has the name when this one's code ends.
del sys.modules[__name__]
zrt.onnxruntime.install()
importlib.import_module(__name__)
