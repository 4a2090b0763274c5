"""External weights in memory: replicas with and without sharing, and the caller's own initializers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import onnx

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.robustness.seams import LOGGED, WEIGHTED, W, own_threads

folder = sys.argv[1]
model = onnx.load_from_string(WEIGHTED)
onnx.save(model, folder + "/m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
data = Path(folder, "w.bin").read_bytes()
os.rename(folder + "/w.bin", folder + "/elsewhere")
x = np.ones(1024, np.float32)
own = {"w": zrt.MappedFile(folder + "/elsewhere").tensor(np.float32, (1024,), 0)}
for options in (
    zrt.SessionOptions(intra_op_num_threads=1, external_initializer_files={"./w.bin": data}),
    own_threads(initializers=own, external_initializer_files={"w.bin": data}, logger=LOGGED),
):
    alone = zrt.Session(folder + "/m.onnx", options, ["CPU"], strict=True)
    futures = [alone.submit({"x": x}) for _ in range(20)]
    alone.close()
    for share in (False, True):
        with zrt.Runtime.replicate(folder + "/m.onnx", 2, options, share_weights=share) as runtime:
            for lane in runtime:
                lane.inputs["x"][...] = x
                lane.run()
                assert np.array_equal(lane.outputs["y"], W + 1)
    zrt.save_optimized(folder + "/m.onnx", folder + "/o.ort", options)
    assert np.array_equal(zrt.infer(folder + "/o.ort", {"x": x})[0], W + 1)
    assert all(np.array_equal(future.result(60)[0], W + 1) for future in futures)
short = zrt.SessionOptions(external_initializer_files={"w.bin": data[:-1]})
try:
    zrt.Runtime.replicate(folder + "/m.onnx", 2, short, share_weights=True)
except zrt.errors.ModelError as error:
    assert "'w'" in str(error), error
    assert "1 bytes too soon" in str(error), error
else:
    raise AssertionError
