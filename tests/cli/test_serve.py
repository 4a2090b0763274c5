import http.client
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import onnx
import pytest

import zrt
from tests.conftest import LOOP
from tests.serving import wire
from tests.support import models, processes
from zrt._common.installation import install_line
from zrt.cli.common import shipped
from zrt.cli.entry import make_parser
from zrt.cli.serve import make_application

DIGITS = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0] * 64}]}

# A second of `LOOP`.
MANY_STEPS = {"inputs": wire.steps(300_000)}


# A worker counts an answer after it has sent it, while the other one may already tell the counts; this one comes last.
LAST_COUNT = 'zrt_request_seconds_count{model="digits",status="200",version="1"}'


@pytest.fixture(scope="module")
def installed() -> None:
    for package in ("starlette", "uvicorn", "httptools", "prometheus_client"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install --group serving")


@contextmanager
def starting() -> Iterator[Callable[..., Any]]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "zrt", "serve", "--json", "--port", "0", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**processes.environment(), "ZRT_MODEL": ""},
            # Python handles Ctrl-C only where SIGINT is not ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        running.append(process)
        return process, processes.document(process)

    try:
        yield start
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.fixture
def start(installed: None) -> Iterator[Callable[..., Any]]:
    """Starts ``zrt serve --json`` at a free port: the process, and the document that it prints."""
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def classifier(installed: None) -> Iterator[str]:
    """The address of a server of the classifier inside zrt."""
    with starting() as start:
        _, document = start()
        assert document["models"] == ["digits"]
        yield document["address"]


def ask(address: str, path: str, document: Any = None) -> Any:
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", data), timeout=60) as answer:
        return json.load(answer)


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == ""
    return process.returncode, err


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_example_with_curl_gives_the_shown_answer(classifier):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")
    [(line, shown)] = re.findall(r"^```sh\n(curl .*?)^```\n\n^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    line = line.replace("127.0.0.1:8000", classifier.removeprefix("http://"))
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
    got, wanted = json.loads(done.stdout), json.loads(shown)
    [numbers], [shown_numbers] = ([output.pop("data") for output in each["outputs"]] for each in (got, wanted))
    assert got == wanted
    # Kernels of other processors add in another order.
    assert numbers == pytest.approx(shown_numbers, abs=1e-5)


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.mark.parametrize(
    "before",
    [
        b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: ",
        b"POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
    ],
    ids=["head", "chunk", "trailer"],
)
def test_head_without_end_is_refused(classifier, before):
    """200 MB of one header stopped the server for two minutes."""
    sent = 0
    with connected(classifier) as connection:
        connection.sendall(before)
        with suppress(ConnectionError):
            while sent < 64 << 20:
                connection.sendall(b"a" * (1 << 16))
                sent += 1 << 16
    # The buffers of both sockets take some.
    assert sent < 32 << 20
    # Bodies have their own limit, also in parts.
    body = json.dumps(DIGITS).encode() + b" " * (1 << 20)
    parts = (body[at : at + 30_000] for at in range(0, len(body), 30_000))
    for data in (body, parts):
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{classifier}/v2/models/digits/infer", data, headers, method="POST")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 200


def test_head_that_comes_at_once_is_refused(classifier):
    """A read of the server's may bring more than a head may have."""
    for size, status in ((40_000, b"200"), (70_000, b"400")):
        with connected(classifier) as connection:
            connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: %b\r\n\r\n" % (b"a" * size))
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert answer.split(b" ")[1] == status
        assert (b"at most 65536 bytes" in answer) == (status == b"400")


OFFERS = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n",
    "websocket": b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n",
}


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
@pytest.mark.parametrize("form", ["whole", "late body", "bytes", "chunks"])
def test_offer_of_another_protocol_is_ignored(classifier, offer, form):
    """The body of such a request was taken for the next request: Java's client sends such requests by default."""
    body = json.dumps(DIGITS).encode()
    first = b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\n"
    head = b"%b%bContent-Length: %d\r\n\r\n" % (first, offer, len(body))
    if form == "chunks":
        head = b"%b%bTransfer-Encoding: chunked\r\n\r\n" % (first, offer)
        body = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    others = b"GET /v2/models/digits/ready HTTP/1.1\r\nHost: x\r\n"
    after = b"%b%b\r\n%bConnection: close\r\n\r\n" % (others, offer, others)
    whole = head + body + after
    sent = {"late body": [head, body, after], "bytes": [whole[at : at + 1] for at in range(len(whole))]}
    with connected(classifier) as connection:
        for part in sent.get(form, [whole]):
            connection.sendall(part)
            time.sleep(0 if form == "bytes" else 0.05)
        answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    # In the order of the requests.
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * 3
    assert re.findall(rb'"outputs"|"ready"', answers) == [b'"outputs"', b'"ready"', b'"ready"']


def test_body_after_an_offer_is_no_request(classifier):
    """A proxy that passes the offer on would take the second answer for that to someone else's request."""
    hidden = b"GET /v2/models/digits/ready HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n"
    with connected(classifier) as connection:
        connection.sendall(head % (OFFERS["h2c"], len(hidden)) + hidden)
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"400", b"200"]
    assert b'"ready"' not in answers


def test_tunnel_is_refused(classifier):
    with connected(classifier) as connection:
        connection.sendall(b"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\nGET /v2 HTTP/1.1\r\n\r\n")
        answer = connection.recv(1 << 16)
    assert answer.split(b" ")[1] in (b"400", b"404", b"405")
    assert answer.count(b"HTTP/1.1") == 1


def test_client_that_resets_its_connection_is_no_error(start):
    """Answers to requests in a row were written to the closed connection, for which uvloop raises."""
    process, document = start()
    body = json.dumps(DIGITS).encode()
    request = b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    for number in range(24):
        with connected(document["address"]) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(request * 4)
            # The server reads the requests, and the reset comes at another moment of their runs each time.
            time.sleep(number % 4 / 1000)
    assert ask(document["address"], "/v2/models/digits/infer", DIGITS)["outputs"]
    assert end(process, signal.SIGTERM) == (0, "")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_requests_that_wait_on_a_connection_take_bounded_memory(start):
    """200,000 requests in a row, 9 MB, took 240 MB."""
    process, document = start()

    def resident() -> int:
        status = Path(f"/proc/{process.pid}/status").read_text("ascii")
        return 1024 * int(re.findall(r"^VmRSS:\s*(\d+)", status, re.MULTILINE)[0])

    ask(document["address"], "/v2/models/digits")
    before = resident()
    with connected(document["address"]) as connection:
        connection.settimeout(3)
        # The server stops reading once the answers, which nobody reads, fill the buffers of the sockets.
        with suppress(TimeoutError):
            for _ in range(2000):
                connection.sendall(b"GET /v2/models/digits HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        assert resident() - before < 64 << 20
        assert ask(document["address"], "/v2/models/digits")["name"] == "digits"


def test_ctrl_c_ends_the_server(start):
    process, _ = start()
    code, err = end(process, signal.SIGINT)
    assert (code, "Traceback" in err) == (130, False)


def metrics(address: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_answers_the_requests_in_progress(start, saved, workers):
    path = saved(models.parse(LOOP), "loop.onnx")
    process, document = start(path, "--lanes", 1, "--threads", 1, "--workers", workers)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, document["address"], "/v2/models/loop/infer", MANY_STEPS) for _ in range(4)]
        taken = 'zrt_queue_seconds_count{model="loop",version="1"}'
        waiting = 'zrt_waiting_requests{model="loop",version="1"}'
        while not any(one.done() for one in asked):
            counts = metrics(document["address"])
            if counts.get(taken, 0) + counts.get(waiting, 0) == 4:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert [one.result()["outputs"][0]["data"] for one in asked] == [[0]] * 4
    assert process.wait(60) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load_loses_no_request_that_was_taken(start, workers):
    """A client that waits for "100 Continue" before it sends the body knows that the server has taken its request."""
    process, document = start("--workers", workers)
    body = json.dumps(DIGITS).encode()
    head = b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"

    def ask_until_the_end() -> list[int]:
        statuses = []
        # The connection is refused, closed or reset when the server takes no further request.
        with suppress(ConnectionError):
            while True:
                with connected(document["address"]) as connection:
                    open_still = True
                    while open_still:
                        connection.sendall(head % len(body))
                        if connection.recv(1 << 16) != b"HTTP/1.1 100 Continue\r\n\r\n":
                            break
                        statuses.append(0)
                        connection.sendall(body)
                        answer = http.client.HTTPResponse(connection, method="POST")
                        answer.begin()
                        assert json.loads(answer.read())["outputs"]
                        statuses[-1] = answer.status
                        open_still = not answer.will_close
        return statuses

    with ThreadPoolExecutor(16) as pool:
        clients = [pool.submit(ask_until_the_end) for _ in range(16)]
        while metrics(document["address"]).get(LAST_COUNT, 0) < 300:
            time.sleep(0.01)
        assert end(process, signal.SIGTERM) == (0, "")
        statuses = [status for client in clients for status in client.result()]
    assert len(statuses) >= 300
    assert set(statuses) == {200}


def test_models_have_names_and_versions(start, saved, installed):
    digits = Path(sys.modules["zrt"].__file__ or "").parent / "models" / "digits.onnx"
    copy = saved(digits.read_bytes(), "copy.onnx")
    process, document = start(copy, f"a={copy}", f"a:2={digits}", "--access-log", "--max-batch", 4, "--timeout", 9)
    assert document["models"] == ["copy", "a"]
    assert ask(document["address"], "/v2/models/a")["versions"] == ["1", "2"]
    assert ask(document["address"], "/v2/models/copy/versions/1/infer", DIGITS)["model_name"] == "copy"
    code, err = end(process, signal.SIGTERM)
    assert code == 0
    assert "POST /v2/models/copy/versions/1/infer" in err


@pytest.mark.parametrize("workers", [1, 2])
def test_slow_runs_leave_capsules(start, tmp_path, workers):
    folder = tmp_path / "capsules"
    _, document = start("--record", folder, "--slower-than", "0.000001", "--workers", workers)
    ask(document["address"], "/v2/models/digits/infer", DIGITS)
    assert len(list(folder.iterdir())) == 1


def test_without_json_one_line_says_the_address(installed, zrt, monkeypatch):
    from zrt.serving import server

    monkeypatch.setattr(server, "serve", lambda app, listening, grace, log, started: (started(), listening.close()))
    out = zrt("serve", "--port", 0)
    assert out.startswith("zrt serves digits at http://127.0.0.1:")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("a/b=model.onnx",), 2, "'a/b'"),
        (("=model.onnx",), 2, "'=model.onnx'"),
        (("a=",), 2, "'a='"),
        (("a=x.onnx", "a=y.onnx"), 2, "'a' twice"),
        (("--max-batch", "0"), 2, "--max-batch"),
        (("--max-wait", "-1"), 2, "--max-wait"),
        (("--timeout", "0"), 2, "--timeout"),
        (("--timeout", "soon"), 2, "--timeout"),
        (("--provider", "nonsense"), 2, "nonsense"),
        (("--slower-than", "1"), 2, "record"),
        (("--record", "capsules", "--slower-than", "0"), 2, "--slower-than"),
        (("no such file.onnx",), 1, "no such file"),
        (("--port", "65536"), 2, "65535"),
        (("--host", "host.invalid"), 1, "host.invalid"),
        (("--replicas", "2"), 2, "--replicas needs --ray"),
        (("--per-node", "2"), 2, "--per-node needs --ray"),
        (("--cpus", "2"), 2, "--cpus needs --ray"),
        (("--gpus", "0"), 2, "--gpus needs --ray"),
        (("--send",), 2, "--send needs --ray"),
        (("--app-name", "a"), 2, "--app-name needs --ray"),
        (("--route-prefix", "/a"), 2, "--route-prefix needs --ray"),
        (("--start-timeout", "2"), 2, "--start-timeout needs --ray"),
        (("--ray", "auto", "--access-log"), 2, "--access-log does not apply with --ray"),
        (("--ray", "auto", "--workers", "2"), 2, "--workers does not apply with --ray"),
        (("--ray", "auto", "--import", "ops"), 2, "--import does not apply with --ray"),
        (("--workers", "0"), 2, "--workers"),
        (("--ray", "auto", "--port", "0"), 2, "--port 0 does not apply with --ray"),
        (("--ray", "auto", "--route-prefix", "a"), 2, "'a' does not begin with /"),
        (("--ray", "auto", "--replicas", "0"), 2, "--replicas"),
        (("--ray", "auto", "--send", "no such file.onnx"), 1, "no such file.onnx"),
    ],
)
def test_wrong_use_is_a_complaint(installed, complaint, arguments, status, words):
    assert words in complaint("serve", *arguments, status=status)


def test_port_in_use_is_a_complaint(classifier, complaint):
    port = classifier.rpartition(":")[2]
    before = threading.enumerate()
    assert port in complaint("serve", "--port", port, status=1)
    assert threading.enumerate() == before


@pytest.mark.parametrize("package", ["uvicorn", "httptools"])
def test_missing_package_is_a_complaint(complaint, missing, package):
    missing(package)
    assert install_line("serve") in complaint("serve", status=1)


def test_missing_ray_is_a_complaint(installed, complaint, missing):
    missing("ray")
    assert install_line("ray") in complaint("serve", "--ray", status=1)


def test_models_travel_to_a_cluster_by_path_or_as_bytes(installed, saved):
    digits = Path(sys.modules["zrt"].__file__ or "").parent / "models" / "digits.onnx"
    path = saved(digits.read_bytes(), "copy.onnx")
    for sent, model in ((["--send"], digits.read_bytes()), ([], str(path))):
        words = ["serve", str(path), "--ray", "auto", "--cpus", "3", "--provider", "tensorrt", *sent]
        application = make_application(make_parser().parse_args(words))
        spec = application._models["copy"]["1"]
        assert isinstance(spec, zrt.SessionSpec)
        # Those of --cpus.
        assert (spec.model, spec.options.intra_op_num_threads) == (model, 3)
        # This machine has not got it.
        assert spec.providers == [("TensorrtExecutionProvider", {})]


def test_defaults_are_those_of_the_application():
    arguments = make_parser().parse_args(["serve"])
    assert [arguments.max_batch, arguments.max_wait, arguments.lanes, arguments.timeout] == [None] * 4


def _fail_after_a_signal(folder: Path) -> None:
    """A worker whose handler of SIGTERM, as uvicorn's, only makes a note."""
    from zrt.serving.workers import _loaded

    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.raise_signal(signal.SIGTERM)

    def fail() -> Any:
        raise OSError("no model")

    _loaded(fail, folder)


class TestWorkers:
    """``--workers``: several processes behind one port."""

    def processes(self, address: str) -> list[int]:
        names = [name for name in metrics(address) if name.startswith("process_cpu_seconds")]
        return [int(name.partition('"')[2].rstrip('"}')) for name in names]

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_they_share_the_port_and_count_together(self, start, number, eventually, monkeypatch):
        monkeypatch.setenv("ZRT_CPUS", "5")
        process, document = start("--workers", 2)
        address = document["address"]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: ask(address, "/v2/models/digits/infer", DIGITS), range(60)))
        eventually(lambda: metrics(address)[LAST_COUNT] == 60)
        for _ in range(10):
            # Any worker answers for all of them.
            counts = metrics(address)
            assert counts['zrt_requests_total{model="digits",status="200",version="1"}'] == 60
            assert counts[LAST_COUNT] == 60
            assert counts['zrt_rows_total{model="digits",version="1"}'] == 60
            [stats] = ask(address, "/v2/models/stats")["model_stats"]
            assert (stats["inference_count"], stats["inference_stats"]["success"]["count"]) == (60, 60)
        workers = self.processes(address)
        assert len(set(workers)) == 2
        assert process.pid not in workers
        if Path("/proc/self/environ").exists():
            for worker in workers:
                assert b"ZRT_CPUS=2" in Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
        code, err = end(process, number)
        assert (code, err) == (0 if number == signal.SIGTERM else 130, "")
        with pytest.raises(urllib.error.URLError):
            ask(address, "/v2/health/live")

    def test_dead_one_is_replaced_and_its_counts_stay(self, start, eventually):
        process, document = start("--workers", 2)
        address = document["address"]
        for _ in range(10):
            ask(address, "/v2/models/digits/infer", DIGITS)
        eventually(lambda: metrics(address)[LAST_COUNT] == 10)
        before = self.processes(address)

        def replaced() -> bool:
            try:
                now = self.processes(address)
            except OSError:
                # This connection was one of the dead worker's.
                return False
            return len(now) == 2 and before[0] not in now

        os.kill(before[0], signal.SIGKILL)
        eventually(replaced)
        counts = metrics(address)
        assert counts['zrt_requests_total{model="digits",status="200",version="1"}'] == 10
        assert ask(address, "/v2/models/digits/infer", DIGITS)["model_name"] == "digits"
        code, err = end(process, signal.SIGTERM)
        assert (code, err) == (0, f"worker {before[0]} ended with SIGKILL: another one takes its place\n")

    def test_they_end_with_a_parent_that_is_killed(self, start, eventually):
        process, document = start("--workers", 2)
        workers = self.processes(document["address"])
        process.kill()
        process.wait(60)
        eventually(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))

    def test_model_that_cannot_be_loaded_is_a_complaint(self, installed):
        words = ["serve", "--workers", "2", "--port", "0", "no such file.onnx"]
        done = subprocess.run(
            [sys.executable, "-m", "zrt", *words],
            capture_output=True,
            text=True,
            env=processes.environment(),
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("zrt serve: ")
        assert "no such file.onnx" in done.stderr
        # Each worker has the error, and one says it.
        assert done.stderr.count("\n") == 1

    def test_one_that_cannot_start_ends_even_if_uvicorn_took_its_signal(self, installed, tmp_path, eventually):
        from zrt.serving.workers import ENDING

        worker = multiprocessing.get_context("spawn").Process(target=_fail_after_a_signal, args=(tmp_path,))
        worker.start()
        eventually(lambda: list(tmp_path.iterdir()))
        assert worker.is_alive()
        (tmp_path / ENDING).touch()
        worker.join(30)
        try:
            assert worker.exitcode == 3
        finally:
            worker.kill()
        assert (tmp_path / "failed").read_text() == "no model"

    @contextmanager
    def importing(self, folder: Path, work: str) -> Iterator[subprocess.Popen[str]]:
        """A server of two workers, each of which does some work at an import."""
        (folder / "busy.py").write_text(
            "import multiprocessing, os, pathlib, signal, time, zrt\n"
            f"if multiprocessing.parent_process():\n    {work}\n"
            "class Op(zrt.CustomOp):\n    inputs = outputs = ['float32']\n    def compute(self, context): ...\n"
            "nobody = zrt.CustomOpDomain('nobody', [Op()])\n"
        )
        with subprocess.Popen(
            [sys.executable, "-m", "zrt", "serve", "--workers", "2", "--port", "0", "--import", "busy"],
            cwd=folder,
            env={**processes.environment(), "ZRT_MODEL": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @pytest.mark.parametrize(
        ("work", "words"),
        [
            ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL before it served: it took too much memory, or .*"),
            ("os.kill(os.getpid(), signal.SIGABRT)", "SIGABRT before it served"),
            ("os._exit(3)", "status 3 before it served"),
        ],
    )
    def test_one_that_dies_while_it_loads_is_a_complaint(self, installed, tmp_path, work, words):
        with self.importing(tmp_path, work) as process:
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (1, "")
        assert re.search(rf"^zrt serve: worker \d+ ended with {words}\n\Z", err, re.MULTILINE), err

    def test_hangup_while_they_load_hides_no_failure(self, installed, tmp_path, eventually):
        work = (
            "pathlib.Path(f'loading-{os.getpid()}').touch()\n"
            "    while not pathlib.Path('go').exists():\n        time.sleep(0.01)\n"
            "    raise ValueError('no model')"
        )
        with self.importing(tmp_path, work) as process:
            eventually(lambda: len(list(tmp_path.glob("loading-*"))) == 2)
            process.send_signal(signal.SIGHUP)
            # Longer than the supervisor takes to look at its signals.
            time.sleep(1)
            (tmp_path / "go").touch()
            _, err = process.communicate(timeout=60)
        assert len(list(tmp_path.glob("loading-*"))) == 2
        assert (process.returncode, err) == (
            1,
            "zrt serve: --import: 'busy' cannot be imported: ValueError: no model\n",
        )

    def test_new_models_that_cannot_be_loaded_leave_the_old_ones(self, start, saved, eventually):
        path = saved(shipped("digits.onnx").read_bytes(), "digits.onnx")
        process, document = start(path, "--workers", 2)
        workers = self.processes(document["address"])
        path.write_bytes(b"no model")
        process.send_signal(signal.SIGHUP)
        first, second = process.stderr.readline(), process.stderr.readline()
        assert "keeping worker" in first
        assert re.match("the workers that serve go on, as a new one could not start: .*digits.onnx", second)
        # Longer than the supervisor takes to look at its workers.
        time.sleep(1)
        assert ask(document["address"], "/v2/models/digits/infer", DIGITS)["model_name"] == "digits"
        assert set(workers) <= set(self.processes(document["address"]))
        assert end(process, signal.SIGTERM)[0] == 0

    def test_they_divide_the_cpus(self, installed, monkeypatch, tmp_path):
        monkeypatch.setattr("zrt.environment.cpu_limits.cpus", lambda: 9)
        (tmp_path / "o.json").write_text('{"session": {"inter_op_num_threads": 1}}')
        (tmp_path / "p.json").write_text('{"session": {"intra_op_num_threads": 3}}')
        for words, threads in (
            (["--workers", "1"], 0),
            (["--workers", "2"], 4),
            (["--workers", "20"], 1),
            (["--workers", "2", "--threads", "0"], 0),
            (["--workers", "2", "--threads", "5"], 5),
            (["--workers", "2", "--options", str(tmp_path / "o.json")], 4),
            (["--workers", "2", "--options", str(tmp_path / "p.json")], 3),
        ):
            spec = make_application(make_parser().parse_args(["serve", *words]))._models["digits"]["1"]
            assert isinstance(spec, zrt.SessionSpec)
            assert spec.options.intra_op_num_threads == threads, words

    def test_under_a_budget_of_cpus_sessions_have_one_thread(self, installed, monkeypatch):
        monkeypatch.setenv("ZRT_CPUS", "4")
        for words in ([], ["--workers", "2"], ["--ray", "auto", "--cpus", "3"]):
            spec = make_application(make_parser().parse_args(["serve", *words]))._models["digits"]["1"]
            assert spec.options.intra_op_num_threads == 0, words


class TestImport:
    """``--import``: models with custom operators in Python."""

    @pytest.fixture
    def model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "served_ops.py").write_text(
            "import numpy as np, zrt\n"
            "class Price(zrt.CustomOp):\n"
            "    inputs = outputs = ['float32']\n"
            "    def compute(self, context):\n"
            "        (x,) = context.inputs\n"
            "        np.multiply(x, 3, out=context.output(0, x.shape))\n"
            "shop = zrt.CustomOpDomain('shop', [Price()])\n"
        )
        head = '<ir_version: 10, opset_import: ["" : 21, "shop" : 1]>'
        text = f"{head} price (float[n] x) => (float[n] y) {{ y = shop.Price(x) }}"
        path = tmp_path / "price.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        return path

    @pytest.mark.parametrize("workers", [1, 2])
    def test_every_process_imports_it(self, start, model, workers):
        process, document = start(model, "--import", "served_ops", "--workers", workers)
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}
        for _ in range(4):
            assert ask(document["address"], "/v2/models/price/infer", body)["outputs"][0]["data"] == [3, 6]
        assert end(process, signal.SIGTERM) == (0, "")

    def test_missing_module_and_missing_operators_are_complaints(self, installed, complaint, model):
        assert "'no_such_module'" in complaint("serve", model, "--import", "no_such_module", status=2)
        assert "shop" in complaint("serve", model, status=1)
