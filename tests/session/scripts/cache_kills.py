"""Kills loads that fill a cache at every step of theirs that touches files; prints the number of kills and failures."""

import json
import os
import signal
import sys

import numpy as np

import zrt

# Deferred imports would open files in each child anew.
from zrt.bench import synthetic  # noqa: F401
from zrt.loading import cache
from zrt.session import cached_load

STEPS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "fcntl.flock", "shutil.rmtree"}

cached_load.DELAY_S = 0
model, folder, stride = sys.argv[1], sys.argv[2], int(sys.argv[3])


def load(last: int) -> None:
    """A load that ends the process by SIGKILL at the step of that number."""
    steps = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal steps
        if event in STEPS and folder in str(arguments):
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    session = zrt.Session(model, zrt.SessionOptions(cache=folder, intra_op_num_threads=1))
    assert np.array_equal(session.run([np.ones((1, 160), np.float32)])[0], np.full((1, 160), 160, np.float32))


def in_child(last: int) -> int:
    """The status of a process that makes this load."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            load(last)
            # Python waits for the thread that fills the cache.
            import threading

            for thread in threading.enumerate():
                if thread is not threading.current_thread() and not thread.daemon:
                    thread.join()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


kills, failures, left = 0, [], set()
while True:
    status = in_child(1 + kills * stride)
    if os.path.isdir(folder):
        for entry in cache.list_entries(folder):
            cache.read(*os.path.split(entry.path), whole=True)
            # The next load is to fill it once more.
            os.unlink(entry.path)
    if status == 0:
        break
    kills += 1
    if status != signal.SIGKILL:
        failures.append(status)
last = in_child(-1)
left = sorted(name for name in os.listdir(folder) if name != ".zrt-notes" and not name.endswith(".zrt"))
print(json.dumps({"kills": kills, "failures": failures, "last": last, "left": left}))
