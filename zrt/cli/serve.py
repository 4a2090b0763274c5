"""``zrt serve``: serves models over HTTP by the Open Inference Protocol."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zrt._common import installation
from zrt.cli import common, options, serve_ray
from zrt.cli.options import UsageError, option, whole
from zrt.environment import cpu_budget, cpu_limits
from zrt.session.session import Session
from zrt.session.spec import SessionSpec

if TYPE_CHECKING:
    from zrt.serving import Application

HOST = "127.0.0.1"
PORT = 8000
GRACE = 30
# The wait for a worker counts milliseconds in an int of C.
MOST_GRACE = 10**6
LAST_PORT = 65535


def run(arguments: argparse.Namespace) -> int:
    serve_ray.check(arguments)
    installation.require("uvicorn", "serve", "zrt serve")
    if arguments.ray is not None:
        return serve_ray.run(arguments, make_application(arguments))
    installation.require("httptools", "serve", "zrt serve")
    from zrt.serving import server

    several = (arguments.workers or 1) > 1
    # Each of several workers makes an application of its own. This one only finds mistakes in the command line.
    with closing(make_application(arguments, load=not several)) as served:
        if not several:
            served.load()
        host = HOST if arguments.host is None else arguments.host
        port = PORT if arguments.port is None else arguments.port
        try:
            listening = server.listen(host, port)
        except (OSError, UnicodeError) as error:
            raise common.CommandError(f"{host}, port {port}: {error}") from None
        host, port = listening.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

        def started() -> None:
            serve_ray.announce(arguments, served, {"address": address}, f"{address}/v2")

        if not several:
            server.serve(served, listening, arguments.grace, arguments.access_log, started)
            return 0
        from zrt.serving import workers

        # Only a function with data travels to other processes.
        del arguments.command
        make = partial(make_application, arguments)
        workers.serve(make, arguments.workers, listening, arguments.grace, arguments.access_log, started)
    return 0


def make_application(arguments: argparse.Namespace, load: bool = True) -> Application:
    """The application that the command line describes.

    Models with custom operators in Python are loaded here, as no recipe can name their operators; with `load` False the
    application only describes them.
    """
    # zrt.serving is a higher package, and its packages are extras.
    from zrt import serving

    left_open = arguments.ray is None or cpu_budget.by_variable()
    settings = common.loaded_options(arguments, threads=0 if left_open else arguments.cpus or serve_ray.CPUS)
    open_threads = arguments.threads is None and not settings.session.intra_op_num_threads
    if (arguments.workers or 1) > 1 and open_threads and not cpu_budget.by_variable():
        # With a pool for all CPUs in each worker, they would take the CPUs from each other. A budget of CPUs is divided
        # instead (`zrt.serving.workers`).
        settings.session.intra_op_num_threads = max(1, cpu_limits.cpus() // arguments.workers)
    domains = common.imported_domains(arguments.imports)
    if arguments.ray is None:
        providers = common.requested_providers(arguments.provider, settings)
    else:
        # The machines of a cluster may have other providers than this one.
        providers = arguments.provider or settings.providers or None
    models: dict[str, dict[str, SessionSpec | Session]] = {}
    named = [_named(text) for text in arguments.models] or [_by_file(common.model_path(None))]
    for name, version, path in named:
        versions = models.setdefault(name, {})
        if version in versions:
            raise UsageError(f"MODEL gives {name!r} twice")
        model = path.read_bytes() if arguments.send else path
        spec = SessionSpec(model, settings.session, providers)
        versions[version] = spec
        if domains and load:
            own = spec.options
            own.custom_ops = domains
            versions[version] = Session(path, own, providers)
    limits = {
        name: getattr(arguments, name)
        for name in ("max_batch", "max_wait", "lanes", "max_queue", "max_body", "timeout", "record", "slower_than")
        if getattr(arguments, name) is not None
    }
    return serving.application(models, **limits)


def _by_file(path: Path) -> tuple[str, str, Path]:
    return path.stem, "1", path


def _named(text: str) -> tuple[str, str, Path]:
    """``NAME:VERSION=FILE``, ``NAME=FILE`` or a file, whose name may have a ``=``, as a name, a version and a path."""
    name, separator, path = text.partition("=")
    if not separator or os.path.isfile(text):
        return _by_file(Path(text))
    name, _, version = name.partition(":")
    if not name or not path:
        raise UsageError(f"{text!r} is no model: expected FILE, NAME=FILE or NAME:VERSION=FILE")
    return name, version or "1", Path(path)


OPTIONS = (
    option(
        "models",
        "an ONNX file, by the name of the file, or NAME=FILE, or NAME:VERSION=FILE; without any what ZRT_MODEL names, "
        "else the digit classifier inside zrt",
        "MODEL",
        nargs="*",
    ),
    option("--host", f"the address to listen at (default: {HOST})", "HOST"),
    option("--port", f"the port; 0: any free one (default: {PORT})", "PORT", whole(0, LAST_PORT)),
    option("--max-batch", "the most rows of requests that share a run (default: 1, none do)", "ROWS", whole(1)),
    option("--max-wait", "how long a request may wait for others to share its run", "MICROSECONDS", whole(0)),
    option("--lanes", "the runs of a model at the same time", "N", whole(1)),
    option("--max-queue", "the most requests of a model that wait; further ones get status 503", "N", whole(1)),
    option("--max-body", "the most bytes of a request's body; larger ones get status 413", "BYTES", whole(1)),
    option("--timeout", "a request that takes longer, such as 0.5 or 10s, gets status 504", "SECONDS", options.seconds),
    option("--record", "a folder for capsules of the runs that fail, without their feeds", "FOLDER"),
    option("--slower-than", "with --record also those of runs that take longer", "SECONDS", options.seconds),
    option(
        "--grace",
        "how long the requests in progress may take after SIGTERM",
        "SECONDS",
        whole(0, MOST_GRACE),
        default=GRACE,
    ),
    option(
        "--workers",
        "the processes that serve, each with the models; they share the port and the CPUs (default: 1)",
        "N",
        whole(1),
    ),
    option("--access-log", "log each request to standard error"),
    options.PROVIDER,
    options.threads(),
    options.OPTIONS,
    options.IMPORT,
    *serve_ray.OPTIONS,
)
