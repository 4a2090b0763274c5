"""Frees the view of a lane's output as the last owner of a session whose threads are Python's; they must end."""

import gc
import threading
import time

from tests.support import models
from zrt import LaneMemory, Session, SessionOptions

ended = []


def factory(work):
    def run():
        work()
        ended.append(True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


options = SessionOptions(intra_op_num_threads=3, thread_factory=factory)
session = Session(models.non_zero(), options)
# The session's allocator made the memory of the inputs, which every view of an output keeps alive.
lane = session.lane(inputs=LaneMemory.allocated())
lane.inputs[0][...] = 1
lane.run()
view = lane.outputs["indices"]
lane.close()
session.close()
del lane, session, options
gc.collect()
assert not ended
del view
gc.collect()
deadline = time.monotonic() + 60
while len(ended) < 2:
    assert time.monotonic() < deadline, ended
    time.sleep(0.001)
