"""Forks while other threads run the session."""

import os
import threading

import zrt
from tests.robustness.forking import fork
from tests.robustness.forks import images, one, wanted
from tests.robustness.prologue import same

stop = threading.Event()


def work():
    mine = one.lane({"image": (4, 1, 28, 28)})
    while not stop.is_set():
        mine.run()
        one.run(images)
        zrt.Value.from_array(wanted).numpy()


workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers:
    worker.start()
for _ in range(20):
    # _exit: the workers do not exist in the child, and their objects cannot be cleaned up there.
    fork(bool, end=os._exit)
stop.set()
for worker in workers:
    worker.join()
same(one.run(images)[0], wanted)
