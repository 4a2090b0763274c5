"""Fixtures of the tests of serving: models, metrics that count, and a server in a thread."""

import http.client
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import zrt
from zrt.serving import Application, application
from zrt.serving.batches import Job


@pytest.fixture
def double(load: Callable[..., zrt.Session]) -> zrt.Session:
    """`y = x + x` over float32 [n, 4]."""
    return load("(float[n, 4] x) => (float[n, 4] y) { y = Add(x, x) }")


@pytest.fixture
def pick(load: Callable[..., zrt.Session]) -> zrt.Session:
    """`y = table[i]` over int64 [n], for a table of 3 numbers: other indices fail."""
    return load("(int64[n] i) => (float[n] y) <float[3] t = {10, 20, 30}> { y = Gather(t, i) }")


@pytest.fixture
def strings(load: Callable[..., zrt.Session]) -> zrt.Session:
    """`y = x` over strings [n]."""
    return load("(string[n] x) => (string[n] y) { y = Identity(x) }")


@pytest.fixture
def quits(build: Callable[..., Any]) -> zrt.Session:
    """`y = x` over float32 [n], whose operator calls `sys.exit` for a negative number."""

    class Quits(zrt.CustomOp):
        inputs = outputs = ("float32",)

        def compute(self, context: Any) -> None:
            (x,) = context.inputs
            if (x < 0).any():
                sys.exit("a negative number")
            context.output(0, x.shape)[...] = x

    model = build("(float[n] x) => (float[n] y) { y = own.Quits(x) }")
    model.opset_import.add(domain="own", version=1)
    return zrt.Session(
        model, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain("own", [Quits()])], log_severity_level="FATAL")
    )


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A plain client for a server at a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.address = f"127.0.0.1:{port}"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request on a connection of its own; a body that is no bytes is written as JSON."""
        connection = self.connect()
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """The value of each metric, by its name with its labels."""
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def taken(self, name: str) -> float:
        """The requests of a model that its threads have taken."""
        return self.metrics()[f'zrt_queue_seconds_count{{model="{name}",version="1"}}']

    def infer(self, name: str, tensors: list[dict[str, Any]], headers: Any = None, **more: Any) -> Answer:
        return self.ask("POST", f"/v2/models/{name}/infer", {"inputs": tensors, **more}, headers)


class Server(Client):
    """A server in a thread, and a client for it."""

    def __init__(self, app: Application) -> None:
        import uvicorn

        from zrt.serving import server

        self.application = app
        self._listening = server.listen("127.0.0.1", 0)
        super().__init__(self._listening.getsockname()[1])
        self._uvicorn = uvicorn.Server(server.configuration(app, None, False))
        self._thread = threading.Thread(target=self._uvicorn.run, kwargs={"sockets": [self._listening]}, daemon=True)

    @property
    def started(self) -> bool:
        return self._uvicorn.started or not self._thread.is_alive()

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._uvicorn.server_state.connections)

    def start(self) -> None:
        self._thread.start()

    def ask_to_end(self) -> None:
        self._uvicorn.should_exit = True

    def end(self) -> None:
        self.ask_to_end()
        self._thread.join(60)
        self._listening.close()
        assert not self._thread.is_alive()


@pytest.fixture
def serve(eventually: Callable[..., None]) -> Iterator[Callable[..., Server]]:
    """Serves models: `serve({"name": session}, max_batch=4)`."""
    for package in ("starlette", "uvicorn", "httptools", "prometheus_client"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install --group serving")
    running: list[Server] = []

    def start(models: Any, **settings: Any) -> Server:
        server = Server(application(models, **settings))
        running.append(server)
        server.start()
        eventually(lambda: server.started)
        assert server.application.ready
        return server

    yield start
    for server in running:
        server.end()


class Counted:
    """Metrics that count in place of Prometheus's."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.hits: list[bool] = []

    def ran(self, rows: int, seconds: float, hit: bool) -> None:
        assert seconds >= 0
        self.rows.append(rows)
        self.hits.append(hit)

    def computed(self, rows: int, copying: float, running: float, writing: float) -> None:
        assert min(copying, running, writing) >= 0


@pytest.fixture
def counted() -> Counted:
    """Metrics that count."""
    return Counted()


class Waiting:
    """Stands in for the future of a client that waits, or has given up."""

    def __init__(self) -> None:
        self.given_up = False

    def done(self) -> bool:
        return self.given_up


def job(feeds: dict[str, Any] | None = None, rows: int = 1, key: Any = "shapes") -> Any:
    """A job; its value is a copy of its results."""

    def finish(results: dict[str, Any]) -> dict[str, Any]:
        return {name: array.copy() for name, array in results.items()}

    return Job(feeds or {}, finish, Waiting(), rows, key)
