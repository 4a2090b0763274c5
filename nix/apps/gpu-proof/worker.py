"""One way to run one model, in a process of its own, which runs it as often as it is asked to.

worker.py WAY PROVIDER MODEL: the model is MODEL.onnx, its feeds and the wanted results are in MODEL.npz. The first line
of the output is JSON on the set-up: the largest error of the results, or the reason why there are none. Then each line
of the input is a number of runs, and each line of the output the nanoseconds of all of them.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
ONE_THREAD = 1


def load(model: str) -> tuple[Arrays, Arrays]:
    """The feeds and the wanted results."""
    arrays = np.load(f"{model}.npz")
    return (
        {key[3:]: arrays[key] for key in arrays.files if key.startswith("in:")},
        {key[4:]: arrays[key] for key in arrays.files if key.startswith("out:")},
    )


def error(results: Arrays, wanted: Arrays) -> float:
    """The largest difference, over the largest number that is wanted; not a number where a result has one."""
    errors = []
    for name, array in wanted.items():
        found = np.asarray(results[name], np.float64)
        if found.shape != array.shape:
            raise ValueError(f"{name} has shape {list(found.shape)}, and {list(array.shape)} is wanted")
        errors.append(np.abs(found - array).max() / max(np.abs(array).max(), 1e-6))
    return float(np.max(errors))


def session_of(model: str, provider: str, **options: Any) -> Any:
    """zrt's session on that provider."""
    import zrt

    if provider == "cpu":
        chosen: list[Any] = ["cpu"]
    else:
        chosen = [zrt.providers.CUDA(**options), "cpu"]
    return zrt.Session(f"{model}.onnx", zrt.SessionOptions(intra_op_num_threads=ONE_THREAD), chosen)


def lane_of(session: Any, memory: Any, feeds: Arrays, wanted: Arrays, **options: Any) -> Any:
    """A lane with both sides in that memory, its inputs filled."""

    shapes = {name: array.shape for name, array in feeds.items()}
    output_shapes = {name: array.shape for name, array in wanted.items()}
    lane = session.lane(shapes, output_shapes, inputs=memory, outputs=memory, **options)
    fill(lane.inputs, feeds)
    return lane


def fill(ports: Any, arrays: Arrays) -> None:
    """Copies arrays into the inputs or the outputs of a lane."""
    import zrt

    for name, array in arrays.items():
        zrt.copy(array, ports[name])


def results_of(lane: Any, wanted: Arrays) -> Arrays:
    """The outputs of a lane, on the host."""
    import zrt

    results = {name: np.empty_like(array) for name, array in wanted.items()}
    for name, array in results.items():
        zrt.copy(lane.outputs[name], array)
    return results


def memory_of(kind: str, provider: str) -> Any:
    """The memory of a lane; with the CPU provider all memory is the host's."""
    import zrt

    if kind == "host":
        return zrt.LaneMemory.buffers()
    infos = {"device": zrt.MemoryInfo.cuda, "pinned": zrt.MemoryInfo.cuda_pinned}
    return zrt.LaneMemory.allocated() if provider == "cpu" else zrt.LaneMemory.allocated(infos[kind]())


def lane(kind: str, **options: Any) -> Callable[..., Any]:
    """A lane with both sides in one kind of memory."""

    def make(model: str, provider: str, feeds: Arrays, wanted: Arrays) -> Any:
        made = lane_of(session_of(model, provider), memory_of(kind, provider), feeds, wanted, **options)
        made.run()
        return made.run, (), lambda: results_of(made, wanted)

    return make


def graph(model: str, provider: str, feeds: Arrays, wanted: Arrays) -> Any:
    """A lane on the device whose runs are captured as a CUDA graph, and replayed."""
    options = {} if provider == "cpu" else {"enable_cuda_graph": True}
    made = lane_of(session_of(model, provider, **options), memory_of("device", provider), feeds, wanted)
    # ONNX Runtime captures in one of the first runs.
    for _ in range(3):
        made.run()
    return made.run, (), lambda: results_of(made, wanted)


def session_run(model: str, provider: str, feeds: Arrays, wanted: Arrays) -> Any:
    """`Session.run`, which copies feeds and results."""
    made = session_of(model, provider)
    return made.run, (feeds,), lambda: dict(zip(wanted, made.run(feeds), strict=True))


def _official(model: str, provider: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = ONE_THREAD
    wanted = "CPUExecutionProvider" if provider == "cpu" else "CUDAExecutionProvider"
    made = onnxruntime.InferenceSession(f"{model}.onnx", options, providers=[wanted])
    if made.get_providers()[0] != wanted:
        raise RuntimeError(f"onnxruntime cannot use {wanted}")
    return onnxruntime, made


def official_iobinding(model: str, provider: str, feeds: Arrays, wanted: Arrays) -> Any:
    """`run_with_iobinding` of the official package, both sides on the device."""
    onnxruntime, made = _official(model, provider)
    place = "cpu" if provider == "cpu" else "cuda"
    binding = made.io_binding()
    kept = {}
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array, place, 0))
    for name, array in wanted.items():
        kept[name] = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, place, 0)
        binding.bind_ortvalue_output(name, kept[name])
    made.run_with_iobinding(binding)
    return made.run_with_iobinding, (binding,), lambda: {name: value.numpy() for name, value in kept.items()}


WAYS: dict[str, Callable[..., Any]] = {
    "lane_device": lane("device"),
    "lane_device_no_wait": lane("device", synchronize=False),
    "lane_pinned": lane("pinned"),
    "lane_host": lane("host"),
    "lane_graph": graph,
    "session_run": session_run,
    "official_iobinding": official_iobinding,
}


def main() -> None:
    way, provider, model = sys.argv[1:]
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        # ONNX Runtime's own output must not mix with the replies.
        os.dup2(2, 1)
        feeds, wanted = load(model)
        try:
            call, arguments, read = WAYS[way](model, provider, feeds, wanted)
            call(*arguments)
            reply: Any = {"error": error(read(), wanted)}
        except Exception as raised:
            reply = {"reason": f"{type(raised).__name__}: {raised}"}
        print(json.dumps(reply), file=replies, flush=True)
        gc.disable()
        for line in sys.stdin:
            runs = repeat(None, int(line))
            start = clock()
            for _ in runs:
                call(*arguments)
            print(clock() - start, file=replies, flush=True)


if __name__ == "__main__":
    main()
