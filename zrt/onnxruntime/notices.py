"""The log messages about requests that zrt cannot fulfill, each once in a process; and the warnings."""

from __future__ import annotations

import inspect
import logging
import warnings
from functools import cache
from typing import Any

# The module of the official package that gives its warnings: programs filter them by this name.
_COLLECTION = "onnxruntime.capi.onnxruntime_inference_collection"

# The warnings that were given, by which Python leaves out the same one at the same line.
_given: dict[Any, Any] = {}


@cache
def once(message: str, level: int = logging.WARNING) -> None:
    """Log the message if it has not been logged yet."""
    logging.getLogger("zrt.onnxruntime").log(level, message)


def warn(message: str) -> None:
    """Give a `UserWarning` in the name of the official package's module, at the line that called into zrt."""
    file, line = "zrt", 1
    frame = inspect.currentframe()
    while frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        if not str(frame.f_globals.get("__name__")).startswith("zrt."):
            break
        frame = frame.f_back
    warnings.warn_explicit(message, UserWarning, file, line, _COLLECTION, _given)
