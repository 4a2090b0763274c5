"""zrt in the place of the onnxruntime package: `import onnxruntime` is `zrt.onnxruntime`."""

import importlib
import sys

from zrt.onnxruntime import finder

# Python returns the module that has the name when this one's code ends.
del sys.modules[__name__]
finder.install()
importlib.import_module(__name__)
