"""Readers of bytes that others made: files and requests. Each has examples, for tests that change them.

A reader takes any bytes. It returns, or raises an error of zrt's; everything else is a fault.
"""

import asyncio
import atexit
import base64
import functools
import io
import json
import logging
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import zrt
from benches.models.decoder import decoder
from tests.robustness.vocabulary import QUIET
from tests.support import models
from zrt._common import elf
from zrt.diagnosis import capsules
from zrt.loading import cache, cache_entry, origin
from zrt.loading.lora import read_lora_adapter
from zrt.loading.model_contents import contents_of
from zrt.loading.model_source import Source


@dataclass(frozen=True)
class Reader:
    """A reader, and bytes that it can read."""

    read: Callable[[bytes], object]
    examples: Callable[[], list[bytes]]
    needs: tuple[str, ...] = ()
    """The packages that it imports beside those of the group dev."""
    most: int = 1 << 12
    """The most bytes that a changed example should have."""


@functools.cache
def folder() -> Path:
    """A folder for files that have to have a name, in memory where it can be; it lives as long as the process."""
    memory = "/dev/shm"
    made = tempfile.mkdtemp(dir=memory if os.path.isdir(memory) else None)
    atexit.register(shutil.rmtree, made)
    return Path(made)


def stored(data: bytes, name: str) -> Path:
    place = folder() / name
    place.write_bytes(data)
    return place


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of files."""
    return lambda data: read(stored(data, name))


# Models.


def model(data: bytes) -> None:
    for read in (zrt.list_initializers, zrt.fingerprint):
        with suppress(zrt.Error):
            read(data)
    with Source(data) as source:
        contents_of(source)


def model_beside_weights(data: bytes) -> object:
    stored(bytes(range(256)), "w.bin")
    return zrt.fingerprint(stored(data, "m.onnx"))


def outside() -> list[bytes]:
    return [models.save_apart(models.weighted(), folder() / "example.onnx", "w.bin").read_bytes()]


def valid_models() -> list[bytes]:
    return [
        models.add(["n", 4]), models.weighted(), models.branches(), models.sparse_constant(), models.mixed(),
        models.convolution(), models.counting_loop(), models.to_sequence(), models.to_strings(), models.picky_reshape(),
    ]  # fmt: skip


# States, adapters, capsules.


@functools.cache
def lanes() -> list[zrt.StatefulLane]:
    counter = models.parse("(float[1] x, float[3] h) => (float[3] y, float[3] hn) { hn = Add(h, x) y = Mul(hn, hn) }")
    caching = zrt.Session(decoder(), QUIET)
    return [
        zrt.Session(counter, QUIET).lane(state={"hn": "h"}),
        caching.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(caching, 8)),
    ]


def state(data: bytes) -> None:
    for lane in lanes():
        before = lane.state.snapshot()
        try:
            lane.state.load(io.BytesIO(data))
        except zrt.Error:
            after = lane.state.snapshot()
            assert (before.steps, before.seen) == (after.steps, after.seen)
            assert all(np.array_equal(before.arrays[name], after.arrays[name]) for name in before.arrays)


def states() -> list[bytes]:
    files = []
    for lane in lanes():
        place, state = io.BytesIO(), lane.new_state()
        lane.run(state)
        state.save(place)
        files.append(place.getvalue())
    return files


def adapters() -> list[bytes]:
    place = folder() / "example.onnx_adapter"
    zrt.save_lora_adapter(place, {"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.int64)})
    return [place.read_bytes()]


def capsule(path: Path) -> None:
    capsules.read(path)


def capsules_of_runs() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        session = zrt.Session(models.add(["n", 4]), QUIET)
        with session.record(capsules=made, slower_than=1e-9, feeds=True):
            session.run({"x": np.ones((1, 4), np.float32), "y": np.ones((1, 4), np.float32)})
        return [path.read_bytes() for path in Path(made).iterdir()]


# Options.


def options(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode(errors="replace"))


DOCUMENT = zrt.Options(
    session=zrt.SessionOptions(
        intra_op_num_threads=1,
        graph_optimization_level="ENABLE_BASIC",
        config_entries={"session.intra_op.allow_spinning": "0"},
        free_dimension_overrides={"batch": 4},
    ),
    run=zrt.RunOptions(log_severity_level="ERROR"),
    providers=["CPUExecutionProvider"],
)

ORIGIN = {"onnxruntime": "1.27.0", "zrt": "0.1.0", "graph": "0", "weights": "0", "file": "m.onnx", "processor": "0"}


# Entries of a cache, with the checksum that they should have: whoever wrote them knew how.


ENTRY = "0" * 64


def entry(data: bytes) -> None:
    place = stored(cache_entry.DIGEST(data).digest() + data, ENTRY)
    place.chmod(0o600)
    with suppress(cache.Damaged):
        cache.read(str(folder()), ENTRY, whole=True, mark=False)


def entries() -> list[bytes]:
    about = {"name": ENTRY, "graph": [cache_entry.PAGE, 4], "time": 1.0}
    return [json.dumps(about).encode().ljust(cache_entry.PAGE - cache_entry.DIGEST_SIZE) + b"onnx"]


# Libraries and traces.


def library(path: Path) -> None:
    elf.read(str(path))
    elf.is_cut(str(path))


def libraries() -> list[bytes]:
    """The smallest file with a dynamic section that names a library and a run path."""
    strings = b"\0libm.so.6\0$ORIGIN/lib\0"
    dynamic = struct.pack("<QQQQQQQQ", 1, 1, 29, 11, 5, 0x200, 0, 0)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    size = 0x200 + len(strings)
    loaded = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 4096)
    about = struct.pack("<IIQQQQQQ", 2, 4, 0x100, 0x100, 0, len(dynamic), len(dynamic), 8)
    return [((head + loaded + about).ljust(0x100, b"\0") + dynamic).ljust(0x200, b"\0") + strings]


def trace(path: Path) -> None:
    profile = zrt.Profile.read(path)
    for table in (profile.by_operator, profile.by_node, profile.by_kernel):
        table()
    for event in profile.nodes:
        _ = event.operator, event.provider, event.inputs, event.outputs, event.end_us


def traces() -> list[bytes]:
    session = zrt.Session(models.add(["n", 4]), QUIET)
    feeds = {"x": np.ones((1, 4), np.float32), "y": np.ones((1, 4), np.float32)}
    place = folder() / "example.json"
    session.profile(feeds, runs=1).write(place)
    return [place.read_bytes()]


# A server.


@functools.cache
def served() -> dict[str, zrt.Session]:
    texts = {
        "double": "(float[n, 4] x) => (float[n, 4] y) { y = Add(x, x) }",
        "strings": "(string[n] x) => (string[n] y) { y = Identity(x) }",
        "mixed": "(int64[n] i, bool[n] b, float16[2] h) => (int64[n] j, bool[n] c, float16[2] g) "
        "{ j = Identity(i) c = Not(b) g = Add(h, h) }",
    }
    return {name: zrt.Session(models.parse(text), QUIET) for name, text in texts.items()}


def request(data: bytes) -> None:
    """The first byte says the model and whether binary data follow; the next two the length of the JSON before them."""
    from zrt.serving.build import build
    from zrt.serving.parse import parse
    from zrt.serving.request_error import RequestError
    from zrt.serving.signature import Signature

    choice = data[0] if data else 0
    name = sorted(served())[choice % 3]
    session = served()[name]
    size = int.from_bytes(data[1:3], "little") if choice & 64 else None
    signature = Signature.of(session, name)
    with suppress(RequestError):
        asked = parse(data[3:], size, signature)
        results = session.run(asked.feeds)
        build(name, "1", signature, asked, dict(zip(signature.outputs, results, strict=True)))


def requests() -> list[bytes]:
    def written(choice: int, *tensors: dict[str, Any], binary: bytes = b"", **more: Any) -> bytes:
        text = json.dumps({"inputs": list(tensors), **more}).encode()
        return bytes([choice + (64 if binary else 0)]) + len(text).to_bytes(2, "little") + text + binary

    x: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    size: dict[str, Any] = {"parameters": {"binary_data_size": 16}}
    return [
        written(0, {**x, "data": [[1, 2.5, -3e9, 4]]}, id="7", parameters={"timeout": 1000000}),
        written(0, {**x, **size}, binary=bytes(16), outputs=[{"name": "y", "parameters": {"binary_data": True}}]),
        written(
            1,
            {"name": "i", "datatype": "INT64", "shape": [2], "data": [1, -2]},
            {"name": "b", "datatype": "BOOL", "shape": [2], "data": [True, False]},
            {"name": "h", "datatype": "FP16", "shape": [2], "data": [0.5, None]},
        ),
        written(2, {"name": "x", "datatype": "BYTES", "shape": [2], "data": ["a", "é"]}),
        written(
            2,
            {"name": "x", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
            binary=b"\2\0\0\0ab",
            parameters={"binary_data_output": True},
        ),
        bytes([64, 0, 0]) + bytes(32),
    ]


@dataclass(eq=False)
class Transport:
    """The server's end of a connection, whose client goes on reading."""

    written: list[bytes] = field(default_factory=list)
    closed: bool = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Records(logging.Handler):
    """Keeps the errors that the server logs: uvicorn does so with exceptions of the application."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@functools.cache
def server() -> tuple[asyncio.AbstractEventLoop, Any, Records]:
    import uvicorn

    from zrt.serving import application

    app = application(served(), timeout=5, max_body=1 << 16)
    app.load()
    config = uvicorn.Config(app, log_config=None, ws="none", lifespan="off")
    config.load()
    logger = logging.getLogger("uvicorn.error")
    logger.setLevel("ERROR")
    records = Records()
    logger.addHandler(records)
    logger.propagate = False
    return asyncio.new_event_loop(), config, records


def connection(data: bytes) -> None:
    """The client sends the bytes in two parts, waits for all answers that it may get, and goes away."""
    from uvicorn.server import ServerState

    from zrt.serving.connection import Connection

    loop, config, records = server()

    async def converse() -> None:
        there, transport = ServerState(), Transport()
        made: Any = Connection(config, there, {}, loop)
        made.connection_made(transport)
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            if not transport.closed:
                made.data_received(part)
            # Of a request that is not whole nothing more comes.
            for _ in range(200):
                if not any(each.response_started or each.message_event.is_set() for each in made._requests):
                    break
                await asyncio.sleep(0)
        made.connection_lost(None)
        await asyncio.wait_for(asyncio.gather(*there.tasks), 10)
        assert not any(each.startswith(b"HTTP/1.1 500") for each in transport.written), transport.written
        assert not records.texts, records.texts

    loop.run_until_complete(converse())


def connections() -> list[bytes]:
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}).encode()
    posted = b"POST /v2/models/double/infer HTTP/1.1\r\nHost: a\r\n"
    whole = posted + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunked = posted + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    asked = [b"GET /v2/models/mixed HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /metrics HTTP/1.0\r\n\r\n"]
    return [whole, whole + chunked, *asked, asked[0].replace(b"\r\n\r\n", b"\r\nUpgrade: h2c\r\n\r\n") + whole]


READERS: dict[str, Reader] = {
    "model": Reader(model, valid_models),
    "model beside weights": Reader(model_beside_weights, outside),
    "state": Reader(state, states),
    "adapter": Reader(read_lora_adapter, adapters),
    "capsule": Reader(in_file("capsule", capsule), capsules_of_runs, most=1 << 14),
    "options JSON": Reader(options(zrt.Options.from_json), lambda: [DOCUMENT.to_json().encode()]),
    "options TOML": Reader(options(zrt.Options.from_toml), lambda: [DOCUMENT.to_toml().encode()]),
    "origin": Reader(
        options(lambda text: origin.why_stale(text, str(folder() / "made.onnx"))), lambda: [json.dumps(ORIGIN).encode()]
    ),
    "entry of a cache": Reader(entry, entries),
    "library": Reader(in_file("library.so", library), libraries),
    "trace": Reader(in_file("trace.json", trace), traces, most=1 << 14),
    "request": Reader(request, requests, ("starlette", "uvicorn", "prometheus_client")),
    "connection": Reader(connection, connections, ("starlette", "uvicorn", "prometheus_client", "httptools")),
}


def takes(name: str, data: bytes) -> bool:
    """Whether the reader takes the bytes; it raises what is a fault."""
    try:
        READERS[name].read(data)
    except zrt.Error:
        return False
    return True


INPUTS = Path(__file__).parent / "inputs"


def kept(name: str) -> list[bytes]:
    """The inputs that fuzzing found to reach different code, and those that showed a fault: a line of base64 each."""
    place = INPUTS / f"{name.replace(' ', '-').lower()}.txt"
    return [base64.b64decode(line) for line in place.read_text().splitlines()] if place.exists() else []
