"""Submitted and asynchronous runs, runs over values, and the log."""

import asyncio
from collections.abc import Callable
from typing import Any

import zrt
from tests.robustness.bad import COPIED_FEEDS, OUTPUT_NAMES, RUN_OPTIONS, TIMEOUT, VALUE_FEEDS, VALUE_OUTPUTS
from tests.robustness.vocabulary import INSIDE, Bad, Kind, Take, World, wrong_types
from zrt.errors import ArgumentError


def submitted(w: World, *arguments: Any, **keywords: Any) -> object:
    return w.session.submit(*arguments, **keywords).result(60)


def submitted_values(w: World, *arguments: Any, **keywords: Any) -> object:
    return w.session.submit_values(*arguments, **keywords).result(60)


def awaited(w: World, *arguments: Any, **keywords: Any) -> object:
    return asyncio.run(w.session.run_async(*arguments, **keywords))


def running(call: str, run: Callable[..., object]) -> list[Take]:
    """The rows that `submit` and `run_async` share."""
    return [
        (call, "feeds", COPIED_FEEDS, lambda w, bad: run(w, bad)),
        (call, "outputs", OUTPUT_NAMES, lambda w, bad: run(w, w.feeds, bad)),
        (call, "options", RUN_OPTIONS, lambda w, bad: run(w, w.feeds, options=bad)),
        (call, "timeout", TIMEOUT, lambda w, bad: run(w, w.feeds, timeout=bad)),
    ]


def over_values(call: str, run: Callable[..., object]) -> list[Take]:
    """The rows that `run_values` and `submit_values` share."""
    return [
        (call, "feeds", VALUE_FEEDS, lambda w, bad: run(w, bad)),
        (call, "outputs", VALUE_OUTPUTS, lambda w, bad: run(w, values(w), bad)),
        (call, "options", RUN_OPTIONS, lambda w, bad: run(w, values(w), options=bad)),
        (call, "timeout", TIMEOUT, lambda w, bad: run(w, values(w), timeout=bad)),
    ]


def values(w: World) -> dict[str, zrt.Value]:
    return {name: zrt.Value.from_array(array) for name, array in w.feeds.items()}


LOGGER = [*wrong_types("logger", 5, b"name"), Bad(Kind.WRONG_TYPE, lambda w: print, "logger", "print")]


def set_severity(value: Any) -> None:
    zrt.Environment().log_severity = value


TAKES = [
    *over_values("Session.run_values", lambda w, *arguments, **keywords: w.session.run_values(*arguments, **keywords)),
    *over_values("Session.submit_values", submitted_values),
    *running("Session.submit", submitted),
    *running("Session.run_async", awaited),
    ("Environment.__new__", "logger", LOGGER, lambda w, bad: zrt.Environment(logger=bad)),
    ("Environment.flush_log", "timeout", TIMEOUT, lambda w, bad: zrt.Environment.flush_log(bad)),
    ("SessionOptions.handle", "logger", LOGGER, lambda w, bad: zrt.SessionOptions(logger=bad).handle()),
    ("Session.__init__", "logger", LOGGER, lambda w, bad: zrt.Session(w.model, zrt.SessionOptions(logger=bad))),
]

SINGLE = {
    "Environment.__new__": [Bad(Kind.WRONG_VALUE, lambda w: zrt.Environment(logger="a"), "'a'", "second")],
    "Environment.log_severity": [
        Bad(Kind.WRONG_VALUE, lambda w: set_severity(9), "log_severity", "9"),
        Bad(Kind.WRONG_VALUE, lambda w: set_severity("loud"), "'loud'"),
        Bad(Kind.WRONG_TYPE, lambda w: set_severity(None), "None", error=ArgumentError),
    ],
}

CLOSED_SELF = {
    "Session.submit": lambda w, it: it.submit(w.feeds),
    "Session.run_async": lambda w, it: asyncio.run(it.run_async(w.feeds)),
    "Session.run_values": lambda w, it: it.run_values(values(w)),
    "Session.submit_values": lambda w, it: it.submit_values(values(w)),
}

CLOSED_ALONE = {"RunOptions": "twin"}

CANNOT_FAIL = {INSIDE: "RunOptions.settings"}
