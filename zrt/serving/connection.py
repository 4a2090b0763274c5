"""`Connection`: uvicorn's HTTP on a connection, with a limit for the heads of requests and without other protocols."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from zrt.serving.settings import PATIENCE

# The most bytes of a head, of a chunk's size with its extensions, or of the lines after the last chunk. The parser
# keeps them all, and copies a long line again for each part that comes.
MOST_BYTES = 1 << 16


class Connection(HttpToolsProtocol):
    """A connection that speaks HTTP/1.

    It is refused (status 400) when its client sends more than `MOST_BYTES` of anything but bodies, or what is no
    request; earlier requests are answered, and then it ends. A client that offers another protocol beside its request
    (``Upgrade``) gets the answer to the request. The parser takes what follows such an offer for the other protocol: so
    it reads the head a second time, without the offer. When the client goes away, each of its requests learns of it:
    uvicorn tells the last one only. A client that does not go on with a request, or does not take its answer, is given
    up after `PATIENCE`.
    """

    parser: Any
    _held = 0
    # Whether a request was refused: nothing more is read, also while earlier ones wait for their answers.
    _refused = False
    # When the client was heard last, while it owes a request or a part of one.
    _heard: float | None = None
    # The bytes that wait for the client, and when it took some last.
    _unsent = 0
    _taken = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # The requests without a whole answer, in their order, and perhaps some before them.
        self._requests: deque[RequestResponseCycle] = deque()
        self._hear()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client went away, or the server closed the connection."""
        super().connection_lost(exc)
        self._looking.cancel()
        for request in self._requests:
            if not request.response_complete:
                request.disconnected = True
            request.message_event.set()

    def _hear(self) -> None:
        self._heard = self.loop.time()

    def _look(self) -> None:
        """Gives the client up, or looks again when it has been silent for long enough."""
        now = self.loop.time()
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._taken = now
        self._unsent = unsent
        since = self._taken
        # Nobody waits for a client that may not send, or that takes its answer first.
        if self._heard is not None and not unsent and not self.flow.read_paused:
            since = min(since, self._heard)
        left = PATIENCE - (now - since)
        if left <= 0:
            # A close would wait until the client takes the rest.
            (self.transport.abort if since == self._taken else self.transport.close)()
            left = PATIENCE
        self._looking = self.loop.call_later(left, self._look)

    def resume_writing(self) -> None:
        """The client took a large part of what waited."""
        super().resume_writing()
        self._taken = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Reads what came; the parser calls the methods below where a part of a request is complete."""
        if self._refused:
            return
        self._held += len(data)
        self._unset_keepalive_if_required()
        refused = ""
        try:
            while data:
                data = self._read(data)
        except httptools.HttpParserError:
            refused = "Invalid HTTP request received."
        if self._held > MOST_BYTES:
            refused = f"The head of a request has at most {MOST_BYTES} bytes."
        if refused and not self.transport.is_closing():
            self._refuse(refused)

    def _refuse(self, reason: str) -> None:
        """Ends the connection with status 400, or after the answers to the requests before the refused one."""
        self._refused = True
        before = [each for each in self._requests if not each.more_body and not each.response_complete]
        if before:
            # Their client would take a status 400 for the answer to the first of them.
            before[-1].keep_alive = False
            # The client owes nothing more.
            self._heard = None
            return
        body = json.dumps({"error": reason}).encode()
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        self.transport.write(head + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _read(self, data: bytes) -> bytes:
        """Gives data to the parser; returns what it has to be given next."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # After CONNECT, which is refused, nothing is read.
            if self._is_offer():
                following = data[offer.args[0] :]
                head = self._head()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                return head + following
        return b""

    def _is_offer(self) -> bool:
        """Whether the parser read the head of a request that offers another protocol."""
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def _head(self) -> bytes:
        """The head that was read, without an offer."""
        first = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        others = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([first, *others, b"", b""])

    def on_message_begin(self) -> None:
        self._hear()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._hear()
        # Most of it may be the body, which came in the same read.
        if self._held > MOST_BYTES and len(self._head()) > MOST_BYTES:
            raise ValueError("the head is too large")
        self._held = 0
        if not self._is_offer():
            super().on_headers_complete()
            # The parser calls `on_header` for the trailers of a chunked body too, which are no headers of the request.
            self.headers: list[tuple[bytes, bytes]] = []
            while self._requests and self._requests[0].response_complete:
                self._requests.popleft()
            self._requests.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._held = 0
        self._hear()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held = 0
        if not self._is_offer():
            # After an early answer the client owes its next request.
            if not self.cycle.response_complete:
                self._heard = None
            # After a trailer `Connection: close` the parser reads no further request.
            self.cycle.keep_alive = self.cycle.keep_alive and self.parser.should_keep_alive()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # uvicorn waits for the next request until anything comes, which may be a blank line or the rest of a body.
        if self.cycle.response_complete:
            self._hear()
        # uvicorn reads on after each answer, and what it reads may have thousands of requests.
        if self.pipeline:
            self.flow.pause_reading()
