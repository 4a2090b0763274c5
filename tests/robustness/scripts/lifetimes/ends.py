"""The interpreter ends while objects of every kind are alive; the arguments name their holders."""

import atexit
import builtins
import gc
import sys
import threading

import zrt
from benches.models import build as bench
from tests.robustness.objects import Knot, objects
from tests.robustness.prologue import FEEDS, QUIET, session
from tests.robustness.values import every_kind

# A global of the module, so that the end of the interpreter releases what it holds.
kept = []


def unreachable_cycle():
    gc.disable()
    Knot(objects())


def default_argument():
    def function(held=objects()):  # noqa: B008
        pass

    return function


def suspended_generator():
    def generate():
        held = objects()
        yield held

    generator = generate()
    next(generator)
    return generator


def exception_with_its_frames():
    def fail():
        held = objects()  # noqa: F841
        raise ValueError

    try:
        fail()
    except ValueError as error:
        error.me = error
        return error


def exit_function():
    atexit.register(lambda held=objects(): [check(item) for item, check in held.values()])  # noqa: B008


class Last:
    """Its finalizer uses the objects that it holds."""

    def __init__(self):
        self.held = objects()

    def __del__(self):
        self.held["lane"][0].run()
        self.held["session"][0].run(FEEDS)
        self.held["view of output"][0].sum()


def locals_of_threads():
    local = threading.local()

    def hold():
        local.held = objects()

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    hold()
    return local


def frame_of_a_daemon_thread():
    started = threading.Event()

    def hold_for_ever():
        held = objects()  # noqa: F841
        started.set()
        threading.Event().wait()

    threading.Thread(target=hold_for_ever, daemon=True).start()
    started.wait()


def session_with_its_own_threads():
    options = zrt.SessionOptions(intra_op_num_threads=3, inter_op_num_threads=2, execution_mode="PARALLEL")
    one = session(options)
    one.run(FEEDS)
    return one


def sessions_that_share_weights():
    runtime = zrt.Runtime.replicate(bench.mlp(width=256, depth=4), 3, QUIET, share_weights=True, shapes=[(1, 256)])
    runtime.prime()
    return runtime


def closed_objects():
    held = objects()
    for item, _ in held.values():
        if hasattr(item, "close"):
            item.close()
    return held


def values_of_every_kind():
    """In this module, and in two that are released in other orders."""
    builtins.kept, sys.kept_values = every_kind(), every_kind()
    return every_kind()


def nothing_but_the_import():
    import zrt.lanes.lane
    import zrt.session.session  # noqa: F401


def sys_exit():
    kept.append(objects())
    print("done", flush=True)
    sys.exit(0)


HOLDERS = {
    "globals": objects,
    "a cycle in globals": lambda: Knot(objects()),
    "another module": lambda: setattr(sys, "kept", objects()),
    "a class": lambda: setattr(Knot, "kept", objects()),
    "a default argument": default_argument,
    "a suspended generator": suspended_generator,
    "an exception with its frames": exception_with_its_frames,
    "an exit function": exit_function,
    "a finalizer": Last,
    "a thread's locals": locals_of_threads,
    "a daemon thread's frame": frame_of_a_daemon_thread,
    "a session with its own threads": session_with_its_own_threads,
    "sessions that share weights": sessions_that_share_weights,
    "closed objects": closed_objects,
    "values of every kind": values_of_every_kind,
    "an unreachable cycle": unreachable_cycle,
    "nothing but the import": nothing_but_the_import,
    "sys.exit": sys_exit,
}
for holder in sys.argv[1:]:
    kept.append(HOLDERS[holder]())
print("done", flush=True)
