"""ONNX Runtime's log in Python's `logging`, for the environment and for one session."""

from __future__ import annotations

import logging
import threading
import time

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt import errors
from zrt.environment import log_sink

# A session over it warns once in each run that is fed another size than three.
LIAR = "(float[n, k] x) => (float[m, 3] y) { y = Neg(x) }"
FIVE = [np.ones((1, 5), np.float32)]


class Keep(logging.Handler):
    """Keeps the records, in the order in which they come."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)

    @property
    def messages(self):
        assert zrt.Environment.flush_log(60)
        return [record.getMessage() for record in self.records]


@pytest.fixture
def kept():
    return Keep()


@pytest.fixture
def logger(kept):
    logger = logging.getLogger("of the test")
    logger.handlers, logger.filters, logger.propagate = [kept], [], False
    logger.setLevel(logging.DEBUG)
    return logger


@pytest.fixture
def liar(build, logger):
    return zrt.Session(build(LIAR), zrt.SessionOptions(intra_op_num_threads=1, logger=logger, logid="liar"))


def test_a_session_logs_where_it_is_told(liar, kept, build, capfd):
    before = time.time()
    liar.run(FIVE)
    after = time.time()
    assert zrt.Environment.flush_log(60)
    [record] = [record for record in kept.records if "does not match actual shape" in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert record.name == "of the test"
    assert record.category == "onnxruntime"
    assert record.logid == "liar"
    # "execution_frame.cc:909 VerifyOutputSizes"
    assert record.location == f"{record.filename}:{record.lineno} {record.funcName}"
    assert record.filename.endswith(".cc")
    assert record.lineno > 0
    # The event's own time and thread.
    assert before <= record.created <= after
    assert abs(record.msecs - record.created % 1 * 1000) < 2
    assert record.thread == threading.get_ident()
    assert record.threadName == threading.current_thread().name
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("severity", list(zrt.LogSeverity))
def test_levels(severity, build, logger, kept):
    """The session logs from its level on; the logger has one of its own."""
    options = zrt.SessionOptions(logger=logger, log_severity_level=severity, intra_op_num_threads=1)
    session = zrt.Session(build(LIAR), options)
    session.run(FIVE)
    assert zrt.Environment.flush_log(60)
    levels = {record.levelno for record in kept.records}
    wanted = {logging.DEBUG: 0, logging.INFO: 1, logging.WARNING: 2}
    assert levels == {level for level, number in wanted.items() if number >= severity}
    kept.records.clear()
    logger.setLevel(logging.WARNING)
    zrt.Session(build(LIAR), options).run(FIVE)
    assert zrt.Environment.flush_log(60)
    assert {record.levelno for record in kept.records} <= {logging.WARNING}


def test_every_level_has_its_own():
    names = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    assert [logging.getLevelName(log_sink.LEVELS[severity]) for severity in zrt.LogSeverity] == names


def test_errors_come_as_errors(logger, kept):
    session = zrt.Session(models.gather(), zrt.SessionOptions(logger=logger, intra_op_num_threads=1))
    with pytest.raises(zrt.OrtError):
        session.run([np.array([7], np.int64)])
    assert any("indices element out of data bounds" in message for message in kept.messages)
    assert {record.levelno for record in kept.records} == {logging.ERROR}


def test_by_name_and_through_the_hierarchy(build, caplog):
    with caplog.at_level(logging.WARNING, "zrt.test"):
        zrt.Session(build(LIAR), zrt.SessionOptions(logger="zrt.test.child", intra_op_num_threads=1)).run(FIVE)
        assert zrt.Environment.flush_log(60)
    assert [record.name for record in caplog.records] == ["zrt.test.child"]
    assert "does not match actual shape" in caplog.text


def test_each_session_has_its_own(build, capfd):
    loggers = [logging.Logger(str(n)) for n in range(2)]
    handlers = [Keep(), Keep()]
    sessions = []
    for logger, handler in zip(loggers, handlers, strict=True):
        logger.addHandler(handler)
        sessions.append(zrt.Session(build(LIAR), zrt.SessionOptions(logger=logger, intra_op_num_threads=1)))
    sessions[1].run(FIVE)
    assert [len(handler.messages) for handler in handlers] == [0, 1]
    # What belongs to no session is the environment's still.
    zrt.Session(build(LIAR), zrt.SessionOptions(intra_op_num_threads=1)).run(FIVE)
    assert [len(handler.messages) for handler in handlers] == [0, 1]
    assert "does not match actual shape" in capfd.readouterr().err


def test_lines_outlive_their_session(build, logger, kept):
    logger.addFilter(lambda record: time.sleep(0.001) or True)
    options = zrt.SessionOptions(logger=logger, log_severity_level="verbose", intra_op_num_threads=1)
    for _ in range(3):
        zrt.Session(build(LIAR), options).close()
    assert sum("Session successfully initialized" in message for message in kept.messages) == 3


def test_text_is_taken_as_it_is(logger, kept):
    """Names that are no format for `%`, and in any script."""
    options = zrt.SessionOptions(logger=logger, logid="100%s Ω 猫", intra_op_num_threads=1)
    with pytest.raises(zrt.OrtError):
        zrt.Session(models.gather(), options).run([np.array([7])], options=zrt.RunOptions(tag="%d ✓"))
    assert len(kept.messages) == 1
    assert kept.records[0].logid == "100%s Ω 猫:%d ✓"


def test_a_handler_that_raises(liar, logger, kept, monkeypatch):
    """Its exception goes where a thread's go, and the next line comes all the same."""
    heard = []
    monkeypatch.setattr(threading, "excepthook", heard.append)
    failing = logging.Handler()
    failing.emit = lambda record: 1 / 0
    logger.addHandler(failing)
    for _ in range(3):
        liar.run(FIVE)
    assert len(kept.messages) == 3
    assert [hooked.exc_type for hooked in heard] == [ZeroDivisionError] * 3


def test_a_handler_as_the_standard_ones_are(liar, logger, kept, capsys):
    """`logging.Handler.handleError` is theirs: a note on standard error."""

    class Stream:
        def write(self, text):
            raise OSError("the disk is full")

    logger.addHandler(logging.StreamHandler(Stream()))
    liar.run(FIVE)
    assert len(kept.messages) == 1
    assert "the disk is full" in capsys.readouterr().err


def test_a_handler_that_logs_and_runs_and_closes(build, liar, logger, kept):
    other = zrt.Session(build(LIAR), zrt.SessionOptions(logger=logger, intra_op_num_threads=1, logid="other"))
    ended = []

    class Busy(logging.Handler):
        def emit(self, record):
            if record.logid.startswith("liar"):
                logging.getLogger("zrt.test.quiet").debug("again")
                other.run(FIVE)
                other.submit(FIVE).add_done_callback(ended.append)
                zrt.Session(models.add(["n"]))
                liar.close()

    logger.addHandler(Busy())
    liar.run(FIVE)
    while not liar.closed or not ended:
        time.sleep(0.001)
    assert len(kept.messages) == 3


def test_a_handler_that_waits_for_a_lock_holds_nobody_up(liar, logger, kept):
    lock = threading.Lock()

    class Locked(logging.Handler):
        def emit(self, record):
            with lock:
                pass

    logger.addHandler(Locked())
    with lock:
        for _ in range(50):
            liar.run(FIVE)
        # Whoever waits for the handler with its lock in hand waits for as long as it said.
        assert not zrt.Environment.flush_log(0.02)
        assert not zrt.Environment.flush_log(timeout=0)
    assert len(kept.messages) == 50


def test_threads_of_the_engine(logger, kept):
    """Lines of ONNX Runtime's own threads, which know nothing of Python."""
    for _ in range(20):
        options = zrt.SessionOptions(logger=logger, intra_op_num_threads=4, log_severity_level="verbose")
        session = zrt.Session(models.add(["n"]), options)
        for future in [
            session.submit([np.ones(4, np.float32)] * 2, options=zrt.RunOptions(tag="far")) for _ in range(20)
        ]:
            future.result(60)
    assert kept.messages
    others = {record.thread for record in kept.records} - {threading.get_ident()}
    assert others
    assert {record.processName for record in kept.records} == {"MainProcess"}


@pytest.mark.parametrize("bad", [5, b"name", [], print])
def test_bad_loggers(bad, build):
    with pytest.raises(errors.DTypeError, match=r"logger: expected a logging\.Logger or its name"):
        zrt.Session(build(LIAR), zrt.SessionOptions(logger=bad))


@pytest.mark.parametrize("bad", ["1", True, -1, float("nan"), float("inf")])
def test_bad_timeouts(bad):
    with pytest.raises(zrt.Error, match="timeout"):
        zrt.Environment.flush_log(bad)


# What the scripts begin with: `heard` has the records of the environment's logger.
SCRIPT = """
import logging, threading
import numpy as np, onnx, zrt
from tests.support import models
heard = []
handler = logging.Handler()
handler.emit = heard.append
logging.getLogger("ort").addHandler(handler)
logging.getLogger("ort").setLevel("DEBUG")
liar = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    test (float[n, k] x) => (float[m, 3] y) { y = Neg(x) }''')
"""


def test_the_environment_logs_where_it_is_told(python):
    done = python(f"""{SCRIPT}
environment = zrt.Environment("server", "info", "ort")
assert environment.logger is logging.getLogger("ort")
print(environment)
zrt.Session(liar).run([np.ones((1, 5), np.float32)])
assert environment.flush_log(60)
assert {{record.levelname for record in heard}} == {{"INFO", "WARNING"}}
assert any(record.logid.startswith("server") for record in heard)
""")
    assert done.stdout == "Environment(log_id='server', log_severity=INFO, logger='ort')\n"
    assert done.stderr == ""


def test_the_environments_level_may_change(python):
    python(f"""{SCRIPT}
environment = zrt.Environment(logger="ort")
old = zrt.Session(liar)
def levels(session):
    heard.clear()
    session.run([np.ones((1, 5), np.float32)])
    assert environment.flush_log(60)
    return {{record.levelname for record in heard}}
assert levels(old) == {{"WARNING"}}
environment.log_severity = "error"
assert environment.log_severity is zrt.LogSeverity.ERROR
# A session keeps what it was loaded with.
assert levels(old) == {{"WARNING"}}
assert levels(zrt.Session(liar)) == set()
environment.log_severity = zrt.LogSeverity.VERBOSE
assert levels(zrt.Session(liar)) >= {{"INFO", "WARNING"}}
for bad in ("loud", 9, None):
    try:
        environment.log_severity = bad
    except zrt.errors.ArgumentError as error:
        assert "log_severity" in str(error)
    else:
        raise AssertionError
assert environment.log_severity is zrt.LogSeverity.VERBOSE
# As it was made: that is what asking again means.
assert zrt.Environment(logger="ort") is environment
""")


def test_another_logger_is_another_environment(python):
    done = python(f"""{SCRIPT}
zrt.Environment(logger="ort")
assert zrt.Environment(logger=logging.getLogger("ort")) is zrt.Environment("zrt", "warning", "ort")
for arguments in ({{}}, {{"logger": "other"}}):
    try:
        zrt.Environment(**arguments)
    except zrt.errors.ArgumentError as error:
        print(error)
try:
    zrt.Environment(logger=5)
except zrt.errors.DTypeError as error:
    print(error)
""")
    assert done.stdout.splitlines() == [
        "this process has its environment already, as Environment(log_id='zrt', log_severity=WARNING, logger='ort'); "
        "'zrt' at WARNING cannot be a second one",
        "this process has its environment already, as Environment(log_id='zrt', log_severity=WARNING, logger='ort'); "
        "'zrt' at WARNING, logger='other' cannot be a second one",
        "logger: expected a logging.Logger or its name, got int 5",
    ]


def test_nothing_is_lost_at_the_end(python):
    """A slow handler has every line before the interpreter goes, in order, and without a flush."""
    done = python(f"""{SCRIPT}
import atexit, time
atexit.register(lambda: print(len(heard), heard[-1].getMessage()))
from zrt._native import lib
zrt.Environment("server", "verbose", "ort")
handler.emit = lambda record: (time.sleep(0.001), heard.append(record))
for _ in range(3):
    last = zrt.Session(liar)
last.run([np.ones((1, 5), np.float32)])
print(lib.zrt_bridge_pushed())
""")
    pushed, delivered = done.stdout.splitlines()
    assert int(pushed) > 200
    # The last session ends after the last line of the script, and says so on standard error if at all.
    assert int(delivered.split()[0]) >= int(pushed)


def test_logging_is_not_imported_for_nothing(python):
    done = python("""
import sys
import zrt
from zrt.environment import environment
from zrt.loading import session_options
zrt.SessionOptions()
unneeded = {"zrt.environment.log_sink", "zrt.session.async_runs", "zrt._native.bridge", "asyncio"}
print(sorted(unneeded & set(sys.modules)))
""")
    assert done.stdout == "[]\n"
