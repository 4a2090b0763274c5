"""`zrt serve --ray`, and the service that it starts."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the packages of the extra ray")

import ray
from ray import serve

import zrt.ray
from tests.ray.test_replicas import DIGITS, DOUBLE
from tests.serving.conftest import Client
from tests.serving.wire import steps
from tests.support import models, processes
from tests.support.models import LOOP
from zrt.ray import service
from zrt.ray.service import Http, Service, ServiceError
from zrt.serving import application


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def start(cluster: Any, port: int) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``zrt serve --ray --json`` on the cluster."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object, address: str = cluster.address) -> subprocess.Popen[str]:
        words = ["--json", "--port", port, *arguments, "--ray", address]
        process = subprocess.Popen(
            [sys.executable, "-m", "zrt", "serve", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**processes.environment(), "RAY_USAGE_STATS_ENABLED": "0"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()
    # Where the test failed, its service is there still.
    if serve_actors():
        serve.shutdown()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=90)
    assert out == ""
    return process.returncode, err


def serve_actors() -> set[str]:
    """The actors of Ray Serve on the cluster; its own calls fail after another process has shut it down."""
    return {one["name"] for one in ray.util.list_named_actors(all_namespaces=True) if one["namespace"] == "serve"}


class TestCommand:
    def test_sigterm_answers_the_requests_in_progress_and_leaves_the_cluster(
        self, start: Callable[..., Any], port: int, tmp_path: Path, eventually: Callable[..., None]
    ) -> None:
        path = tmp_path / "loop.onnx"
        path.write_bytes(models.parse(LOOP))
        chosen = ("--replicas", 2, "--per-node", 1, "--lanes", 1, "--route-prefix", "/a", "--send", "--grace", 60)
        process = start(path, f"digits={DIGITS}", *chosen)
        document = processes.document(process)
        assert document == {"addresses": [f"http://127.0.0.1:{port}/a"], "models": ["loop", "digits"]}
        # The replicas have the models' bytes.
        path.unlink()
        client = Client(port)
        with ThreadPoolExecutor(4) as pool:
            handles = [ray.get_actor(name, namespace="serve") for name in serve_actors() if "::zrt#" in name]
            assert len(handles) == 2
            # A run takes a second or more, and asking the replicas how many requests they have some milliseconds.
            ask = {"inputs": steps(2_000_000)}
            asked = [pool.submit(client.ask, "POST", "/a/v2/models/loop/infer", ask) for _ in range(4)]

            def taken() -> int:
                return sum(ray.get([one.get_num_ongoing_requests.remote() for one in handles], timeout=30))

            eventually(lambda: taken() == 4 or any(one.done() for one in asked))
            assert [one.result() for one in asked if one.done()] == []
            process.send_signal(signal.SIGTERM)
            assert [one.result(90).json["outputs"][0]["data"] for one in asked] == [[0]] * 4
        code, err = ended(process)
        # Ray's core says that its log is quiet.
        assert (code, [line for line in err.splitlines() if "RAY_BACKEND_LOG_LEVEL" not in line]) == (0, [])
        eventually(lambda: not serve_actors())
        assert len([node for node in ray.nodes() if node["Alive"]]) == 2

    def test_ctrl_c_ends_a_start(self, start: Callable[..., Any], eventually: Callable[..., None]) -> None:
        process = start("--cpus", 99, "--grace", 1)
        eventually(lambda: "SERVE_CONTROLLER_ACTOR" in serve_actors())
        process.send_signal(signal.SIGINT)
        code, err = ended(process)
        assert (code, "Traceback" in err) == (130, False)
        eventually(lambda: not serve_actors())

    def test_missing_model_is_named(self, start: Callable[..., Any], eventually: Callable[..., None]) -> None:
        code, err = ended(start("/no/such.onnx"))
        assert code == 1
        assert "/no/such.onnx" in err
        assert "Traceback" not in err
        eventually(lambda: not serve_actors())

    def test_missing_cluster_is_a_quick_complaint(self, start: Callable[..., Any]) -> None:
        begin = time.monotonic()
        code, err = ended(start(address="127.0.0.1:1"))
        assert (code, "no cluster of Ray at '127.0.0.1:1'" in err) == (1, True), err
        assert time.monotonic() - begin < 30


class TestService:
    @pytest.fixture
    def service(self, cluster: Any) -> Iterator[Service]:
        service = Service("mine", "/mine")
        yield service
        service.end(5)
        assert "mine" not in serve.status().applications
        assert "zrt-ray-serve" not in [thread.name for thread in threading.enumerate()]

    @pytest.fixture
    def http(self, port: int) -> Http:
        return Http("127.0.0.1", port, 60.0)

    @pytest.fixture
    def other(self, cluster: Any, port: int) -> Iterator[None]:
        """An application of somebody else, who started Ray Serve."""
        serve.start(http_options={"host": "0.0.0.0", "port": port})
        serve.run(zrt.ray.deployment(application({"m": DOUBLE})).bind(), name="other", route_prefix="/other")
        yield
        assert list(serve.status().applications) == ["other"]
        serve.shutdown()

    def test_other_applications_stay(self, other: None, port: int) -> None:
        service = Service("mine", "/mine")
        deployment = zrt.ray.deployment(application({"m": DOUBLE}))
        addresses = service.start(deployment, Http(None, None, None), 60, threading.Event())
        assert addresses == [
            f"http://{node}:{port}/mine" for node in {one["NodeManagerAddress"] for one in ray.nodes()}
        ]
        client = Client(port)
        for prefix in ("/mine", "/other"):
            assert client.ask("GET", f"{prefix}/v2/models/m/ready").status == 200
        service.check()
        for name, prefix, words in (
            ("mine", "/new", "has an application 'mine' already"),
            ("new", "/other", 'Prefix /other is being used by application "other"'),
        ):
            refused = Service(name, prefix)
            with pytest.raises(ServiceError, match=words):
                refused.start(deployment, Http(None, port, None), 60, threading.Event())
            refused.end(5)
        with pytest.raises(ServiceError, match=f"0.0.0.0, port {port}: port 1 is not possible"):
            Service("new", "/new").start(deployment, Http(None, 1, None), 60, threading.Event())
        assert client.ask("GET", "/mine/v2/models/m/ready").status == 200
        service.end(5)
        assert client.ask("GET", "/other/v2/models/m/ready").status == 200
        assert client.ask("GET", "/mine/v2/models/m/ready").status == 404
        with pytest.raises(ServiceError, match="somebody deleted the application 'mine'"):
            service.check()

    def test_too_few_processors_end_the_start(self, service: Service, http: Http) -> None:
        deployment = zrt.ray.deployment(application({"m": DOUBLE}), cpus=99, grace=1)
        with pytest.raises(ServiceError, match="did not start in 2 seconds"):
            service.start(deployment, http, 2, threading.Event())

    def test_cluster_that_does_not_answer_is_an_error(self, cluster: Any) -> None:
        from zrt.ray import service

        ever = threading.Event()
        with pytest.raises(ServiceError, match=r"did not answer in 0\.1 seconds"):
            service._answer(ever.wait, 0.1)
        ever.set()


def test_proxies_give_a_request_longer_than_replicas() -> None:
    assert Http(None, 1, 2.0).options() == {"port": 1, "request_timeout_s": 3.0}
    assert Http("::", None, None).options() == {"host": "::"}


class TestProxies:
    """A proxy learns of an application a moment after its replicas are ready, and answers 404 until then."""

    @pytest.fixture
    def answers(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str] | None]:
        """The answers of the proxies, in turn; the last one again and again."""
        answers: list[dict[str, str] | None] = []
        monkeypatch.setattr(service, "POLL_S", 0.001)
        monkeypatch.setattr(service, "_routes", lambda _: answers.pop(0) if len(answers) > 1 else answers[0])
        return answers

    @pytest.fixture
    def proxies(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
        """Sets how many there are."""
        return lambda count: monkeypatch.setattr(
            service, "_answer", lambda call: SimpleNamespace(proxies=dict.fromkeys(range(count)))
        )

    @staticmethod
    def wait(within: float = 60, stop: threading.Event | None = None) -> None:
        until = time.monotonic() + within
        Service("mine", "/mine")._wait_for_proxies(["http://127.0.0.1:1/mine"], until, stop or threading.Event())

    def test_one_is_asked_until_it_knows_the_application(self, answers: list[Any], proxies: Any) -> None:
        proxies(1)
        answers += [{}, {"/mine": "other"}, {"/mine": "mine"}, {}]
        self.wait()
        assert answers == [{}]

    def test_those_that_share_a_port_are_asked_many_times(self, answers: list[Any], proxies: Any) -> None:
        proxies(2)
        known = {"/mine": "mine"}
        answers += [known, {}, *[known] * (2 * service.ASKED_EACH), {}]
        self.wait()
        assert answers == [{}]

    def test_one_that_is_not_reached_is_left_alone(self, answers: list[Any], proxies: Any) -> None:
        proxies(1)
        answers.append(None)
        self.wait()

    def test_too_long_is_an_error_and_a_stop_is_none(self, answers: list[Any], proxies: Any) -> None:
        proxies(1)
        answers.append({})
        with pytest.raises(ServiceError, match="did not learn of the application"):
            self.wait(0)
        stopped = threading.Event()
        stopped.set()
        self.wait(60, stopped)


@pytest.mark.parametrize(
    ("status", "body", "routes"),
    [
        (200, b'{"/mine": "mine"}', {"/mine": "mine"}),
        (503, b"not yet", {}),
        (200, b"another program", None),
    ],
)
def test_routes_are_read_from_a_proxy(status: int, body: bytes, routes: Any) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/-/routes"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/mine"
        assert service._routes(address) == routes
        thread.join()
    assert service._routes(address) is None
