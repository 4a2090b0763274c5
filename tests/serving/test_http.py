"""The server over HTTP: addresses, statuses, limits, deadlines, metrics, and its end."""

import asyncio
import contextlib
import gzip
import json
import signal
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.serving.conftest import Server
from zrt.diagnosis import capsules
from zrt.serving import application


def floats(*rows: list[float]) -> list[dict[str, Any]]:
    return [{"name": "x", "datatype": "FP32", "shape": [len(rows), len(rows[0])], "data": list(rows)}]


def endless(steps: int = 2**62) -> list[dict[str, Any]]:
    return [
        {"name": "n", "datatype": "INT64", "shape": [], "data": [steps]},
        {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]},
    ]


EXTENSIONS = ["binary_tensor_data", "model_configuration", "statistics"]
METADATA = {
    "name": "m",
    "versions": ["1"],
    "platform": "onnxruntime_onnx",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
}


@pytest.fixture
def server(serve: Callable[..., Server], double: zrt.Session) -> Server:
    return serve({"m": double})


class TestAddresses:
    @pytest.mark.parametrize(
        ("path", "document"),
        [
            ("/v2/health/live", {"live": True}),
            ("/v2/health/ready", {"ready": True}),
            ("/v2/models/m/ready", {"name": "m", "ready": True}),
            ("/v2/models/m/versions/1/ready", {"name": "m", "ready": True}),
            ("/v2", {"name": "zrt", "version": zrt.__version__, "extensions": EXTENSIONS}),
            ("/v2/models/m", METADATA),
            ("/v2/models/m/versions/1", METADATA),
        ],
    )
    def test_server_and_model_describe_themselves(self, server: Server, path: str, document: Any) -> None:
        answer = server.ask("GET", path)
        assert (answer.status, answer.json) == (200, document)

    def test_versions_are_apart(
        self, serve: Callable[..., Server], double: zrt.Session, load: Callable[..., zrt.Session]
    ) -> None:
        negate = load("(float[n, 4] x) => (float[n, 4] y) { y = Neg(x) }")
        server = serve({"m": {"1": double, "beta": negate}})
        body = {"inputs": floats([1, 2, 3, 4])}
        for path, version, wanted in (
            ("/versions/1", "1", [2, 4, 6, 8]),
            ("/versions/beta", "beta", [-1, -2, -3, -4]),
            ("", "beta", [-1, -2, -3, -4]),
        ):
            answer = server.ask("POST", f"/v2/models/m{path}/infer", body).json
            assert (answer["model_version"], answer["outputs"][0]["data"]) == (version, wanted)
        assert server.ask("GET", "/v2/models/m").json["versions"] == ["1", "beta"]

    @pytest.mark.parametrize(
        ("method", "path", "status", "words"),
        [
            ("GET", "/v2/models/q", 404, "'q'"),
            ("GET", "/v2/models/q/ready", 404, "'q'"),
            ("POST", "/v2/models/q/infer", 404, "'q'"),
            ("POST", "/v2/models/m/versions/2/infer", 404, "'2'; it has '1'"),
            ("GET", "/v3", 404, "/v3"),
            ("GET", "/", 404, "/"),
            ("GET", "/v2/models/m/infer", 405, "GET"),
            ("POST", "/v2", 405, "POST"),
            ("POST", "/v2/models/m/infer", 400, "JSON"),
        ],
    )
    def test_wrong_address_gets_an_error(self, server: Server, method: str, path: str, status: int, words: str) -> None:
        answer = server.ask(method, path, b"" if method == "POST" else None)
        assert answer.status == status
        assert list(answer.json) == ["error"]
        assert words in answer.json["error"]


class TestInfer:
    def test_chosen_outputs_come_in_the_asked_order(
        self, serve: Callable[..., Server], load: Callable[..., zrt.Session]
    ) -> None:
        text = "(float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Neg(x) b = Abs(x) c = Add(x, x) }"
        server = serve({"m": load(text)})
        tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [-3]}
        answer = server.infer("m", [tensor], outputs=[{"name": "c"}, {"name": "a"}], id="42")
        assert [(one["name"], one["data"]) for one in answer.json["outputs"]] == [("c", [-6]), ("a", [3])]
        assert answer.json["id"] == "42"

    def test_many_clients_get_their_own_answers(self, serve: Callable[..., Server], double: zrt.Session) -> None:
        server = serve({"m": double}, max_wait=500, max_batch=8)

        def ask(index: int) -> None:
            answer = server.infer("m", floats(*[[index, row, 0, 1] for row in range(1 + index % 3)]))
            data = np.reshape(answer.json["outputs"][0]["data"], (-1, 4))
            assert data.tolist() == [[2 * index, 2 * row, 0, 2] for row in range(1 + index % 3)]

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(200)))
        assert server.metrics()['zrt_batch_rows_count{model="m",version="1"}'] < 200

    def test_bad_request_among_others_does_not_spoil_them(
        self, serve: Callable[..., Server], pick: zrt.Session
    ) -> None:
        server = serve({"m": pick}, max_wait=2000, max_batch=32)

        def ask(index: int) -> tuple[int, Any]:
            tensor = {"name": "i", "datatype": "INT64", "shape": [1], "data": [index]}
            answer = server.infer("m", [tensor])
            return answer.status, answer.json

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, [0, 1, 2, 9] * 20))
        for index, (status, document) in enumerate(answers):
            if index % 4 == 3:
                assert status == 400
                assert "9" in document["error"]
            else:
                assert (status, document["outputs"][0]["data"]) == (200, [10 * (index % 4 + 1)])

    def test_inputs_that_contradict_each_other_are_a_bad_request(
        self, serve: Callable[..., Server], load: Callable[..., zrt.Session]
    ) -> None:
        server = serve({"m": load("(float[n, k] a, float[n, k] b) => (float[n, k] y) { y = Add(a, b) }")})
        tensors = [
            {"name": name, "datatype": "FP32", "shape": [2, size], "data": [0.0] * 2 * size}
            for name, size in (("a", 2), ("b", 3))
        ]
        answer = server.infer("m", tensors)
        assert answer.status == 400
        assert answer.json["error"] == "inputs 'a' and 'b' give the size 'k' two values, 2 and 3"

    def test_runs_that_fail_leave_capsules(
        self, serve: Callable[..., Server], pick: zrt.Session, tmp_path: Path
    ) -> None:
        server = serve({"m": pick, "same": {"1": pick, "2": pick}}, record=tmp_path / "capsules")

        def ask(name: str, index: int) -> int:
            tensor = {"name": "i", "shape": [1], "datatype": "INT64", "data": [index]}
            return server.infer(name, [tensor]).status

        # The second time on a lane.
        assert [ask("m", 1), ask("m", 2)] == [200, 200]
        assert not (tmp_path / "capsules").exists()
        assert [ask("m", 7), ask("same", 8)] == [400, 400]
        found = [capsules.read(path) for path in sorted((tmp_path / "capsules").iterdir())]
        assert [(about["run"]["failed"], about["run"]["shapes"], dict(feeds)) for about, feeds in found] == [
            (True, {"i": [1]}, {})
        ] * 2
        server.application.close()
        pick.record().close()

    def test_slow_runs_leave_capsules(self, serve: Callable[..., Server], double: zrt.Session, tmp_path: Path) -> None:
        server = serve({"m": double}, record=tmp_path / "capsules", slower_than=1e-9)
        assert server.infer("m", floats([1, 2, 3, 4])).status == 200
        [path] = (tmp_path / "capsules").iterdir()
        about, _ = capsules.read(path)
        assert (about["run"]["failed"], about["run"]["shapes"]) == (False, {"x": [1, 4]})

    def test_model_that_fails_is_status_500(
        self, serve: Callable[..., Server], load: Callable[..., zrt.Session]
    ) -> None:
        text = "(float[k, 3] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }"
        server = serve({"m": load(text)})
        shape = {"name": "s", "datatype": "INT64", "shape": [2], "data": [7, 7]}
        answer = server.infer("m", [*floats([1, 2, 3]), shape])
        assert answer.status == 500
        assert "Reshape" in answer.json["error"]
        assert server.infer("m", [*floats([1, 2, 3]), shape | {"data": [3, 1]}]).status == 200

    def test_operator_that_calls_exit_fails_its_request_and_no_other(
        self, serve: Callable[..., Server], quits: zrt.Session, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve({"m": quits}, lanes=1)
        found = []
        for value in (-1, 1, -1, 1):
            tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}
            found.append(server.infer("m", [tensor], parameters={"timeout": 20_000_000}).status)
        assert found == [500, 200, 500, 200]
        assert caplog.text.count("SystemExit: a negative number") == 2

    def test_connection_serves_several_requests(self, server: Server) -> None:
        connection = server.connect()
        good = {"inputs": floats([1, 2, 3, 4])}
        for status, body in ((200, good), (400, {}), (200, good)):
            connection.request("POST", "/v2/models/m/infer", json.dumps(body))
            response = connection.getresponse()
            response.read()
            assert response.status == status
        connection.close()


class TestCodings:
    def test_answers_are_not_compressed(self, server: Server) -> None:
        tensors = floats(*[[1, 2, 3, 4]] * 1000)
        answer = server.infer("m", tensors, {"Accept-Encoding": "gzip, deflate"})
        assert "content-encoding" not in answer.headers
        assert answer.body == server.infer("m", tensors).body

    @pytest.mark.parametrize(("coding", "status"), [("gzip", 400), ("br", 415)])
    def test_body_that_cannot_be_read_is_refused(self, server: Server, coding: str, status: int) -> None:
        assert server.ask("POST", "/v2/models/m/infer", b"x", {"Content-Encoding": coding}).status == status


class TestLimits:
    def test_large_body_is_refused_before_and_while_it_is_read(
        self, serve: Callable[..., Server], double: zrt.Session
    ) -> None:
        server = serve({"m": double}, max_body=1000)
        assert server.infer("m", floats([1, 2, 3, 4])).status == 200
        answer = server.infer("m", floats(*[[1, 2, 3, 4]] * 100))
        assert (answer.status, answer.json) == (413, {"error": "the body has more than 1000 bytes"})
        connection = server.connect()
        connection.request("POST", "/v2/models/m/infer", iter([b" " * 600] * 3), encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()
        bomb = gzip.compress(b" " * 100_000)
        assert server.ask("POST", "/v2/models/m/infer", bomb, {"Content-Encoding": "gzip"}).status == 413
        assert server.infer("m", floats([1, 2, 3, 4])).status == 200

    def test_full_queue_is_status_503(
        self, serve: Callable[..., Server], loop: zrt.Session, eventually: Callable[..., None]
    ) -> None:
        server = serve({"m": loop}, lanes=1, max_queue=2)
        waiting = server.application._load().find("m", None).batches
        with ThreadPoolExecutor(4) as pool:
            # One runs and two wait; the first ends when its deadline passes.
            first = pool.submit(server.infer, "m", endless(), parameters={"timeout": 2_000_000})
            eventually(lambda: server.taken("m") == 1)
            others = [pool.submit(server.infer, "m", endless(3)) for _ in range(2)]
            eventually(lambda: len(waiting) == 2 or first.done())
            refused = server.infer("m", endless(3))
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert "2 requests wait" in refused.json["error"]
            assert first.result().status == 504
            assert [other.result().status for other in others] == [200, 200]

    @pytest.mark.parametrize("how", ["parameter", "header", "server"])
    def test_deadline_is_status_504_and_ends_the_run(
        self, serve: Callable[..., Server], loop: zrt.Session, how: str
    ) -> None:
        server = serve({"m": loop}, lanes=1, timeout=2 if how == "server" else 60)
        more = {"parameters": {"timeout": 50_000}} if how == "parameter" else {}
        headers = {"Inference-Timeout": "50000"} if how == "header" else {}
        answer = server.infer("m", endless(), headers, **more)
        assert (answer.status, "deadline" in answer.json["error"]) == (504, True)
        # The lane is free again.
        assert server.infer("m", endless(3)).json["outputs"][0]["data"] == [8]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("Inference-Header-Content-Length", "x"),
            ("Inference-Header-Content-Length", "-1"),
            ("Inference-Header-Content-Length", "9" * 50),
            ("Inference-Header-Content-Length", "5000"),
            ("Inference-Timeout", "1.5"),
        ],
    )
    def test_wrong_header_is_status_400(self, server: Server, name: str, text: str) -> None:
        answer = server.infer("m", floats([1, 2, 3, 4]), {name: text})
        assert answer.status == 400
        assert name in answer.json["error"]


class TestMetrics:
    def test_latency_is_that_of_whole_requests(self, serve: Callable[..., Server], loop: zrt.Session) -> None:
        server = serve({"m": loop}, lanes=1)
        begin = time.time()
        asked = time.perf_counter()
        server.infer("m", endless(3))
        server.infer("m", endless(), parameters={"timeout": 50_000})
        # The server counts an answer after it has sent it.
        counts = server.metrics()
        took = time.perf_counter() - asked
        for status, least in ((200, 0), (504, 0.05)):
            labels = f'{{model="m",status="{status}",version="1"}}'
            assert counts[f"zrt_request_seconds_count{labels}"] == counts[f"zrt_requests_total{labels}"] == 1
            assert least < counts[f"zrt_request_seconds_sum{labels}"] < took
            assert counts[f'zrt_request_seconds_bucket{{le="+Inf",{labels[1:]}'] == 1
        assert begin <= counts['zrt_last_request_timestamp_seconds{model="m",version="1"}'] <= time.time()

    def test_waiting_requests_are_counted_up_and_down(
        self, serve: Callable[..., Server], loop: zrt.Session, eventually: Callable[..., None]
    ) -> None:
        server = serve({"m": loop}, lanes=1)
        waiting = 'zrt_waiting_requests{model="m",version="1"}'
        with ThreadPoolExecutor(4) as pool:
            first = pool.submit(server.infer, "m", endless(), parameters={"timeout": 3_000_000})
            eventually(lambda: server.taken("m") == 1)
            others = [pool.submit(server.infer, "m", endless(3)) for _ in range(2)]
            late = pool.submit(server.infer, "m", endless(3), parameters={"timeout": 500_000})
            eventually(lambda: server.metrics()[waiting] == 3 or first.done())
            assert late.result().status == 504
            assert server.metrics()[waiting] == 2 or first.done()
            assert [one.result().status for one in (first, *others)] == [504, 200, 200]
        assert server.metrics()[waiting] == 0

    def test_metrics_of_requests_runs_and_the_process(self, server: Server) -> None:
        for _ in range(3):
            server.infer("m", floats([1, 2, 3, 4], [5, 6, 7, 8]))
        server.infer("m", [])
        server.ask("POST", "/v2/models/q/infer", {})
        answer = server.ask("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        metrics = server.metrics()
        labels = '{model="m",version="1"}'
        assert metrics['zrt_requests_total{model="m",status="200",version="1"}'] == 3
        assert metrics['zrt_requests_total{model="m",status="400",version="1"}'] == 1
        assert metrics[f"zrt_rows_total{labels}"] == 6
        assert metrics[f"zrt_batch_rows_count{labels}"] == metrics[f"zrt_run_seconds_count{labels}"] == 3
        assert metrics[f"zrt_queue_seconds_count{labels}"] == 3
        # A thread that meets the shapes for the second time makes a lane.
        assert 2 <= metrics[f"zrt_bucket_misses_total{labels}"] <= 3
        assert metrics[f"zrt_waiting_requests{labels}"] == 0
        assert not any('model="q"' in name for name in metrics)
        parts = {
            part: metrics[f'zrt_compute_seconds_sum{{model="m",part="{part}",version="1"}}']
            for part in ("input", "infer", "output")
        }
        assert min(parts.values()) > 0
        assert parts["input"] + parts["infer"] <= metrics[f"zrt_run_seconds_sum{labels}"]
        assert metrics['zrt_compute_seconds_count{model="m",part="infer",version="1"}'] == 3
        assert metrics["process_cpu_seconds_total"] > 0
        assert metrics["process_resident_memory_bytes"] > 1 << 20
        assert metrics["process_open_fds"] > 3
        assert 0 < metrics["process_start_time_seconds"] < time.time()

    @pytest.mark.parametrize("path", ["/metrics", "/v2/models/stats"])
    def test_metrics_are_collected_beside_the_event_loop(self, server: Server, path: str) -> None:
        """With several workers they are in files."""
        on_a_loop = []

        class Witness:
            def collect(self) -> list[Any]:
                try:
                    asyncio.get_running_loop()
                    on_a_loop.append(True)
                except RuntimeError:
                    on_a_loop.append(False)
                return []

        server.application._load().metrics.exposed.register(Witness())
        assert server.ask("GET", path).status == 200
        assert on_a_loop == [False]

    def test_metrics_come_as_openmetrics_where_asked(self, server: Server) -> None:
        answer = server.ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert answer.body.endswith(b"# EOF\n")

    def test_odd_accept_gets_the_plain_format(self, server: Server) -> None:
        answer = server.ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text;version=x"})
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain")


class TestEnd:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_signal_before_the_first_request_ends_the_server(self, double: zrt.Session, number: int) -> None:
        """Also in a destructor, where Python drops the exception of a signal's handler."""
        pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install --group serving")
        from zrt.serving import server

        class Dropped:
            def __del__(self) -> None:
                signal.raise_signal(number)

        listening = server.listen("127.0.0.1", 0)
        ended = pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else contextlib.nullcontext()
        handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        with ended:
            server.serve(application({"m": double}), listening, 1, False, lambda: [Dropped()].clear())
        assert listening.fileno() == -1
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers

    @pytest.mark.parametrize("waits", [0, 2])
    def test_client_that_goes_away_ends_its_run(
        self, serve: Callable[..., Server], loop: zrt.Session, eventually: Callable[..., None], waits: int
    ) -> None:
        """Also its requests that wait for a run."""
        server = serve({"m": loop}, lanes=1)
        waiting = server.application._load().find("m", None).batches
        body = json.dumps({"inputs": endless()}).encode()
        request = b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1 + waits)]
        for client in clients:
            client.sendall(request)
        eventually(lambda: server.taken("m") == 1 and len(waiting) == waits)
        for client in clients:
            client.close()
        eventually(lambda: len(waiting) == 0)
        # The lane is free again.
        assert server.infer("m", endless(3)).json["outputs"][0]["data"] == [8]

    def test_client_that_goes_away_disturbs_nobody(self, server: Server) -> None:
        half_a_body = b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"
        for text in (half_a_body, b"POST /v2/mod", b"\0\xff\r\n"):
            with socket.create_connection(("127.0.0.1", server.port)) as half:
                half.sendall(text)
                # Ends with a reset.
                half.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert server.infer("m", floats([1, 2, 3, 4])).status == 200
