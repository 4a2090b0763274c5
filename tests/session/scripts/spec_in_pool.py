"""Sends a recipe to processes that the method in argument 1 starts; each loads the model in argument 2 once."""

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import zrt


def infer(spec: zrt.SessionSpec, number: int) -> tuple[int, int, list[float]]:
    session = spec.shared()
    feeds = {"x": np.full(2, number, np.float32), "y": np.ones(2, np.float32)}
    return os.getpid(), id(session), session.run(feeds)[0].tolist()


if __name__ == "__main__":
    recipe = zrt.SessionSpec(sys.argv[2], zrt.SessionOptions(intra_op_num_threads=2))
    infer(recipe, 0)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        done = list(pool.map(infer, [recipe] * 20, range(20)))
    assert [result for _, _, result in done] == [[number + 1] * 2 for number in range(20)]
    sessions = {(process, session) for process, session, _ in done}
    assert len(sessions) == len({process for process, _ in sessions}), sessions
    assert os.getpid() not in {process for process, _ in sessions}
