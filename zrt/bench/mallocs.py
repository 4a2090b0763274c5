"""How often a run calls the system's allocator. A library that is loaded before all others counts the calls.

It needs Linux with glibc, and a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources

from zrt._common.files import temporary_folder
from zrt.bench import child
from zrt.bench.contenders import Subject
from zrt.bench.inputs import UserInputs, make_inputs
from zrt.errors import ArgumentError, UnsupportedError
from zrt.lanes.ports import LaneMemory
from zrt.session.spec import SessionSpec

WARMUP = 10
RUNS = 100


def build(folder: str) -> str:
    """Compiles the library, for ``LD_PRELOAD``. Raises `UnsupportedError` where that cannot be done."""
    compiler = shutil.which("cc")
    if platform.libc_ver()[0] != "glibc" or compiler is None:
        raise UnsupportedError("calls of malloc can be counted on Linux with glibc and a C compiler (`cc`) only")
    library = os.path.join(folder, "mallocs.so")
    with resources.as_file(resources.files("zrt.bench") / "mallocs.c") as source:
        command = [compiler, "-O2", "-fPIC", "-shared", "-fno-builtin", str(source), "-o", library]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UnsupportedError(f"`cc` cannot compile the library that counts calls of malloc: {done.stderr.strip()}")
    return library


def count(run: Callable[[], object]) -> float:
    """How often a run calls the allocator, in a process with the library; the mean of some runs."""
    try:
        calls = ctypes.CDLL(None).allocator_calls
    except AttributeError:
        # The system's loader says so on standard error, and goes on.
        raise UnsupportedError(
            "the library that counts calls of malloc was not loaded: the path of the folder for temporary files "
            "(TMPDIR) may have no space and no colon, and its files must be executable"
        ) from None
    calls.restype = ctypes.c_ulong
    for _ in range(WARMUP):
        run()
    before = calls()
    for _ in range(RUNS):
        run()
    return float(calls() - before) / RUNS


def in_a_run(spec: SessionSpec, inputs: UserInputs) -> float:
    """How often a run of a lane calls the allocator, in a process of its own: zrt adds none, so all are the engine's.

    Raises `UnsupportedError` where they cannot be counted, and the errors of the load, the lane and the run.
    """
    with temporary_folder("zrt-mallocs-") as folder:
        calls: float = child.call(_in_a_run, spec, inputs, LD_PRELOAD=build(folder))
        return calls


def _in_a_run(spec: SessionSpec, inputs: UserInputs) -> float:
    with spec.load() as session:
        fed = make_inputs(session.inputs, inputs, session.initializers)
        initializers = [name for name in fed.arrays if name not in session.input_names]
        if initializers:
            raise ArgumentError(f"calls are counted in a lane, which takes inputs alone: {initializers[0]!r} is none")
        with fed.first_run():
            lane = Subject(spec.load, fed, LaneMemory.buffers()).lane(session)
        return count(lane.run)
