"""The ``OrtSessionOptions`` that loads with the same plain settings share, because making them takes time."""

from __future__ import annotations

import os
from functools import cache
from operator import attrgetter, is_
from typing import Any

from zrt._common.records import MISSING, fields
from zrt.environment.cpu_limits import pool_threads
from zrt.environment.pool_options import PoolOptions
from zrt.loading.session_options import SessionOptions
from zrt.types import ExecutionMode, GraphOptimizationLevel, LogSeverity

# Values of these types do not change.
_PLAIN = frozenset((bool, int, str, type(None), ExecutionMode, GraphOptimizationLevel, LogSeverity))

# With another value than the default, each of these does more in a load than to set an option.
_ALONE = attrgetter("logger", "optimized_model_filepath", "profile_file_prefix")

_FIELDS = fields(SessionOptions).items()
_values = attrgetter(*(name for name, item in _FIELDS if item.default is not MISSING))
_containers = attrgetter(*(name for name, item in _FIELDS if item.default is MISSING))
_KINDS = tuple(map(type, _containers(SessionOptions())))

# The latest fields that were shared and the threads of pools that leave them open, with their options.
_latest: tuple[tuple[Any, ...], int, PoolOptions] | None = None


def shared_options(options: SessionOptions | None) -> PoolOptions | None:
    """The options of a load, which nobody may change; None where the load needs options of its own.

    Loads share them if each field has the same object as before, all containers are empty, and no field has content
    that can change, but for the switch that cancels loads: ONNX Runtime's own options share it too.
    """
    global _latest
    threads = pool_threads()
    if options is None:
        return _default(threads)
    containers = _containers(options)
    if tuple(map(type, containers)) != _KINDS or any(containers):
        return None
    values = _values(options)
    latest = _latest
    switch = options.load_cancellation
    known = latest is not None and latest[1] == threads and all(map(is_, values, latest[0]))
    if latest is not None and known and (switch is None or not switch.closed):
        return latest[2]
    plain = all(type(value) in _PLAIN for value in values if value is not switch)
    if not plain or not options.use_per_session_threads or _ALONE(options) != (None, None, None):
        return None
    handle = options.handle()
    _latest = values, threads, handle
    return handle


@cache
def _default(_threads: int) -> PoolOptions:
    return SessionOptions().handle()


def _forked() -> None:
    # A handle from before a fork counts as inherited, and so would every session that the child makes with it.
    global _latest
    _latest = None
    _default.cache_clear()


os.register_at_fork(after_in_child=_forked)
