"""The process ends while daemon threads run an operator; its work is argument 1, the thread count argument 2."""

import sys
import threading
import time

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.custom_ops.support import ONE, Op, X, load

WORK = {
    "nothing": lambda context: None,
    "sleep": lambda context: time.sleep(0.001),
    "parallel_for": lambda context: context.parallel_for(lambda i: time.sleep(0.001), 8),
}[sys.argv[1]]


class Slow(Op):
    def work(self, context):
        WORK(context)


session = load(ONE, Slow(), intra_op_num_threads=int(sys.argv[2]))
begun = threading.Event()


def run():
    while True:
        begun.set()
        try:
            session.run([X])
        except zrt.Error:
            pass


for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
begun.wait()
time.sleep(0.05)
print("end")
