"""The process ends while daemon threads load models, some kernels of which are made before one fails.

Argument 1 is the time until the end, in seconds.
"""

import itertools
import sys
import threading
import time

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.custom_ops.support import DOMAIN, Op, build, options


class Fine(Op):
    """Its kernels are destroyed by the load that fails."""

    name = "Fine"

    def create(self, info):
        return object()


class Failing(Op):
    name = "Failing"

    def create(self, info):
        raise ValueError("no kernel")


NAMES = ["x", *(f"a{number}" for number in range(30))]
FINE = " ".join(f"{output} = {DOMAIN}.Fine({name})" for name, output in itertools.pairwise(NAMES))
MODEL = build(f"(float[n] x) => (float[n] y) {{ {FINE} y = {DOMAIN}.Failing({NAMES[-1]}) }}")
operators = options([Fine(), Failing()])


def run():
    while True:
        try:
            zrt.Session(MODEL, operators)
        except zrt.Error:
            pass


for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
time.sleep(float(sys.argv[1]))
print("end")
