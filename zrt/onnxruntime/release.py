"""The release of ONNX Runtime in use, on which some answers of the official package depend."""

from __future__ import annotations

from zrt._native.library import library


def minor() -> int:
    """The second number of the library's version: 27 for 1.27.0."""
    return int(library().version.split(".")[1])
