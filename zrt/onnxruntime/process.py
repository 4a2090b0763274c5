"""Settings of the whole process: the level of the log, thread pools, telemetry, the seed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import zrt
from zrt.environment import environment
from zrt.onnxruntime import conversions, errors, notices


def set_default_logger_severity(severity: int, /) -> None:
    """Set the lowest severity that is logged: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    environment.set_log_severity(_severity(severity, "set_default_logger_severity"))


def _severity(severity: int, subject: str) -> zrt.LogSeverity:
    level = conversions.integer(severity, subject)
    if not 0 <= level <= 4:
        raise RuntimeError("Invalid logging severity. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")
    return zrt.LogSeverity(level)


def set_default_logger_callback(
    callback: Callable[[int, str, str, str, str], object] | None, severity: int = 2
) -> None:
    """Have `callback(severity, category, log id, code location, message)` take the log, from this severity up.

    It is called on the thread that logs. Standard error gets the lines that it does not take: those of threads that
    Python has not started, such as ONNX Runtime's own, those that the callback itself causes, and those for which it
    raises an exception, which goes to `sys.unraisablehook`. None has standard error get all lines again, and leaves
    the severity as it is.

    Raises `Fail` if a session or another object has made the environment before the first callback: the log's
    destination is chosen with it. Raises `RuntimeError` if the callback is no callable.
    """
    level = _severity(severity, "severity")
    if callback is not None and not callable(callback):
        raise RuntimeError("callback must be a callable")
    if not environment.set_log_callback(callback):
        raise errors.failure(
            1,
            "ONNX Runtime's environment is there already, and the destination of its log is chosen with it: call "
            "set_default_logger_callback before the first session",
        )
    if callback is not None:
        environment.set_log_severity(level)


def set_default_logger_verbosity(verbosity: int, /) -> None:
    """Check the number, and do nothing: only debug builds of ONNX Runtime log by verbosity."""
    conversions.integer(verbosity, "set_default_logger_verbosity")
    notices.once("set_default_logger_verbosity does nothing: this is for debug builds of ONNX Runtime", logging.INFO)


def trusted_folders() -> list[str | os.PathLike[str]]:
    """The folders in the environment variable ``ZRT_TRUSTED_FOLDERS``, from which models may take their weights."""
    return [folder for folder in os.environ.get("ZRT_TRUSTED_FOLDERS", "").split(os.pathsep) if folder]


_pools_made = False


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Create the thread pools of sessions whose `use_per_session_threads` is False; 0: a thread for each core.

    Sessions with threads of their own are refused from then on. Raises `Fail` if there are such pools already, and also
    if a session or another object has made the environment: the pools are created with it.
    """
    global _pools_made
    intra = conversions.integer(intra_op_num_threads, "intra_op_num_threads")
    inter = conversions.integer(inter_op_num_threads, "inter_op_num_threads")
    # ONNX Runtime treats a negative number as 0.
    threading = zrt.ThreadingOptions(intra_op_num_threads=max(intra, 0), inter_op_num_threads=max(inter, 0))
    with errors.translated(code=1):
        made = environment.create_with_pools(threading)
    if not made:
        raise errors.failure(
            1,
            "Global thread pools have already been created, cannot replace them"
            if environment.current().threading is not None
            else "ONNX Runtime's environment is there already, and its global thread pools are created with it: "
            "call set_global_thread_pool_sizes before the first session",
        )
    _pools_made = True


def check_pools(use_per_session_threads: bool) -> None:
    """Raises `RuntimeError` for a session that has no threads, or threads beside those of the global pools."""
    if use_per_session_threads:
        if _pools_made:
            raise RuntimeError(
                "use_per_session_threads must be False: set_global_thread_pool_sizes has made pools for all sessions"
            )
        return
    with errors.translated(code=1):
        made = environment.current().threading is not None
    if not made:
        raise RuntimeError(
            "use_per_session_threads is False, and there are no global thread pools: call "
            "set_global_thread_pool_sizes before the first session"
        )


def enable_telemetry_events() -> None:
    """Do nothing: the variable ``ORT_DISABLE_TELEMETRY`` decides, which zrt sets to 1 unless you set it."""
    notices.once(
        "enable_telemetry_events and disable_telemetry_events do nothing: the variable ORT_DISABLE_TELEMETRY decides, "
        "which zrt sets to 1 unless you set it",
        logging.INFO,
    )


disable_telemetry_events = enable_telemetry_events


def set_seed(seed: int, /) -> None:
    """Check the number, and log that it has no effect: the C API of ONNX Runtime has no such setting."""
    conversions.integer(seed, "set_seed", conversions.INT64)
    notices.once(
        "set_seed has no effect: the C API of ONNX Runtime has no such setting. "
        "Random operators use the seeds that the model gives them, or seeds of their own"
    )
