from __future__ import annotations

from tests.cli.conftest import saved

__all__ = ["saved"]
