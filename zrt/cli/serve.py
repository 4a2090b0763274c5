"""``zrt serve``: serves models over HTTP by the Open Inference Protocol."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zrt._common import installation
from zrt.cli import common, serve_ray
from zrt.environment import cpu_limits
from zrt.errors import ArgumentError
from zrt.session.session import Session
from zrt.session.spec import SessionSpec

if TYPE_CHECKING:
    from zrt.serving import Application

SUMMARY = "Serve models over HTTP by the Open Inference Protocol."

DEFAULT_THREADS = 0
HOST = "127.0.0.1"
PORT = 8000
GRACE = 30
LAST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt serve``."""
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="an ONNX file, by the name of the file, or NAME=FILE, or NAME:VERSION=FILE; without any what ZRT_MODEL "
        "names, else the digit classifier inside zrt",
    )
    parser.add_argument("--host", help=f"the address to listen at (default: {HOST})")
    parser.add_argument("--port", type=_port, help=f"the port; 0: any free one (default: {PORT})")
    whole = common.integer_argument
    for option, low, metavar, meaning in (
        ("--max-batch", 1, "ROWS", "the most rows of requests that share a run; 1: none do"),
        ("--max-wait", 0, "MICROSECONDS", "how long a request may wait for others to share its run"),
        ("--lanes", 1, "N", "the runs of a model at the same time"),
        ("--max-queue", 1, "N", "the most requests of a model that wait; further ones get status 503"),
        ("--max-body", 1, "BYTES", "the most bytes of a request's body; larger ones get status 413"),
    ):
        parser.add_argument(option, type=whole(low), metavar=metavar, help=meaning)
    parser.add_argument(
        "--timeout",
        type=common.seconds_argument,
        metavar="SECONDS",
        help="a request that takes longer, such as 0.5 or 10s, gets status 504",
    )
    parser.add_argument(
        "--grace",
        type=whole(0),
        default=GRACE,
        metavar="SECONDS",
        help=f"how long the requests in progress may take after SIGTERM (default: {GRACE})",
    )
    parser.add_argument(
        "--workers",
        type=whole(1),
        metavar="N",
        help="the processes that serve, each with the models; they share the port and the CPUs (default: 1)",
    )
    parser.add_argument("--access-log", action="store_true", help="log each request to standard error")
    common.add_provider(parser)
    common.add_threads(parser, DEFAULT_THREADS)
    common.add_options(parser)
    common.add_import(parser)
    serve_ray.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt serve``."""
    serve_ray.check(arguments)
    installation.require("uvicorn", "serve", "zrt serve")
    if arguments.ray is not None:
        return serve_ray.run(arguments, make_application(arguments))
    from zrt.serving import server

    several = (arguments.workers or 1) > 1
    # Each of several workers makes an application of its own. This one only finds mistakes in the command line.
    served = make_application(arguments, load=not several)
    if not several:
        served.load()
    wanted = HOST if arguments.host is None else arguments.host, PORT if arguments.port is None else arguments.port
    try:
        listening = server.listen(*wanted)
    except (OSError, UnicodeError) as error:
        raise common.CommandError(f"{wanted[0]}, port {wanted[1]}: {error}") from None
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def started() -> None:
        if arguments.json:
            common.print_json({"address": address, "models": list(served.models)})
        else:
            print(f"zrt serves {', '.join(served.models)} at {address}/v2")
        sys.stdout.flush()

    if several:
        from zrt.serving import workers

        # Only a function with data travels to other processes.
        del arguments.command
        try:
            workers.serve(
                partial(make_application, arguments),
                arguments.workers,
                listening,
                arguments.grace,
                arguments.access_log,
                started,
            )
        except workers.StartError as error:
            raise common.CommandError(str(error)) from None
        return 0
    try:
        server.serve(served, listening, arguments.grace, arguments.access_log, started)
    finally:
        served.close()
    return 0


def make_application(arguments: argparse.Namespace, load: bool = True) -> Application:
    """The application that the command line describes.

    Models with custom operators in Python are loaded here, as no recipe can name their operators; with `load` False the
    application only describes them.
    """
    from zrt import serving

    threads = DEFAULT_THREADS if arguments.ray is None else arguments.cpus or serve_ray.CPUS
    options = common.loaded_options(arguments.options, arguments.threads, threads)
    if arguments.workers is not None and arguments.threads is None and not options.session.intra_op_num_threads:
        options.session.intra_op_num_threads = share_of_cpus(arguments.workers)
    domains = common.imported_domains(arguments.imports)
    # The machines of a cluster may have other providers than this one.
    chosen = common.chosen_providers if arguments.ray is None else common.named_providers
    providers = chosen(arguments.provider, options)
    models: dict[str, dict[str, SessionSpec | Session]] = {}
    for name, version, path in map(_named, arguments.models) if arguments.models else [_default()]:
        versions = models.setdefault(name, {})
        if version in versions:
            raise common.UsageError(f"MODEL gives {name!r} twice")
        model = path.read_bytes() if arguments.send else path
        spec = SessionSpec(model, options.session, providers or None)
        versions[version] = spec
        if domains and load:
            own = spec.options
            own.custom_ops = domains
            versions[version] = Session(path, own, providers or None)
    given = {
        name: getattr(arguments, name)
        for name in ("max_batch", "max_wait", "lanes", "max_queue", "max_body", "timeout")
        if getattr(arguments, name) is not None
    }
    try:
        return serving.application(models, **given)
    except ArgumentError as error:
        raise common.UsageError(str(error)) from None


def share_of_cpus(workers: int) -> int:
    """The threads of each worker: with a pool for all CPUs in each, they would take the CPUs from each other."""
    return 0 if workers == 1 else max(1, cpu_limits.cpus() // workers)


def _named(text: str) -> tuple[str, str, Path]:
    """``NAME:VERSION=FILE``, ``NAME=FILE`` or a file as a name, a version and a path."""
    name, given, path = text.rpartition("=")
    if not given:
        return Path(text).stem, "1", Path(text)
    name, _, version = name.partition(":")
    if not name or not path:
        raise common.UsageError(f"{text!r} is no model: expected FILE, NAME=FILE or NAME:VERSION=FILE")
    return name, version or "1", Path(path)


def _default() -> tuple[str, str, Path]:
    path = common.chosen_model(None)
    return path.stem, "1", path


def _port(text: str) -> int:
    number = common.integer_argument(0)(text)
    if number > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text}: there are no ports above {LAST_PORT}")
    return number
