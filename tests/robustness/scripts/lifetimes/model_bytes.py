"""A model in ORT format that is used in place: its bytes stay as long as the session and its lanes."""

from __future__ import annotations

import gc
import tempfile

import numpy as np

import zrt
from benches.models import build as bench
from tests.robustness.prologue import QUIET

folder = tempfile.TemporaryDirectory()
path = folder.name + "/model.ort"
saved = {"session.save_model_format": "ORT"}
zrt.Session(
    bench.mlp(width=256, depth=4),
    zrt.SessionOptions(optimized_model_filepath=path, config_entries=saved, log_severity_level="FATAL"),
)
with open(path, "rb") as file:
    content = file.read()
folder.cleanup()
feeds = {"x": np.ones((1, 256), np.float32)}
wanted = zrt.Session(content, QUIET).run(feeds)[0]
used = {"session.use_ort_model_bytes_directly": "1", "session.use_ort_model_bytes_for_initializers": "1"}
one = zrt.Session(bytearray(content), zrt.SessionOptions(config_entries=used))
gc.collect()
overwritten = [bytes([255]) * len(content) for _ in range(20)]
assert np.array_equal(one.run(feeds)[0], wanted)
made = one.lane({"x": (1, 256)})
made.inputs["x"][...] = 1
del one
gc.collect()
overwritten += [bytes([255]) * len(content) for _ in range(20)]
made.run()
assert np.array_equal(made.outputs["y"], wanted)
