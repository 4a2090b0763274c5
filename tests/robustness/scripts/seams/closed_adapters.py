"""Run options keep an adapter that was closed, in every kind of run; closed options are refused."""

from __future__ import annotations

import asyncio
import os
import sys

import numpy as np
import onnx

import zrt
from tests.robustness.prologue import QUIET
from tests.robustness.seams import built

model = built("(float[4] x) => (float[4] y) <float[4] w = {1, 1, 1, 1}> { y = Add(x, w) }")
graph = model.graph
graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [4]))
one = zrt.Session(model, QUIET)
path = sys.argv[1] + "/five.onnx_adapter"
zrt.save_lora_adapter(path, {"w": np.full(4, 5, np.float32)})
os.mkdir(sys.argv[1] + "/traces")
adapter = zrt.LoraAdapter(path)
options = zrt.RunOptions(adapters=[adapter], profile_file_prefix=sys.argv[1] + "/traces/t")
adapter.close()
feeds = {"x": np.zeros(4, np.float32)}
for found in (
    one.run(feeds, options=options),
    one.submit(feeds, options=options).result(60),
    asyncio.run(one.run_async(feeds, options=options)),
    one.prepare(feeds).run(options),
):
    assert found[0].tolist() == [5] * 4
assert options.profile_files()
options.close()
try:
    one.submit(feeds, options=options)
except zrt.errors.ClosedError:
    pass
else:
    raise AssertionError
