"""What one call costs in each way, from a lane to another process, an HTTP server and Ray: ``python -m benches.scale``.

Each way answers one request after the other, in turns with the others. The HTTP server is `zrt serve`'s application in
a process of its own. It needs the group `serving`; with the group `cluster` it measures Ray too.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import importlib.util
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
import onnxruntime

import zrt
from benches.serving import ROOT, models, request_of
from zrt.bench.harness import Latency, measure_calls, python_contender
from zrt.serving import application

Array: TypeAlias = "np.ndarray[Any, Any]"
Call: TypeAlias = "Callable[[], Array]"

SPEC: zrt.SessionSpec
FIRST = "a lane"


def by_lane(spec: zrt.SessionSpec, name: str, x: Array) -> Call:
    lane = spec.shared().lane({name: x.shape})
    source, [target] = lane.inputs[name], lane.outputs.values()

    def call() -> Array:
        source[...] = x
        lane.run()
        return target

    return call


def by_queue(spec: zrt.SessionSpec, name: str, x: Array) -> Call:
    free: SimpleQueue[zrt.Lane] = SimpleQueue()
    for lane in zrt.Runtime(spec.shared(), lanes=2, shapes={name: x.shape}):
        free.put(lane)

    def call() -> Array:
        lane = free.get()
        try:
            lane.inputs[name][...] = x
            lane.run()
            return lane.outputs[0].copy()
        finally:
            free.put(lane)

    return call


def by_shape(spec: zrt.SessionSpec, name: str, x: Array) -> Call:
    dynamic = zrt.DynamicRuntime(spec.shared())

    def call() -> Array:
        lane = dynamic.lane({name: x.shape})
        lane.inputs[name][...] = x
        lane.run()
        return lane.outputs[0]

    return call


def by_preparation(spec: zrt.SessionSpec, name: str, x: Array) -> Call:
    prepared = spec.shared().prepare({name: x})
    return lambda: prepared.run()[0]


def by_binding(spec: zrt.SessionSpec, name: str, x: Array) -> Call:
    session = spec.shared()
    binding, [target] = session.binding(), session.run({name: x})
    binding.bind_output(session.output_names[0], target)

    def call() -> Array:
        binding.bind_input(name, x)
        binding.run()
        return target

    return call


def by_session(spec: zrt.SessionSpec, name: str, x: Array) -> Call:
    session, feeds = spec.shared(), {name: x}
    return lambda: session.run(feeds)[0]


@contextmanager
def by_loop(spec: zrt.SessionSpec, name: str, x: Array) -> Iterator[Call]:
    session, feeds = spec.shared(), {name: x}

    async def request() -> Array:
        return (await session.run_async(feeds))[0]

    with closing(asyncio.new_event_loop()) as loop:
        yield lambda: loop.run_until_complete(request())


def by_future(spec: zrt.SessionSpec, name: str, x: Array) -> Call:
    session, feeds = spec.shared(), {name: x}
    return lambda: session.submit(feeds).result()[0]


def by_onnxruntime(model: Path, name: str, x: Array) -> Call:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session, feeds = onnxruntime.InferenceSession(model, options), {name: x}
    return lambda: session.run(None, feeds)[0]


@contextmanager
def by_thread(spec: zrt.SessionSpec, name: str, x: Array) -> Iterator[Call]:
    session, feeds = spec.shared(), {name: x}
    with ThreadPoolExecutor(1) as pool:
        yield lambda: pool.submit(session.run, feeds).result()[0]


def keep(spec: zrt.SessionSpec) -> None:
    """Gives a worker process its recipe, once."""
    global SPEC
    SPEC = spec


def run(feeds: dict[str, Array]) -> Array:
    """A request in a worker process."""
    return SPEC.shared().run(feeds)[0]


@contextmanager
def by_process(spec: zrt.SessionSpec, name: str, x: Array) -> Iterator[Call]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=keep, initargs=(spec,)) as pool:
        yield lambda: pool.submit(run, {name: x}).result()


def asking(stack: ExitStack, port: int, name: str, x: Array) -> Call:
    """A client with one connection to a server on this machine."""
    connection = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)))
    head, _, body = request_of({name: x}).partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])

    def call() -> Array:
        connection.request("POST", "/v2/models/model/infer", body, headers)
        response = connection.getresponse()
        data = response.read()
        size = int(response.headers["Inference-Header-Content-Length"])
        [output] = json.loads(data[:size])["outputs"]
        return np.frombuffer(data[size:], np.float32).reshape(output["shape"])

    return call


def by_server(stack: ExitStack, model: Path, name: str, x: Array) -> dict[str, Call]:
    call = [sys.executable, "-m", "benches.serving", "--serve", json.dumps(["zrt", str(model), 1, {"max_wait": 0}])]
    server = stack.enter_context(subprocess.Popen(call, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    stack.callback(server.terminate)
    assert server.stdout is not None
    return {"HTTP, `zrt serve`": asking(stack, int(server.stdout.readline()), name, x)}


def by_ray(stack: ExitStack, spec: zrt.SessionSpec, name: str, x: Array) -> dict[str, Call]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray import serve

    import zrt.ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    stack.callback(ray.shutdown)

    class Worker:
        def run(self, feeds: dict[str, Array]) -> Array:
            return spec.shared().run(feeds)[0]

    worker = ray.remote(Worker).remote()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    stack.callback(serve.shutdown)
    serve.run(zrt.ray.deployment(application({"model": spec}, max_wait=0)).bind())
    return {
        "an actor of Ray": lambda: ray.get(worker.run.remote({name: x}), timeout=60),
        "HTTP, `zrt serve --ray`": asking(stack, port, name, x),
    }


def ways(stack: ExitStack, model: Path, name: str, x: Array) -> dict[str, Call]:
    """Every way to run the model that is there, by what the table calls it."""
    spec = zrt.SessionSpec(model, zrt.SessionOptions(intra_op_num_threads=1))
    calls = {
        FIRST: by_lane(spec, name, x),
        "a lane out of a queue of free ones": by_queue(spec, name, x),
        "a `DynamicRuntime`": by_shape(spec, name, x),
        "a prepared run": by_preparation(spec, name, x),
        "a binding": by_binding(spec, name, x),
        "`Session.run`": by_session(spec, name, x),
        "onnxruntime's `run`": by_onnxruntime(model, name, x),
        "`run_async`, awaited": stack.enter_context(by_loop(spec, name, x)),
        "`submit`": by_future(spec, name, x),
        "`Session.run` in another thread": stack.enter_context(by_thread(spec, name, x)),
        "`Session.run` in another process": stack.enter_context(by_process(spec, name, x)),
    }
    calls |= by_server(stack, model, name, x)
    if importlib.util.find_spec("ray") is None:
        print("left out: Ray, which needs the group cluster", file=sys.stderr)
    else:
        calls |= by_ray(stack, spec, name, x)
    return calls


def measure(calls: dict[str, Call], runs: int | None) -> dict[str, Latency]:
    """Times the calls of every way, in turns; the results are compared first."""
    expected = next(iter(calls.values()))().copy()
    for title, call in calls.items():
        np.testing.assert_allclose(call(), expected, atol=1e-5, err_msg=title)
    contenders = [python_contender(title, title, call) for title, call in calls.items()]
    typical = {contender.key: min(contender.times(5)) for contender in contenders}
    return measure_calls(contenders, typical, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["digits", "squeezenet"], help="those of benches.serving")
    parser.add_argument("--runs", type=int, help="of each way (default: what two seconds hold)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model, feeds in models(Path(folder), arguments.models):
            [(name, x)] = feeds.items()
            with ExitStack() as stack:
                latencies = measure(ways(stack, model, name, x), arguments.runs)
            print(f"\n| {model.stem}, {x.nbytes:,} bytes | p50, µs | p99, µs | more than {FIRST}, µs |")
            print("|---|---|---|---|")
            first = latencies[FIRST].percentile(50)
            for title, latency in latencies.items():
                p50, p99 = latency.percentile(50), latency.percentile(99)
                print(f"| {title} | {p50 / 1e3:,.1f} | {p99 / 1e3:,.1f} | {(p50 - first) / 1e3:,.1f} |", flush=True)


if __name__ == "__main__":
    main()
