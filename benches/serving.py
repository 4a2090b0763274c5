"""Requests per second of `zrt.serving` beside the same application that calls onnxruntime's `run` for each request.

`python -m benches.serving` starts a server for each contender and measures them in turns, with 1, 8 and 64 clients in a
process of their own. It needs the group `serving`. With `--ray` the application also runs as replicas on a cluster of
Ray on this machine, which needs the group `cluster`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import logging
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime

import zrt
from benches.models import build
from zrt.bench.harness import in_turn
from zrt.serving import Application, application, server
from zrt.serving.batches import Array, Results
from zrt.serving.model import ServedModel

ROOT = Path(__file__).parents[1]
CLIENTS = (1, 8, 64)
CONTENDERS = ("zrt", "onnxruntime")
RAY = "ray"
REPLICAS = 2
# Beside the digits: the name in `benches.models`, the input, and the shape of one row.
MODELS = (("cnn", "image", (1, 1, 28, 28)), ("mlp", "x", (1, 512)), ("squeezenet", "data_0", (1, 3, 224, 224)))
DIGITS = ROOT / "zrt" / "models" / "digits.onnx"


class PerRequest(ServedModel):
    """A model whose requests each call onnxruntime's `run` in a thread of asyncio's."""

    session: onnxruntime.InferenceSession

    async def answer(self, feeds: dict[str, Array], finish: Callable[[Results], Any], deadline: float | None) -> Any:
        names = list(self.signature.outputs)
        return await asyncio.to_thread(lambda: finish(dict(zip(names, self.session.run(names, feeds), strict=True))))


def application_of(contender: str, model: Path, threads: int, settings: dict[str, int]) -> Application:
    """The application to measure, with its model loaded."""
    spec = zrt.SessionSpec(model, zrt.SessionOptions(intra_op_num_threads=threads))
    served = application({"model": spec}, **settings)
    served.load()
    if contender == "onnxruntime":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        model_of = served._load().find("model", None)
        model_of.__class__ = PerRequest
        model_of.session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return served


def serve(contender: str, model: Path, threads: int, settings: dict[str, int]) -> None:
    """A server: prints its port when it takes requests."""
    if contender == RAY:
        serve_on_ray(model, threads, settings)
        return
    listening = server.listen("127.0.0.1", 0)
    served = application_of(contender, model, threads, settings)
    server.serve(served, listening, None, False, lambda: print(listening.getsockname()[1], flush=True))


def serve_on_ray(model: Path, threads: int, settings: dict[str, int]) -> None:
    """Two replicas on a cluster of one node: prints the port of its proxy, and ends it at the end of the input."""
    import ray
    import ray.serve

    import zrt.ray

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init("local", num_cpus=REPLICAS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    try:
        ray.serve.start(http_options={"host": "127.0.0.1", "port": port})
        spec = zrt.SessionSpec(model, zrt.SessionOptions(intra_op_num_threads=threads))
        served = application({"model": spec}, **settings)
        ray.serve.run(zrt.ray.deployment(served, replicas=REPLICAS).bind(), name="benches")
        print(port, flush=True)
        sys.stdin.read()
    finally:
        ray.serve.shutdown()
        ray.shutdown()


def request_of(feeds: dict[str, Array]) -> bytes:
    """An HTTP request with binary tensors, for binary results."""
    inputs, blocks = [], []
    for name, array in feeds.items():
        block = array.tobytes()
        inputs.append(
            {
                "name": name,
                "shape": array.shape,
                "datatype": "FP32",
                "parameters": {"binary_data_size": len(block)},
            }
        )
        blocks.append(block)
    text = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    size = len(text) + sum(map(len, blocks))
    head = (
        "POST /v2/models/model/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Length: {size}\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n"
    )
    return b"".join((head.encode(), text, *blocks))


class Client(asyncio.Protocol):
    """One connection that sends the next request when the last one is answered."""

    def __init__(self, request: bytes, until: float, ended: Callable[[], None]) -> None:
        self.request = request
        self.until = until
        self.ended = ended
        self.seconds: list[float] = []
        self.data = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._next()

    def _next(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, rest = self.data.partition(b"\r\n\r\n")
        if not end:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(self.data.decode(errors="replace"))
        length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        now = time.perf_counter()
        self.seconds.append(now - self.sent)
        self.data = b""
        if now < self.until:
            self._next()
        else:
            self.transport.close()
            self.ended()


async def load(port: int, clients: int, seconds: float, request: bytes) -> tuple[float, list[float]]:
    """The requests per second of that many clients, and the seconds of each request."""
    loop = asyncio.get_running_loop()
    done = asyncio.Semaphore(0)
    begin = time.perf_counter()
    connected = []
    for _ in range(clients):
        _, client = await loop.create_connection(
            lambda: Client(request, begin + seconds, done.release), "127.0.0.1", port
        )
        connected.append(client)
    for _ in range(clients):
        await done.acquire()
    took = time.perf_counter() - begin
    times = [one for client in connected for one in client.seconds]
    return len(times) / took, times


class Figures(NamedTuple):
    """Requests per second of each round, the seconds of all requests, and the server's CPU seconds of each round."""

    rates: list[float]
    seconds: list[float]
    cpu: list[float]


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(model: Path, feeds: dict[str, Array], how: argparse.Namespace, settings: dict[str, int]) -> None:
    """Measures every contender in turns, and prints a row for each number of clients."""
    request = request_of(feeds)
    servers, ports = {}, {}
    contenders = (*CONTENDERS, RAY) if how.ray else CONTENDERS
    for contender in contenders:
        call = [sys.executable, "-m", "benches.serving", "--serve"]
        call.append(json.dumps([contender, str(model), how.threads, settings]))
        servers[contender] = subprocess.Popen(call, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = servers[contender].stdout
        assert line is not None
        ports[contender] = int(line.readline())
    try:
        for clients in how.clients:
            figures = {contender: Figures([], [], []) for contender in contenders}
            for contender in contenders:
                asyncio.run(load(ports[contender], clients, how.seconds / 2, request))
            for turn in range(how.rounds):
                for contender in in_turn(contenders, turn):
                    before = cpu_seconds(servers[contender].pid)
                    rate, times = asyncio.run(load(ports[contender], clients, how.seconds, request))
                    figures[contender].cpu.append(cpu_seconds(servers[contender].pid) - before)
                    figures[contender].rates.append(rate)
                    figures[contender].seconds.extend(times)
            print(row(model.stem, clients, figures), flush=True)
    finally:
        for contender, process in servers.items():
            if contender == RAY:
                process.communicate()
                continue
            process.terminate()
            process.wait()


def row(name: str, clients: int, figures: dict[str, Figures]) -> str:
    """A line of the table."""
    ratio = statistics.median(
        ours / theirs for ours, theirs in zip(figures["zrt"].rates, figures["onnxruntime"].rates, strict=True)
    )
    cells = [name, str(clients)]
    for contender, each in figures.items():
        p50, p99 = np.percentile(each.seconds, [50, 99]) * 1e3
        # Ray's work is in processes of its own.
        cpu = "" if contender == RAY else f", {sum(each.cpu) / len(each.seconds) * 1e3:.2f}"
        cells.append(f"{statistics.median(each.rates):,.0f} ({p50:.2f}, {p99:.2f}{cpu})")
    return "| " + " | ".join([*cells, f"{ratio:.2f}"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="some of digits, cnn, mlp, squeezenet (default: all)")
    parser.add_argument("--clients", type=int, nargs="*", default=CLIENTS)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--threads", type=int, default=1, help="within an operator")
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--ray", action="store_true", help=f"also {REPLICAS} replicas on a cluster of Ray")
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        contender, model, threads, settings = arguments.serve
        serve(contender, Path(model), threads, settings)
        return
    if arguments.ray and importlib.util.find_spec(RAY) is None:
        print("without Ray, which is not installed: pip install --group cluster")
        arguments.ray = False
    heads = ["model", "clients", "zrt: requests a second (p50, p99, CPU, ms)", "onnxruntime"]
    heads += [*(["Ray (p50, p99, ms)"] if arguments.ray else []), "zrt / onnxruntime"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    with tempfile.TemporaryDirectory() as folder:
        for model, feeds in models(Path(folder), arguments.models):
            settings = {"max_batch": arguments.max_batch, "lanes": arguments.lanes}
            measure(model, feeds, arguments, settings)


def models(folder: Path, names: list[str]) -> list[tuple[Path, dict[str, Array]]]:
    """The models to serve, each with the feeds of a request of one row."""
    generator = np.random.default_rng(0)
    served = [(DIGITS, {"image": generator.random((1, 1, 8, 8), np.float32)})]
    for name, of, row in MODELS:
        path = folder / f"{name}.onnx"
        onnx.save(build.MODELS[name](), path)
        served.append((path, {of: generator.random(row, np.float32)}))
    known = [path.stem for path, _ in served]
    if others := set(names) - set(known):
        sys.exit(f"models: {', '.join(sorted(others))}: there are {', '.join(known)}")
    return [(path, feeds) for path, feeds in served if not names or path.stem in names]


if __name__ == "__main__":
    main()
