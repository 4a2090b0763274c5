"""``zrt check``: whether an ONNX Runtime loads a model, and what keeps it from that."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zrt.bench import child
from zrt.cli import common, options
from zrt.cli.options import UsageError, option
from zrt.cli.units import plural
from zrt.diagnosis.report import DOES_NOT_LOAD, ERROR, NOTE, SHOWN, WARNING, Check, Problem
from zrt.errors import ArgumentError, Error, ProviderError

if TYPE_CHECKING:
    from zrt.cli.terminal import Page

SUMMARY = "Check whether a model loads here or elsewhere, and what keeps it from that."

FAILED = 1

# The process that loads the model: a damaged one may end it.
PROGRAM = "from zrt.cli.check import answer; answer()"
STYLES = {ERROR: "bold red", WARNING: "yellow", NOTE: "dim"}

OPTIONS = (
    options.MODEL,
    option("--provider", "an execution provider to ask for; the best first", "NAME", repeated=True),
    options.OPTIONS,
    options.IMPORT,
    *options.other_library("ask"),
)


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt check``."""
    page = None if arguments.json else common.open_page()
    model = common.model_path(arguments.model)
    document = _asked(arguments, model)
    if page is None:
        common.print_json(document)
    else:
        _show(page, common.model_label(arguments.model), document)
    return FAILED if document["verdict"] == DOES_NOT_LOAD else 0


def _asked(arguments: argparse.Namespace, model: Path) -> dict[str, Any]:
    """The check by a process of its own, as plain data."""
    request = {
        "model": str(model),
        "options": None if arguments.options is None else str(arguments.options),
        "providers": arguments.provider,
        "imports": arguments.imports,
    }
    library = common.other_library(arguments)
    variables = {} if library is None else {"ZRT_ORT_LIBRARY": str(library)}
    with child.start(PROGRAM, **variables) as process:
        try:
            output, _ = process.communicate(json.dumps(request).encode())
        finally:
            process.kill()
    if process.returncode < 0:
        with suppress(ValueError):
            output = json.dumps({"signal": signal.Signals(-process.returncode).name}).encode()
    reply: dict[str, Any] = json.loads(output) if output else {"error": "the process that loads the model failed"}
    if "signal" in reply:
        reason = (
            f"it ended the process that loads it ({reply['signal']}): the file is damaged, or the library has a fault"
        )
        found = Check(str(model), "", DOES_NOT_LOAD, (Problem(ERROR, "the model", reason),))
        return found.to_dict() | {"library": None}
    if "error" in reply:
        raise (UsageError if reply.get("usage") else common.CommandError)(reply["error"])
    return reply


def answer() -> None:
    """The program of the process that loads the model: reads a request from standard input, and prints the check."""
    # The reply has a file of its own: modules of the user may print.
    reply = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    with reply:
        json.dump(_answered(request), reply)


def _answered(request: dict[str, Any]) -> dict[str, Any]:
    from zrt.diagnosis.check import check

    place = None if request["options"] is None else Path(request["options"])
    try:
        settings = common.loaded_options(argparse.Namespace(options=place, threads=None), 1)
        if request["imports"]:
            settings.session.custom_ops = common.imported_domains(request["imports"])
        wanted = [common.provider_named(name) for name in request["providers"]]
        return check(request["model"], settings.session, common.requested_providers(wanted, settings) or None).to_dict()
    except (Error, UsageError, OSError) as error:
        usage = isinstance(error, (UsageError, ArgumentError, ProviderError, TypeError))
        return {"error": str(error), "usage": usage}


def _show(page: Page, label: str, document: dict[str, Any]) -> None:
    version = f" with ONNX Runtime {document['library']}" if document["library"] else ""
    page.line(f"{label}: ", (document["verdict"], "bold"), version)
    for provider, count in (document["nodes"] or {}).items():
        page.line(f"  {plural(count, 'node')} on {provider}")
    for asked, nodes in document["others"].items():
        placed = ", ".join(f"{plural(count, 'node')} on {provider}" for provider, count in nodes.items())
        page.line(f"  where {asked} is asked for: {placed}")
    for problem in document["problems"]:
        page.line((problem["severity"], STYLES[problem["severity"]]), f"  {problem['subject']}: {problem['reason']}")
        if problem["remedy"]:
            page.line(f"       {problem['remedy']}")
        nodes = problem["nodes"]
        if nodes:
            more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
            page.line(f"       nodes: {', '.join(nodes[:SHOWN])}{more}", style="dim")
