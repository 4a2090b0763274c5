"""Objects from before a fork, and their use in the child; for the scripts of test_processes.py.

Argument 1 is the number of threads of the sessions.
"""

import asyncio
import gc
import sys
import threading

import numpy as np

import zrt
from benches.models import build as bench
from benches.models.decoder import decoder
from tests.robustness import forking
from tests.robustness.forking import fork
from tests.robustness.prologue import same
from tests.support.bindings import bind

threads = int(sys.argv[1])
many = bench.cnn()
images = {"image": np.ones((4, 1, 28, 28), np.float32)}
one = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads))
made = one.lane({"image": (4, 1, 28, 28)})
made.inputs["image"][...] = 1
bound = bind(one, images, "logits")
rebound = one.lane({"image": (4, 1, 28, 28)}, rebind_inputs=True)
# A session of several providers is synchronized in each run.
providers = [name for name in ("AzureExecutionProvider", "CPUExecutionProvider") if name in zrt.available_providers()]
several = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads), providers)
synchronized = several.lane({"image": (4, 1, 28, 28)})
decoding = zrt.Session(decoder(), zrt.SessionOptions(intra_op_num_threads=threads, log_severity_level="ERROR"))
carrying = decoding.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoding, 8))
carrying.run()
prepared = one.prepare(images)
prepared.run()
runtime = zrt.DynamicRuntime(one)
runtime.lane([(4, 1, 28, 28)]).run()
view = made.outputs["logits"]
value = zrt.Value.allocate((4,), np.float32, one.allocator())
wanted = one.run(images)[0]
made.run()
bound.run()


def keep_own():
    """Makes a session that lives to the end of the process, and runs it."""
    global kept
    kept = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads))
    same(kept.run(images)[0], wanted)


def refused():
    """Each use of the parent's session raises."""
    values = {"image": zrt.Value.from_array(images["image"])}
    run_options = zrt.RunOptions(tag="child")
    uses = {
        "run": lambda: one.run(images),
        "run, in order": lambda: one.run([images["image"]]),
        "run, of another shape": lambda: one.run({"image": images["image"][:1]}),
        "run, of a strided array": lambda: one.run({"image": images["image"][:, :, ::-1]}),
        "run, with options": lambda: one.run(images, options=run_options),
        "run, of some outputs": lambda: one.run(images, ["logits"]),
        "run_values": lambda: one.run_values(values),
        "submit": lambda: one.submit(images),
        "submit_values": lambda: one.submit_values(values),
        "run_async": lambda: asyncio.run(one.run_async(images)),
        "prepare": lambda: one.prepare(images),
        "prepared": prepared.run,
        "prepared, with options": lambda: prepared.run(run_options),
        "lane": lambda: one.lane({"image": (1, 1, 28, 28)}),
        "lane of before": made.run,
        "lane of before, synchronized": synchronized.run,
        "lane of before, with options": lambda: made.run_with(run_options),
        "lane of before, bound again": lambda: rebound.run(),
        "lane of before, with a state": carrying.run,
        "lane of before, with a state and a deadline": lambda: carrying.run(timeout=60),
        "new state": carrying.new_state,
        "copy of a state": carrying.state.copy,
        "state written": lambda: carrying.state.write({}),
        "state reset": carrying.state.reset,
        "binding": one.binding,
        "binding of before": bound.run,
        "inputs of a binding unbound": bound.clear_inputs,
        "outputs of a binding unbound": bound.clear_outputs,
        "runtime": lambda: runtime.lane([(4, 1, 28, 28)]).run(),
        "runtime, other shapes": lambda: runtime.lane([(2, 1, 28, 28)]),
        "allocator": one.allocator,
        "profile": lambda: one.profile(images),
        "with": one.__enter__,
    }
    forking.refused(uses)
    # Nothing was bound or written for the run that followed.
    assert (carrying.state.steps, carrying.inputs["position_ids"]) == (1, 0)


def in_child(use):
    """Uses the objects in the child in the way of this name."""
    if use == "drop":
        globals().update(one=None, made=None, bound=None, view=None, value=None)
        gc.collect()
    elif use == "close":
        for owner in (value, bound, made, one):
            owner.close()
    elif use == "look":
        view.sum(), value.numpy(), made.audit(), repr(one)
        bound.outputs()
    elif use == "own":
        with zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads)) as own:
            same(own.run(images)[0], wanted)
            mine = own.lane({"image": (4, 1, 28, 28)})
        mine.run()
        del mine
        gc.collect()
    elif use == "own, kept":
        keep_own()
    elif use == "own, in a thread":
        thread = threading.Thread(target=keep_own)
        thread.start()
        thread.join()
    elif use == "own, then fork":
        keep_own()
        fork(keep_own, 30)
    elif use == "run":
        refused()
        keep_own()
        refused()
    elif use == "fork":
        fork(gc.collect, 30)
