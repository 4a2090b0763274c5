"""The steps of ONNX Runtime's optimizer, and those of them that make a difference."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from logging.handlers import BufferingHandler

from zrt._common.config_keys import SessionConfigKey
from zrt._common.fork_lock import ForkLock
from zrt.diagnosis.candidates import with_options
from zrt.environment.environment import Environment
from zrt.errors import Error
from zrt.session.session import Session
from zrt.session.spec import SessionSpec
from zrt.types import LogSeverity

_LEFT_OUT = SessionConfigKey.DISABLE_SPECIFIED_OPTIMIZERS
# ONNX Runtime's line in the log for a step that changed the graph.
_CHANGED = re.compile(r"GraphTransformer (\w+) modified: 1 ")
# `log_sink` keeps a logger for ever, so all calls share one.
_logger = logging.Logger("zrt.diff", logging.INFO)
_turn = ForkLock()


def steps_of(spec: SessionSpec) -> list[str]:
    """The steps that change the model's graph in a session of this recipe, in their order."""
    kept = BufferingHandler(sys.maxsize)
    options = replace(spec.options, logger=_logger, log_severity_level=LogSeverity.INFO)
    with _turn.now, ExitStack() as stack:
        stack.callback(_logger.removeHandler, kept)
        stack.callback(Environment.flush_log)
        _logger.addHandler(kept)
        Session(spec.model, options, spec.providers, external_data_dir=spec.external_data_dir).close()
    return list(dict.fromkeys(step for line in kept.buffer for step in _CHANGED.findall(line.getMessage())))


def without(spec: SessionSpec, steps: Sequence[str]) -> SessionSpec:
    """The same recipe with these steps left out too."""
    options = spec.options
    entries = dict(options.config_entries)
    entries[_LEFT_OUT] = ";".join(filter(None, [entries.get(_LEFT_OUT), *steps]))
    return with_options(spec, replace(options, config_entries=entries))


def guilty(spec: SessionSpec, agrees: Callable[[SessionSpec], bool]) -> tuple[str, ...]:
    """Steps without which a session of this recipe agrees with another; none where it never does."""

    def agrees_without(steps: Sequence[str]) -> bool:
        try:
            return agrees(without(spec, steps))
        except Error:
            # Without some steps there is no kernel for a node.
            return False

    steps = steps_of(spec)
    # A value that alone is an output may agree as it is: then no step is to blame.
    if not steps or agrees(spec) or not agrees_without(steps):
        return ()
    return fewest(steps, agrees_without)


def fewest(steps: Sequence[str], agrees_without: Callable[[Sequence[str]], bool]) -> tuple[str, ...]:
    """The steps that are needed of these, without all of which there is agreement."""
    while len(steps) > 1:
        middle = len(steps) // 2
        # The later half first: its steps may work on what earlier ones make.
        half = next((part for part in (steps[middle:], steps[:middle]) if agrees_without(part)), None)
        if half is None:
            break
        steps = half
    needed = list(steps)
    for step in steps:
        others = [other for other in needed if other != step]
        if others and agrees_without(others):
            needed = others
    return tuple(needed)
