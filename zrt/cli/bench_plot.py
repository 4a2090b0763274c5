"""The plot of ``zrt bench --plot``: medians as bars, single calls as curves over percentiles, lanes at once as bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from zrt.bench.harness import Latency
from zrt.bench.lanes import Together
from zrt.bench.official_contenders import RUN, RUN_AGAIN, RUN_WITH_IOBINDING
from zrt.bench.report import Report, Row
from zrt.cli import figures
from zrt.cli.units import Unit


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
    "session_run": Style("#009E73", "||", (0, (6, 1.5, 1, 1.5)), "^"),
    RUN: Style("#0072B2", "", "-", "D"),
    RUN_WITH_IOBINDING: Style("#56B4E9", "xx", (0, (5, 1.5)), "P"),
    RUN_AGAIN: Style("#F0E442", "--", (0, (2, 2)), "*"),
}


MARKS: Final = (50.0, 90.0, 99.0, 99.9)
# Higher percentiles show the scheduler, not the contender; the table has the longest call.
LAST_SHARE: Final = 0.9995
MARKERS: Final = 8


def draw(report: Report, where: str, pictures: Sequence[Path]) -> None:
    """Writes the plot; `where` says on what the model ran."""
    figures.save(lambda: _figure(report, where), pictures)


def _figure(report: Report, where: str) -> Figure:
    lanes = report.together is not None
    figure = Figure(figsize=(14 if lanes else 11, 5.6), dpi=120, layout="constrained")
    panels = figure.subplots(1, 3 if lanes else 2, width_ratios=(1, 1, 0.45) if lanes else (1, 1))
    unit = Unit.fitting(report.rows[0].series.median)
    _draw_bars(panels[0], report, unit)
    _draw_curves(panels[1], report, unit)
    if report.together is not None:
        _draw_lanes(panels[2], report.together)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    shapes = ", ".join(f"{name} {kind}" for name, kind in report.inputs.items())
    versions = f"ONNX Runtime {report.versions.onnxruntime}, zrt {report.versions.zrt}"
    machine = f"{where}, {versions}, {report.machine.processor}"
    figures.title(figure, f"{report.settings.model.name}: {shapes}", machine)
    return figure


def _draw_bars(axes: Any, report: Report, unit: Unit) -> None:
    """The medians as multiples of onnxruntime's `run`; of the C loop's where the package was not measured."""
    rows = list(report.rows)
    baseline = next((row for row in rows if row.key == RUN), rows[0])
    ratios = [row.series.ratio(baseline.series) for row in rows]
    for place, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        style = STYLES[row.key]
        axes.barh(place, ratio, color=style.color, hatch=style.hatch, height=0.68)
        # The line of the baseline must not cross a number.
        end = ratio if ratio > 1 or ratio < 0.55 else 1
        figures.note(
            axes, f"{ratio:.2f}  ({unit.format(row.series.median)} {unit.name})", (end, place), (6, 0), va="center"
        )
    axes.axvline(1, color=rcParams["text.color"], linewidth=1.2, linestyle=(0, (4, 3)), zorder=0.9)
    axes.set_yticks(
        range(len(rows)),
        [
            f"{row.label}\n(the baseline)" if row is baseline else row.label.replace("onnxruntime ", "onnxruntime\n")
            for row in rows
        ],
    )
    axes.invert_yaxis()
    axes.set(xlim=(0, max(ratios) * 1.4), xlabel=f"median of one run; {baseline.label} is 1; shorter is faster")
    figures.tidy(axes, "Medians of the " + ("paced calls" if report.settings.paced else "batches"), grid="x")


def _draw_curves(axes: Any, report: Report, unit: Unit) -> None:
    """Percentiles of the single calls, on a scale with equal space for each further nine."""
    for row in report.rows:
        shares, times = _curve(row.latency)
        axes.loglog(1 / (1 - shares), times / unit.nanoseconds, **_line(row, len(times)))
    most = max(len(row.latency.samples) for row in report.rows)
    # A single call gives no curve, but the axis still needs two ends.
    last = max(2, min(most, 1 / (1 - LAST_SHARE)))
    marks = [mark for mark in MARKS if 100 / (100 - mark) <= last]
    axes.set_xticks([100 / (100 - mark) for mark in marks], [f"{mark:g} %" for mark in marks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set(xlim=(1, last), xlabel="share of the calls", ylabel=f"took at most, {unit.name}")
    figures.tidy(axes, "Single calls, each timed by itself", grid="both")


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
        "markeredgecolor": style.color if style.marker == "x" else rcParams["text.color"],
        "markeredgewidth": 1.5 if style.marker == "x" else 0.7,
    }


def _draw_lanes(axes: Any, together: Together) -> None:
    """The runs of one lane and of all lanes at once, beside those of lanes that scale perfectly."""
    count = len(together.latencies)
    heights = (together.single_per_s, together.all_per_s)
    for place, (height, hatch) in enumerate(zip(heights, ("", "//"), strict=True)):
        axes.bar(place, height, color=STYLES["lane"].color, hatch=hatch, width=0.6)
        text = f"{height:,.0f}\n{height / together.single_per_s:.2f} times"
        figures.note(axes, text, (place, height), (0, 5), ha="center")
    ideal = count * together.single_per_s
    axes.axhline(ideal, color=rcParams["text.color"], linewidth=1.2, linestyle=(0, (4, 3)))
    figures.note(axes, f"{count} times one lane", (-0.45, ideal), (0, 4))
    axes.set_xticks((0, 1), ("one lane", f"{count} lanes\nat once"))
    axes.set(xlim=(-0.5, 1.5), ylim=(0, max(ideal, *heights) * 1.2), ylabel="runs a second")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    figures.tidy(axes, "Lanes at once", grid="y")


def _curve(latency: Latency) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Percentiles and their times, a few hundred points."""
    samples = latency.samples
    count = len(samples)
    # The same number of points for each further nine.
    shares = 1 - np.geomspace(1, 1 - LAST_SHARE, num=400)
    ranks = np.unique((shares * count).astype(int))
    return ranks / count, samples[ranks]
