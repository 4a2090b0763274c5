"""Child processes of tests."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """The variables of a child that imports the tests and whatever this process can import: PYTHONPATH gets longer."""
    path = os.pathsep.join(filter(None, [os.fspath(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}
