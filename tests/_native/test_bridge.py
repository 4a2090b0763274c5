"""The queue of messages from ONNX Runtime's threads to Python: no message is lost, no thread blocks, also at the end of
the interpreter and after a fork."""

import logging
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import log_queue
from tests.support.together import in_threads
from zrt._native import bridge, lib
from zrt.environment import log_sink
from zrt.errors import DTypeError


@pytest.fixture
def received() -> Iterator[list[logging.LogRecord]]:
    """The records of `log_queue`, none yet; the test may replace the handler's `emit`."""
    log_queue.received.clear()
    yield log_queue.received
    log_queue.handler.emit = log_queue.received.append


def test_lines_of_one_thread_keep_their_order(received):
    """The lines of each thread arrive complete and in order while others wait for the GIL."""

    def log_lines(thread):
        for count in range(1000):
            log_queue.log(f"{thread} {count}")

    in_threads(*(partial(log_lines, thread) for thread in range(8)))
    assert bridge.flush(60)
    assert len(received) == 8000
    for thread in range(8):
        own = [record.getMessage() for record in received if record.getMessage().startswith(f"{thread} ")]
        assert own == [f"{thread} {count}" for count in range(1000)]


def test_logging_never_waits_for_the_receiver(received):
    """30,000 lines are logged while the receiver is stuck."""
    gate = threading.Event()
    log_queue.handler.emit = lambda record: (gate.wait(60), received.append(record))
    for count in range(30_000):
        log_queue.log(str(count))
    assert not received
    assert not bridge.flush(0.01)
    gate.set()
    assert bridge.flush(60)
    assert len(received) == 30_000


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory as Linux does")
@pytest.mark.parametrize("arguments", [[], ["interrupted"]], ids=["at once", "in parts"])
def test_lines_without_memory_go_to_standard_error(script, arguments):
    done = script("no_memory.py", *arguments)
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for line in lines:
        _, place, text = line.partition("[W:category:id, file.cc:7 function] ")
        assert place
        assert text.removesuffix("\x1b[m") == "0123456789" * (10 << 20)


LINE = re.compile(
    r"(\x1b\[\S*m)?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \[[VIWEF]:onnxruntime:\S*, [\w.]+:\d+ [^\]]+\] .*?(\x1b\[m)?"
)


def test_printed_lines_look_like_those_of_onnx_runtime(script):
    """The same model, logged by ONNX Runtime itself and by zrt: the lines differ only in times and addresses."""
    ours = script("printed_lines.py", "zrt").stderr
    theirs = script("printed_lines.py", "onnxruntime").stderr

    def plain(lines):
        """The lines without numbers, which differ from process to process."""
        return [re.sub(r"0x[0-9a-f]+|\d+", "", line) for line in lines.splitlines()]

    assert len(ours.splitlines()) > 50
    assert all(LINE.fullmatch(line) for line in ours.splitlines() if "[E:" in line)
    assert sorted(plain(ours)) == sorted(plain(theirs))


def test_interpreter_end_delivers_lines_and_prints_later_ones(script):
    done = script("end_delivers.py")
    assert done.stdout == "500\n"
    assert "[W:category:id, file.cc:7 function] late" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_interpreter_end_does_not_wait_for_a_stuck_receiver(script):
    """The process ends although a receiver never returns, and its lines go to standard error.

    The receiver is a filter, since `logging` itself waits for a handler's lock at the end.
    """
    done = script("end_with_stuck_receiver.py")
    # The receiver has the first line.
    lines = [line.partition("] ")[2].removesuffix("\x1b[m") for line in done.stderr.splitlines()]
    assert lines == [f"line {count}" for count in range(1, 100)]


def test_interpreter_end_without_standard_error(script):
    assert script("end_with_stuck_receiver.py", "closed").stderr == ""


def test_daemon_threads_may_log_until_the_end(script):
    script("daemons_log_to_the_end.py")


def test_forked_child_has_its_own_queue(script):
    """Threads push and receive during the fork; the parent's lines stay in the parent."""
    done = script("fork.py")
    assert done.stderr == ""


def test_fork_while_runs_wait_for_a_cpu(script):
    script("fork_while_runs_wait.py")


def test_fork_inside_a_receiver_starts_a_new_thread(script):
    """The receiving thread becomes the child's only thread, and another one delivers its lines."""
    script("fork_in_receiver.py")


@pytest.mark.parametrize("used", [True, False])
def test_multiprocessing_child_delivers_all_lines(script, used):
    done = script("multiprocessing_child.py", used)
    assert done.stdout == "heard\n" * 100


def test_exceptions_of_receivers_go_to_excepthook(received, monkeypatch, capsys):
    """Delivery goes on after each of them, also where the hook raises."""

    def fail(record):
        received.append(record)
        raise [ZeroDivisionError, SystemExit, KeyboardInterrupt][len(received) % 3](record.getMessage())

    def fail_too(arguments):
        raise OSError("the hook as well")

    hooked = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    log_queue.handler.emit = fail
    for count in range(30):
        log_queue.log(str(count))
    assert bridge.flush(60)
    assert [str(each.exc_value) for each in hooked] == [str(count) for count in range(30)]
    assert {each.thread.name for each in hooked} == {"zrt-bridge"}
    monkeypatch.setattr(threading, "excepthook", fail_too)
    log_queue.log("last")
    assert bridge.flush(60)
    assert "the hook as well" in capsys.readouterr().err
    log_queue.handler.emit = received.append
    log_queue.log("and on")
    assert bridge.flush(60)
    assert len(received) == 32


def test_flush_inside_a_receiver_returns_false(received):
    """It cannot wait for itself."""
    log_queue.handler.emit = lambda record: received.append(bridge.flush())
    log_queue.log("one")
    assert bridge.flush(60)
    assert received == [False]


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=4, max_size=4),
    severity=st.integers(0, 4),
    place=st.one_of(st.none(), st.tuples(st.from_regex(r"[a-z_]+\.cc", fullmatch=True), st.integers(1, 10**6))),
)
def test_any_text_arrives_unchanged(pieces, severity, place):
    log_queue.received.clear()
    category, logid, location, text = pieces
    if place is not None:
        location = f"{place[0]}:{place[1]} void a::b(int, char)"
    texts = (piece.encode() for piece in (category, logid, location, text))
    lib.zrt_log_sink(log_queue.number, severity, *texts)
    assert bridge.flush(60)
    [record] = log_queue.received
    assert (record.category, record.logid, record.location, record.getMessage()) == (category, logid, location, text)
    assert record.levelno == log_sink.LEVELS[severity]
    if place is not None:
        assert (record.pathname, record.lineno, record.funcName) == (*place, "void a::b(int, char)")


def test_invalid_utf8_is_replaced(received):
    lib.zrt_log_sink(log_queue.number, 2, b"\xff", b"\xfe", b"\xfd:x \xfc", b"a\xc3")
    assert bridge.flush(60)
    assert received[0].getMessage() == "a\ufffd"


def test_wrong_type_of_logger_raises():
    with pytest.raises(DTypeError, match=r"logger: expected a logging\.Logger or its name, got int 5"):
        log_sink.as_logger(5, "logger")
