"""A thread without the GIL changes the strings of a feed while runs read them: a run gets some of them, or raises."""

import threading

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.support import models

COUNT, WIDTH = 20000, 20

session = zrt.Session(models.parse("(string[n] x) => (int64[1] y) { y = Shape(x) }"))
array = np.full(COUNT, "a" * WIDTH)
session.run([array])
# Characters of three bytes and of one.
contents = [np.full(COUNT * WIDTH, code, np.uint32) for code in (0x20AC, ord("a"))]
stop = False


def change():
    everywhere = array.view(np.uint32)
    while not stop:
        for content in contents:
            np.copyto(everywhere, content)


thread = threading.Thread(target=change)
thread.start()
try:
    for _ in range(200):
        try:
            assert session.run([array])[0] == [COUNT]
        except zrt.Error as error:
            assert "changed" in str(error), error
finally:
    stop = True
    thread.join()
