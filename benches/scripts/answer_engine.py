"""Opens ONNX Runtime, loads the model in argument 2 twice and runs it; prints what that took and gave, as JSON.

Argument 1 is the package, "zrt", "onnxruntime", or "numpy" for a process that does nothing; 3 is an .npz file of feeds,
4 the file that has ONNX Runtime.
"""

import ctypes
import hashlib
import json
import sys
import time

import numpy as np

package, model, feeds, engine = sys.argv[1:]
arrays = dict(np.load(feeds))
facts = {}


def timed(name, function):
    begin = time.perf_counter()
    result = function()
    facts[name] = time.perf_counter() - begin
    return result


def run_many(count, run):
    for _ in range(count):
        run()


def time_of_one(run):
    """The seconds of one run among many: of 0.2 s of runs after as many, and at most 1,000."""
    begin = time.perf_counter()
    run_many(3, run)
    count = max(3, min(1000, int(0.6 / (time.perf_counter() - begin))))
    run_many(count, run)
    begin = time.perf_counter()
    run_many(count, run)
    return (time.perf_counter() - begin) / count


def measure(load, run):
    session = timed("first load", load)
    timed("second load", load)
    results = timed("first run", lambda: run(session))
    # The memory of a process with one result, and then the time of one run among many.
    with open("/proc/self/status", encoding="ascii") as file:
        facts["resident"] = 1024 * int(next(line for line in file if line.startswith("VmRSS:")).split()[1])
    facts["run"] = time_of_one(lambda: run(session))
    facts["digest"] = hashlib.sha256(b"".join(np.ascontiguousarray(result) for result in results)).hexdigest()


if package == "zrt":
    timed("open", lambda: ctypes.CDLL(engine))
    import zrt
    from zrt.environment.environment import current

    timed("register", lambda: current().pointer)
    # The first use of these names imports their modules.
    options, load = zrt.SessionOptions(intra_op_num_threads=1), zrt.Session
    measure(lambda: load(model, options), lambda session: session.run(arrays))
elif package == "onnxruntime":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    load, where = onnxruntime.InferenceSession, ["CPUExecutionProvider"]
    measure(lambda: load(model, options, where), lambda session: session.run(None, arrays))
else:
    measure(lambda: None, lambda session: [])
print(json.dumps(facts))
