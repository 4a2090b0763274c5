"""Prints how many values are wrong in a run of a model that computes uint4 values."""

import numpy as np
import onnx.parser

import zrt

# docs/security.md shows it.
MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
small (float[1000] x) => (float[1000] y) {
    a = Cast <to = 21> (x)    # uint4
    b = Cast <to = 1> (a)
    c = Relu (b)
    d = Cast <to = 2> (c)     # uint8, in the memory of a
    e = Cast <to = 1> (d)
    y = Abs (e)
}
"""

feed = (np.arange(1000) % 16).astype(np.float32)
[read] = zrt.Session(onnx.parser.parse_model(MODEL).SerializeToString()).run([feed])
print(np.count_nonzero(read != feed))
