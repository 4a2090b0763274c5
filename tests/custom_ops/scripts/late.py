"""Runs an operator in an exit function that is called after zrt's own: the run says why it fails."""

import atexit


def late():
    try:
        session.run([X])
    except zrt.Error as error:
        print(error)


# atexit is last-in, first-out: register before zrt does.
atexit.register(late)

import zrt  # noqa: E402
from tests.custom_ops.support import ONE, Op, X, load  # noqa: E402


class Unchanged(Op):
    def work(self, context):
        pass


session = load(ONE, Unchanged())
