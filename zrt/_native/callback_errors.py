"""How an exception that the caller's code raises in a callback gets through C to the code that waits for the result.

ONNX Runtime calls C, C calls a function that `callback` registers, and that calls the caller's code. No exception may
cross C, so C gets an error code instead. The exception travels in one of three ways:

- In the message of an ``OrtStatus``, where ORT passes that on (a kernel's `compute`): `to_message` keeps the exception
  and marks the message with its number, and `status.to_error` gets it back by `from_message`, in any thread.
- In a `Carrier`, where ORT drops the message, or where it is not wanted: the object behind the callbacks keeps the
  first exception, and whoever started the operation takes it from there when C returns. `Load` is the carrier of what
  is raised while a model is loaded by operators that know of no carrier of their own.
- To `threading.excepthook`, where nobody waits (the receivers of `bridge`): `report`.

In the first two ways the exception comes out as the cause of a `CallbackError`. One that is no `Exception`, a
`KeyboardInterrupt` or `SystemExit`, comes out as it is: `as_callback_error` is the only place that tells them apart.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from zrt._common.fork_lock import ForkLock
from zrt._native import ffi
from zrt.errors import CallbackError

Function = TypeVar("Function", bound=Callable[..., int])
OnError = Callable[[type[BaseException], BaseException, TracebackType], int | None]

# In the message of a status: the number of the exception that belongs to it.
_MARK = r"\[zrt: raised (\d+)\] "

# ORT drops some of the statuses that it gets, and nobody asks for their exceptions: keep only the newest.
_MOST_KEPT = 64

# How much of an exception's own message the status has.
MOST_TEXT = 1000

# Reentrant: a finalizer or a signal handler may fail in a callback too.
_lock = ForkLock()
_kept: OrderedDict[int, BaseException] = OrderedDict()
_numbers = itertools.count(1)


def _keep_in_carrier(kind: type[BaseException], error: BaseException, trace: TracebackType) -> None:
    ffi.from_handle(trace.tb_frame.f_locals["python"]).keep(error)


def callback(on_error: OnError = _keep_in_carrier) -> Callable[[Function], Function]:
    """Registers the Python side of a function that C calls by this name (`CALLBACKS` in build.py); it returns 0.

    `on_error` gets what the function raises, also a KeyboardInterrupt between two of its steps, as type, exception
    and traceback, whose first frame has the function's arguments. C gets what `on_error` returns, 1 for None. The
    default keeps the exception in the `Carrier` whose handle is the argument `python`.
    """

    def register(function: Function) -> Function:
        registered: Function = ffi.def_extern(error=1, onerror=on_error)(function)
        return registered

    return register


class Carrier:
    """Base of an object that callbacks use: it keeps the first exception that they raise."""

    __slots__ = ("raised",)

    raised: BaseException | None

    def __init__(self) -> None:
        self.raised = None

    def handle(self) -> Any:
        """The argument `python` of the callbacks. The caller keeps it for as long as C may call them."""
        return ffi.new_handle(self)

    def keep(self, error: BaseException) -> None:
        """Keeps `error` unless there is one already."""
        if self.raised is None:
            self.raised = error

    def take(self) -> BaseException | None:
        """Returns the kept error, or None, and forgets it."""
        error, self.raised = self.raised, None
        return error

    def settle(self, subject: str) -> None:
        """Raises what is kept, if anything is, as the cause of a `CallbackError` about `subject`."""
        error = self.take()
        if error is not None:
            raise as_callback_error(error, f"{subject}: {describe(error)}")


def as_callback_error(cause: BaseException, message: str) -> CallbackError:
    """The `CallbackError` with this cause and message; raises a cause that is no `Exception` as it is."""
    if not isinstance(cause, Exception):
        raise cause
    error = CallbackError(message)
    error.__cause__ = cause
    return error


def without_marks(message: str) -> str:
    """A message without the numbers of exceptions."""
    return re.sub(_MARK, "", message)


def describe(error: BaseException) -> str:
    """An exception's type and its message, which may be cut short."""
    try:
        # The message of a CallbackError may have a mark, which belongs to another exception.
        text = without_marks(str(error))
    except Exception:
        text = "its message cannot be read"
    return f"{type(error).__name__}: {text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + ' ...'}"


def to_message(error: BaseException) -> bytes:
    """Keeps an exception until the message returned here comes back in an error of ORT's.

    Clears the frames of its traceback: they may hold views of memory that belongs to ORT again.
    """
    _clear_frames(error)
    number = next(_numbers)
    with _lock.now:
        _kept[number] = error
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    # ORT reads messages as C strings.
    return f"[zrt: raised {number}] {describe(error)}".replace("\0", "\\0").encode(errors="replace")


def from_message(message: str) -> tuple[str, BaseException | None]:
    """A status's message without marks, and the exception that it belongs to, if any."""
    found = re.search(_MARK, message)
    if found is None:
        return message, None
    with _lock.now:
        error = _kept.pop(int(found[1]), None)
    return without_marks(message), error


# Of an exception whose class may have overridden these attributes.
_trace_of, _cause_of, _context_of = (
    vars(BaseException)[name].__get__ for name in ("__traceback__", "__cause__", "__context__")
)


def _clear_frames(error: BaseException | None) -> None:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(_trace_of(each))
            waiting += [_cause_of(each), _context_of(each)]


class Load(Carrier):
    """The load of a model, during which operators in Python are called.

    Use it in a ``with``: an exception that a callback raised replaces ORT's error, which only follows from it.
    """

    __slots__ = ("_before", "kept", "subject")

    subject: str
    """The callback that raised."""
    kept: set[object]
    """Objects that callbacks made and that live as long as the session: for the session's `Handle.kept`."""

    def __init__(self) -> None:
        super().__init__()
        self.subject = ""
        self.kept = set()

    def __enter__(self) -> Self:
        self._before = current_load()
        _loads.load = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        _loads.load = self._before
        if kind is None or issubclass(kind, Exception):
            self.settle(self.subject)


_loads = threading.local()


def current_load() -> Load | None:
    """The load that runs in this thread."""
    return getattr(_loads, "load", None)


def keep_for_load(subject: str, error: BaseException) -> None:
    """Keeps an exception for the load that runs in this thread, where ORT drops the callback's status."""
    _clear_frames(error)
    this = current_load()
    if this is not None and this.raised is None:
        this.subject = subject
        this.keep(error)


def report() -> None:
    """Hands the exception that is being handled to `threading.excepthook`, as any thread that ends by one does."""
    try:
        kind, error, trace = sys.exc_info()
        threading.excepthook(threading.ExceptHookArgs((kind, error, trace, threading.current_thread())))
    except BaseException:
        with contextlib.suppress(BaseException):
            sys.__excepthook__(*sys.exc_info())
