"""A pool of forked processes, each with a session of its own."""

import multiprocessing

import zrt
from tests.robustness.forks import images, many, one
from tests.robustness.prologue import same


def infer(number):
    own = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=1))
    return own.run({"image": images["image"] * number})[0]


with multiprocessing.get_context("fork").Pool(2) as pool:
    for number, result in enumerate(pool.map(infer, range(4))):
        same(result, one.run({"image": images["image"] * number})[0])
