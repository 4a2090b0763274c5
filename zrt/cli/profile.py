"""``zrt profile``: the time that each operator of a model takes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from zrt.bench import mallocs
from zrt.bench.inputs import make_inputs
from zrt.cli import common, inputs, options
from zrt.cli.options import UsageError, count, option
from zrt.cli.units import Unit, duration, plural
from zrt.session.session import Session
from zrt.session.spec import SessionSpec

MICROSECOND_NS = 1000

OPTIONS = (
    *inputs.MEASURED,
    option("--runs", "runs to profile", "N", count(1), default=20),
    option("--warmup", "runs before them", "N", count(0), default=5),
    option(
        "--by", "a row for each type of operator, or for each node of the graph", choices=("op", "node"), default="op"
    ),
    option("--mallocs", "count the calls of the system's allocator in a run of a lane, too"),
    option(
        "--trace",
        "write the profile as a Chrome trace, for Perfetto or chrome://tracing",
        "FILE",
        options.file_to_write,
    ),
    options.OVERWRITE,
    options.IMPORT,
)


def run(arguments: argparse.Namespace) -> int:
    if arguments.mallocs and arguments.imports:
        raise UsageError("--mallocs does not go with --import: operators in Python stay in this process")
    settings = common.loaded_options(arguments, inputs.input_files(arguments))
    settings.session.custom_ops = common.imported_domains(arguments.imports)
    requested = common.requested_providers(arguments.provider, settings)
    path = common.model_path(arguments.model)
    if arguments.trace is not None:
        read = common.files_of(path, settings, arguments.options, *inputs.input_files(arguments))
        common.require_target(arguments.trace, read, arguments.overwrite, "--trace")
    user = inputs.user_inputs(arguments)
    counted = {}
    with common.terminable():
        if arguments.mallocs:
            # Counting may be impossible, and loads the model in a process: before the work, and not beside a session.
            counted["mallocs"] = mallocs.in_a_run(SessionSpec(path, settings.session, requested), user)
        with Session(path, settings.session, requested) as session:
            fed = make_inputs(session.inputs, user, session.initializers)
            with fed.first_run():
                profile = session.profile(fed.feeds(), arguments.runs, arguments.warmup)
            providers = list(session.providers)
        if arguments.trace is not None:
            profile.write(arguments.trace)
    runs = [event.duration_us * MICROSECOND_NS for event in profile.runs]
    document = {
        "model": str(path),
        "inputs": {name: str(each) for name, each in fed.described.items()},
        "providers": providers,
        "by": arguments.by,
        **counted,
        "runs": len(runs),
        "run_ns": {"mean": sum(runs) / len(runs), "min": min(runs), "max": max(runs)},
        "operators_ns": sum(row.total_us for row in profile.by_operator()) * MICROSECOND_NS,
        "rows": [
            {
                "name": row.name,
                "operator": row.operator,
                "provider": row.provider,
                "calls": row.calls,
                "total_ns": row.total_us * MICROSECOND_NS,
                "mean_ns": row.mean_us * MICROSECOND_NS,
                "share": row.share,
                "inputs": row.shapes,
            }
            for row in (profile.by_node() if arguments.by == "node" else profile.by_operator())
        ],
    }
    common.print_result(arguments, document, _show, common.model_label(arguments.model), document, arguments.trace)
    return 0


def _show(page: common.Page, label: str, document: dict[str, Any], trace: Path | None) -> None:
    rows, runs, spread = document["rows"], document["runs"], document["run_ns"]
    page.facts(
        ("model", f"{label}: " + ", ".join(f"{name} {kind}" for name, kind in document["inputs"].items())),
        # A provider of the session may have taken no node.
        (
            "runs on",
            ", ".join(dict.fromkeys(row["provider"] for row in rows if row["provider"]) or document["providers"]),
        ),
        (
            "time",
            f"{plural(runs, 'run')}, {duration(spread['mean'])} each "
            f"({duration(spread['min'])} to {duration(spread['max'])}); "
            f"operators take {document['operators_ns'] / (spread['mean'] * runs):.1%} of it",
        ),
        *([("mallocs", f"{document['mallocs']:,.0f} in each run of a lane")] if "mallocs" in document else []),
    )
    unit = Unit.fitting(max((row["total_ns"] for row in rows), default=0))
    by_node = document["by"] == "node"
    heads = ("node", "operator", "provider", "inputs") if by_node else ("operator", "provider")
    shown = []
    for row in rows:
        about = [row["operator"], row["provider"], row["inputs"] or "vary"] if by_node else [row["provider"]]
        mean = f"{row['mean_ns'] / MICROSECOND_NS:,.1f}"
        figures = (f"{row['calls']:,}", unit.format(row["total_ns"]), mean, f"{row['share']:.1%}")
        shown.append((row["name"], *about, *figures))
    page.table((*heads, "calls", f"total {unit.name}", "mean µs", "share"), shown, left=len(heads))
    if trace is not None:
        page.line(f"trace: {trace}")
