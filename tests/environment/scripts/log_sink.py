"""Steps in which the environment logs to the logger "ort": `log_sink.py FUNCTION` runs one in a new process."""

import atexit
import logging
import sys
import time

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt._native import lib
from zrt.errors import ArgumentError

records: list[logging.LogRecord] = []
handler = logging.Handler()
handler.emit = records.append
logging.getLogger("ort").addHandler(handler)
logging.getLogger("ort").setLevel("DEBUG")

# Each run that is fed another size than three logs one warning.
WARNS = models.parsed("(float[n, k] x) => (float[m, 3] y) { y = Neg(x) }")
FIVE = [np.ones((1, 5), np.float32)]


def environment_logger():
    environment = zrt.Environment("server", "info", "ort")
    assert environment.logger is logging.getLogger("ort")
    assert repr(environment) == "Environment(log_id='server', log_severity=INFO, logger='ort')"
    zrt.Session(WARNS).run(FIVE)
    assert environment.flush_log(60)
    assert {record.levelname for record in records} == {"INFO", "WARNING"}
    assert any(record.logid.startswith("server") for record in records)


def change_of_the_level():
    environment = zrt.Environment(logger="ort")
    old = zrt.Session(WARNS)

    def levels(session):
        records.clear()
        session.run(FIVE)
        assert environment.flush_log(60)
        return {record.levelname for record in records}

    assert levels(old) == {"WARNING"}
    environment.log_severity = "error"
    assert environment.log_severity is zrt.LogSeverity.ERROR
    # A session keeps the level that it was loaded with.
    assert levels(old) == {"WARNING"}
    assert levels(zrt.Session(WARNS)) == set()
    environment.log_severity = zrt.LogSeverity.VERBOSE
    assert levels(zrt.Session(WARNS)) >= {"INFO", "WARNING"}
    # The settings at creation decide which environment is asked for, not the level of now.
    assert zrt.Environment(logger="ort") is environment


def another_logger():
    zrt.Environment(logger="ort")
    assert zrt.Environment(logger=logging.getLogger("ort")) is zrt.Environment("zrt", "warning", "ort")
    there = r"as Environment\(log_id='zrt', log_severity=WARNING, logger='ort'\); Environment\(.*=WARNING"
    for keywords, more in (({}, ""), ({"logger": "other"}, ", logger='other'")):
        with pytest.raises(ArgumentError, match=rf"{there}{more}\) cannot be a second one"):
            zrt.Environment(**keywords)


def slow_handler_at_exit():
    """Prints how many lines ONNX Runtime logged, and at exit how many the handler got."""
    atexit.register(lambda: print(len(records), records[-1].getMessage()))
    zrt.Environment("server", "verbose", "ort")
    handler.emit = lambda record: (time.sleep(0.001), records.append(record))
    sessions = []
    for _ in range(3):
        sessions[:] = [zrt.Session(WARNS)]
    sessions[0].run(FIVE)
    # Only the interpreter's end releases the last session, which logs that.
    sys.modules["kept"] = sessions
    print(lib.zrt_bridge_pushed())


globals()[sys.argv[1]]()
