"""Forks while another thread uses a session in a way that is new to the process; the child then does the same.

Argument 1 is the use. The first search for a module is slow: if the use imports one, that import is under way at the
fork, and the child, which has no thread that ends it, waits for ever.
"""

import sys
import threading
import time
from pathlib import Path

import numpy as np

import zrt
from tests.robustness.forking import fork

use = sys.argv[1]
if use == "run_async":
    # Its users have imported it.
    import asyncio
model = Path(zrt.__file__).with_name("models") / "digits.onnx"
options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
image = np.zeros((1, 1, 8, 8), np.float32)
under_way = threading.Event()


class Slow:
    """Finds no module; the first search takes a while."""

    @staticmethod
    def find_spec(name, *_):
        if not under_way.is_set():
            under_way.set()
            time.sleep(1)


def answer():
    one = zrt.Session(model, options)
    if use == "submit":
        [result] = one.submit([image]).result(30)
    elif use == "run_async":
        [result] = asyncio.run(one.run_async([image]))
    elif use == "timeout":
        [result] = one.run([image], timeout=30)
    else:
        try:
            zrt.Session(b"no model", options)
        except zrt.errors.OrtError:
            [result] = one.run([image])
    return result.argmax()


def first():
    answers.append(answer())
    under_way.set()


wanted = zrt.Session(model, options).run([image])[0].argmax()
answers = []
sys.meta_path.insert(0, Slow)
thread = threading.Thread(target=first)
thread.start()
under_way.wait(60)


def check():
    assert answer() == wanted


def child():
    check()
    # The child's threads and handlers of forks are whole, too.
    fork(check, 20)


fork(child, 40)
thread.join()
assert answers == [wanted]
