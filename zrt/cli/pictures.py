"""The pictures that commands draw with ``--plot``: their options, and checks before the work."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zrt._common import installation
from zrt.cli import common, options
from zrt.cli.options import UsageError, option

SUFFIXES = (".png", ".svg", ".pdf")


def _picture(text: str) -> Path:
    path = options.file_to_write(text)
    if path.suffix.lower() not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} should end in one of {', '.join(SUFFIXES)}")
    return path


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


def require_targets(pictures: Iterable[Path], read: Iterable[Path], arguments: argparse.Namespace) -> None:
    """Raises for a picture that is one of the files which are `read`, or that exists and may not be replaced."""
    read = list(read)
    for picture in pictures:
        common.require_target(picture, read, arguments.overwrite, "--plot")


@contextmanager
def drawing(arguments: argparse.Namespace) -> Iterator[None]:
    """Raises the error of the command for a picture that cannot be written."""
    try:
        yield
    except OSError as error:
        raise common.CommandError(f"--plot {arguments.plot}: {error.strerror or error}") from error
