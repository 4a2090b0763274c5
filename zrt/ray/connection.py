"""Connections of this process to a cluster of Ray."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import ray

from zrt.errors import ArgumentError

# The seconds that the cluster may take to answer.
REACH_S = 10


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connects this process to the cluster at `address` for the time of a ``with`` block.

    `address` is that of ``ray.init``: ``HOST:PORT``, ``ray://HOST:PORT``, ``auto`` for the cluster that runs on this
    machine, ``local`` for a new one, which ends with the block. A process that is connected already stays as it is.
    Raises `ConnectionError` where there is no cluster.
    """
    if ray.is_initialized():
        yield
        return
    _reach(address)
    # Messages of Ray's core, which writes to standard error by itself.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        raise ConnectionError(f"no cluster of Ray at {address!r}: {str(error).strip()}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Raises unless somebody listens at the address: Ray itself would try for a long time."""
    if address in ("auto", "local"):
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 1 << 16):
        raise ArgumentError(
            f"{address!r} is no address of a cluster: expected HOST:PORT, ray://HOST:PORT, auto or local"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
        if not os.environ.get("RAY_USE_TLS"):
            _speak(f"{host}:{port}")
    except OSError as error:
        raise ConnectionError(f"no cluster of Ray at {address!r}: {error}") from None


def _speak(target: str) -> None:
    """Raises unless the server there speaks gRPC, as those of Ray do."""
    with grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(REACH_S)
        except grpc.FutureTimeoutError:
            raise ConnectionError(f"the server there does not answer as one of Ray in {REACH_S} seconds") from None
