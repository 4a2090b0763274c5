"""Forks while another thread alone has a session, in a `threading.local`; the argument: "pool" or "factory".

In the child Python frees what that thread had, before it calls any handler of a fork.
"""

import sys
import threading

import zrt
from tests.robustness.forking import fork
from tests.support import models

factory = None if sys.argv[1] == "pool" else lambda work: threading.Thread(target=work, daemon=True)
options = zrt.SessionOptions(intra_op_num_threads=3, thread_factory=factory)
own = threading.local()
made, ended = threading.Event(), threading.Event()


def hold():
    own.session = zrt.Session(models.add(), options)
    made.set()
    ended.wait()


threading.Thread(target=hold, daemon=True).start()
assert made.wait(60)
fork(lambda: None, 20)
ended.set()
