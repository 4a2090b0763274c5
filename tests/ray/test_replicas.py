"""The application on replicas of both nodes answers as it does on one machine."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from importlib.resources import files
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="needs the packages of the extra ray")

import ray
from ray import serve
from ray.serve.context import _get_global_client

import zrt
import zrt.ray
from tests.serving.conftest import Client, Server
from tests.serving.test_connection import check_unclear_ends
from tests.serving.wire import steps
from tests.support import models
from tests.support.models import ENDLESS, LOOP
from zrt import errors
from zrt.serving import Application, application

DIGITS = str(files("zrt.models") / "digits.onnx")
ONE_THREAD = zrt.SessionOptions(intra_op_num_threads=1)


def spec(text: str) -> zrt.SessionSpec:
    return zrt.SessionSpec(models.parsed(text), ONE_THREAD)


DOUBLE = spec("(float[n, 4] x) => (float[n, 4] y) { y = Add(x, x) }")
COPY = spec("(float[n] x) => (float[n] y) { y = Identity(x) }")


def rows(*values: list[float]) -> list[dict[str, Any]]:
    return [{"name": "x", "datatype": "FP32", "shape": [len(values), 4], "data": list(values)}]


class Cluster(Client):
    """Replicas on the cluster, and a client for the proxies."""

    def replicas(self) -> list[dict[str, Any]]:
        """The replicas that Ray Serve knows."""
        details = _get_global_client().get_serve_details()
        deployments = details["applications"].get("app", {"deployments": {}})["deployments"]
        return [replica for one in deployments.values() for replica in one["replicas"]]

    def taken(self) -> list[int]:
        """The requests that each replica has."""
        actors = [ray.get_actor(one["actor_name"], namespace="serve") for one in self.replicas()]
        return [ray.get(actor.get_num_ongoing_requests.remote(), timeout=30) for actor in actors]

    def peaks(self) -> dict[int, int]:
        """The most bytes that each replica has had so far, by its process."""
        lines = {one["pid"]: Path(f"/proc/{one['pid']}/status").read_text() for one in self.replicas()}
        return {process: int(text.split("VmHWM:")[1].split()[0]) << 10 for process, text in lines.items()}

    def whole(self, count: int, ended: int) -> bool:
        """Whether that many replicas run, none of which is the process that ended."""
        found = self.replicas()
        return [one["state"] for one in found] == ["RUNNING"] * count and ended not in [one["pid"] for one in found]

    def send(self, turns: int) -> http.client.HTTPConnection:
        """A request whose answer nobody reads."""
        connection = self.connect()
        connection.request("POST", "/v2/models/loop/infer", json.dumps({"inputs": steps(turns)}))
        return connection


@pytest.fixture(scope="module")
def port(cluster: Any) -> Iterator[int]:
    """The port at which the proxies of both nodes listen."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield port
    serve.shutdown()


@pytest.fixture
def run(port: int) -> Iterator[Callable[..., Cluster]]:
    """Deploys an application: `run(application, replicas=2)`."""

    def run(app: Application, **chosen: Any) -> Cluster:
        serve.run(zrt.ray.deployment(app, **chosen).bind(), name="app")
        return Cluster(port)

    yield run
    serve.delete("app")


def infer(document: Any, binary: bytes = b"", **headers: str) -> tuple[str, str, bytes, dict[str, str]]:
    text = json.dumps(document).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if binary:
        given["Inference-Header-Content-Length"] = str(len(text))
    return "POST", "/v2/models/digits/infer", text + binary, given


@pytest.fixture(scope="class")
def app() -> Application:
    """The models of the tests that ask both nodes."""
    return application({"digits": DIGITS, "double": {"1": DOUBLE, "2": DOUBLE}, "copy": COPY}, max_body=9 << 20)


@pytest.fixture(scope="class")
def there(port: int, app: Application) -> Iterator[Cluster]:
    """The application on both nodes."""
    serve.run(zrt.ray.deployment(app, replicas=2, per_node=1).bind(), name="app")
    yield Cluster(port)
    serve.delete("app")


@pytest.fixture(scope="class")
def here(app: Application, eventually: Any) -> Iterator[Server]:
    """The same application in this process."""
    server = Server(app)
    server.start()
    eventually(lambda: server.started)
    yield server
    server.end()


class TestBothNodes:
    def test_each_node_has_a_replica(self, there: Cluster) -> None:
        nodes = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        assert {one["node_id"] for one in there.replicas()} == nodes
        assert len(nodes) == len({one["pid"] for one in there.replicas()}) == 2

    def test_every_answer_is_that_of_the_local_application(self, there: Cluster, here: Server) -> None:
        image = np.linspace(0, 1, 64, dtype=np.float32)
        tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8]}
        plain = {"inputs": [{**tensor, "data": image.tolist()}], "id": "a"}
        sized = {"inputs": [{**tensor, "parameters": {"binary_data_size": 256}}]}
        binary = {**sized, "parameters": {"binary_data_output": True}}
        packed = gzip.compress(json.dumps(plain).encode())
        asked: list[tuple[Any, ...]] = [
            *(("GET", path) for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/digits")),
            *(("GET", f"/v2/models/{name}") for name in ("double/versions/1", "double/ready", "copy/versions/1/ready")),
            *(("GET", path) for path in ("/", "/v3", "/v2/models/none", "/v2/models/double/versions/3")),
            ("POST", "/v2"),
            ("GET", "/v2/models/digits/infer"),
            infer(plain),
            infer(sized, image.tobytes()),
            infer(binary, image.tobytes()),
            infer(binary, image.tobytes(), Accept_Encoding="gzip"),
            ("POST", "/v2/models/digits/infer", packed, {"Content-Encoding": "gzip"}),
            infer(plain, Content_Encoding="br"),
            infer(plain, Inference_Timeout="soon"),
            infer({"inputs": []}),
            ("POST", "/v2/models/digits/infer", b"{"),
            ("POST", "/v2/models/digits/infer", b" " * (9 << 20) + b" "),
        ]
        # Each answer comes from a replica that Ray chooses.
        for _ in range(2):
            for request in asked:
                wanted, got = here.ask(*request), there.ask(*request)
                assert (got.status, got.body) == (wanted.status, wanted.body), request
                # Ray's proxies leave out the length of an answer that they pass on in parts.
                # The methods of an address stand in any order.
                assert set(got.headers.get("allow", "").split(", ")) == set(wanted.headers.get("allow", "").split(", "))
                shown = {name for name in wanted.headers if name not in ("allow", "content-length", "date")}
                assert {name: got.headers.get(name) for name in shown} == {name: wanted.headers[name] for name in shown}
        described = [
            [line for line in metrics(one).splitlines() if line.startswith("# HELP zrt_")] for one in (here, there)
        ]
        assert described[0] == described[1] != []

    def test_large_binary_data_come_back_bit_by_bit(self, there: Cluster) -> None:
        data = np.random.default_rng(0).bytes(8 << 20)
        tensor = {"name": "x", "datatype": "FP32", "shape": [2 << 20], "parameters": {"binary_data_size": 8 << 20}}
        text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        answer = there.ask(
            "POST", "/v2/models/copy/infer", text + data, {"Inference-Header-Content-Length": str(len(text))}
        )
        assert answer.status == 200, answer.body[:200]
        assert answer.body[int(answer.headers["inference-header-content-length"]) :] == data

    def test_requests_with_unclear_ends_are_refused(self, there: Cluster) -> None:
        check_unclear_ends(there.port, "double")

    def test_bodies_that_are_too_large_take_no_memory(self, there: Cluster) -> None:
        path, size = "/v2/models/copy/infer", 400 << 20
        bomb = gzip.compress(bytes(size), 1)
        before = there.peaks()
        # Each request reaches a replica that chance chooses.
        for _ in range(4):
            assert there.ask("POST", path, bomb, {"Content-Encoding": "gzip"}).status == 413
        for process, peak in there.peaks().items():
            assert peak - before[process] < size // 2
        # Ray itself keeps parts of such a body that its replica has not read.
        with closing(there.connect()) as connection:
            connection.request("POST", path, repeat(bytes(1 << 20), size >> 20), encode_chunked=True)
            assert connection.getresponse().status == 413

    def test_clients_that_do_not_go_on_keep_nobody_waiting(
        self, there: Cluster, eventually: Callable[..., None]
    ) -> None:
        head = b"POST /v2/models/double/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\n"
        with ExitStack() as clients:
            for number in range(200):
                client = clients.enter_context(socket.create_connection(("127.0.0.1", there.port), timeout=60))
                client.sendall((head + b" " * 99)[: number % 150])
            assert there.infer("double", rows([1, 2, 3, 4])).json["outputs"][0]["data"] == [2, 4, 6, 8]
        eventually(lambda: there.taken() == [0, 0])

    @pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
    def test_triton_client(self, there: Cluster, binary: bool) -> None:
        triton = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed: --group serving")
        images = np.random.default_rng(0).random((5, 1, 8, 8), np.float32)
        wanted = zrt.infer(DIGITS, [images])[0]
        with triton.InferenceServerClient(there.address, concurrency=8) as client:
            assert client.is_server_ready()
            assert client.get_model_metadata("digits")["inputs"][0]["shape"] == [-1, 1, 8, 8]
            sent = []
            for index in range(40):
                image = triton.InferInput("image", [1, 1, 8, 8], "FP32")
                image.set_data_from_numpy(images[[index % 5]], binary_data=binary)
                output = triton.InferRequestedOutput("probabilities", binary_data=binary)
                sent.append(client.async_infer("digits", [image], outputs=[output], request_id=str(index)))
            for index, one in enumerate(sent):
                result = one.get_result()
                assert result.get_response()["id"] == str(index)
                assert np.allclose(result.as_numpy("probabilities"), wanted[[index % 5]], atol=1e-6)


def test_full_replica_refuses_and_forgets_clients_that_leave(
    run: Callable[..., Cluster], eventually: Callable[..., None]
) -> None:
    there = run(application({"loop": spec(LOOP)}, max_queue=2, max_batch=1, lanes=1))
    sent = [there.send(int(ENDLESS))]
    eventually(lambda: there.taken() == [1])
    sent += [there.send(int(ENDLESS)) for _ in range(2)]
    eventually(lambda: 'zrt_waiting_requests{model="loop",version="1"} 2.0' in metrics(there))
    answer = there.infer("loop", steps(1))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "2 requests wait already" in answer.json["error"]
    for connection in sent:
        connection.close()
    eventually(lambda: there.taken() == [0])
    assert there.infer("loop", steps(1)).status == 200


def metrics(there: Client) -> str:
    return there.ask("GET", "/metrics").body.decode()


def test_deadline_ends_a_run(run: Callable[..., Cluster]) -> None:
    there = run(application({"loop": spec(LOOP)}))
    answer = there.infer("loop", steps(int(ENDLESS)), {"Inference-Timeout": "200000"})
    assert (answer.status, "deadline" in answer.json["error"]) == (504, True)


def test_deletion_answers_the_requests_in_progress(
    run: Callable[..., Cluster], eventually: Callable[..., None]
) -> None:
    there = run(application({"loop": spec(LOOP)}, lanes=1), replicas=2, per_node=1)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(there.infer, "loop", steps(500_000)) for _ in range(6)]
        eventually(lambda: sum(there.taken()) == 6 or any(one.done() for one in asked))
        assert not any(one.done() for one in asked)
        serve.delete("app")
        assert [one.result(60).json["outputs"][0]["data"] for one in asked] == [[0]] * 6
    assert there.infer("loop", steps(1)).status == 404


def test_killed_replica_loses_no_request(run: Callable[..., Cluster], eventually: Callable[..., None]) -> None:
    """Endless requests are on both replicas when one is killed, and eight clients ask all the time."""
    there = run(application({"loop": spec(LOOP), "double": DOUBLE}), replicas=2, per_node=1)
    stop = threading.Event()
    counts = Counter[int]()

    def ask(number: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            answer = there.infer("double", rows([number, turn, 0, 1]))
            counts[answer.status] += 1
            counts[-1 - number] += 1
            if answer.status == 200:
                assert answer.json["outputs"][0]["data"] == [2 * number, 2 * turn, 0, 2]
            else:
                # Ray's proxy says 500 for a request that the dead replica had, and 503 for one that finds no other.
                assert answer.status in (500, 503), answer

    def answers(more: int) -> Callable[[], bool]:
        before = counts.copy()
        return lambda: all(counts[-1 - number] >= before[-1 - number] + more for number in range(8))

    with ThreadPoolExecutor(40) as pool:
        endless = []
        try:
            while not (endless and all(there.taken())):
                assert len(endless) < 16
                headers = {"Inference-Timeout": str(20_000_000)}
                endless.append(pool.submit(there.infer, "loop", steps(int(ENDLESS)), headers))
                eventually(lambda: sum(there.taken()) == len(endless))
            lost = there.taken()[0]
            victim = there.replicas()[0]
            clients = [pool.submit(ask, number) for number in range(8)]
            eventually(answers(5))
            os.kill(victim["pid"], signal.SIGKILL)
            eventually(lambda: sum(one.done() for one in endless) >= lost)
            eventually(lambda: there.whole(2, victim["pid"]))
            eventually(answers(20))
        finally:
            stop.set()
        for client in clients:
            client.result(60)
        statuses = Counter(one.result(90).status for one in endless)
    assert statuses == {500: lost, 504: len(endless) - lost}
    assert counts[200] > 0
    assert sum(count for key, count in counts.items() if key > 0) == sum(counts[-1 - number] for number in range(8))
    assert {one["node_id"] for one in there.replicas()} == {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    for turn in range(20):
        assert there.infer("double", rows([turn, 0, 0, 0])).json["outputs"][0]["data"] == [2 * turn, 0, 0, 0]


class TestDeployment:
    def test_ray_gets_what_was_asked(self) -> None:
        app = application({"a": DOUBLE, "b": {"1": DOUBLE, "2": DOUBLE}}, max_queue=10, lanes=3, max_batch=4)
        assert app.capacity == 3 * (10 + 3 * 4)
        made = zrt.ray.deployment(app, replicas=3, per_node=2, cpus=0.5, gpus=1, grace=7)
        assert made.num_replicas == 3
        assert made._replica_config.max_replicas_per_node == 2
        assert made.ray_actor_options == {"num_cpus": 0.5, "num_gpus": 1}
        assert made._deployment_config.graceful_shutdown_timeout_s == 7
        assert made.max_ongoing_requests == 2 * app.capacity

    # Ray Serve gives the class a destructor that is a coroutine.
    @pytest.mark.filterwarnings("ignore:coroutine .*__del__' was never awaited:RuntimeWarning")
    def test_replica_is_healthy_until_its_application_is_closed(self) -> None:
        app = application({"m": DOUBLE})
        kind = zrt.ray.deployment(app).func_or_class

        async def live() -> None:
            replica = kind.__new__(kind)
            await replica.__init__()
            await replica.check_health()
            app.close()
            with pytest.raises(RuntimeError, match="closed"):
                await replica.check_health()

        asyncio.run(live())

    def test_session_cannot_travel(self) -> None:
        with zrt.Session(DIGITS) as session, pytest.raises(errors.NotCopyableError, match="SessionSpec"):
            zrt.ray.deployment(application({"m": session}))

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"replicas": 0}, "replicas"),
            ({"replicas": "2"}, "replicas"),
            ({"per_node": 0}, "per_node"),
            ({"per_node": 101}, "per_node"),
            ({"cpus": 0.00001}, "^cpus"),
            ({"cpus": -1}, "cpus"),
            ({"cpus": float("nan")}, "cpus"),
            ({"gpus": "1"}, "gpus"),
            ({"gpus": True}, "gpus"),
            ({"gpus": 1.5}, "^gpus"),
            ({"grace": -1}, "grace"),
        ],
        ids=str,
    )
    def test_wrong_argument_is_named(self, wrong: dict[str, Any], words: str) -> None:
        with pytest.raises(errors.Error, match=words):
            zrt.ray.deployment(application({"m": DOUBLE}), **wrong)

    def test_other_applications_are_refused(self) -> None:
        with pytest.raises(errors.Error, match="an Application of"):
            zrt.ray.deployment(lambda: None)  # type: ignore[arg-type]

    def test_too_many_bytes_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from zrt.ray import replicas

        monkeypatch.setattr(replicas, "MAX_BYTES", 100)
        with pytest.raises(errors.ArgumentError, match="that all nodes share"):
            zrt.ray.deployment(application({"m": DOUBLE}))


def test_budget_of_a_replica_is_its_cpus(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    # Before the variable, which must not set a budget for this process.
    zrt.Environment()
    monkeypatch.setenv("ZRT_CPUS", "auto")
    replica = zrt.ray.deployment(app, cpus=2.5).func_or_class
    replica.__mro__[1].__init__(None)  # type: ignore[misc]
    assert os.environ["ZRT_CPUS"] == "2"
