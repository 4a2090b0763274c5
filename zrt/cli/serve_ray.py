"""``zrt serve --ray``: replicas of the application on a cluster of Ray."""

from __future__ import annotations

import argparse
import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from zrt._common import installation
from zrt.cli import common
from zrt.cli.options import UsageError, option, whole

if TYPE_CHECKING:
    from zrt.serving import Application

REPLICAS = 1
CPUS = 1
GPUS = 0
START_S = 300
NAME = "zrt"
ROUTE_PREFIX = "/"

CHECK_S = 1.0

_OPTION = partial(option, group="on a cluster of Ray")
OPTIONS = (
    _OPTION(
        "--ray",
        "serve on a cluster of Ray: HOST:PORT or ray://HOST:PORT; local: a new one on this machine (default: the "
        "one that runs here). MODEL stands before this option",
        "ADDRESS",
        nargs="?",
        const="auto",
    ),
    _OPTION("--replicas", f"the processes that serve (default: {REPLICAS})", "N", whole(1)),
    _OPTION("--per-node", "the most replicas on one node (default: as many as fit)", "N", whole(1)),
    _OPTION(
        "--cpus",
        f"the CPUs of a node that a replica takes, and without --options the default of --threads (default: {CPUS})",
        "N",
        whole(1),
    ),
    _OPTION("--gpus", f"the GPUs of a node that a replica takes (default: {GPUS})", "N", whole(0)),
    _OPTION("--start-timeout", f"how long the replicas may take to start (default: {START_S})", "SECONDS", whole(1)),
    _OPTION(
        "--send",
        "send the models to the nodes; without it each node reads them at the same paths",
        action="store_const",
        const=True,
    ),
    _OPTION("--app-name", f"the name of Ray Serve's application (default: {NAME})", "NAME"),
    _OPTION("--route-prefix", f"what the addresses begin with (default: {ROUTE_PREFIX})", "PATH"),
)


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` for options that do not go together."""
    if arguments.ray is None:
        for each in OPTIONS:
            if getattr(arguments, each.name.lstrip("-").replace("-", "_")) is not None:
                raise UsageError(f"{each.name} needs --ray")
        return
    if arguments.workers is not None:
        raise UsageError("--workers does not apply with --ray: --replicas are the processes that serve")
    if arguments.imports:
        raise UsageError("--import does not apply with --ray: replicas have no modules of this machine")
    if arguments.access_log:
        raise UsageError("--access-log does not apply with --ray: replicas write logs of Ray's")
    if arguments.port == 0:
        raise UsageError("--port 0 does not apply with --ray: all nodes listen at the same port")
    if arguments.route_prefix is not None and not arguments.route_prefix.startswith("/"):
        raise UsageError(f"--route-prefix: {arguments.route_prefix!r} does not begin with /")


def run(arguments: argparse.Namespace, served: Application) -> int:
    """Serves on a cluster until a signal ends it."""
    installation.require("ray", "ray", "zrt serve --ray")
    # Higher packages; Ray is an extra.
    from zrt.ray.connection import connected
    from zrt.ray.replicas import deployment
    from zrt.ray.service import Http, Service

    replicas = deployment(
        served,
        replicas=arguments.replicas or REPLICAS,
        per_node=arguments.per_node,
        cpus=arguments.cpus or CPUS,
        gpus=arguments.gpus or GPUS,
        grace=arguments.grace,
    )
    service = Service(arguments.app_name or NAME, arguments.route_prefix or ROUTE_PREFIX)
    http = Http(arguments.host, arguments.port, arguments.timeout)
    out = sys.stdout
    # Ray prints what happens on the cluster to standard output, which is the caller's.
    with redirect_stdout(sys.stderr), connected(arguments.ray), _signals() as signals:
        try:
            addresses = service.start(replicas, http, arguments.start_timeout or START_S, signals.came)
            if addresses:
                with redirect_stdout(out):
                    where = ", ".join(f"{address}/v2" for address in addresses)
                    announce(arguments, served, {"addresses": addresses}, where)
            while not signals.came.wait(CHECK_S):
                service.check()
        finally:
            # The end of Ray Serve is an error to Ray.
            sys.stdout = io.StringIO()
            service.end(arguments.grace)
    if signals.numbers[:1] == [signal.SIGINT]:
        raise KeyboardInterrupt
    return 0


def announce(arguments: argparse.Namespace, served: Application, addresses: dict[str, Any], where: str) -> None:
    """Says that models are served: the `addresses` in JSON, or `where` in words."""
    if arguments.json:
        common.print_json({**addresses, "models": list(served.models)})
    else:
        print(f"zrt serves {', '.join(served.models)} at {where}")
    sys.stdout.flush()


class _Signals(NamedTuple):
    """The signals that came."""

    came: threading.Event
    numbers: list[int]


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Takes the first SIGINT or SIGTERM; a second one has its usual effect."""
    signals = _Signals(threading.Event(), [])
    before: dict[int, Any] = {}

    def release() -> None:
        while before:
            signal.signal(*before.popitem())

    def handle(number: int, _: FrameType | None) -> None:
        signals.numbers.append(number)
        signals.came.set()
        release()

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
        yield signals
    finally:
        release()
