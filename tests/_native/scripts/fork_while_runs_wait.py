"""Forks while threads look whether the log has a callback, as runs do that wait for a CPU: so does the child."""

import os
import signal
import threading
import warnings

from zrt._native import lib

# Python itself warns of forks among threads, since 3.12.
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
stop = False


def look():
    while not stop:
        lib.zrt_log_has_callback()


threads = [threading.Thread(target=look) for _ in range(3)]
for thread in threads:
    thread.start()
try:
    for _ in range(100):
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            lib.zrt_log_has_callback()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
finally:
    stop = True
    for thread in threads:
        thread.join()
