"""Each output is bound again as the next and keeps the one before: 30,000 of them are released."""

import threading

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, binding, session


def chain():
    bound = binding(session())
    bound.bind_output("z", np.zeros(4, np.float32))
    bound.run()
    for _ in range(30_000):
        bound.bind_output("z", bound.outputs()["z"])
    bound.close()
    value = FEEDS["x"].copy()
    for _ in range(30_000):
        value = zrt.Value.from_array(value).numpy()


# A small stack, on which a recursive release would overflow.
threading.stack_size(256 * 1024)
thread = threading.Thread(target=chain)
thread.start()
thread.join()
