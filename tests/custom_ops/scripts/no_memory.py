"""An operator keeps its input, and there is no memory for a copy of it: the array has no elements then."""

import resource

import numpy as np

from tests.custom_ops.support import Op, load
from zrt.custom_ops import KernelContext
from zrt.errors import CallbackError

SIZE = 32 << 20

kept: list[np.ndarray] = []


class Keeping(Op):
    """Keeps its input, and leaves the process no memory beyond what it has."""

    def compute(self, context: KernelContext) -> None:
        kept.append(context.inputs[0])
        context.output(0, (1,))
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SIZE, -1))


session = load("(float[n] x) => (float[k] y) { y = test.ops.Op(x) }", Keeping())
try:
    session.run([np.ones(SIZE, np.float32)])
except CallbackError as error:
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    assert "'x': an array, or a view of it, was kept" in str(error), error
    print(kept[0].shape)
