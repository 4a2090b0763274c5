"""``zrt serve --ray``: replicas of the application on a cluster of Ray."""

from __future__ import annotations

import argparse
import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from types import FrameType
from typing import TYPE_CHECKING, Any

from zrt._common import installation
from zrt.cli import common

if TYPE_CHECKING:
    from zrt.serving import Application

REPLICAS = 1
CPUS = 1
GPUS = 0
START_S = 300
NAME = "zrt"
ROUTE_PREFIX = "/"

CHECK_S = 1.0

OPTIONS = ("replicas", "per_node", "cpus", "gpus", "send", "app_name", "route_prefix", "start_timeout")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt serve --ray``."""
    group = parser.add_argument_group("on a cluster of Ray")
    whole = common.integer_argument
    group.add_argument(
        "--ray",
        nargs="?",
        const="auto",
        metavar="ADDRESS",
        help="serve on a cluster of Ray: HOST:PORT or ray://HOST:PORT; local: a new one on this machine (default: the "
        "one that runs here). MODEL stands before this option",
    )
    for option, low, metavar, meaning in (
        ("--replicas", 1, "N", f"the processes that serve (default: {REPLICAS})"),
        ("--per-node", 1, "N", "the most replicas on one node (default: as many as fit)"),
        ("--cpus", 1, "N", f"the CPUs of a node that a replica takes, and the default of --threads (default: {CPUS})"),
        ("--gpus", 0, "N", f"the GPUs of a node that a replica takes (default: {GPUS})"),
        ("--start-timeout", 1, "SECONDS", f"how long the replicas may take to start (default: {START_S})"),
    ):
        group.add_argument(option, type=whole(low), metavar=metavar, help=meaning)
    group.add_argument(
        "--send",
        action="store_const",
        const=True,
        help="send the models to the nodes; without it each node reads them at the same paths",
    )
    group.add_argument("--app-name", metavar="NAME", help=f"the name of Ray Serve's application (default: {NAME})")
    group.add_argument(
        "--route-prefix", metavar="PATH", help=f"what the addresses begin with (default: {ROUTE_PREFIX})"
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` for options that do not go together."""
    if arguments.ray is None:
        for name in OPTIONS:
            if getattr(arguments, name) is not None:
                raise common.UsageError(f"--{name.replace('_', '-')} needs --ray")
        return
    if arguments.workers is not None:
        raise common.UsageError("--workers does not apply with --ray: --replicas are the processes that serve")
    if arguments.imports:
        raise common.UsageError("--import does not apply with --ray: replicas have no modules of this machine")
    if arguments.access_log:
        raise common.UsageError("--access-log does not apply with --ray: replicas write logs of Ray's")
    if arguments.port == 0:
        raise common.UsageError("--port 0 does not apply with --ray: all nodes listen at the same port")
    if arguments.route_prefix is not None and not arguments.route_prefix.startswith("/"):
        raise common.UsageError(f"--route-prefix: {arguments.route_prefix!r} does not begin with /")


def run(arguments: argparse.Namespace, served: Application) -> int:
    """Serves on a cluster until a signal ends it."""
    installation.require("ray", "ray", "zrt serve --ray")
    from zrt.ray.connection import connected
    from zrt.ray.replicas import deployment
    from zrt.ray.service import Http, Service, ServiceError

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
    try:
        # Ray prints what happens on the cluster to standard output, which is the caller's.
        with redirect_stdout(sys.stderr), connected(arguments.ray), _signals() as signals:
            try:
                addresses = service.start(replicas, http, arguments.start_timeout or START_S, signals.came)
                if addresses:
                    with redirect_stdout(out):
                        _say(arguments, served, addresses)
                while not signals.came.wait(CHECK_S):
                    service.check()
            finally:
                # The end of Ray Serve is an error to Ray.
                sys.stdout = io.StringIO()
                service.end(arguments.grace)
    except ServiceError as error:
        raise common.CommandError(str(error)) from None
    if signals.number == signal.SIGINT:
        raise KeyboardInterrupt
    return 0


def _say(arguments: argparse.Namespace, served: Application, addresses: list[str]) -> None:
    if arguments.json:
        common.print_json({"addresses": addresses, "models": list(served.models)})
    else:
        where = ", ".join(f"{address}/v2" for address in addresses)
        print(f"zrt serves {', '.join(served.models)} at {where}")
    sys.stdout.flush()


class _Signals:
    """The first SIGINT or SIGTERM; a second one has its usual effect."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def catch(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)

    def release(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.number = number
        self.came.set()
        self.release()


@contextmanager
def _signals() -> Iterator[_Signals]:
    signals = _Signals()
    signals.catch()
    try:
        yield signals
    finally:
        signals.release()
