"""A thread factory, policy, log handler or callback that holds its session is collected with it."""

import gc
import logging
import threading
import time
import weakref

import zrt
from tests.robustness.prologue import ADD, FEEDS
from tests.robustness.seams import LOGGED, factory


class Keeper(logging.Handler):
    def emit(self, record):
        pass

    def choose(self, devices, metadata):
        return devices[:1]

    def make(self, work):
        return factory(work)


def cycle():
    keeper = Keeper()
    LOGGED.addHandler(keeper)
    options = zrt.SessionOptions(intra_op_num_threads=3, thread_factory=keeper.make, logger=LOGGED)
    keeper.session = zrt.Session(ADD, options, keeper.choose)
    keeper.future = keeper.session.submit(FEEDS)
    keeper.future.add_done_callback(lambda _, keeper=keeper: keeper)
    keeper.future.result(60)
    keeper.options = [options, zrt.RunOptions(), options.effective_config_entries()]
    for bad in (b"junk", ADD):
        try:
            zrt.Session(bad, options, ["CPU"] if bad == b"junk" else ["CUDA"])
        except zrt.Error:
            pass
    LOGGED.removeHandler(keeper)
    return weakref.ref(keeper), weakref.ref(keeper.session)


def factory_threads():
    own = ("MainThread", "zrt-bridge", "zrt-run")
    return [thread for thread in threading.enumerate() if thread.name not in own]


gone = cycle()
zrt.Environment().flush_log()
while any(each() is not None for each in gone) or factory_threads():
    gc.collect()
    time.sleep(0.001)
