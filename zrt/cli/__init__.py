"""The ``zrt`` command: `main` is its entry point, and each command is a module of its own."""

from __future__ import annotations

from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (None: the process's own) and returns the exit status."""
    try:
        # Here, since it takes the time in which somebody may press Ctrl-C.
        from zrt.cli import entry

        return entry.main(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
