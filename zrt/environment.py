"""The process's one ONNX Runtime environment: the logger and what all sessions share."""

from __future__ import annotations

import threading
from typing import Any

from zrt._native import status
from zrt._native.library import api
from zrt.arguments import choose, text
from zrt.errors import ArgumentError
from zrt.types import LogSeverity

_lock = threading.Lock()
_current: Environment | None = None


class Environment:
    """ONNX Runtime's environment (``OrtEnv``).

    There is one in a process, from its first use to the end: sessions make it with the defaults where nobody did
    before. Asking again with the same settings gives the same environment, with other settings an
    `ArgumentError`.

    `log_id` names the process in log lines; `log_severity` is the least level that ONNX Runtime writes to standard
    error. ``OrtApi::CreateEnv``.
    """

    __slots__ = ("log_id", "log_severity", "pointer")

    log_id: str
    log_severity: LogSeverity
    pointer: Any

    def __new__(cls, log_id: str = "zrt", log_severity: LogSeverity | str = LogSeverity.WARNING) -> Environment:
        global _current
        name = text(log_id, "log_id")
        severity = choose(LogSeverity, log_severity, "log_severity")
        with _lock:
            if _current is None:
                created = super().__new__(cls)
                created.log_id = log_id
                created.log_severity = severity
                # Never released: ORT's threads and values may outlive every Python object.
                created.pointer = status.make(api().CreateEnv, "OrtEnv", int(severity), name)
                _current = created
            elif (_current.log_id, _current.log_severity) != (log_id, severity):
                raise ArgumentError(
                    f"this process has its environment already, as {_current!r}; "
                    f"{log_id!r} at {severity.name} cannot be a second one"
                )
            return _current

    def __repr__(self) -> str:
        return f"Environment(log_id={self.log_id!r}, log_severity={self.log_severity.name})"


def current() -> Environment:
    """The environment of this process, made with the defaults if there is none yet."""
    return _current or Environment()
