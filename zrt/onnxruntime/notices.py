"""The log messages about requests that zrt cannot fulfill; each is logged once in a process."""

from __future__ import annotations

import logging
from functools import cache


@cache
def once(message: str, level: int = logging.WARNING) -> None:
    """Log the message if it has not been logged yet."""
    logging.getLogger("zrt.onnxruntime").log(level, message)
