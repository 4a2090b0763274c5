"""Leaves a session with threads of a factory to the interpreter's end, in the way that the argument names."""

import atexit
import os
import sys
import threading
import time
import warnings

from tests.support.threads import FEEDS, Factory, check, session

# Python 3.12 and later warn about forks in a process with threads.
warnings.simplefilter("ignore", DeprecationWarning)

# A global, so that only the interpreter's end releases it.
kept = [session(Factory())]


def alive():
    check(kept[0])


def released():
    kept.clear()


def in_a_cycle():
    kept.append(kept)


def with_a_lane():
    kept.append(kept[0].lane())
    kept[0].close()


def closed_by_atexit():
    atexit.register(kept[0].close)


def run_by_a_daemon():
    def run_forever(it):
        while True:
            it.run(FEEDS)

    threading.Thread(target=run_forever, args=(kept[0],), daemon=True).start()


def closed_by_a_thread():
    def close_later(it):
        time.sleep(0.05)
        it.close()

    threading.Thread(target=close_later, args=(kept.pop(),)).start()


def in_the_child_of_a_fork():
    child = os.fork()
    if child == 0:
        sys.exit()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


check(kept[0])
globals()[sys.argv[1]]()
