"""The other package ``zrt``, which writes into the same folder: notices it, and says how to mend zrt."""

from __future__ import annotations

import os
import warnings

NAME = "zrt"
"""On the Python index this is the name of somebody else's package; zrt is ``zrt-onnx`` there."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_MEND = f"To keep zrt-onnx alone: pip uninstall {NAME}; pip install --force-reinstall --no-deps zrt-onnx"


def warn() -> None:
    """Warns where that package is installed in the folder of this one: both have the file zrt/__init__.py."""
    folder = os.path.dirname(_PACKAGE)
    try:
        entries = os.listdir(folder)
    except OSError:
        # A program that is one file has no such folder.
        return
    for entry in entries:
        if entry.startswith(f"{NAME}-") and entry.endswith(".dist-info"):
            warnings.warn(
                f"another package, {entry.removesuffix('.dist-info')}, is installed in the folder of zrt-onnx "
                f"({folder}). Both have the file zrt/__init__.py: an upgrade or an uninstallation of one breaks the "
                f"other. {_MEND}",
                # The line that imports zrt; Python does not count the frames of its import system.
                stacklevel=3,
            )


def replaced() -> ImportError:
    """The error about a zrt/__init__.py that is not zrt's own, or that is missing."""
    return ImportError(
        f"{os.path.join(_PACKAGE, '__init__.py')} is not the file of zrt-onnx: another package named {NAME} was "
        f"installed over it, or uninstalled. {_MEND}",
        name=NAME,
    )
