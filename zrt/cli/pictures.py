"""The pictures that commands draw with ``--plot``: their options, and a check before the work."""

from __future__ import annotations

import argparse
from pathlib import Path

from zrt._common import installation
from zrt.cli import options
from zrt.cli.options import UsageError, option

_picture = options.file_with(".png", ".svg", ".pdf")

OPTIONS = (
    option("--plot", "draw a picture (.png, .svg or .pdf)", "FILE", _picture),
    option("--dark", "with --plot: draw a second picture for dark pages, beside FILE, with -dark in its name"),
    options.OVERWRITE,
)


def wanted(arguments: argparse.Namespace) -> list[Path]:
    """The files that ``--plot`` and ``--dark`` ask for. It fails before the work where matplotlib is missing."""
    if arguments.plot is None:
        if arguments.dark:
            raise UsageError("--dark applies only with --plot")
        return []
    light: Path = arguments.plot
    pictures = [light]
    if arguments.dark:
        try:
            pictures.append(_picture(str(light.with_stem(f"{light.stem}-dark"))))
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--dark: {error}") from None
    installation.require("matplotlib", "plot", "--plot")
    return pictures
