"""The text output of ``zrt bench``: header, medians, percentiles, set-up."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zrt.bench.lanes import Together
from zrt.bench.latency import Latency
from zrt.bench.official_contenders import RUN, RUN_WITH_IOBINDING
from zrt.bench.report import Report
from zrt.cli.terminal import console, facts, table
from zrt.cli.units import Unit, duration, mebibytes, plural

LABELS = dict([RUN, RUN_WITH_IOBINDING])


def show(report: Report, picture: Path | None) -> None:
    """Prints a report."""
    out = console()
    out.print(_header(report))
    out.print(_medians(report))
    _print_comparisons(out, report)
    out.print("\nEach call timed by itself", style="bold")
    out.print(_percentiles(report))
    out.print(
        f"The timer itself takes {report.c_timer.percentile(50)} ns around the C loop "
        f"and {report.python_timer.percentile(50)} ns around the others; it is part of these figures.\n",
        soft_wrap=True,
    )
    out.print(_set_up(report))
    if report.together is not None:
        _print_lanes(out, report.together, Unit.fitting(report.rows[0].series.median))
    for key, reason in report.unmeasured.items():
        out.print(f"not measured: {LABELS[key]}: {reason}", style="yellow", soft_wrap=True)
    for copy in report.copies:
        out.print(f"copied in each run of the lane: {copy}", style="yellow", soft_wrap=True)
    if picture is not None:
        out.print(f"picture: {picture}", soft_wrap=True)


def _header(report: Report) -> Table:
    machine, versions = report.machine, report.versions
    threads = plural(report.threads, "thread") if report.threads else "a thread for each core"
    cores = plural(machine.cores, "core")
    if machine.usable_cores != machine.cores:
        cores += f", {machine.usable_cores} of them usable"
    package = f", onnxruntime {report.official.version}" if report.official.version else ""
    options = {name: value for name, value in report.options.items() if name != "intra_op_num_threads"}
    rows = [("options", ", ".join(f"{name} {value}" for name, value in options.items()))] if options else []
    return facts(
        ("model", f"{report.model.name}: " + ", ".join(f"{name} {kind}" for name, kind in report.inputs.items())),
        ("runs on", f"{report.provider}, {threads}, memory {report.policy}"),
        *rows,
        ("library", f"ONNX Runtime {versions.onnxruntime} ({versions.source})"),
        ("versions", f"zrt {versions.zrt}{package}, {machine.python}, numpy {machine.numpy}"),
        ("processor", f"{machine.processor}, {cores}"),
    )


def _medians(report: Report) -> Table:
    yardstick = report.rows[0].series.median
    unit = Unit.fitting(yardstick)
    made = table("one run", f"median {unit.name}", "of the C loop", "runs", "in batches of")
    for row in report.rows:
        made.add_row(
            row.label,
            unit.format(row.series.median),
            f"{row.ratio:.3f}",
            f"{row.series.runs * len(row.series.means):,}",
            f"{row.series.runs:,}",
            style="bold" if row.key == "lane" else "",
        )
    return made


def _print_comparisons(out: Console, report: Report) -> None:
    labels = {row.key: row.label for row in report.rows}
    for name, ratio in report.ratios.items():
        mine, _, its = name.partition("_to_")
        if its in LABELS:
            out.print(Text.assemble(labels[mine], " takes ", (f"{ratio:.3f}", "bold"), " of ", labels[its]))


def _percentiles(report: Report) -> Table:
    unit = Unit.fitting(report.rows[0].series.median)
    made = table(*_heads(unit))
    for row in report.rows:
        made.add_row(row.label, *_figures(row.latency, unit), style="bold" if row.key == "lane" else "")
    return made


def _heads(unit: Unit) -> list[str]:
    return [f"one call, {unit.name}", "p50", "p90", "p99", "p99.9", "max", "calls"]


def _figures(latency: Latency, unit: Unit) -> list[str]:
    summary = latency.summary()
    samples = summary.pop("samples")
    return [*(unit.format(nanoseconds) for nanoseconds in summary.values()), f"{samples:,}"]


def _set_up(report: Report) -> Table:
    made, official = report.set_up, report.official
    load, first_run = duration(made.load_ns), duration(made.first_run_ns)
    if official.load_ns:
        load += f" (onnxruntime {duration(official.load_ns)})"
    if official.first_run_ns:
        first_run += f" (onnxruntime {duration(official.first_run_ns)})"
    grown = made.resident_after_first_run - made.resident_before_load
    return facts(
        ("library", f"{duration(made.library_ns)} to open"),
        ("load time", load),
        ("first run", first_run),
        ("lane", f"{duration(made.lane_ns)} to make and run once"),
        (
            "resident memory",
            f"{mebibytes(made.resident_after_first_run)} after the first run, "
            f"{mebibytes(grown)} more than before the load",
        ),
    )


def _print_lanes(out: Console, together: Together, unit: Unit) -> None:
    out.print(
        f"\n{len(together.latencies)} lanes at once: {together.all_per_s:,.0f} runs a second, "
        f"{together.all_per_s / together.single_per_s:.2f} times one lane's {together.single_per_s:,.0f}",
        style="bold",
        soft_wrap=True,
    )
    made = table(*_heads(unit))
    for index, latency in enumerate(together.latencies):
        made.add_row(f"lane {index}", *_figures(latency, unit))
    out.print(made)
