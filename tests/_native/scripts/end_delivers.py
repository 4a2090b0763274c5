"""The interpreter's end delivers the lines that wait; later ones are printed."""

import atexit
import importlib
import time


def late():
    queue.log("late")
    print(len(queue.received), flush=True)


# Before zrt registers its own function: atexit is last-in, first-out.
atexit.register(late)

queue = importlib.import_module("tests.support.log_queue")
# A thread that nobody wakes at the end would take this long.
importlib.import_module("zrt._native.bridge").EXIT_PATIENCE = 1000
queue.handler.emit = lambda record: (time.sleep(0.0005), queue.received.append(record))
for count in range(500):
    queue.log(str(count))
