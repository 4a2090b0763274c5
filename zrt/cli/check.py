"""``zrt check``: whether an ONNX Runtime loads a model, and what keeps it from that."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

from zrt.bench import child
from zrt.cli import common, options
from zrt.cli.options import option
from zrt.cli.units import plural
from zrt.diagnosis.report import DOES_NOT_LOAD, ERROR, NOTE, SHOWN, WARNING, Check, Problem

STYLES = {ERROR: "bold red", WARNING: "yellow", NOTE: "dim"}

OPTIONS = (
    options.MODEL,
    option("--provider", "an execution provider to ask for; the best first", "NAME", repeated=True),
    options.OPTIONS,
    options.IMPORT,
    *options.other_library("ask"),
)


def run(arguments: argparse.Namespace) -> int:
    model = common.model_path(arguments.model)
    document = _asked(arguments, model)
    common.print_result(arguments, document, _show, common.model_label(arguments.model), document)
    return common.FAILED if document["verdict"] == DOES_NOT_LOAD else 0


def _asked(arguments: argparse.Namespace, model: Path) -> dict[str, Any]:
    """The check by a process of its own, as plain data: a damaged model may end it."""
    library = common.other_library(arguments)
    variables = {} if library is None else {"ZRT_ORT_LIBRARY": str(library)}
    try:
        found = child.call(_check, model, arguments.options, arguments.provider, arguments.imports, **variables)
    except child.EndedError as ended:
        if not ended.crashed:
            raise
        reason = f"it ended the process that loads it ({ended.how}): the file is damaged, or the library has a fault"
        found = Check(str(model), "", DOES_NOT_LOAD, (Problem(ERROR, "the model", reason),)).to_dict()
        found["library"] = None
    return cast("dict[str, Any]", found)


def _check(model: Path, options: Path | None, asked: list[str], imports: list[str]) -> Any:
    """The check in that process as plain data."""
    from zrt.diagnosis.check import check

    settings = common.options_in(options, 1)
    settings.session.custom_ops = common.imported_domains(imports)
    providers = common.requested_providers(asked, settings)
    return check(model, settings.session, providers).to_dict()


def _show(page: common.Page, label: str, document: dict[str, Any]) -> None:
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
