"""The queue between ONNX Runtime's threads and Python: nothing lost, nothing waits, whatever ends or forks."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zrt._native import bridge, ffi, lib
from zrt.environment import log_sink
from zrt.errors import DTypeError

# What each script below begins with: `say` pushes a line as a thread of ONNX Runtime does, `heard` has what arrived.
SCRIPT = """
import logging, os, sys, threading, time
from zrt.environment import log_sink
from zrt._native import bridge, ffi, lib

heard = []
logger = logging.Logger("heard")
handler = logging.Handler()
handler.emit = heard.append
logger.addHandler(handler)
_, number = log_sink.sink(logger)

def say(text, severity=2):
    lib.zrt_log_sink(number, severity, b"category", b"id", b"file.cc:7 function", text.encode())
"""


def test_many_threads_and_one_order_each(python):
    """Each thread's lines come in its order, all of them, whoever waits for the GIL meanwhile."""
    python(f"""{SCRIPT}
def many(thread):
    for count in range(1000):
        say(f"{{thread}} {{count}}")
threads = [threading.Thread(target=many, args=(thread,)) for thread in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert bridge.flush(60)
assert len(heard) == 8000
for thread in range(8):
    own = [record.getMessage() for record in heard if record.getMessage().startswith(f"{{thread}} ")]
    assert own == [f"{{thread}} {{count}}" for count in range(1000)]
""")


def test_a_producer_never_waits(python):
    """Not for a receiver that is stuck, nor for the queue: 30,000 lines pass while nothing is received."""
    python(f"""{SCRIPT}
gate = threading.Event()
handler.emit = lambda record: (gate.wait(60), heard.append(record))
for count in range(30_000):
    say(str(count))
assert not heard
assert not bridge.flush(0.01)
gate.set()
assert bridge.flush(60)
assert len(heard) == 30_000
""")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory as Linux does")
def test_what_finds_no_memory_goes_to_standard_error_and_is_counted(python):
    done = python(f"""{SCRIPT}
import resource
# What there is and little more.
pages = int(open("/proc/self/statm").read().split()[0])
huge = ffi.new("char[]", b"x" * (40 << 20))
resource.setrlimit(resource.RLIMIT_AS, ((pages * 4096) + (70 << 20), -1))
for _ in range(2):
    lib.zrt_log_sink(number, 2, b"category", b"id", b"file.cc:7 function", huge)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert bridge.flush(60)
assert not heard
say("small")
assert bridge.flush(60)
assert [record.getMessage() for record in heard] == [
    "2 lines of ONNX Runtime's log found no memory and went to standard error", "small"]
say("next")
assert bridge.flush(60)
assert len(heard) == 3
""")
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.count("x") == 40 << 20
        assert "[W:category:id, file.cc:7 function] xxx" in line


LINE = re.compile(
    r"(\x1b\[\S*m)?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \[[VIWEF]:onnxruntime:\S*, [\w.]+:\d+ [^\]]+\] .*?(\x1b\[m)?",
)


def test_lines_on_standard_error_are_as_the_engine_writes_them(python):
    """The same model, logged by ONNX Runtime itself and by zrt: the same lines, but for the time and addresses."""
    script = """
import zrt
from tests.support import models
from zrt._native import lib
{before}
zrt.Environment("same", "verbose", {logger})
zrt.Session(models.add(["n"]), zrt.SessionOptions(intra_op_num_threads=1))
zrt.infer(models.gather(), [__import__("numpy").array([0])])
try:
    zrt.Session(models.gather()).run([__import__("numpy").array([9])])
except zrt.Error:
    pass
"""
    # The Python half has ended: every line is C's to write.
    ours = python(script.format(before="from zrt._native import bridge; bridge._at_exit()", logger="'anyone'")).stderr
    theirs = python(script.format(before="", logger="None")).stderr

    def plain(lines):
        """Without what no two processes have alike."""
        return [re.sub(r"0x[0-9a-f]+|\d+", "", line) for line in lines.splitlines()]

    assert len(ours.splitlines()) > 50
    assert all(LINE.fullmatch(line) for line in ours.splitlines() if "[E:" in line)
    assert sorted(plain(ours)) == sorted(plain(theirs))


def test_the_end_delivers_and_what_comes_later_is_written(python):
    done = python(f"""
import atexit, os
def late():
    say("late")
    print(len(heard), flush=True)
atexit.register(late)
{SCRIPT}
handler.emit = lambda record: (time.sleep(0.0005), heard.append(record))
for count in range(500):
    say(str(count))
""")
    assert done.stdout == "500\n"
    assert "[W:category:id, file.cc:7 function] late" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_end_does_not_wait_for_ever(python):
    """A receiver that never returns: its lines are on standard error, and the process ends.

    A filter, that is: for a handler's lock `logging` itself waits at the end.
    """
    done = python(f"""{SCRIPT}
bridge.EXIT_PATIENCE = 0.1
held = threading.Event()
logger.addFilter(lambda record: held.set() or threading.Event().wait())
for count in range(100):
    say(f"line {{count}}")
held.wait()
""")
    # The first is in the receiver's hands.
    lines = [line.partition("] ")[2].removesuffix("\x1b[m") for line in done.stderr.splitlines()]
    assert lines == [f"line {count}" for count in range(1, 100)]


def test_a_daemon_that_logs_to_the_end(python):
    python(f"""{SCRIPT}
def forever():
    while True:
        say("more")
        time.sleep(0.0001)
for _ in range(4):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
""")


def test_a_fork_has_a_queue_of_its_own(python):
    """Whatever threads push and receive at that moment; the parent's lines stay the parent's."""
    done = python(f"""{SCRIPT}
import warnings
# Python itself warns of forks among threads, since 3.12.
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
stop = False
def forever():
    count = 0
    while not stop:
        say("parent")
        time.sleep(0.0001)
        if count % 100 == 99:
            bridge.flush(60)
        count += 1
threads = [threading.Thread(target=forever) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(12):
    time.sleep(0.002)
    child = os.fork()
    if child == 0:
        heard.clear()
        say("child")
        good = bridge.flush(30) and [record.getMessage() for record in heard] == ["child"]
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop = True
for thread in threads: thread.join()
assert bridge.flush(60)
assert {{record.getMessage() for record in heard}} == {{"parent"}}
""")
    assert done.stderr == ""


def test_a_fork_inside_a_receiver(python):
    """The thread that receives becomes the child's only one; what it says there is received by another."""
    python(f"""{SCRIPT}
children = []
def fork(record):
    heard.append(record.getMessage())
    if record.getMessage() != "fork":
        return
    child = os.fork()
    if child == 0:
        heard.clear()
        say("from the child")
        os._exit(0 if bridge.flush(30) and heard == ["from the child"] else 1)
    children.append(child)
handler.emit = fork
say("fork")
say("after")
assert bridge.flush(60)
assert heard == ["fork", "after"]
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
""")


@pytest.mark.parametrize("used", [True, False])
def test_a_process_of_multiprocessing_loses_nothing(python, used):
    done = python(f"""{SCRIPT}
import multiprocessing

def slow(record):
    time.sleep(0.001)
    os.write(1, b"heard\\n")
handler.emit = slow

def work():
    log_sink.sink(logger)
    for _ in range(100):
        say("in the child")

if not {used}:
    # As in a process whose first use of zrt is in the child.
    bridge._thread = None
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
assert child.exitcode == 0
""")
    assert done.stdout == "heard\n" * 100


def test_what_receivers_raise_goes_to_the_threads_hook(python):
    done = python(f"""{SCRIPT}
def fail(record):
    heard.append(record)
    raise {{0: ZeroDivisionError, 1: SystemExit, 2: KeyboardInterrupt}}[len(heard) % 3](record.getMessage())
handler.emit = fail
hooked = []
threading.excepthook = hooked.append
for count in range(30):
    say(str(count))
assert bridge.flush(60)
assert len(heard) == len(hooked) == 30
assert [str(each.exc_value) for each in hooked] == [str(count) for count in range(30)]
assert {{each.thread.name for each in hooked}} == {{"zrt-bridge"}}
def also(arguments):
    raise OSError("the hook as well")
threading.excepthook = also
say("last")
assert bridge.flush(60)
handler.emit = heard.append
say("and on")
assert bridge.flush(60)
assert len(heard) == 32
""")
    assert "the hook as well" in done.stderr


def test_flush_where_it_would_wait_for_itself(python):
    python(f"""{SCRIPT}
handler.emit = lambda record: heard.append(bridge.flush())
say("one")
assert bridge.flush(60)
assert heard == [False]
""")


def test_a_message_of_a_kind_that_nobody_receives_is_reported(monkeypatch):
    heard = []
    monkeypatch.setattr(threading, "excepthook", heard.append)
    bridge.start()
    message = ffi.new("zrt_message *", {"kind": 99})
    assert lib.zrt_bridge_push(message)
    assert bridge.flush(60)
    assert [hooked.exc_type for hooked in heard] == [KeyError]


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=4, max_size=4),
    severity=st.integers(0, 4),
    place=st.one_of(st.none(), st.tuples(st.from_regex(r"[a-z_]+\.cc", fullmatch=True), st.integers(1, 10**6))),
)
def test_any_text_arrives_as_it_is(pieces, severity, place):
    heard = []
    logger = logging.Logger("any")
    handler = logging.Handler()
    handler.emit = heard.append
    logger.addHandler(handler)
    _, number = log_sink.sink(logger)
    category, logid, location, text = pieces
    if place is not None:
        location = f"{place[0]}:{place[1]} void a::b(int, char)"
    lib.zrt_log_sink(number, severity, category.encode(), logid.encode(), location.encode(), text.encode())
    assert bridge.flush(60)
    [record] = heard
    assert (record.category, record.logid, record.location, record.getMessage()) == (category, logid, location, text)
    assert record.levelno == log_sink.LEVELS[severity]
    if place is not None:
        assert (record.pathname, record.lineno, record.funcName) == (*place, "void a::b(int, char)")


def test_bytes_that_are_no_text_arrive_all_the_same():
    heard = []
    logger = logging.Logger("bytes")
    handler = logging.Handler()
    handler.emit = heard.append
    logger.addHandler(handler)
    _, number = log_sink.sink(logger)
    lib.zrt_log_sink(number, 2, b"\xff", b"\xfe", b"\xfd:x \xfc", b"a\xc3")
    assert bridge.flush(60)
    assert heard[0].getMessage() == "a\ufffd"


def test_loggers_are_taken_by_name_or_themselves():
    with pytest.raises(DTypeError, match=r"logger: expected a logging\.Logger or its name, got int 5"):
        log_sink.as_logger(5, "logger")
