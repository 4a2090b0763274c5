"""The log messages about requests that zrt cannot fulfill; each is logged once in a process."""

from __future__ import annotations

import logging

logger = logging.getLogger("zrt.onnxruntime")

_logged: set[str] = set()


def once(message: str, level: int = logging.WARNING) -> None:
    """Log the message if it has not been logged yet."""
    if message not in _logged:
        _logged.add(message)
        logger.log(level, message)
