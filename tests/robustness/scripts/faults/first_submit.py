"""Lets each call of ONNX Runtime fail in the first run in the background of a process, each in a forked child."""

import os
import traceback

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, session
from tests.support.faulty_library import MESSAGE, LibraryFaults

faults = LibraryFaults()


def check(number):
    """Whether the process has so many calls; the one of this number fails."""
    one = session()
    with faults.between(number, number):
        try:
            one.submit(FEEDS).result(20)
        except zrt.Error as error:
            assert MESSAGE in str(error)
    [result] = one.submit(FEEDS).result(20)
    assert np.array_equal(result, SUM)
    return bool(faults.failed)


def status_of_child(number):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        status = 0 if check(number) else 5
    except BaseException:
        traceback.print_exc()
        status = 1
    os._exit(status)


number = 1
while not (status := status_of_child(number)):
    number += 1
# The child of the number after the last one: nothing failed.
assert status == 5, (number, status)
assert number > 1
