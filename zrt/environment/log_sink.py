"""Delivers ONNX Runtime's log to Python's `logging`."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, NamedTuple

from zrt._common.arguments import seconds, wrong_type
from zrt._native import bridge, ffi, lib
from zrt._native.cdata import pointer_to

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""The level of `logging` for each `LogSeverity`."""

# ORT gets a logger's index here. Entries are never removed: `logging` keeps its loggers as well.
_loggers: list[logging.Logger] = []
_numbers: dict[logging.Logger, int] = {}
_lock = threading.RLock()


class Line(NamedTuple):
    """One line of ORT's log, as C recorded it."""

    sink: int
    severity: int
    nanoseconds: int
    thread: int
    thread_name: str
    strayed: int
    category: bytes
    logid: bytes
    location: bytes
    text: bytes


def as_logger(given: Any, subject: str) -> logging.Logger:
    """The logger that is given as itself or by its name."""
    if isinstance(given, logging.Logger):
        return given
    if isinstance(given, str):
        return logging.getLogger(given)
    raise wrong_type(subject, "a logging.Logger or its name", given)


def sink(logger: logging.Logger) -> tuple[Any, Any]:
    """The ``OrtLoggingFunction`` and its argument with which ORT logs to this logger."""
    with _lock:
        number = _numbers.get(logger)
        if number is None:
            number = len(_loggers)
            _loggers.append(logger)
            _numbers[logger] = number
    bridge.receive(lib.ZRT_MESSAGE_LOG, bridge.Kind(_read, _deliver, _spill))
    return ffi.addressof(lib, "zrt_log_sink"), pointer_to(number)


def flush(timeout: float | None = None) -> bool:
    """See `Environment.flush_log`."""
    return bridge.flush(None if timeout is None else seconds(timeout, "timeout"))


def _read(message: Any) -> Line:
    log = pointer_to(message, "zrt_log")
    try:
        return Line(
            log.sink,
            log.severity,
            log.nanoseconds,
            log.thread,
            ffi.string(log.thread_name).decode(errors="replace"),
            log.strayed,
            ffi.string(log.category),
            ffi.string(log.id),
            ffi.string(log.location),
            ffi.string(log.text),
        )
    except MemoryError:
        lib.zrt_log_print(log)
        raise


def _deliver(line: Line) -> None:
    logger = _loggers[line.sink]
    if line.strayed and logger.isEnabledFor(logging.WARNING):
        logger.warning("%d lines of ONNX Runtime's log found no memory and went to standard error", line.strayed)
    level = LEVELS[line.severity]
    if logger.isEnabledFor(level):
        logger.handle(_record(logger, level, line))


def _record(logger: logging.Logger, level: int, line: Line) -> logging.LogRecord:
    location = line.location.decode(errors="replace")
    # "session_state.cc:1359 VerifyEachNodeIsAssignedToAnEp"
    place, _, function = location.partition(" ")
    file, _, number = place.rpartition(":")
    text = line.text.decode(errors="replace")
    record = logger.makeRecord(
        logger.name, level, file, int(number) if number.isdecimal() else 0, text, (), None, function or None
    )
    # Time and thread are those of the event, not of its delivery.
    created = line.nanoseconds / 1e9
    record.relativeCreated += (created - record.created) * 1000
    record.created = created
    record.msecs = line.nanoseconds // 1_000_000 % 1000 + 0.0
    record.thread = line.thread
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    record.threadName = names.get(line.thread, line.thread_name)
    record.category = line.category.decode(errors="replace")
    record.logid = line.logid.decode(errors="replace")
    record.location = location
    return record


def _spill(line: Line) -> None:
    lib.zrt_log_write(line.severity, line.nanoseconds, line.category, line.logid, line.location, line.text)


def _forked() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forked)
