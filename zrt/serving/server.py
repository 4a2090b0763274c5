"""Runs an application with uvicorn, until a signal ends it."""

from __future__ import annotations

import copy
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from zrt.serving.asgi import Application
from zrt.serving.connection import Connection

BACKLOG = 2048


class _Server(uvicorn.Server):
    """uvicorn's server, which a signal also ends that came before uvicorn took care of signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.received: set[int] = set()

    def receive(self, number: int, _: FrameType | None) -> None:
        # No exception, which Python would drop inside a destructor.
        self.received.add(number)

    async def main_loop(self) -> None:
        if not self.received:
            await super().main_loop()


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; raises `OSError` if the address cannot be used."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def configuration(
    application: Callable[..., Any], grace: int | None, access_log: bool, **options: Any
) -> uvicorn.Config:
    """uvicorn's configuration for an application, or for the function that makes one."""
    log = copy.deepcopy(LOGGING_CONFIG)
    # Standard output is the caller's.
    log["handlers"]["access"]["stream"] = "ext://sys.stderr"
    return uvicorn.Config(
        application,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=log,
        log_level="info" if access_log else "warning",
        access_log=access_log,
        timeout_graceful_shutdown=grace,
        server_header=False,
        # Nothing asks for the client's address.
        proxy_headers=False,
        **options,
    )


def serve(
    application: Application, listening: socket.socket, grace: int | None, access_log: bool, started: Callable[[], None]
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the requests that it took, for at most `grace` seconds.

    `started` is called before the first request. SIGINT raises `KeyboardInterrupt` at the end, as it does elsewhere.
    """
    server = _Server(configuration(application, grace, access_log))
    before = {number: signal.signal(number, server.receive) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        started()
        # uvicorn sends itself a signal again after it has handled it.
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()
    if signal.SIGINT in server.received:
        raise KeyboardInterrupt
