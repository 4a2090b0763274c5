"""The plot of ``zrt diff --plot``: how far the values of two sides are apart, through the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from zrt.cli import figures
from zrt.cli.units import plural
from zrt.diagnosis.diff import Diff

# Of Okabe and Ito, which colour-blind readers tell apart.
LARGEST: Final = "#0072B2"
MEAN: Final = "#56B4E9"
BEYOND: Final = "#D55E00"


def draw(found: Diff, title: str, pictures: Sequence[Path]) -> None:
    """Writes the plot of a comparison that has values."""
    figures.save(lambda: _figure(found, title), pictures)


def _figure(found: Diff, title: str) -> Figure:
    figure = Figure(figsize=(11, 6), dpi=120, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    values = found.values
    largest = [each.largest for each in values]
    means = [each.mean for each in values]
    top = _scale(above, [*largest, *means])
    for heights, color, label in ((largest, LARGEST, "largest distance"), (means, MEAN, "mean distance")):
        above.plot([min(height, top) for height in heights], ".-", color=color, label=label)
    ulps = [math.nan if each.ulps is None else float(each.ulps) for each in values]
    _scale(below, ulps)
    below.plot(ulps, ".-", color=LARGEST)
    beyond = [place for place, each in enumerate(values) if not each.within]
    label = f"beyond the tolerance ({plural(len(beyond), 'value')})"
    if beyond:
        above.plot(beyond, [min(largest[place], top) for place in beyond], "X", color=BEYOND, markersize=8, label=label)
        first = values[beyond[0]]
        # To the side where there is more room.
        side = "right" if beyond[0] > len(values) / 2 else "left"
        text = f"first: {first.name}, {first.node}"
        figures.note(above, text, (beyond[0], min(first.largest, top)), (0, 10), ha=side)
    above.set(ylabel="distance")
    below.set(ylabel="units in the last place", xlabel="values in the graph's order")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    figures.tidy(above, "How far the elements of each value are apart", grid="both")
    figures.tidy(below, "The largest distance of floats of one type", grid="both")
    above.legend(frameon=False, loc="upper left", ncols=3)
    figures.title(figure, title)
    return figure


def _scale(axes: Any, heights: Sequence[float]) -> float:
    """Gives each power of ten the same space, and zero a place below; returns where infinite distances are drawn."""
    positive = [height for height in heights if 0 < height < math.inf]
    least = 10.0 ** math.floor(math.log10(min(positive, default=1.0)))
    top = 10 * max(positive, default=least)
    axes.set_yscale("symlog", linthresh=least, linscale=0.5)
    axes.set_ylim(-least / 4, top * 2)
    return top
