"""``zrt profile``: the time that each operator of a model takes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zrt.bench.given import make_inputs
from zrt.cli import common, inputs
from zrt.cli.units import Unit, duration, plural
from zrt.providers import CPU
from zrt.session.profile import Profile, ProfileRow
from zrt.session.session import Session

SUMMARY = "Show which operators of a model the time goes to."

DEFAULT_THREADS = 0
MICROSECOND_NS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt profile``."""
    common.add_model(parser)
    common.add_provider(parser)
    common.add_threads(parser, DEFAULT_THREADS)
    common.add_options(parser)
    inputs.add_inputs(parser)
    parser.add_argument(
        "--runs", type=common.integer_argument(1), default=20, metavar="N", help="runs to profile (default: 20)"
    )
    parser.add_argument(
        "--warmup", type=common.integer_argument(0), default=5, metavar="N", help="runs before them (default: 5)"
    )
    parser.add_argument(
        "--by",
        choices=("op", "node"),
        default="op",
        help="a row for each type of operator, or for each node of the graph (default: op)",
    )
    parser.add_argument(
        "--trace",
        type=common.file_to_write,
        metavar="FILE",
        help="write the profile as a Chrome trace, for Perfetto or chrome://tracing",
    )
    common.add_overwrite(parser)


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt profile``."""
    if not arguments.json:
        common.require_terminal()
    options = common.loaded_options(
        arguments.options, arguments.threads, DEFAULT_THREADS, inputs.input_files(arguments)
    )
    chosen = common.chosen_providers(arguments.provider, options) or [CPU()]
    path = common.chosen_model(arguments.model)
    if arguments.trace is not None:
        read = common.files_of(path, options, arguments.options, *inputs.input_files(arguments))
        common.require_target(arguments.trace, read, arguments.overwrite, "--trace")
    given = inputs.given_inputs(arguments)
    with Session(path, options.session, chosen) as session:
        made = make_inputs(session, given, session.initializers)
        profile = session.profile(made.feeds, arguments.runs, arguments.warmup)
        taken = {name: str(made.described[name]) for name in made.feeds}
        providers = session.providers
    if arguments.trace is not None:
        profile.write(arguments.trace)
    rows = profile.by_node() if arguments.by == "node" else profile.by_operator()
    if arguments.json:
        common.print_json(
            {
                "model": str(path),
                "inputs": taken,
                "providers": list(providers),
                "by": arguments.by,
                **_times(profile),
                "rows": [_row(row) for row in rows],
            }
        )
    else:
        label = common.model_label(arguments.model)
        listed = ", ".join(f"{name} {kind}" for name, kind in taken.items())
        _show(label, listed, providers, profile, rows, arguments.by, arguments.trace)
    return 0


def _times(profile: Profile) -> dict[str, Any]:
    runs = [event.duration_us * MICROSECOND_NS for event in profile.runs]
    return {
        "runs": len(runs),
        "run_ns": {"mean": sum(runs) / len(runs), "min": min(runs), "max": max(runs)},
        "operators_ns": sum(row.total_us for row in profile.by_operator()) * MICROSECOND_NS,
    }


def _row(row: ProfileRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "operator": row.operator,
        "provider": row.provider,
        "calls": row.calls,
        "total_ns": row.total_us * MICROSECOND_NS,
        "mean_ns": row.mean_us * MICROSECOND_NS,
        "share": row.share,
        "inputs": row.shapes,
    }


def _show(
    label: str,
    inputs: str,
    providers: Sequence[str],
    profile: Profile,
    rows: Sequence[ProfileRow],
    by: str,
    trace: Path | None,
) -> None:
    from zrt.cli.terminal import console, facts, table

    times = _times(profile)
    spread = times["run_ns"]
    out = console()
    out.print(
        facts(
            ("model", f"{label}: {inputs}"),
            # A provider of the session may have taken no node.
            ("runs on", ", ".join(dict.fromkeys(row.provider for row in rows if row.provider) or providers)),
            (
                "time",
                f"{plural(times['runs'], 'run')}, {duration(spread['mean'])} each "
                f"({duration(spread['min'])} to {duration(spread['max'])}); "
                f"operators take {times['operators_ns'] / (spread['mean'] * times['runs']):.1%} of it",
            ),
        ),
        soft_wrap=True,
    )
    unit = Unit.fitting(max((row.total_us for row in rows), default=0) * MICROSECOND_NS)
    heads = ("node", "operator", "provider", "inputs") if by == "node" else ("operator", "provider")
    made = table(*heads, "calls", f"total {unit.name}", "mean µs", "share", left=len(heads))
    for row in rows:
        of_node = [row.operator, row.provider, row.shapes or "vary"] if by == "node" else [row.provider]
        made.add_row(
            row.name,
            *of_node,
            f"{row.calls:,}",
            unit.format(row.total_us * MICROSECOND_NS),
            f"{row.mean_us:,.1f}",
            f"{row.share:.1%}",
        )
    out.print(made)
    if trace is not None:
        out.print(f"trace: {trace}", soft_wrap=True)
