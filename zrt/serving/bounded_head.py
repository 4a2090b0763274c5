"""`BoundedHead`: uvicorn's HTTP on a connection, with a limit for the heads of requests, which uvicorn has not got."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The most bytes of a head, of a chunk's size with its extensions, or of the lines after the last chunk. The parser
# keeps them all, and copies a long line again for each part that comes.
MOST_BYTES = 1 << 16


class BoundedHead(HttpToolsProtocol):
    """A connection that is refused (status 400) when its client sends more than `MOST_BYTES` of anything but bodies."""

    _held = 0

    def data_received(self, data: bytes) -> None:
        """Reads what came; the parser calls the methods below where a part of a request is complete."""
        self._held += len(data)
        super().data_received(data)
        if self._held > MOST_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of a request has at most {MOST_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """The head of a request came."""
        self._held = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body came."""
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request came."""
        self._held = 0
        super().on_message_complete()
