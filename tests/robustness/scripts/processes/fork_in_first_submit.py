"""Forks while another thread imports the modules of its first `submit`; the child submits a run too.

Argument 1 is the module of asyncio that the thread is about to import.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time

import zrt
from tests.robustness.prologue import FEEDS, SUM, session
from tests.robustness.waiting import wait

assert "zrt.session.async_runs" not in sys.modules
for name in [name for name in sys.modules if name.partition(".")[0] == "asyncio"]:
    del sys.modules[name]
under_way = threading.Event()


class Slow:
    """Finds no module; the first search for the module takes a while."""

    @staticmethod
    def find_spec(name, *_):
        if name == sys.argv[1] and not under_way.is_set():
            under_way.set()
            time.sleep(1)


sys.meta_path.insert(0, Slow)
one = session(zrt.SessionOptions(intra_op_num_threads=1))
results = []
first = threading.Thread(target=lambda: results.append(one.submit(FEEDS).result(60)))
first.start()
under_way.wait(60)
process = os.fork()
if not process:
    faulthandler.dump_traceback_later(60, exit=True)
    mine = session(zrt.SessionOptions(intra_op_num_threads=1))
    assert mine.submit(FEEDS).result(30)[0].tolist() == SUM.tolist()
    # Its watchdog is a thread, for which the next child would wait at its end.
    faulthandler.cancel_dump_traceback_later()
    # The child's threads and handlers of forks are whole, too.
    other = os.fork()
    if not other:
        last = session(zrt.SessionOptions(intra_op_num_threads=1))
        assert last.submit(FEEDS).result(30)[0].tolist() == SUM.tolist()
        sys.exit(0)
    wait(other, 60)
    sys.exit(0)
wait(process, 90)
first.join()
assert results[0][0].tolist() == SUM.tolist()
