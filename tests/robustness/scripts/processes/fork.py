"""Forks after a session was used: the child uses its objects as argument 1 says, the parent goes on."""

from __future__ import annotations

import os
import sys

from tests.robustness import forks
from tests.robustness.prologue import same
from tests.robustness.waiting import wait

process = os.fork()
if not process:
    forks.in_child()
    sys.exit(0)
wait(process)
same(forks.one.run(forks.images)[0], forks.wanted)
forks.made.run()
same(forks.view, forks.wanted)
