"""Calls all functions and methods of the drop-in with arguments of any kind: `any_arguments.py SEED CALLS`.

Each call returns or raises; a crash ends the process, and the call that caused it is in the last line of the output.
"""

import contextlib
import logging
import os
import random
import sys
import tempfile

import numpy as np

import zrt.onnxruntime as ort
from tests.onnxruntime.models import identity
from zrt.onnxruntime.capi import onnxruntime_pybind11_state as state

seed, calls = map(int, sys.argv[1:])
dice = random.Random(seed)
logging.disable(logging.CRITICAL)
# Some calls write files of random names.
os.chdir(tempfile.mkdtemp())

# These act on the whole process.
LEFT_OUT = {"register_execution_provider_library", "set_global_thread_pool_sizes", "set_default_logger_severity"}
# A run in the background would still use its arguments when the next call changes them, as it may.
UNCALLED = {"__class__", "__dir__", "__init_subclass__", "__subclasshook__", "run_async"}


class Wrong:
    """An object whose methods raise."""

    def raises(self, *arguments):
        raise ValueError("no")

    __index__ = __str__ = __repr__ = __iter__ = __getitem__ = __fspath__ = __bool__ = raises

    def __len__(self):
        return 5


class Text(str):
    """A text of another class."""


model = identity("float")
session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
array = np.ones(3, np.float32)
value = ort.OrtValue.ortvalue_from_numpy(array)
options = ort.SessionOptions()
cpu = ort.OrtDevice.make("cpu", 0)
binding = session.io_binding()
sparse = ort.SparseTensor.sparse_coo_from_numpy([3, 3], np.ones(1, np.float32), np.zeros(1, np.int64), cpu)
device = ort.get_ep_devices()[0]

objects = [session, session._sess, value, value._ortvalue, options, ort.RunOptions(), binding, binding._iobinding]
objects += [cpu, cpu._get_c_device(), sparse, sparse._tensor, device, device.device, state.OrtValueVector()]
objects += [
    ort.OrtArenaCfg({}),
    ort.AdapterFormat(),
    ort.LoraAdapter(),
    session.get_inputs()[0],
    session.get_modelmeta(),
]
objects += [ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.ModelCompiler(options, model)]
objects += [ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)]

others = [
    None,
    True,
    0,
    1,
    -1,
    3,
    1 << 20,
    2**31,
    2**63,
    2**64,
    -(2**70),
    1.5,
    float("nan"),
    range(3),
    object(),
    Wrong(),
]
others += ["", "x", "y", "cpu", "CPUExecutionProvider", "tensor(float)", "\0", "\ud800", Text("x"), b"", b"x", model]
others += [bytearray(3), memoryview(b"abc"), [], [1], [3], [-1], [2**62, 2**62], ["x"], [None], (), {}, {1: 2}]
others += [{"x": array}, {"x": value}, {"x": None}, [value], [value._ortvalue], lambda *arguments: arguments, print]
others += [array, np.zeros((0, 3)), np.zeros(3, object), np.array("x"), np.float32, np.int64]

names = [name for name in state.__all__ if name not in LEFT_OUT]
things = [getattr(state, name) for name in names] + [getattr(ort, name) for name in ort.__all__ if name not in LEFT_OUT]
classes = [thing for thing in things if isinstance(thing, type)]
functions = [thing for thing in things if callable(thing) and not isinstance(thing, type)]


def shown(thing):
    try:
        return repr(thing)[:60]
    except Exception:
        return type(thing).__name__


def attempt(label, call):
    arguments = [dice.choice(objects + others) for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 3, 4, 5)))]
    print(label, *map(shown, arguments), file=sys.stderr, flush=True)
    with contextlib.suppress(Exception):
        return call(*arguments)


def member(thing):
    """A random attribute of an object: set, called, or read."""
    name = dice.choice([name for name in dir(type(thing)) if name not in UNCALLED])

    def use(*arguments):
        if arguments and dice.random() < 0.15:
            setattr(thing, name, arguments[0])
            return None
        member = getattr(thing, name)
        return member(*arguments) if callable(member) else member

    attempt(f"{type(thing).__name__}.{name}", use)


with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    for _ in range(calls):
        match dice.random():
            case number if number < 0.2:
                function = dice.choice(functions)
                attempt(getattr(function, "__name__", shown(function)), function)
            case number if number < 0.4:
                kind = dice.choice(classes)
                made = attempt(kind.__name__, kind)
                if made is not None and len(objects) < 200 and dice.random() < 0.3:
                    objects.append(made)
            case number if number < 0.5:
                # An object whose constructor did not run.
                with contextlib.suppress(TypeError):
                    kind = dice.choice(classes)
                    member(kind.__new__(kind))
            case _:
                member(dice.choice(objects))
print("all calls returned or raised")
