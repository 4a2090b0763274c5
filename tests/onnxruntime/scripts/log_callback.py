"""A callback takes the log, and standard error gets the lines that it does not take: log_callback.py PACKAGE MODEL."""

import gc
import importlib
import sys
import threading
import weakref

ort = importlib.import_module(sys.argv[1])
lines = []


def load():
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])


class Keep:
    def __call__(self, *line):
        lines.append((threading.get_ident(), *line))


keep = Keep()
kept = weakref.ref(keep)
ort.set_default_logger_callback(keep, 0)
del keep
load()
assert len(lines) > 20
for thread, *line in lines:
    assert thread == threading.get_ident()
    assert [type(part) for part in line] == [int, str, str, str, str]
    assert line[0] in (0, 1)
    assert line[1] == "onnxruntime"
assert any(line[4].startswith("inference_session.cc:") and "Initializing session" in line[5] for line in lines)

# The next one takes its place, at another level.
count = len(lines)
ort.set_default_logger_callback(callback=lambda *line: lines.append(line), severity=3)
gc.collect()
assert kept() is None
load()
assert len(lines) == count

# A callback whose own calls log does not call itself.
inner = []


def again(*line):
    if not inner:
        inner.append(load())


ort.set_default_logger_callback(again, 1)
load()
assert inner

raised = []
sys.unraisablehook = raised.append


def fail(*line):
    raise SystemExit("bad")


ort.set_default_logger_callback(fail, 1)
load()
assert {(each.exc_type, each.object) for each in raised} == {(SystemExit, fail)}
ort.set_default_logger_callback(None, 4)
count = len(raised)
print("the callback is gone", file=sys.stderr, flush=True)
load()
assert len(raised) == count
