"""Prints by how many resident bytes the process grows while it makes and drops lanes."""

import zrt
from tests.support import models
from zrt.bench.machine import resident_bytes

fixed, open_ended = zrt.Session(models.add()), zrt.Session(models.non_zero())
dynamic = zrt.DynamicRuntime(zrt.Session(models.double()), 2, max_buckets=2)


def rounds(count):
    for number in range(count):
        lane = fixed.lane(rebind_inputs=True)
        lane.run()
        lane.audit()
        left = open_ended.lane()
        left.run()
        left.outputs["indices"]
        dynamic.lane({"x": (number % 5 + 1, 4)})
        dynamic.lane([(number % 7 + 1, 4)])
        try:
            fixed.lane({"x": (5,)})
        except zrt.errors.ShapeError:
            fixed.lane().close()


rounds(150)
before = resident_bytes()
rounds(300)
print(resident_bytes() - before)
