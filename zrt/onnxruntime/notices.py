"""The log messages about requests that zrt cannot fulfill; each is logged once in a process."""

from __future__ import annotations

# The levels of `logging`, which few programs need: its import takes time.
INFO, WARNING = 20, 30

_logged: set[str] = set()


def once(message: str, level: int = WARNING) -> None:
    """Log the message if it has not been logged yet."""
    if message not in _logged:
        import logging

        _logged.add(message)
        logging.getLogger("zrt.onnxruntime").log(level, message)
