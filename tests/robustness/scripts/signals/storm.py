"""A storm of signals in all kinds of calls, after which everything works."""

import gc

import zrt
from tests.robustness.prologue import FEEDS, SUM, binding, lane, same, session
from tests.support.interrupts import Storm

one = session()
prepared = one.prepare(FEEDS)
made = lane(one)
bound = binding(one)
dynamic = zrt.DynamicRuntime(one, max_buckets=2)
interrupted = turn = 0
with Storm() as storm:
    while interrupted < 1000:
        try:
            storm.armed = True
            while True:
                turn += 1
                one.run(FEEDS)
                prepared.run()
                made.run()
                made.audit()
                bound.run()
                bound.numpy()
                lane(one).run()
                one.run([FEEDS["x"][: turn % 4], FEEDS["y"][: turn % 4]])
                zrt.Value.from_array(FEEDS["x"]).numpy()
                dynamic.lane({"x": turn % 4, "y": turn % 4}).run()
                if not turn % 10:
                    session().run(FEEDS)
        except KeyboardInterrupt:
            interrupted += 1
gc.collect()
same(one.run(FEEDS)[0], SUM)
same(prepared.run()[0], SUM)
made.run()
made.audit()
same(made.outputs["z"], SUM)
bound.run()
same(bound.numpy()["z"], SUM)
dynamic.lane({"x": 4, "y": 4}).run()
