"""Submits a run in an exit function that is called after zrt's own: it is refused, and `run` still works."""

import atexit


def late():
    try:
        one.submit(A_WHILE)
    except zrt.errors.UnsupportedError as error:
        print(error)
    print(one.run(A_WHILE)[0].tolist())


# atexit is last-in, first-out: register before zrt does.
atexit.register(late)

import zrt  # noqa: E402
from tests.robustness.loops import A_WHILE, looping  # noqa: E402

one = looping()
one.submit(A_WHILE).result()
