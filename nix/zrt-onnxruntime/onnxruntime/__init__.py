"""zrt in the place of the onnxruntime package: `import onnxruntime` is `zrt.onnxruntime`."""

import sys

import zrt.onnxruntime

sys.modules[__name__] = zrt.onnxruntime
zrt.onnxruntime.install()
