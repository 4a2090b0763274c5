"""Runs an application with uvicorn, until a signal ends it."""

from __future__ import annotations

import copy
import importlib.util
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from zrt.serving.asgi import Application

BACKLOG = 2048


class _TerminatedError(BaseException):
    """SIGTERM came outside of uvicorn's own care for it."""


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
        http=_http(),
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


def _http() -> Any:
    """The reader of HTTP: httptools with a limit for heads; h11, which comes with uvicorn, has one of its own."""
    if importlib.util.find_spec("httptools") is None:
        return "h11"
    from zrt.serving.bounded_head import BoundedHead

    return BoundedHead


def serve(
    application: Application, listening: socket.socket, grace: int | None, access_log: bool, started: Callable[[], None]
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the requests that it took, for at most `grace` seconds.

    `started` is called before the first request. SIGINT raises `KeyboardInterrupt` at the end, as it does elsewhere.
    """

    def terminated(_: int, __: FrameType | None) -> None:
        raise _TerminatedError

    config = configuration(application, grace, access_log)
    before = signal.signal(signal.SIGTERM, terminated)
    try:
        started()
        # uvicorn sends itself the signal again after it has handled it.
        uvicorn.Server(config).run(sockets=[listening])
    except _TerminatedError:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        listening.close()
