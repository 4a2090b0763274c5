"""Forks after a session was used: the child uses its objects in a way that the arguments name; the parent goes on."""

import sys

from tests.robustness import forks
from tests.robustness.forking import fork
from tests.robustness.prologue import same

for use in sys.argv[2:]:
    print(use, file=sys.stderr, flush=True)
    fork(lambda: forks.in_child(use))
    same(forks.one.run(forks.images)[0], forks.wanted)
    forks.made.run()
    same(forks.view, forks.wanted)
