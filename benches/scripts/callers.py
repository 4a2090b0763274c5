"""Threads that call sessions, one session each: `callers.py KIND MODELS CALLERS`, for `benches.budget`.

KIND is a contender of that module. MODELS are pairs of a model and a file of its feeds. For each line of the input the
callers begin runs for that many seconds. The answer is a line of JSON: for each model the seconds from the start to the
end of its last run, and those of each run.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np

KIND = sys.argv[1]
MODELS: list[list[str]] = json.loads(sys.argv[2])
CALLERS = int(sys.argv[3])
CPUS = len(os.sched_getaffinity(0))


def loader() -> Callable[[str, dict[str, Any]], Callable[[], Any]]:
    """A function that loads a model and returns its run over the feeds."""
    if KIND == "zrt":
        import zrt

        zrt.Environment(cpus="auto")

        def by_zrt(path: str, feeds: dict[str, Any]) -> Callable[[], Any]:
            session = zrt.Session(path)
            return lambda: session.run(feeds)

        return by_zrt
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if KIND in ("one thread", "semaphore"):
        options.intra_op_num_threads = 1
    if KIND == "global pool":
        onnxruntime.set_global_thread_pool_sizes(CPUS, 1)
        options.use_per_session_threads = False

    def by_onnxruntime(path: str, feeds: dict[str, Any]) -> Callable[[], Any]:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)

    return by_onnxruntime


def main() -> None:
    turn: Any = threading.Semaphore(CPUS) if KIND == "semaphore" else contextlib.nullcontext()
    load = loader()
    runs = []
    for caller in range(CALLERS):
        path, feeds = MODELS[caller % len(MODELS)]
        runs.append(load(path, dict(np.load(feeds))))
        runs[-1]()

    def call(caller: int, start: threading.Barrier, seconds: float, taken: list[float]) -> None:
        run = runs[caller]
        start.wait()
        began = before = perf_counter()
        while before < began + seconds:
            with turn:
                run()
            after = perf_counter()
            taken.append(after - before)
            before = after

    print("ready", flush=True)
    for line in sys.stdin:
        taken: list[list[float]] = [[] for _ in runs]
        start = threading.Barrier(CALLERS)
        threads = [
            threading.Thread(target=call, args=(caller, start, float(line), taken[caller])) for caller in range(CALLERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kinds = len(MODELS)
        # One after the other, the runs of a caller fill its time.
        by_model = [
            (max(map(sum, taken[kind::kinds])), list(chain.from_iterable(taken[kind::kinds]))) for kind in range(kinds)
        ]
        print(json.dumps(by_model), flush=True)


if __name__ == "__main__":
    main()
