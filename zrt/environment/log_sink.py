"""Delivers ONNX Runtime's log to Python's `logging`."""

from __future__ import annotations

import logging
import threading
from typing import Any

from zrt._common.arguments import wrong_type
from zrt._native import bridge, ffi, lib
from zrt._native.cdata import pointer_to
from zrt._native.status import string

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""The level of `logging` for each `LogSeverity`."""

# ORT gets a logger's index here. Entries are never removed: `logging` keeps its loggers as well.
_loggers: list[logging.Logger] = []


def as_logger(logger: Any, subject: str) -> logging.Logger:
    """The logger that is given as itself or by its name."""
    if isinstance(logger, logging.Logger):
        return logger
    if isinstance(logger, str):
        return logging.getLogger(logger)
    raise wrong_type(subject, "a logging.Logger or its name", logger)


def sink(logger: logging.Logger) -> tuple[Any, Any]:
    """The ``OrtLoggingFunction`` and its argument with which ORT logs to this logger."""
    # By identity: a logger may be of a class with a comparison of its own.
    if not any(each is logger for each in _loggers):
        # Another thread may append it too: then the first one counts.
        _loggers.append(logger)
    number = next(number for number, each in enumerate(_loggers) if each is logger)
    bridge.receive(_deliver)
    return ffi.addressof(lib, "zrt_log_sink"), pointer_to(number)


def _deliver(log: Any) -> None:
    """Hands a ``zrt_log`` to its logger."""
    logger = _loggers[log.sink]
    if log.strayed and logger.isEnabledFor(logging.WARNING):
        logger.warning("%d lines of ONNX Runtime's log found no memory and went to standard error", log.strayed)
    level = LEVELS[log.severity]
    if logger.isEnabledFor(level):
        try:
            record = _record(logger, level, log)
        except MemoryError:
            lib.zrt_log_print(log)
            raise
        logger.handle(record)


def _record(logger: logging.Logger, level: int, log: Any) -> logging.LogRecord:
    location = string(log.location)
    # "session_state.cc:1359 VerifyEachNodeIsAssignedToAnEp"
    place, _, function = location.partition(" ")
    file, _, number = place.rpartition(":")
    line = int(number) if number.isdecimal() else 0
    record = logger.makeRecord(logger.name, level, file, line, string(log.text), (), None, function or None)
    # Time and thread are those of the event, not of its delivery.
    created = log.nanoseconds / 1e9
    record.relativeCreated += (created - record.created) * 1000
    record.created = created
    record.msecs = log.nanoseconds // 1_000_000 % 1000 + 0.0
    record.thread = log.thread
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    record.threadName = names.get(log.thread) or string(log.thread_name)
    record.category = string(log.category)
    record.logid = string(log.id)
    record.location = location
    return record
