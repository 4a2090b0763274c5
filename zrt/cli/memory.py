"""``zrt memory``: the memory that a model takes, and which settings take less."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from zrt._common.arguments import byte_count
from zrt._common.files import temporary_folder
from zrt.bench.footprint import Footprint, Footprints, Measured
from zrt.cli import common, inputs
from zrt.cli.options import option
from zrt.cli.units import MIB, mebibytes
from zrt.errors import ArgumentError
from zrt.loading.session_options import WRITING_NOTHING
from zrt.session.spec import SessionSpec


def _budget(text: str) -> int:
    try:
        return byte_count(text, "--budget")
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("--budget: ")) from None


OPTIONS = (
    *inputs.MEASURED,
    option(
        "--budget",
        "say whether a process with the model stays below this size, such as 512MB or 2GiB, and with which setting: "
        "tries them until one does",
        "SIZE",
        _budget,
    ),
)


def run(arguments: argparse.Namespace) -> int:
    settings = common.loaded_options(arguments, inputs.input_files(arguments))
    # Every measurement would write its files anew, and the thread that fills a cache would be measured too.
    session = replace(settings.session, **WRITING_NOTHING)
    providers = common.requested_providers(arguments.provider, settings)
    spec = SessionSpec(common.model_path(arguments.model), session, providers)
    with common.terminable(), temporary_folder("zrt-memory-") as folder:
        footprints = Footprints(spec, inputs.user_inputs(arguments), folder)
        rows = list(footprints.measure_all(arguments.budget))
        document = _document(str(spec.model), rows, footprints.loaded_bytes(), arguments.budget)
    common.print_result(arguments, document, _show, common.model_label(arguments.model), document)
    return common.FAILED if arguments.budget is not None and document["budget"]["fits_with"] is None else 0


def _document(model: str, rows: Sequence[Measured], loaded: int | None, budget: int | None) -> dict[str, Any]:
    """The measurements as plain data for JSON. The counters are those of the first setting that could be measured."""
    first = next((row.footprint for row in rows if row.footprint is not None), None)
    if first is None:
        raise common.CommandError(f"no setting could be measured: {rows[0].error}")
    report = first.report
    before = rows[0].footprint
    document: dict[str, Any] = {
        "model": model,
        "inputs": first.inputs,
        "weights": {
            "stored": report.stored_bytes,
            "outside": report.outside_bytes,
            "loaded": loaded,
            "packed": report.packed_bytes,
        },
        "arena": report.arena_bytes,
        "activations": {"planned": report.planned_bytes, "peak": report.peak_bytes},
        "process_before_load": first.before,
        "settings": [_entry(row, before) for row in rows],
    }
    if budget is not None:
        last = rows[-1].footprint
        fits = last is not None and last.peak <= budget
        document["budget"] = {"bytes": budget, "fits_with": rows[-1].setting.name if fits else None}
    return document


def _entry(row: Measured, before: Footprint | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": row.setting.name, "how": row.setting.how}
    if row.footprint is None:
        return entry | {"error": row.error}
    footprint = row.footprint
    return entry | {
        "peak": footprint.peak,
        "saves": None if before is None else before.peak - footprint.peak,
        "resident": footprint.resident,
        "own": footprint.own,
        "another_session": footprint.another,
    }


def _show(page: common.Page, label: str, document: dict[str, Any]) -> None:
    page.facts(
        ("model", f"{label}: " + ", ".join(f"{name} {kind}" for name, kind in document["inputs"].items())),
        ("weights", _figures(document["weights"])),
        ("arena", _bytes(document["arena"])),
        ("activations", _figures(document["activations"])),
        ("process", f"{_mebibytes(document['process_before_load'])} MiB before the load"),
    )
    measured = [entry for entry in document["settings"] if "error" not in entry]
    columns = ("peak", "saves", "resident", "own", "another_session")
    page.table(
        ("setting, MiB", "peak", "saves", "resident", "own", "one more session"),
        [(entry["name"], *(_mebibytes(entry[column]) for column in columns)) for entry in measured],
    )
    for entry in document["settings"]:
        if "error" in entry:
            page.line(f"not measured: {entry['name']}: {entry['error']}", style="yellow")
    if "budget" not in document:
        return
    size, best, last = mebibytes(document["budget"]["bytes"]), min(measured, key=itemgetter("peak")), measured[-1]
    if document["budget"]["fits_with"] is None:
        page.line(f"{size} are too little: the lowest peak is {mebibytes(best['peak'])}, {best['name']}", style="bold")
    else:
        page.line(f"{size} are enough, {last['name']}: {last['how']}", style="bold")


def _figures(figures: dict[str, int | None]) -> str:
    """ "stored 4,000,000 bytes, packed ?"."""
    return ", ".join(f"{name} {_bytes(size)}" for name, size in figures.items())


def _bytes(size: int | None) -> str:
    return "?" if size is None else f"{size:,} bytes"


def _mebibytes(size: int | None) -> str:
    return "?" if size is None else f"{size / MIB:,.1f}"
