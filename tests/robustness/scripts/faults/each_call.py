"""Lets each call fail, for each operation: the call alone, and it with all that follow.

The arguments: ``library`` for the calls of ONNX Runtime or ``system`` for those of the system, a folder for files, and
the names of operations; without names all are taken. It prints as JSON, for each operation, the number of its calls,
the functions whose failure changed nothing, and what went wrong.
"""

import gc
import hashlib
import json
import sys
import time
import traceback
from pathlib import Path

import numpy as np

import zrt
from tests.robustness import operations
from tests.robustness.prologue import FEEDS, SUM, session
from tests.support.faulty_library import MESSAGE, LibraryFaults
from tests.support.faulty_system import REASONS, SystemFaults
from zrt._common.files import PREFIX
from zrt.scoring.parts import work_folder
from zrt.session import async_runs

kind, folder = sys.argv[1], Path(sys.argv[2])
faults, reasons = (LibraryFaults(), [MESSAGE]) if kind == "library" else (SystemFaults(), REASONS)
table = operations.make(folder)
witness = session()
work = work_folder(folder / "scored.npy", True)
# A second thread for runs in the background may begin at any time later, and keeps run options of its own.
async_runs._MOST_WORKERS = 1
# Python prints exceptions that it cannot raise, such as those of a finalizer.
sys.unraisablehook = lambda _: None
# The collections below leave out the objects that exist now: there are many, and none belongs to an operation.
gc.collect()
gc.freeze()


def counts(name):
    gc.collect()
    alive = faults.alive()
    if name in operations.STATUS_IS_PASSED_ON:
        alive.pop("OrtStatus", None)
    return alive


def left(name, before):
    """The objects that an operation left, by kind. A thread of it may need a moment to release its own."""
    for _ in range(50):
        after = counts(name)
        # A thread that was about to end may have been counted before.
        if after == before or after == before | {"threads": min(after.get("threads", 0), before.get("threads", 0))}:
            return {}
        time.sleep(0.01)
    return {kind: after.get(kind, 0) - before.get(kind, 0) for kind in before | after}


def files():
    """The content of each file, shortened."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def attempt(call):
    """The problem with the operation's error, and whether there was no error."""
    try:
        call()
    except zrt.Error as error:
        said = any(reason in str(error) for reason in reasons)
        return None if said else f"{type(error).__name__} without the reason: {error}", False
    except BaseException:
        return traceback.format_exc(limit=-4), False
    return None, True


def examined(name):
    call = table[name]
    call()
    call()
    before, kept = counts(name), files()
    with faults.between(0, 0):
        call()
    wrong, ignored, number = [], set(), 0
    if left(name, before):
        wrong.append(f"left without a fault: {left(name, before)}")
    if files() != kept:
        wrong.append("other files without a fault")
    total = faults.calls
    for number in range(1, total + 1):
        for last in (number, sys.maxsize):
            before, kept = counts(name), files()
            with faults.between(number, last):
                problem, worked = attempt(call)
            if worked and faults.failed:
                ignored.add(faults.failed)
            place = f"call {number}, {faults.failed}"
            if problem:
                wrong.append(f"{place}: {problem}")
            if left(name, before):
                wrong.append(f"{place}: left {left(name, before)}")
            # The next call goes on after the rows that an interrupted one has scored.
            changed = {path for path, _ in files().items() ^ kept.items() if f"{work}/" not in path}
            # A folder that cannot even be listed is left for the next call.
            if any(last == number or f"/{PREFIX}" not in path for path in changed):
                wrong.append(f"{place}: other files: {sorted(changed)}")
            call()
            if files() != kept:
                wrong.append(f"{place}: other files after the next call")
            assert np.array_equal(witness.run(FEEDS)[0], SUM)
    return {"calls": total, "ignored": sorted(ignored), "wrong": wrong}


print(json.dumps({name: examined(name) for name in sys.argv[3:] or table}))
