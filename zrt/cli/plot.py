"""The plot of ``zrt bench --plot``: medians as bars, single calls as curves over percentiles, lanes at once as bars."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from zrt._common.files import replacing
from zrt.bench.lanes import Together
from zrt.bench.latency import Latency
from zrt.bench.official_contenders import RUN
from zrt.bench.report import Report, Row
from zrt.cli.units import Unit, plural


class Style(NamedTuple):
    """How a contender is drawn: grey prints and colour-blind readers have the hatch, the line and the marker."""

    color: str
    hatch: str
    line: Any
    marker: str


# The colours are those of Okabe and Ito, which colour-blind readers tell apart.
STYLES: Final = {
    "c_loop": Style("#B0B0B0", "", (0, (1, 1.2)), "x"),
    "lane": Style("#D55E00", "", "-", "o"),
    "lane_copying": Style("#CC79A7", "\\\\\\", (0, (3, 1, 1, 1)), "v"),
    "prepared_run": Style("#E69F00", "///", (0, (5, 1.5)), "s"),
    "session_run": Style("#009E73", "...", (0, (6, 1.5, 1, 1.5)), "^"),
    "ort_run": Style("#0072B2", "", "-", "D"),
    "ort_run_with_iobinding": Style("#56B4E9", "xx", (0, (5, 1.5)), "P"),
}
INK: Final = "#222222"
FAINT: Final = "#999999"
MARKS: Final = (50.0, 90.0, 99.0, 99.9)
# Higher percentiles show the scheduler, not the contender; the table has the longest call.
LAST_SHARE: Final = 0.9995
MARKERS: Final = 8
TITLE_WIDTH: Final = 115


def draw(report: Report, path: Path) -> None:
    """Writes the plot in the format of the path's suffix."""
    lanes = report.together is not None
    figure = Figure(figsize=(16.5 if lanes else 13, 6.4), dpi=120, layout="constrained", facecolor="white")
    panels = figure.subplots(1, 3 if lanes else 2, width_ratios=(1, 1, 0.45) if lanes else (1, 1))
    unit = Unit.fitting(report.rows[0].series.median)
    _draw_bars(panels[0], report, unit)
    _draw_curves(panels[1], report, unit)
    if report.together is not None:
        _draw_lanes(panels[2], report.together)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    shapes = ", ".join(f"{name} {kind}" for name, kind in report.inputs.items())
    threads = plural(report.threads, "thread") if report.threads else "a thread for each core"
    figure.suptitle(
        f"{textwrap.shorten(f'{report.model.name}: {shapes}', TITLE_WIDTH, placeholder=' ...')}\n"
        f"{report.provider}, {threads}, ONNX Runtime {report.versions.onnxruntime}, "
        f"zrt {report.versions.zrt}, {report.machine.processor}",
        fontsize=11,
        color=INK,
    )
    with replacing(str(path), subject="--plot") as (written,):
        figure.savefig(written)


def _draw_bars(axes: Any, report: Report, unit: Unit) -> None:
    """The medians as multiples of onnxruntime's `run`; of the C loop's where the package was not measured."""
    rows = list(report.rows)
    baseline = next((row for row in rows if row.key == RUN[0]), rows[0])
    ratios = [row.series.ratio(baseline.series) for row in rows]
    for place, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        style = STYLES[row.key]
        axes.barh(place, ratio, color=style.color, hatch=style.hatch, edgecolor=INK, linewidth=0.8, height=0.68)
        # The line of the baseline must not cross a number.
        end = ratio if ratio > 1 or ratio < 0.55 else 1
        axes.annotate(
            f"{ratio:.2f}  ({unit.format(row.series.median)} {unit.name})",
            (end, place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=9.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    axes.axvline(1, color=INK, linewidth=1.2, linestyle=(0, (4, 3)), zorder=0.9)
    axes.set_yticks(
        range(len(rows)),
        [
            f"{row.label}\n(the baseline)" if row is baseline else row.label.replace("onnxruntime ", "onnxruntime\n")
            for row in rows
        ],
    )
    axes.invert_yaxis()
    axes.set_xlim(0, max(ratios) * 1.4)
    axes.set_xlabel(f"median of one run; {baseline.label} is 1; shorter is faster")
    axes.set_title("Medians of the batches", loc="left", fontsize=11)
    _tidy(axes, grid="x")


def _draw_curves(axes: Any, report: Report, unit: Unit) -> None:
    """Percentiles of the single calls, on a scale with equal space for each further nine."""
    for row in report.rows:
        shares, times = _curve(row.latency)
        axes.plot(1 / (1 - shares), times / unit.nanoseconds, **_line(row, len(times)))
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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("share of the calls")
    axes.set_ylabel(f"took at most, {unit.name}")
    axes.set_title("Single calls, each timed by itself", loc="left", fontsize=11)
    _tidy(axes, grid="both")


def _line(row: Row, points: int) -> dict[str, Any]:
    style = STYLES[row.key]
    # The curves lie close to each other: each has its markers in other places.
    begin = list(STYLES).index(row.key) / len(STYLES)
    step = max(1, points // MARKERS)
    return {
        "label": row.label,
        "color": style.color,
        "linestyle": style.line,
        "linewidth": 2.4 if row.key == "lane" else 1.6,
        "marker": style.marker,
        "markevery": (int(begin * step), step),
        "markersize": 6.5,
        "markeredgecolor": style.color if style.marker == "x" else INK,
        "markeredgewidth": 1.5 if style.marker == "x" else 0.7,
    }


def _draw_lanes(axes: Any, together: Together) -> None:
    """The runs of one lane and of all lanes at once, beside those of lanes that scale perfectly."""
    count = len(together.latencies)
    heights = (together.single_per_s, together.all_per_s)
    for place, (height, hatch) in enumerate(zip(heights, ("", "//"), strict=True)):
        axes.bar(place, height, color=STYLES["lane"].color, hatch=hatch, edgecolor=INK, linewidth=0.8, width=0.6)
        axes.annotate(
            f"{height:,.0f}\n{height / together.single_per_s:.2f} times",
            (place, height),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            color=INK,
            fontsize=9.5,
        )
    ideal = count * together.single_per_s
    axes.axhline(ideal, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.annotate(
        f"{count} times one lane",
        (-0.45, ideal),
        xytext=(0, 4),
        textcoords="offset points",
        color=INK,
        fontsize=9.5,
    )
    axes.set_xticks((0, 1), ("one lane", f"{count} lanes\nat once"))
    axes.set_xlim(-0.5, 1.5)
    axes.set_ylim(0, max(ideal, *heights) * 1.2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylabel("runs a second")
    axes.set_title("Lanes in threads of their own", loc="left", fontsize=11)
    _tidy(axes, grid="y")


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
