"""SystemExit with runs in progress."""

import tests.robustness.prologue  # noqa: F401
from tests.robustness.loops import FOREVER, looping

one = looping()
runs = [one.submit(FOREVER) for _ in range(5)]
raise SystemExit(7)
