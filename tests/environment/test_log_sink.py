"""ONNX Runtime's log in Python's `logging`, for the environment and for one session."""

import logging
import threading
import time

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt.environment import log_sink

# Each run that is fed another size than three logs one warning.
WARNS = "(float[n, k] x) => (float[m, 3] y) { y = Neg(x) }"
FIVE = [np.ones((1, 5), np.float32)]


class Keep(logging.Handler):
    """Keeps the records in the order of their arrival."""

    def __init__(self):
        super().__init__()
        self._records = []

    def emit(self, record):
        self._records.append(record)

    @property
    def records(self):
        assert zrt.Environment.flush_log(60)
        return self._records

    @property
    def messages(self):
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
def warning(build):
    """Loads the model; keywords are those of SessionOptions."""
    return lambda **options: zrt.Session(build(WARNS), zrt.SessionOptions(intra_op_num_threads=1, **options))


@pytest.fixture
def warns(warning, logger):
    return warning(logger=logger, logid="warns")


def test_session_logs_to_its_logger(warns, kept, capfd):
    before = time.time()
    warns.run(FIVE)
    after = time.time()
    [record] = [record for record in kept.records if "does not match actual shape" in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert record.name == "of the test"
    assert record.category == "onnxruntime"
    assert record.logid == "warns"
    # "execution_frame.cc:909 VerifyOutputSizes"
    assert record.location == f"{record.filename}:{record.lineno} {record.funcName}"
    assert record.filename.endswith(".cc")
    assert record.lineno > 0
    # Time and thread are those of the event, not of its delivery.
    assert before <= record.created <= after
    assert abs(record.msecs - record.created % 1 * 1000) < 2
    assert record.thread == threading.get_ident()
    assert record.threadName == threading.current_thread().name
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("severity", list(zrt.LogSeverity))
def test_levels_of_session_and_logger(severity, warning, logger, kept):
    """The session logs from its own level on, and the logger filters by its own."""
    warning(logger=logger, log_severity_level=severity).run(FIVE)
    levels = {record.levelno for record in kept.records}
    wanted = {logging.DEBUG: 0, logging.INFO: 1, logging.WARNING: 2}
    assert levels == {level for level, number in wanted.items() if number >= severity}
    kept.records.clear()
    logger.setLevel(logging.WARNING)
    warning(logger=logger, log_severity_level=severity).run(FIVE)
    assert {record.levelno for record in kept.records} <= {logging.WARNING}


def test_each_severity_has_a_level_of_logging():
    names = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    assert [logging.getLevelName(log_sink.LEVELS[severity]) for severity in zrt.LogSeverity] == names


def test_errors_are_logged_as_errors(logger, kept):
    session = zrt.Session(models.gather(), zrt.SessionOptions(logger=logger, intra_op_num_threads=1))
    with pytest.raises(zrt.OrtError):
        session.run([np.array([7], np.int64)])
    assert any("indices element out of data bounds" in message for message in kept.messages)
    assert {record.levelno for record in kept.records} == {logging.ERROR}


def test_logger_by_name_propagates_to_its_parents(warning, caplog):
    with caplog.at_level(logging.WARNING, "zrt.test"):
        warning(logger="zrt.test.child").run(FIVE)
        assert zrt.Environment.flush_log(60)
    assert [record.name for record in caplog.records] == ["zrt.test.child"]
    assert "does not match actual shape" in caplog.text


def test_sessions_have_loggers_of_their_own(warning, capfd):
    handlers, sessions = [Keep(), Keep()], []
    for handler in handlers:
        logger = logging.Logger("of one session")
        logger.addHandler(handler)
        sessions.append(warning(logger=logger))
    sessions[1].run(FIVE)
    assert [len(handler.messages) for handler in handlers] == [0, 1]
    # A session without a logger logs to the environment's.
    warning().run(FIVE)
    assert [len(handler.messages) for handler in handlers] == [0, 1]
    assert "does not match actual shape" in capfd.readouterr().err


@pytest.mark.parametrize("equal", [lambda: True, lambda: 1 / 0])
def test_loggers_are_told_apart_whatever_their_comparison_says(warning, logger, kept, equal):
    class Comparing(logging.Logger):
        __hash__ = logging.Logger.__hash__

        def __eq__(self, other):
            return equal()

    other = Keep()
    comparing = Comparing("comparing")
    comparing.addHandler(other)
    sessions = [warning(logger=each) for each in (logger, comparing)]
    sessions[1].run(FIVE)
    assert [len(handler.messages) for handler in (kept, other)] == [0, 1]


def test_lines_are_delivered_after_their_session_is_closed(warning, logger, kept):
    logger.addFilter(lambda record: time.sleep(0.001) or True)
    for _ in range(3):
        warning(logger=logger, log_severity_level="verbose").close()
    assert sum("Session successfully initialized" in message for message in kept.messages) == 3


def test_text_is_delivered_unchanged(logger, kept):
    """Names with "%", and in any script."""
    options = zrt.SessionOptions(logger=logger, logid="100%s Ω 猫", intra_op_num_threads=1)
    with pytest.raises(zrt.OrtError):
        zrt.Session(models.gather(), options).run([np.array([7])], options=zrt.RunOptions(tag="%d ✓"))
    assert len(kept.messages) == 1
    assert kept.records[0].logid == "100%s Ω 猫:%d ✓"


def test_handler_that_raises(warns, logger, kept, monkeypatch):
    """Its exception goes to `threading.excepthook`, and the next lines are delivered."""
    hooked = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    failing = logging.Handler()
    failing.emit = lambda record: 1 / 0
    logger.addHandler(failing)
    for _ in range(3):
        warns.run(FIVE)
    assert len(kept.messages) == 3
    assert [arguments.exc_type for arguments in hooked] == [ZeroDivisionError] * 3


def test_standard_handler_whose_stream_fails(warns, logger, kept, capsys):
    """`logging.Handler.handleError` writes a note to standard error."""

    class Stream:
        def write(self, text):
            raise OSError("the disk is full")

    logger.addHandler(logging.StreamHandler(Stream()))
    warns.run(FIVE)
    assert len(kept.messages) == 1
    assert "the disk is full" in capsys.readouterr().err


def test_handler_may_log_run_load_and_close(warning, warns, logger, kept):
    other = warning(logger=logger, logid="other")
    ended = []

    class Busy(logging.Handler):
        def emit(self, record):
            if record.logid.startswith("warns"):
                logging.getLogger("zrt.test.quiet").debug("again")
                other.run(FIVE)
                other.submit(FIVE).add_done_callback(ended.append)
                zrt.Session(models.add(["n"]))
                warns.close()

    logger.addHandler(Busy())
    warns.run(FIVE)
    while not warns.closed or not ended:
        time.sleep(0.001)
    assert len(kept.messages) == 3


def test_blocked_handler_blocks_no_run(warns, logger, kept):
    lock = threading.Lock()

    class Locked(logging.Handler):
        def emit(self, record):
            with lock:
                pass

    logger.addHandler(Locked())
    with lock:
        for _ in range(50):
            warns.run(FIVE)
        # A flush with the handler's lock held would be a deadlock without its time-out.
        assert not zrt.Environment.flush_log(0.02)
        assert not zrt.Environment.flush_log(timeout=0)
    assert len(kept.messages) == 50


def test_lines_of_onnx_runtimes_own_threads(logger, kept):
    """Threads of ONNX Runtime's pools have no Python thread state."""
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


@pytest.mark.parametrize("step", ["environment_logger", "change_of_the_level", "another_logger"])
def test_environment_with_a_logger(script, step):
    assert script("log_sink.py", step).stderr == ""


def test_slow_handler_gets_every_line_before_exit(script):
    """In order, and without a flush."""
    pushed, delivered = script("log_sink.py", "slow_handler_at_exit").stdout.splitlines()
    assert int(pushed) > 200
    # The last session is released after the script's last line; ORT may log that to standard error.
    assert int(delivered.split()[0]) >= int(pushed)
