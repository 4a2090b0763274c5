"""The queue of messages from ONNX Runtime's threads to Python: no message is lost, no thread blocks, also at the end of
the interpreter and after a fork."""

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


def test_lines_of_one_thread_keep_their_order(script):
    """The lines of each thread arrive complete and in order while others wait for the GIL."""
    script("order_of_threads.py")


def test_logging_never_waits_for_the_receiver(script):
    """30,000 lines are logged while the receiver is stuck."""
    script("stuck_receiver.py")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory as Linux does")
def test_lines_without_memory_go_to_standard_error(script):
    done = script("no_memory.py")
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.count("x") == 100 << 20
        assert "[W:category:id, file.cc:7 function] xxx" in line


LINE = re.compile(
    r"(\x1b\[\S*m)?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \[[VIWEF]:onnxruntime:\S*, [\w.]+:\d+ [^\]]+\] .*?(\x1b\[m)?",
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


def test_daemon_threads_may_log_until_the_end(script):
    script("daemons_log_to_the_end.py")


def test_forked_child_has_its_own_queue(script):
    """Threads push and receive during the fork; the parent's lines stay in the parent."""
    done = script("fork.py")
    assert done.stderr == ""


def test_fork_inside_a_receiver_starts_a_new_thread(script):
    """The receiving thread becomes the child's only thread, and another one delivers its lines."""
    script("fork_in_receiver.py")


@pytest.mark.parametrize("used", [True, False])
def test_multiprocessing_child_delivers_all_lines(script, used):
    done = script("multiprocessing_child.py", used)
    assert done.stdout == "heard\n" * 100


def test_exceptions_of_receivers_go_to_excepthook(script):
    done = script("receiver_raises.py")
    assert "the hook as well" in done.stderr


def test_flush_inside_a_receiver_returns_false(script):
    script("flush_in_receiver.py")


def test_message_of_an_unknown_kind_is_reported(monkeypatch):
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
def test_any_text_arrives_unchanged(pieces, severity, place):
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


def test_invalid_utf8_is_replaced():
    heard = []
    logger = logging.Logger("bytes")
    handler = logging.Handler()
    handler.emit = heard.append
    logger.addHandler(handler)
    _, number = log_sink.sink(logger)
    lib.zrt_log_sink(number, 2, b"\xff", b"\xfe", b"\xfd:x \xfc", b"a\xc3")
    assert bridge.flush(60)
    assert heard[0].getMessage() == "a\ufffd"


def test_wrong_type_of_logger_raises():
    with pytest.raises(DTypeError, match=r"logger: expected a logging\.Logger or its name, got int 5"):
        log_sink.as_logger(5, "logger")
