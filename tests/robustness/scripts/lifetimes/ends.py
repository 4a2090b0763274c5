"""The interpreter ends while objects of every kind are alive; argument 1 names their holder.

Everything stands in the module's globals, so that the end of the interpreter releases it.
"""

from __future__ import annotations

import atexit
import gc
import sys
import threading

import zrt
from benches.models import build as bench
from tests.robustness.objects import USES, Knot, objects
from tests.robustness.prologue import FEEDS, QUIET, session

holder = sys.argv[1]
if holder == "globals":
    kept = objects()
elif holder == "a cycle in globals":
    kept = Knot(objects())
elif holder == "an unreachable cycle":
    gc.disable()
    Knot(objects())
elif holder == "another module":
    sys.kept = objects()
elif holder == "a class":
    Knot.kept = objects()
elif holder == "a default argument":

    def function(kept=objects()):  # noqa: B008
        pass

elif holder == "a suspended generator":

    def generate():
        kept = objects()
        yield kept

    generator = generate()
    next(generator)
elif holder == "an exception with its frames":

    def fail():
        kept = objects()  # noqa: F841
        raise ValueError

    try:
        fail()
    except ValueError as error:
        caught = error
        caught.me = caught
elif holder == "an exit function":
    atexit.register(lambda kept=objects(): [USES[name](held) for name, held in kept.items()])  # noqa: B008
elif holder == "a finalizer":

    class Last:
        def __init__(self):
            self.kept = objects()

        def __del__(self):
            self.kept["lane"].run()
            self.kept["session"].run(FEEDS)
            self.kept["view of output"].sum()

    last = Last()
elif holder == "a thread's locals":
    local = threading.local()

    def hold():
        local.kept = objects()

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    local.kept = objects()
elif holder == "a daemon thread's frame":
    started = threading.Event()

    def hold_for_ever():
        kept = objects()  # noqa: F841
        started.set()
        threading.Event().wait()

    threading.Thread(target=hold_for_ever, daemon=True).start()
    started.wait()
elif holder == "a session with its own threads":
    kept = session(zrt.SessionOptions(intra_op_num_threads=3, inter_op_num_threads=2, execution_mode="PARALLEL"))
    kept.run(FEEDS)
elif holder == "sessions that share weights":
    kept = zrt.Runtime.replicate(bench.mlp(width=256, depth=4), 3, QUIET, share_weights=True, shapes=[(1, 256)])
    kept.prime()
elif holder == "closed objects":
    kept = objects()
    for held in kept.values():
        if hasattr(held, "close"):
            held.close()
elif holder == "nothing but the import":
    import zrt.lanes.lane
    import zrt.session.session
elif holder == "sys.exit":
    kept = objects()
    print("done", flush=True)
    sys.exit(0)
else:
    raise AssertionError(holder)

print("done", flush=True)
