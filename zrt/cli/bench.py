"""``zrt bench``: how long a run takes, through zrt and through onnxruntime, against a loop in C."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from zrt.bench import study
from zrt.bench.harness import Latency
from zrt.bench.lanes import Together
from zrt.bench.official_contenders import LABELS
from zrt.bench.report import Report, Settings
from zrt.cli import common, inputs, options, pictures
from zrt.cli.options import UsageError, count, option, whole
from zrt.cli.units import Unit, duration, mebibytes, plural
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError
from zrt.memory.buffers import BufferPolicy
from zrt.providers import CPU

DEFAULT_THREADS = 1


def run(arguments: argparse.Namespace) -> int:
    if arguments.paced and arguments.lanes > 1:
        raise UsageError("--lanes does not apply with --paced, which runs one contender at a time")
    drawn = pictures.wanted(arguments)
    model = common.model_path(arguments.model)
    settings = common.loaded_options(arguments, inputs.input_files(arguments), DEFAULT_THREADS)
    for picture in drawn:
        read = common.files_of(model, settings, arguments.options, *inputs.input_files(arguments))
        common.require_target(picture, read, arguments.overwrite, "--plot")
    wanted = Settings(
        model=model,
        options=settings.session,
        providers=common.requested_providers(arguments.provider, settings) or [CPU()],
        lanes=arguments.lanes,
        inputs=inputs.user_inputs(arguments),
        paced=arguments.paced,
        self_check=arguments.self_check,
        runs=arguments.runs,
        warmup=arguments.warmup,
        policy=arguments.policy,
    )
    with common.progress() as progress:
        report = study.measure(wanted, progress)
    written: Sequence[Path] = ()
    try:
        if drawn:
            # matplotlib is an extra, and its import takes longer than a short measurement.
            from zrt.cli import bench_plot

            bench_plot.draw(report, where(report), drawn)
        written = drawn
    finally:
        # The measurement took long, and a file that cannot be written does not take it away.
        common.print_result(arguments, report.to_dict(), _show, report, written)
    return 0


def _policy(text: str) -> BufferPolicy:
    try:
        return BufferPolicy.parse(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _show(page: common.Page, report: Report, drawn: Sequence[Path]) -> None:
    """The report for people: header, medians, percentiles, set-up."""
    unit = Unit.fitting(report.rows[0].series.median)
    styles = ["bold" if row.key == "lane" else "" for row in report.rows]
    page.facts(*_header(report))
    rows = []
    for row in report.rows:
        median, runs = unit.format(row.series.median), row.series.runs
        rows.append((row.label, median, f"{row.ratio:.3f}", f"{runs * len(row.series.means):,}", f"{runs:,}"))
    heads = ("one run", f"median {unit.name}", "of the C loop", "runs", "in batches of")
    page.table(heads, rows, styles=styles)
    labels = {row.key: row.label for row in report.rows}
    for name, ratio in report.ratios.items():
        mine, _, its = name.partition("_to_")
        if its in LABELS:
            page.line(labels[mine], " takes ", (f"{ratio:.3f}", "bold"), " of ", labels[its])
    page.line("\nEach call timed by itself", ", with empty caches" if report.settings.paced else "", style="bold")
    page.table(_heads(unit), [(row.label, *_figures(row.latency, unit)) for row in report.rows], styles=styles)
    page.line(
        f"The timer itself takes {report.c_timer.percentile(50)} ns around the C loop "
        f"and {report.python_timer.percentile(50)} ns around the others; it is part of these figures.\n"
    )
    page.facts(*_set_up(report))
    if report.together is not None:
        _show_lanes(page, report.together, unit)
    for key, reason in report.official.unmeasured.items():
        page.line(f"not measured: {LABELS[key]}: {reason}", style="yellow")
    for copy in report.copies:
        page.line(f"copied in each run of the lane: {copy}", style="yellow")
    for picture in drawn:
        page.line(f"picture: {picture}")


def where(report: Report) -> str:
    """The provider and the threads of a measurement, in words."""
    count = report.settings.options.intra_op_num_threads
    threads = plural(count, "thread") if count else "a thread for each core"
    return f"{report.settings.named[0][0]}, {threads}"


def _header(report: Report) -> list[tuple[str, str]]:
    machine, versions, settings = report.machine, report.versions, report.settings
    cores = plural(machine.cores, "core")
    if machine.usable_cores != machine.cores:
        cores += f", {machine.usable_cores} of them usable"
    package = f", onnxruntime {report.official.version}" if report.official.version else ""
    changes = settings.options._changes()
    changed = [f"{name} {value}" for name, value in changes.items() if name != "intra_op_num_threads"]
    return [
        ("model", f"{settings.model.name}: " + ", ".join(f"{name} {kind}" for name, kind in report.inputs.items())),
        ("runs on", f"{where(report)}, memory {settings.policy}"),
        *([("options", ", ".join(changed))] if changed else []),
        ("library", f"ONNX Runtime {versions.onnxruntime} ({versions.source})"),
        ("versions", f"zrt {versions.zrt}{package}, {machine.python}, numpy {machine.numpy}"),
        ("processor", f"{machine.processor}, {cores}"),
    ]


def _heads(unit: Unit) -> list[str]:
    return [f"one call, {unit.name}", "p50", "p90", "p99", "p99.9", "max", "calls"]


def _figures(latency: Latency, unit: Unit) -> list[str]:
    summary = latency.summary()
    samples = summary.pop("samples")
    return [*(unit.format(nanoseconds) for nanoseconds in summary.values()), f"{samples:,}"]


def _set_up(report: Report) -> list[tuple[str, str]]:
    own, official = report.set_up, report.official

    def beside(own_ns: int, official_ns: int) -> str:
        return duration(own_ns) + (f" (onnxruntime {duration(official_ns)})" if official_ns else "")

    return [
        ("library", f"{duration(own.library_ns)} to open"),
        ("load time", beside(own.load_ns, official.load_ns)),
        ("first run", beside(own.first_run_ns, official.first_run_ns)),
        ("lane", f"{duration(own.lane_ns)} to make and run once"),
        (
            "resident memory",
            f"{mebibytes(own.resident_after_first_run)} after the first run, "
            f"{mebibytes(own.resident_after_first_run - own.resident_before_load)} more than before the load",
        ),
    ]


def _show_lanes(page: common.Page, together: Together, unit: Unit) -> None:
    page.line(
        f"\n{len(together.latencies)} lanes at once: {together.all_per_s:,.0f} runs a second, "
        f"{together.all_per_s / together.single_per_s:.2f} times one lane's {together.single_per_s:,.0f}",
        style="bold",
    )
    rows = [(f"lane {index}", *_figures(latency, unit)) for index, latency in enumerate(together.latencies)]
    page.table(_heads(unit), rows)


OPTIONS = (
    options.MODEL,
    options.PROVIDER,
    options.threads(DEFAULT_THREADS),
    options.OPTIONS,
    option("--lanes", "measure N lanes in N threads at the same time, too", "N", whole(1, MOST_THREADS), default=1),
    *inputs.OPTIONS,
    option(
        "--runs",
        "runs of each contender, in the batches and one by one (default: what a few seconds hold)",
        "N",
        count(1),
    ),
    option("--paced", "empty the processor's caches before each run, as if the program did other work in between"),
    option(
        "--self-check",
        "measure onnxruntime's run twice, over two sessions: their ratio shows how exact the measurement is",
    ),
    option("--warmup", "runs of each contender before anything is timed", "N", count(0), default=10),
    option(
        "--policy",
        "the lanes' memory: a preset such as latency, or wishes such as alignment=4096,prefault",
        "POLICY",
        _policy,
        default=BufferPolicy.AUTO,
    ),
    *pictures.OPTIONS,
)
