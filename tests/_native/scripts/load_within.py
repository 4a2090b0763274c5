"""Loads the library while it is being loaded: in a signal handler of the same thread, or in a child of a fork."""

import os
import signal
import sys
import threading

import zrt
from tests.support import models
from zrt._native import early_start, library

# The first use of the name opens the library too, on a thread of its own.
Session = zrt.Session
early_start.wait()
# Ends a process that waits for itself.
signal.alarm(60)
find = library.find
loading, forked = threading.Event(), threading.Event()


def load() -> None:
    Session(models.add(["n"])).close()


def in_a_handler() -> None:
    def interrupted():
        library.find = find
        signal.raise_signal(signal.SIGUSR1)
        return find()

    signal.signal(signal.SIGUSR1, lambda *_: load())
    library.find = interrupted
    load()


def in_a_child() -> None:
    def slowly():
        loading.set()
        forked.wait(60)
        return find()

    library.find = slowly
    thread = threading.Thread(target=load)
    thread.start()
    loading.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        library.find = find
        load()
        os._exit(0)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


assert library._library is None
{"handler": in_a_handler, "fork": in_a_child}[sys.argv[1]]()
