"""The plot of ``zrt bench --plot``: the medians as bars, the single calls as curves over percentiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from zrt._common.files import replacing
from zrt.bench.latency import Latency
from zrt.bench.report import Report, Row
from zrt.cli.units import Unit, plural

# The colour-blind safe palette of Okabe and Ito: warm for zrt, cool for onnxruntime, grey for C.
COLORS: Final = {
    "c_loop": "#555555",
    "lane": "#D55E00",
    "lane_copying": "#CC79A7",
    "prepared_run": "#E69F00",
    "session_run": "#CCB000",
    "ort_run": "#0072B2",
    "ort_run_with_iobinding": "#56B4E9",
}
INK: Final = "#222222"
FAINT: Final = "#999999"
MARKS: Final = (50.0, 90.0, 99.0, 99.9)
# Higher percentiles show the scheduler, not the contender; the table has the longest call.
LAST_SHARE: Final = 0.9995


def draw(report: Report, path: Path) -> None:
    """Writes the plot in the format of the path's suffix."""
    figure = Figure(figsize=(13, 5.8), dpi=120, layout="constrained", facecolor="white")
    bars, curves = figure.subplots(1, 2, width_ratios=(1, 1.1))
    unit = Unit.fitting(report.rows[0].series.median)
    _draw_bars(bars, report, unit)
    _draw_curves(curves, report, unit)
    shapes = ", ".join(f"{name} {kind}" for name, kind in report.inputs.items())
    threads = plural(report.threads, "thread") if report.threads else "a thread for each core"
    figure.suptitle(
        f"{report.model.name}: {shapes}\n"
        f"{report.provider}, {threads}, ONNX Runtime {report.versions.onnxruntime}, "
        f"zrt {report.versions.zrt}, {report.machine.processor}",
        fontsize=11,
        color=INK,
    )
    with replacing(str(path), subject="--plot") as (written,):
        figure.savefig(written)


def _draw_bars(axes: Any, report: Report, unit: Unit) -> None:
    """The medians as ratios to the C loop, which is drawn as a line."""
    rows = list(report.rows)
    places = np.arange(len(rows))
    axes.barh(places, [row.ratio for row in rows], color=[COLORS[row.key] for row in rows], height=0.68)
    axes.axvline(1, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    longest = max(row.ratio for row in rows)
    for place, row in zip(places, rows, strict=True):
        axes.annotate(
            f"{row.ratio:.2f}  ({unit.format(row.series.median)} {unit.name})",
            (max(row.ratio, 1), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=9.5,
        )
    axes.set_yticks(places, [row.label.replace("onnxruntime ", "onnxruntime\n") for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.32)
    axes.set_xlabel("median of one run, in C loops")
    axes.set_title("Medians of the batches", loc="left", fontsize=11)
    _tidy(axes, grid="x")


def _draw_curves(axes: Any, report: Report, unit: Unit) -> None:
    """Percentiles of the single calls, on a scale with equal space for each further nine."""
    for row in report.rows:
        shares, times = _curve(row.latency)
        axes.plot(1 / (1 - shares), times / unit.nanoseconds, color=COLORS[row.key], **_line(row))
    axes.set_xscale("log")
    axes.set_yscale("log")
    most = max(len(row.latency.samples) for row in report.rows)
    # A single call gives no curve, but the axis still needs two ends.
    last = max(2, min(most, 1 / (1 - LAST_SHARE)))
    marks = [mark for mark in MARKS if 100 / (100 - mark) <= last]
    axes.set_xticks([100 / (100 - mark) for mark in marks], [f"{mark:g} %" for mark in marks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(1, last)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("share of the calls")
    axes.set_ylabel(f"took at most, {unit.name}")
    axes.set_title("Single calls, each timed by itself", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9.5, loc="upper left")
    _tidy(axes, grid="both")


def _line(row: Row) -> dict[str, Any]:
    return {"label": row.label, "linewidth": 2.2 if row.key == "lane" else 1.5}


def _curve(latency: Latency) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Percentiles and their times, a few hundred points."""
    samples = latency.samples
    count = len(samples)
    # The same number of points for each further nine.
    shares = 1 - np.geomspace(1, 1 - LAST_SHARE, num=400)
    ranks = np.unique((shares * count).astype(int))
    return ranks / count, samples[ranks]


def _tidy(axes: Any, grid: str) -> None:
    axes.grid(axis=grid, color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(color=FAINT, labelcolor=INK)
