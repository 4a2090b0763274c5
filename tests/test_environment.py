"""`Environment`: one in a process, so each of these tests has a process of its own."""

from __future__ import annotations

import pytest

MODEL = """
import onnx, numpy as np, zrt
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    test (float[n] x) => (float[3] y) { y = Neg(x) }''')
"""


def test_a_session_makes_the_default_one(python):
    done = python(f"""{MODEL}
from zrt import environment
assert environment._current is None
zrt.Session(model)
assert environment._current is zrt.Environment()
print(zrt.Environment())
""")
    assert done.stdout.strip() == "Environment(log_id='zrt', log_severity=WARNING)"


def test_the_same_settings_give_the_same_one_and_others_are_an_error(python):
    done = python("""
import zrt
first = zrt.Environment("server", zrt.LogSeverity.ERROR)
assert zrt.Environment("server", zrt.LogSeverity.ERROR) is first
assert zrt.Environment("server", "error") is first
for arguments in (("other", "error"), ("server", "info"), ()):
    try:
        zrt.Environment(*arguments)
    except zrt.errors.ArgumentError as error:
        print(error)
""")
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert "this process has its environment already, as Environment(log_id='server', log_severity=ERROR)" in line
    assert "'other' at ERROR cannot be a second one" in lines[0]


def test_after_a_session_it_is_too_late(python):
    done = python(f"""{MODEL}
zrt.Session(model)
try:
    zrt.Environment("server")
except zrt.errors.ArgumentError as error:
    print(error)
""")
    assert "Environment(log_id='zrt', log_severity=WARNING); 'server'" in done.stdout


@pytest.mark.parametrize(("severity", "logged"), [("warning", True), ("error", False)])
def test_log_id_and_severity_reach_the_log(python, severity, logged):
    # The model declares another size than comes out, of which ONNX Runtime warns.
    done = python(f"""{MODEL}
zrt.Environment("my process", {severity!r})
session = zrt.Session(model, zrt.SessionOptions())
try:
    session.run([np.ones(5, np.float32)], options=zrt.RunOptions(tag="my run"))
except zrt.Error:
    pass
""")
    assert ("does not match actual shape" in done.stderr) == logged
    assert "my run" in done.stderr


def test_verbose_logs_name_the_environment(python):
    done = python(f'{MODEL}\nzrt.Environment("my process", "verbose")\nzrt.Session(model)')
    assert "[I:onnxruntime:my process" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ("5", "DTypeError", "log_id: expected a str, got int 5"),
        ("'a\\0b'", "ArgumentError", "log_id: 'a\\x00b' holds a NUL character"),
        ("'a', 'loud'", "ArgumentError", "log_severity: 'loud' is none of VERBOSE, INFO, WARNING, ERROR, FATAL"),
        ("'a', 9", "ArgumentError", "log_severity: 9 is none of"),
        ("'a', None", "ArgumentError", "log_severity: None is none of"),
    ],
)
def test_bad_arguments_make_none(python, arguments, error, message):
    done = python(f"""
import zrt
from zrt import environment
try:
    zrt.Environment({arguments})
except zrt.Error as error:
    print(type(error).__name__, error)
assert environment._current is None
""")
    assert done.stdout.startswith(f"{error} {message}")


def test_threads_that_race_make_one(python):
    python("""
import threading, zrt
barrier, made = threading.Barrier(8), []
def make():
    barrier.wait()
    made.append(zrt.Environment())
threads = [threading.Thread(target=make) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len({id(one) for one in made}) == 1, made
""")


def test_the_process_ends_well_whatever_is_left(python):
    """Sessions, runs, values and bindings that are alive at the interpreter's end, in cycles too."""
    python(f"""{MODEL}
import threading
session = zrt.Session(model)
cycle = [session, session.binding(), session.prepare([np.ones(3, np.float32)])]
cycle.append(cycle)
results = cycle[2].run()
value = zrt.Value.from_array(np.ones(3, np.float32))
def forever():
    while True:
        session.run([np.ones(3, np.float32)])
threading.Thread(target=forever, daemon=True).start()
""")
