"""Prints the resident bytes that closing a lane frees."""

from __future__ import annotations

import zrt
from tests.support import models
from zrt.bench.machine import resident_bytes

lane = zrt.Session(models.double(("n",))).lane([(16 << 20,)])
lane.run()
full = resident_bytes()
lane.close()
print(full - resident_bytes())
