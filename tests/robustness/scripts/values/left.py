"""Values of every kind are alive when the interpreter ends."""

import builtins
import sys

import tests.robustness.prologue  # noqa: F401
from tests.robustness.values import every_kind

kept = every_kind()
builtins.kept = kept
sys.kept = every_kind()
