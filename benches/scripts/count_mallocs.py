"""Runs the model in argument 2 in the way of argument 1; prints the calls of malloc in a run. 3 is a file of feeds.

The library of `zrt.bench.mallocs` must be loaded before. The way is "nothing", "lane", "session", "iobinding" or
"onnxruntime".
"""

import sys
from functools import partial

import numpy as np

from zrt.bench.mallocs import count

way, model, feeds = sys.argv[1:]
arrays = dict(np.load(feeds))
if way in ("lane", "session"):
    import zrt

    session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
    if way == "session":
        run, arguments = session.run, (arrays,)
    else:
        lane = session.lane(shapes={name: array.shape for name, array in arrays.items()})
        for name, array in arrays.items():
            lane.inputs[name][...] = array
        run, arguments = lane.run, ()
elif way != "nothing":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    if way == "onnxruntime":
        run, arguments = session.run, (None, arrays)
    else:
        binding = session.io_binding()
        for name, array in arrays.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for output, result in zip(session.get_outputs(), session.run(None, arrays), strict=True):
            binding.bind_ortvalue_output(output.name, onnxruntime.OrtValue.ortvalue_from_numpy(result))
        run, arguments = session.run_with_iobinding, (binding,)
else:
    run, arguments = len, ((),)

print(count(partial(run, *arguments)))
