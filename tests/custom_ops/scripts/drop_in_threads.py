"""Eight threads make, run, close and drop sessions whose operator raises at random."""

import gc
import random
import threading

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.custom_ops.support import DOMAIN, TWO, Add, X, build
from zrt.errors import CallbackError, ClosedError

MODEL = build(TWO)


class Fickle(Add):
    def create(self, info):
        if random.random() < 0.1:
            raise KeyError("create")
        return object()

    def compute(self, context):
        if random.random() < 0.3:
            raise ValueError("compute")
        super().compute(context)


def work():
    for _ in range(40):
        op = Fickle()
        domain = zrt.CustomOpDomain(DOMAIN, [op])
        try:
            session = zrt.Session(
                MODEL, zrt.SessionOptions(custom_ops=[domain], intra_op_num_threads=1, log_severity_level="FATAL")
            )
        except CallbackError as error:
            assert isinstance(error.__cause__, KeyError)
            continue
        op.session = session
        lane = session.lane(shapes={"x": 4, "y": 4}, output_shapes={"z": 4})
        shared[random.randrange(8)] = session, lane
        things = [op, domain, session, lane]
        random.shuffle(things)
        del op, domain, session, lane
        while things:
            things.pop()
            other = shared[random.randrange(8)]
            try:
                if other:
                    other[0].run([X, X])
                    if random.random() < 0.1:
                        other[0].close()
            except (CallbackError, ClosedError):
                pass
        if random.random() < 0.2:
            gc.collect()


shared = [None] * 8
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
