"""The ``zrt`` command: `main` is its entry point, and each command is a module of its own."""

from __future__ import annotations

from zrt.cli.entry import main

__all__ = ["main"]
