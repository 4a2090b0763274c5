"""Figures of matplotlib as files: their colours on light and dark pages, and parts that the plots share."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure

from zrt._common.files import replacing, writing
from zrt.cli.common import harmless

TITLE_WIDTH: Final = 115


def _theme(ink: str, faint: str, grid: str, page: str) -> Any:
    """Settings of matplotlib; what is drawn in ink reads ``text.color``."""
    inked = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor", "patch.edgecolor", "hatch.color")
    return {
        **dict.fromkeys(inked, ink),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), faint),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), page),
        "grid.color": grid,
        "patch.force_edgecolor": True,
        "patch.linewidth": 0.8,
    }


THEMES: Final = (
    _theme(ink="#222222", faint="#999999", grid="#E5E5E5", page="white"),
    _theme(ink="#E6EDF3", faint="#7D8590", grid="#30363D", page="#0D1117"),
)


def save(make: Callable[[], Figure], pictures: Sequence[Path]) -> None:
    """Writes a figure, and where there are two pictures a second one with light lines on a dark page.

    The paths lie in one folder, and their suffixes say the format. `make` reads the colours from ``rcParams``.
    """
    target, *beside = pictures
    places = replacing(str(target), *(path.name for path in beside), subject="--plot")
    with places as written, writing(target, "--plot"):
        for path, theme in zip(written, THEMES, strict=False):
            with rc_context(theme):
                make().savefig(path)


def title(figure: Figure, what: str, more: str = "") -> None:
    """A title of one line, which may be cut, and a second line."""
    shown = textwrap.shorten(what, TITLE_WIDTH, placeholder=" ...")
    figure.suptitle(_plain(f"{shown}\n{more}" if more else shown), fontsize=11)


def _plain(text: str) -> str:
    """A text that matplotlib draws: dollars begin no formula, and ? stands for what is no printable text."""
    return harmless(text).encode(errors="replace").decode().replace("$", r"\$")


def note(axes: Any, text: str, place: tuple[float, float], offset: tuple[int, int], **alignment: str) -> None:
    """A text at some points from a place, which no line crosses."""
    box = {"facecolor": rcParams["axes.facecolor"], "edgecolor": "none", "pad": 1.0}
    offsets: dict[str, Any] = {"xytext": offset, "textcoords": "offset points"}
    axes.annotate(_plain(text), place, **offsets, **alignment, fontsize=9.5, bbox=box)


def tidy(axes: Any, title: str, grid: str) -> None:
    """A title, and a grid behind what is drawn."""
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(axis=grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
