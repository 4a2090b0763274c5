"""Two sessions on one CPU: of a run that waits, the recorder tells how long."""

import threading

import numpy as np

import zrt
from tests.support import models
from tests.support.models import ENDLESS, LOOP

environment = zrt.Environment(cpus=1)
quiet = zrt.SessionOptions(log_severity_level="FATAL")
endless, quick = zrt.Session(models.parsed(LOOP), quiet), zrt.Session(models.add(), quiet)
feeds = [np.ones(4, np.float32)] * 2
options = zrt.RunOptions()


def run_until_ended():
    try:
        endless.run({"n": ENDLESS, "x": np.ones(4, np.float32)}, options=options)
    except zrt.errors.TerminatedError:
        pass


with quick.record() as recorder, endless.record() as other:
    quick.run(feeds)
    first = threading.Thread(target=run_until_ended)
    first.start()
    while environment.cpu_budget().free:
        pass
    second = threading.Thread(target=quick.run, args=[feeds])
    second.start()
    while not environment.cpu_budget().waiting:
        pass
    options.terminate()
    first.join()
    second.join()
    quick.run(feeds)
    (ended,) = other.runs
    before, waiting, after = recorder.runs
assert (before.waited, after.waited, ended.waited) == (0, 0, 0), (before, after, ended)
assert 0 < waiting.waited < waiting.seconds, waiting
