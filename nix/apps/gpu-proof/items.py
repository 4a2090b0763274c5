"""Single checks of zrt on a GPU, each in a process of its own: items.py NAME PROVIDER MODEL prints figures as JSON.

It exits with status 0 if the results are right, 77 if this zrt does not have what is checked, and 1 otherwise.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns as clock
from typing import Any

import numpy as np
from worker import error, fill, lane_of, load, memory_of, results_of, session_of

import zrt
from zrt.environment import cuda_parts

LIMIT = 0.02
NOT_THERE = 77
MIB = 2**20
RUNS = 200
STEPS = 20


def require(found: float, subject: str) -> float:
    """The error of results, which must be small: GPUs round differently."""
    if not found <= LIMIT:
        raise SystemExit(f"{subject}: the results differ by {found:.2g} of the largest, more than {LIMIT}")
    return found


def best_ns(call: Callable[[], Any], runs: int = 20) -> int:
    """The shortest of some calls."""
    taken = []
    for _ in range(runs):
        start = clock()
        call()
        taken.append(clock() - start)
    return min(taken)


def clear(lane: Any, wanted: dict[str, Any]) -> None:
    """Overwrites the outputs of a lane, so that results are those of later runs."""
    fill(lane.outputs, {name: np.zeros_like(array) for name, array in wanted.items()})


def copies(provider: str, model: str) -> dict[str, Any]:
    """Copies between the host, pinned memory and the device, one at a time and many in one call."""
    session = session_of(model, provider)
    device = memory_of("device", provider).memory
    pinned = memory_of("pinned", provider).memory
    shape, source = (64 * MIB // 4,), np.random.default_rng(0).standard_normal(64 * MIB // 4, np.float32)

    def there(memory: Any) -> Any:
        return zrt.Value.allocate(shape, np.float32, session.allocator(memory))

    first, second, middle, back = there(device), there(device), there(pinned), np.empty_like(source)
    zrt.copy(source, middle)
    ways: dict[str, tuple[Any, Any]] = {
        "host to device": (source, first),
        "pinned to device": (middle, first),
        "device to device": (first, second),
        "device to host": (second, back),
        "device to pinned": (second, middle),
    }
    figures = {}
    for name, (origin, target) in ways.items():
        zrt.copy(-source, target)
        taken = best_ns(lambda origin=origin, target=target: zrt.copy(origin, target))
        figures[f"{name}, GB/s"] = round(source.nbytes / taken, 2)
        seen = np.zeros_like(source)
        zrt.copy(target, seen)
        require(float(not np.array_equal(seen, source)), name)
    small = [zrt.Value.allocate((4,), np.float32, session.allocator(device)) for _ in range(8)]
    arrays = [np.full(4, number, np.float32) for number in range(8)]
    results = [np.empty(4, np.float32) for _ in range(8)]
    zrt.copy_all(zip(arrays, small, strict=True))
    zrt.copy_all(zip(small, results, strict=True))
    require(float(not np.array_equal(arrays, results)), "copies of several")
    figures["8 small copies in one call, µs"] = best_ns(lambda: zrt.copy_all(zip(arrays, small, strict=True))) / 1000
    return figures


def _runtime() -> Any:
    """CUDA's runtime, which the provider has loaded."""
    return ctypes.CDLL("libcudart.so.13")


def _new_stream() -> int:
    stream = ctypes.c_void_p()
    code = _runtime().cudaStreamCreate(ctypes.byref(stream))
    if code or not stream.value:
        raise SystemExit(f"cudaStreamCreate returns {code}")
    return stream.value


def streams(provider: str, model: str) -> dict[str, Any]:
    """A session that computes on a stream of the caller's, and copies on a stream of the provider's device."""
    feeds, wanted = load(model)
    if provider == "cpu":
        raise NotImplementedError("streams are CUDA's")
    # The provider loads CUDA's runtime.
    session_of(model, provider)
    lane = lane_of(
        session_of(model, provider, user_compute_stream=_new_stream()), memory_of("device", provider), feeds, wanted
    )
    lane.run()
    figures = {"error on a stream of the caller's": require(error(results_of(lane, wanted), wanted), "stream")}
    zrt.Environment().register_provider_library("cuda", cuda_parts.provider_file())
    device = next(each for each in zrt.ep_devices() if each.library == "cuda")
    session = zrt.Session(f"{model}.onnx", providers=[device, "cpu"])
    stream = zrt.SyncStream(device)
    source, back = np.arange(1024, dtype=np.float32), np.empty(1024, np.float32)
    there = zrt.Value.allocate((1024,), np.float32, session.allocator(device.memory))
    zrt.copy(source, there, stream)
    _runtime().cudaStreamSynchronize(ctypes.c_void_p(stream.native_handle))
    stream.release_copies()
    zrt.copy(there, back)
    require(float(not np.array_equal(source, back)), "copy on a stream")
    figures["device"] = str(device)
    return figures


def two_lanes(provider: str, model: str) -> dict[str, Any]:
    """Two lanes on two streams, in two threads, beside one lane."""
    feeds, wanted = load(model)
    session_of(model, provider)
    lanes = []
    for _ in range(2):
        options = {} if provider == "cpu" else {"user_compute_stream": _new_stream()}
        lanes.append(lane_of(session_of(model, provider, **options), memory_of("device", provider), feeds, wanted))

    def runs(lane: Any) -> None:
        for _ in range(RUNS):
            lane.run()

    with ThreadPoolExecutor(2) as pool:

        def both() -> None:
            for done in [pool.submit(runs, lane) for lane in lanes]:
                done.result()

        for lane in lanes:
            lane.run()
        one = best_ns(lambda: runs(lanes[0]), 5)
        for lane in lanes:
            clear(lane, wanted)
        two = best_ns(both, 5)
    worst = max(require(error(results_of(lane, wanted), wanted), "lane") for lane in lanes)
    return {
        "one lane, µs": one / RUNS / 1000,
        "runs of two lanes for each of one": round(2 * one / two, 3),
        "error": worst,
    }


def state(provider: str, model: str) -> dict[str, Any]:
    """A state that stays on the device from run to run, beside one that goes through the host in each run."""
    if not hasattr(zrt, "StatefulLane"):
        raise NotImplementedError("this zrt has no lanes with state")
    feeds, wanted = load(model)
    host = zrt.Session(f"{model}.onnx")
    [carried] = [name for name in wanted if name.startswith("state")]
    given, results = dict(feeds), {}
    for _ in range(STEPS):
        results = dict(zip(wanted, host.run(given), strict=True))
        given["state"] = results[carried]
    session = session_of(model, provider)
    shapes = {name: array.shape for name, array in feeds.items()}
    output_shapes = {name: array.shape for name, array in wanted.items()}
    memory = memory_of("device", provider)
    lane = session.lane(shapes, output_shapes, inputs=memory, outputs=memory, state={carried: "state"})
    zrt.copy(feeds["input"], lane.inputs["input"])
    for _ in range(STEPS):
        lane.run()
    [name] = [name for name in wanted if name != carried]
    got = np.empty_like(wanted[name])
    zrt.copy(lane.outputs[name], got)
    figures = {f"error after {STEPS} runs": require(error({name: got}, {name: results[name]}), "state")}
    figures["a run with the state on the device, µs"] = best_ns(lane.run, RUNS) / 1000
    through = session_of(model, provider)
    figures["a run with the state through the host, µs"] = best_ns(lambda: through.run(given), RUNS) / 1000
    return figures


def graph(provider: str, model: str) -> dict[str, Any]:
    """Replays of a captured graph follow the inputs; released, the graph is captured again."""
    if provider == "cpu":
        raise NotImplementedError("captured graphs are CUDA's")
    feeds, wanted = load(model)
    session = session_of(model, provider, enable_cuda_graph=True)
    lane = lane_of(session, memory_of("device", provider), feeds, wanted)
    for _ in range(3):
        lane.run()
    figures = {"error": require(error(results_of(lane, wanted), wanted), "first replays")}
    other = {name: array[..., ::-1].copy() for name, array in feeds.items()}
    host = zrt.Session(f"{model}.onnx")
    fill(lane.inputs, other)
    lane.run()
    figures["error with other inputs"] = require(
        error(results_of(lane, wanted), dict(zip(wanted, host.run(other), strict=True))), "replay with other inputs"
    )
    session.release_captured_graph()
    fill(lane.inputs, feeds)
    clear(lane, wanted)
    lane.run()
    figures["error after the release"] = require(error(results_of(lane, wanted), wanted), "capture after the release")
    figures["a replay, µs"] = best_ns(lane.run, RUNS) / 1000
    return figures


ITEMS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "copies": copies,
    "graph": graph,
    "state": state,
    "streams": streams,
    "two_lanes": two_lanes,
}


def main() -> None:
    name, provider, model = sys.argv[1:]
    try:
        figures = ITEMS[name](provider, model)
    except NotImplementedError as raised:
        print(raised, file=sys.stderr)
        sys.exit(NOT_THERE)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
