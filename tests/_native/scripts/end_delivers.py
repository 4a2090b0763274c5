"""The interpreter's end delivers the lines that wait; later ones are printed."""

import atexit
import time


def late():
    log("late")
    print(len(received), flush=True)


# Before zrt registers its own function: atexit is last-in, first-out.
atexit.register(late)

from tests.support.log_queue import handler, log, received  # noqa: E402

handler.emit = lambda record: (time.sleep(0.0005), received.append(record))
for count in range(500):
    log(str(count))
