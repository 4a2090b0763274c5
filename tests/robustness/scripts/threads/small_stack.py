"""Runs models with 20,000 inputs and 2,000 outputs in a thread whose stack is smaller than their arrays."""

import threading

import numpy as np

import zrt
from tests.robustness.prologue import QUIET
from tests.support import models

# The addresses of so many values need more memory than the stack has.
count = 20_000
names = [f"i{number}" for number in range(count)]
ones = [models.tensor(name, models.FLOAT, [1]) for name in names]
wide = models.build([models.node("Sum", names, ["z"])], ones, [models.tensor("z", models.FLOAT, [1])])
one = zrt.Session(wide, QUIET)
feeds = dict.fromkeys(names, np.ones(1, np.float32))
pass_on = [models.node("Identity", ["x"], [name]) for name in names[:2000]]
outputs = [models.tensor(name, models.FLOAT, [1]) for name in names[:2000]]
many = zrt.Session(models.build(pass_on, [models.tensor("x", models.FLOAT, [1])], outputs), QUIET)
results = []


def run():
    for _ in range(2):
        results.append(one.run(feeds)[0])
        results.append(one.prepare(feeds).run()[0])
        many.run([np.ones(1, np.float32)])


# Not less than 80 KiB: Python 3.14 then crashes after a first run in the thread, for an unknown reason.
threading.stack_size(128 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
assert [result.tolist() for result in results] == [[count]] * 4
