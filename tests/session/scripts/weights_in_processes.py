"""Prints the ratio of the memory of four processes to that of one, all over 100 MB of weights that lie in a file.

Argument 1 is the folder for the model. The memory is the proportional set size: shared pages are divided.
"""

import multiprocessing
import os
import sys
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import numpy as np

import zrt
import zrt.session.spec

WIDTH, LAYERS = 2240, 5

# The fork server imports this module, so that the processes share the environment and the code of Python and numpy too.
zrt.Environment()


def write_model(path: str) -> None:
    """A chain of matrix products with its weights inside, split by zrt into the model and a file of weights."""
    from onnx import TensorProto

    from tests.support import models

    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal((WIDTH, WIDTH), np.float32) * 0.02 for i in range(LAYERS)}
    nodes = [models.node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(LAYERS)]
    ends = [models.tensor(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x0", f"x{LAYERS}")]
    model = models.build(nodes, ends[:1], ends[1:], weights)
    zrt.save_optimized(model, path, weights_file="split.weights")


def proportional_set_size() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def work(spec: zrt.SessionSpec, measure: Any, sizes: Any) -> None:
    image = np.ones((1, WIDTH), np.float32)
    for _ in range(3):
        spec.shared().run([image])
    # No process measures before all have loaded, and none ends before all have measured.
    measure.wait()
    sizes.put(proportional_set_size())
    measure.wait()


def total(context: BaseContext, spec: zrt.SessionSpec, count: int) -> int:
    """The sum over `count` processes."""
    measure, sizes = context.Barrier(count), context.Queue()
    workers = [context.Process(target=work, args=(spec, measure, sizes)) for _ in range(count)]
    for worker in workers:
        worker.start()
    loaded = [sizes.get() for _ in workers]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    return sum(loaded)


if __name__ == "__main__":
    path = os.path.join(sys.argv[1], "split.onnx")
    write_model(path)
    options = zrt.SessionOptions(intra_op_num_threads=1, config_entries={zrt.SessionConfigKey.DISABLE_PREPACKING: "1"})
    recipe = zrt.SessionSpec(path, options)
    starter = multiprocessing.get_context("forkserver")
    starter.set_forkserver_preload(["tests.session.scripts.weights_in_processes"])
    one = total(starter, recipe, 1)
    assert one > 100_000, one
    print(total(starter, recipe, 4) / one)
