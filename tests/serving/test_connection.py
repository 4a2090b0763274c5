"""`Connection`: clients that do not go on with a request, or do not take the answer."""

import json
import re
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any
from unittest import mock

import pytest

import zrt
from tests.serving.conftest import Server
from zrt.bench.machine import resident_bytes

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install --group serving")
pytest.importorskip("httptools", reason="httptools is not installed: pip install --group serving")

import uvicorn
from uvicorn.server import ServerState

from zrt.serving import connection
from zrt.serving.connection import Connection

HEAD = b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: 100\r\n"


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"\r\n{"], ids=["nothing", "half a head", "half a body"])
def test_silent_client_is_given_up_and_others_are_not(
    serve: Callable[..., Server], double: zrt.Session, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.1)
    server = serve({"m": double})
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(sent)
        assert client.recv(1) == b""
    row = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    assert server.infer("m", [row]).json["outputs"][0]["data"] == [2, 4, 6, 8]


def test_half_open_connections_keep_nobody_waiting(
    serve: Callable[..., Server], double: zrt.Session, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 2)
    server = serve({"m": double})
    before = resident_bytes()
    with ExitStack() as clients:
        for number in range(300):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            client.sendall((HEAD + b"\r\n" + b" " * 99)[: number % 150])
        row = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
        assert server.infer("m", [row]).json["outputs"][0]["data"] == [2, 4, 6, 8]
        assert resident_bytes() - before < 300 * 65536
        eventually(lambda: server.connections == 0)


def test_client_that_takes_no_answer_is_given_up(
    serve: Callable[..., Server], double: zrt.Session, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.1)
    server = serve({"m": double})
    # More than the system keeps for a client.
    rows = 1_000_000
    data = bytes(16 * rows)
    text = json.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [rows, 4], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    head = f"POST /v2/models/m/infer HTTP/1.1\r\nInference-Header-Content-Length: {len(text)}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(f"{head}Content-Length: {len(text) + len(data)}\r\n\r\n".encode() + text + data)
        # The first byte of the answer.
        answer = len(client.recv(1))
        eventually(lambda: server.connections == 0)
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 20):
                answer += len(part)
    assert answer < len(data)


# The ends of a head about whose body two readers can think differently.
UNCLEAR_ENDS = {
    "length and chunks": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n",
    "two lengths in one line": b"Content-Length: 0, %d\r\n\r\n",
    "length with a sign": b"Content-Length: +%d\r\n\r\n",
    "negative length": b"Content-Length: -%d\r\n\r\n",
    "length in base 16": b"Content-Length: 0x%x\r\n\r\n",
    "length beyond 64 bits": b"Content-Length: 99999999999999999999%d\r\n\r\n",
    "space before the colon": b"Content-Length : %d\r\n\r\n",
    "unknown coding": b"Transfer-Encoding: xchunked\r\nX: %d\r\n\r\n",
    "coding after chunks": b"Transfer-Encoding: chunked, identity\r\nX: %d\r\n\r\n0\r\n\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nX: %d\r\n\r\n0\r\n\r\n",
    "control character before the coding": b"X: %d\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "end of a line without its second half": b"X: a\rContent-Length: %d\r\n\r\n",
    "zero byte": b"X: a\0\r\nContent-Length: %d\r\n\r\n",
    "chunk without a size": b"Transfer-Encoding: chunked\r\nX: %d\r\n\r\nzz\r\n",
    "chunk of a negative size": b"Transfer-Encoding: chunked\r\nX: %d\r\n\r\n-1\r\n",
    "chunk beyond 64 bits": b"Transfer-Encoding: chunked\r\nX: %d\r\n\r\nfffffffffffffffff\r\n",
    "chunk longer than its size": b"Transfer-Encoding: chunked\r\nX: %d\r\n\r\n1\r\naa0\r\n\r\n",
}


def requests_with_unclear_ends(model: str) -> tuple[bytes, dict[str, bytes]]:
    """A request, and others with it in their body or after it, which a body may hide from a proxy, or a proxy from the
    server.
    """
    hidden = f"GET /v2/models/{model}/ready HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    first = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\n".encode()
    return hidden, {case: first + rest % len(hidden) + hidden for case, rest in UNCLEAR_ENDS.items()}


def answer_to(port: int, sent: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(sent)
        answer = b""
        # A client that sent more than was read may see a reset.
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 16):
                answer += part
    return answer


def statuses(answer: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1.1 (\d+)", answer)


def check_unclear_ends(port: int, model: str) -> None:
    """Checks that requests with an unclear end are refused, and that nothing after them is read."""
    hidden, unclear = requests_with_unclear_ends(model)
    answers = {case: answer_to(port, sent) for case, sent in unclear.items()}
    found = {case: (statuses(answer), b'"ready"' in answer) for case, answer in answers.items()}
    assert found == dict.fromkeys(UNCLEAR_ENDS, ([b"400"], False))
    # A request that is clear, and the one after it.
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(hidden + hidden.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert statuses(answer) == [b"200", b"200"]


def test_request_with_an_unclear_end_is_refused_and_nothing_after_it_is_read(
    serve: Callable[..., Server], double: zrt.Session
) -> None:
    check_unclear_ends(serve({"m": double}).port, "m")


@pytest.mark.parametrize("case", UNCLEAR_ENDS)
def test_answer_before_that_to_a_refused_request_is_not_lost(
    serve: Callable[..., Server], double: zrt.Session, case: str
) -> None:
    port = serve({"m": double}).port
    clear, unclear = requests_with_unclear_ends("m")
    answer = answer_to(port, clear + unclear[case])
    assert b'{"name":"m","ready":true}' in answer
    # The other has an answer where the first one was out before it was read.
    assert statuses(answer) in ([b"200"], [b"200", b"400"])


@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"], ids=["plain", "after an offer"])
@pytest.mark.parametrize("trailer", [b"Inference-Header-Content-Length: 3", b"Content-Encoding: gzip"])
def test_trailers_of_a_chunked_body_are_ignored(
    serve: Callable[..., Server], double: zrt.Session, offer: bytes, trailer: bytes
) -> None:
    row = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    body = json.dumps({"inputs": [row]}).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + offer + b"\r\n"
    last = b"GET /v2/models/m/ready HTTP/1.1\r\nConnection: close\r\n\r\n"
    sent = head + b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, trailer) + last
    answer = answer_to(serve({"m": double}).port, sent)
    assert statuses(answer) == [b"200", b"200"]
    assert b"[2.0,4.0,6.0,8.0]" in answer


def test_trailer_that_ends_the_connection_does_so_after_the_answer(
    serve: Callable[..., Server], double: zrt.Session
) -> None:
    """The parser reads nothing after it: a further request would have no answer."""
    port = serve({"m": double}).port
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = answer_to(port, head + b"%x\r\n%b\r\n0\r\nConnection: close\r\n\r\n" % (len(body), body))
    assert statuses(answer) == [b"200"]
    assert b"connection: close" in answer


def test_refusal_is_a_document(serve: Callable[..., Server], double: zrt.Session) -> None:
    head, body = answer_to(serve({"m": double}).port, b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n").split(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert json.loads(body) == {"error": "Invalid HTTP request received."}


class Loop:
    """An event loop with a clock of its own, in which nothing else runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.later: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, function: Callable[..., None], *arguments: Any) -> Any:
        call = (self.now + delay, lambda: function(*arguments))
        self.later.append(call)

        return mock.Mock(cancel=lambda: self.later.remove(call))

    def create_task(self, work: Any) -> Any:
        work.close()

        return mock.Mock()

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [call for call in self.later if call[0] <= end]:
            call = min(due, key=lambda each: each[0])
            self.later.remove(call)
            self.now = call[0]
            call[1]()
        self.now = end


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def opened(loop: Loop) -> Connection:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        """An application that does not answer."""

    config = uvicorn.Config(nothing, log_config=None, ws="none")
    config.load()
    made = Connection(config, ServerState(), {}, loop)
    transport = mock.Mock(
        is_closing=lambda: transport.close.called,
        get_extra_info=lambda name: None,
        get_write_buffer_size=mock.Mock(return_value=0),
    )
    made.connection_made(transport)
    return made


@pytest.mark.parametrize("before", [1, 2])
def test_client_that_waits_for_an_answer_before_a_refusal_is_not_given_up(
    opened: Connection, loop: Loop, before: int
) -> None:
    opened.data_received(b"GET / HTTP/1.1\r\n\r\n" * before + b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n")
    # As uvicorn does where an application waits for a body, or has answered.
    opened.flow.resume_reading()
    loop.pass_time(1000)
    assert not opened.transport.close.called


def test_nothing_is_kept_after_a_refusal(opened: Connection) -> None:
    """The first request waits for its answer meanwhile."""
    opened.data_received(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nX: ")
    before = resident_bytes()
    for _ in range(500):
        opened.data_received(b"x" * (1 << 16))
    assert resident_bytes() - before < 8 << 20
    assert not opened.transport.write.called


def test_body_may_take_long_and_a_head_may_not(opened: Connection, loop: Loop) -> None:
    loop.pass_time(59)
    opened.data_received(HEAD + b"\r\n")
    for _ in range(5):
        loop.pass_time(59)
        opened.data_received(b"{")
    assert not opened.transport.close.called
    loop.pass_time(61)
    assert opened.transport.close.called


def test_head_in_small_parts_is_given_up(opened: Connection, loop: Loop) -> None:
    for byte in HEAD + b"x: " + b"y" * 100:
        loop.pass_time(1)
        opened.data_received(bytes([byte]))
        if opened.transport.close.called:
            break
    assert 60 <= loop.now <= 62


def test_client_that_waits_for_its_answer_is_not_given_up(opened: Connection, loop: Loop) -> None:
    opened.data_received(HEAD + b"\r\n" + b" " * 100)
    loop.pass_time(1000)
    assert not opened.transport.close.called
    # Nor one whose second request is not read meanwhile.
    opened.data_received(HEAD)
    opened.flow.pause_reading()
    loop.pass_time(1000)
    assert not opened.transport.close.called


def answer(opened: Connection, request: Any) -> None:
    request.response_complete = True
    opened.on_response_complete()


@pytest.mark.parametrize("late", [b"\r\n", b" " * 100], ids=["blank line", "body after its answer"])
def test_client_that_asks_no_more_is_given_up(opened: Connection, loop: Loop, late: bytes) -> None:
    """Also if something came after the answer that is no request."""
    # With what comes late the body is whole, or it was before.
    opened.data_received(HEAD + b"\r\n" + (b" " * 100).removesuffix(late))
    answer(opened, opened.cycle)
    opened.data_received(late)
    loop.pass_time(61)
    assert opened.transport.close.called


def test_client_that_waits_for_its_second_answer_is_not_given_up(opened: Connection, loop: Loop) -> None:
    opened.data_received(HEAD + b"\r\n" + b" " * 100)
    first = opened.cycle
    opened.data_received(HEAD + b"\r\n" + b" " * 100)
    answer(opened, first)
    loop.pass_time(1000)
    assert not opened.transport.close.called


def test_client_that_takes_its_answer_slowly_is_not_given_up(opened: Connection, loop: Loop) -> None:
    opened.data_received(HEAD + b"\r\n" + b" " * 100)
    for unsent in range(1000, 0, -1):
        opened.transport.get_write_buffer_size.return_value = unsent
        loop.pass_time(59)
    # The number of waiting bytes may stay the same, where the client takes some and the server adds some.
    for _ in range(10):
        opened.resume_writing()
        loop.pass_time(59)
    opened.resume_writing()
    # A server that closes the connection first sends what waits.
    opened.transport.close()
    loop.pass_time(59)
    assert not opened.transport.abort.called
    loop.pass_time(2)
    assert opened.transport.abort.called


def test_closed_connection_leaves_no_timer(opened: Connection, loop: Loop) -> None:
    assert loop.later
    opened.connection_lost(None)
    assert loop.later == []
