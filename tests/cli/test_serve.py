import http.client
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import onnx
import pytest

import zrt
from tests.cli.served import DIGITS, LAST_COUNT, ask, end, metrics, starting
from tests.cli.served import installed as installed
from tests.cli.served import start as start
from tests.serving import wire
from tests.support import models
from tests.support.models import LOOP
from zrt._common.installation import install_line
from zrt.cli.common import shipped
from zrt.cli.entry import make_parser
from zrt.cli.serve import make_application

# A second of `LOOP`.
MANY_STEPS = {"inputs": wire.steps(300_000)}


@pytest.fixture(scope="module")
def classifier(installed: None) -> Iterator[str]:
    """The address of a server of the classifier inside zrt."""
    with starting() as start:
        _, document = start()
        assert document["models"] == ["digits"]
        yield document["address"]


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
        connection.settimeout(1)
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
def test_request_that_outlasts_the_grace_gets_an_error(start, saved, workers):
    path = saved(models.parse(LOOP), "loop.onnx")
    process, document = start(path, "--threads", 1, "--grace", 0, "--workers", workers)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, document["address"], "/v2/models/loop/infer", {"inputs": wire.steps(2**62)})
        while metrics(document["address"]).get('zrt_queue_seconds_count{model="loop",version="1"}') != 1:
            time.sleep(0.01)
        code, err = end(process, signal.SIGTERM)
        with pytest.raises(urllib.error.HTTPError) as caught:
            asked.result()
    assert (caught.value.code, json.load(caught.value)) == (503, {"error": "the server ended the request"})
    assert (code, "Traceback" in err) == (0, False)


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
        while metrics(document["address"]).get(LAST_COUNT, 0) < 100:
            time.sleep(0.01)
        assert end(process, signal.SIGTERM) == (0, "")
        statuses = [status for client in clients for status in client.result()]
    assert len(statuses) >= 100
    assert set(statuses) == {200}


def test_models_have_names_and_versions(start, saved, installed):
    digits = shipped("digits.onnx")
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
        (("--workers", "2", "--grace", "2147480"), 2, "from 0 to 1000000"),
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
    digits = shipped("digits.onnx")
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


def test_file_whose_path_has_an_equals_sign(installed, tmp_path, monkeypatch):
    folder = tmp_path / "run=3"
    folder.mkdir()
    path = shutil.copy(shipped("digits.onnx"), folder / "best.onnx")
    monkeypatch.setenv("ZRT_MODEL", str(path))
    for words, name in (([], "best"), ([str(path)], "best"), ([f"mine:2={path}"], "mine")):
        application = make_application(make_parser().parse_args(["serve", *words]), load=False)
        assert list(application._models) == [name], words


def test_defaults_are_those_of_the_application():
    arguments = make_parser().parse_args(["serve"])
    assert [arguments.max_batch, arguments.max_wait, arguments.lanes, arguments.timeout] == [None] * 4


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
