"""Exceptions of the caller's own code on their way through ONNX Runtime, which carries a message and nothing else."""

from __future__ import annotations

import itertools
import re
import threading
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from zrt.errors import CallbackError

# A message with such a mark belongs to a kept exception.
_MARK = re.compile(r"\[zrt: raised (\d+)\] ")

# ORT drops some of the statuses that it is given: their exceptions go when others come.
_MOST = 64

# How much of an exception's own words the message has.
MOST_SAID = 1000

_lock = threading.Lock()
_kept: OrderedDict[int, BaseException] = OrderedDict()
_numbers = itertools.count(1)


def keep(error: BaseException) -> bytes:
    """Keeps an exception until its message comes back in an error of ORT's; the message to give to ORT.

    What its frames held is let go: it may lie in memory that is ORT's again.
    """
    _let_go(error)
    number = next(_numbers)
    with _lock:
        _kept[number] = error
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
    # ORT's messages are C strings, which it cuts short.
    return f"[zrt: raised {number}] {_said(error)}".replace("\0", "\\0").encode(errors="replace")


def _said(error: BaseException) -> str:
    try:
        # A mark in it would be another's.
        said = _MARK.sub("", str(error))
    except Exception:
        said = "it cannot say what"
    return f"{type(error).__name__}: {said if len(said) <= MOST_SAID else said[:MOST_SAID] + ' ...'}"


def _let_go(error: BaseException | None) -> None:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            waiting += [each.__cause__, each.__context__]


class Load:
    """A load during which the caller's code is called."""

    __slots__ = ("errors", "kept")

    def __init__(self) -> None:
        self.errors: list[tuple[str, BaseException]] = []
        """What it raised where ORT drops the status, and in what."""
        self.kept: set[object] = set()
        """What it made that lives as long as the session: for the session's `Handle.kept`."""


_loads = threading.local()


def load() -> Load | None:
    """The load that is under way in this thread."""
    return getattr(_loads, "load", None)


@contextmanager
def loading() -> Iterator[Load]:
    """Around a load: the first of its errors is raised in place of what ORT says, which follows from it."""
    before = load()
    this = _loads.load = Load()
    try:
        yield this
    except Exception:
        if not this.errors:
            raise
    finally:
        _loads.load = before
    if this.errors:
        subject, error = this.errors[0]
        if not isinstance(error, Exception):
            raise error
        raise CallbackError(f"{subject}: {_said(error)}") from error


def collect(subject: str, error: BaseException) -> None:
    """Leaves an exception to the load that is under way in this thread."""
    _let_go(error)
    this = load()
    if this is not None:
        this.errors.append((subject, error))


def take(message: str) -> tuple[str, BaseException | None]:
    """An error's message without marks, and the exception that it belongs to, if any."""
    found = _MARK.search(message)
    if found is None:
        return message, None
    with _lock:
        error = _kept.pop(int(found[1]), None)
    return _MARK.sub("", message), error
