"""Values of every kind are alive when the interpreter ends."""

from __future__ import annotations

import builtins
import sys

import tests.robustness.prologue  # noqa: F401
from tests.robustness.values import things

kept = things()
builtins.kept = kept
sys.kept = things()
