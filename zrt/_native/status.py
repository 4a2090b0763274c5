"""Turns results of C into exceptions, and calls functions of the C API that store their result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zrt._native import callback_errors, ffi, lib, ort_messages
from zrt._native.cdata import numbers
from zrt._native.library import api
from zrt.errors import (
    AllocationError,
    ArgumentError,
    BusyError,
    Error,
    ForkedError,
    OrtError,
    TerminatedError,
    TimeoutError,
)

BUSY = lib.ZRT_BUSY
MISALIGNED = lib.ZRT_MISALIGNED
INCOMPLETE = lib.ZRT_INCOMPLETE
FORKED = lib.ZRT_FORKED
NO_MEMORY = lib.ZRT_NO_MEMORY
NO_TEXT = lib.ZRT_NO_TEXT
TIMEOUT = lib.ZRT_TIMEOUT
INTERRUPTED = lib.ZRT_INTERRUPTED
VALUES = lib.ZRT_VALUES

# For zrt's own codes.
_ERRORS: dict[Any, tuple[type[Error], str]] = {
    NO_MEMORY: (AllocationError, "no memory for the result of a run"),
    INCOMPLETE: (ArgumentError, "an input or every output is not bound"),
    TIMEOUT: (TimeoutError, "the run has not ended within its timeout"),
    # Python's handler of SIGINT raises `KeyboardInterrupt` first; a program's own may not raise.
    INTERRUPTED: (TerminatedError, "an interrupt (SIGINT) ended the run"),
    FORKED: (
        ForkedError,
        "this session was made before this process was forked, and its threads exist in the parent only: load it in "
        "this process (zrt.SessionSpec.shared does so once), or start processes by spawn or forkserver",
    ),
}


def string(pointer: Any) -> str:
    """A copy of a C string that ORT owns."""
    return str(ffi.string(pointer).decode(errors="replace"))


def to_error(code: Any, owner: str = "") -> Error:
    """The exception for a C function's result that is not 0: an ``OrtStatus``, its address, or a code of zrt's own.

    Releases the status. An exception that a callback raised is the cause of the `CallbackError`; an interrupt is
    raised as it is. `owner` names the kind of object that ``ZRT_BUSY`` is about.
    """
    if code == BUSY:
        return BusyError(f"this {owner} is in use by another thread")
    if code in _ERRORS:
        kind, reason = _ERRORS[code]
        return kind(reason)
    table = api()
    status = ffi.cast("OrtStatus *", code)
    try:
        number = int(table.GetErrorCode(status))
        message = string(table.GetErrorMessage(status))
    finally:
        table.ReleaseStatus(status)
    if message.startswith("no memory for "):
        # A status that zrt's own C code made.
        return AllocationError(message)
    message, cause = callback_errors.from_message(message)
    if cause is None:
        return ort_messages.to_error(number, message)
    return callback_errors.as_callback_error(cause, message.strip())


def check(code: Any) -> None:
    """Raises the exception for a C function's result; NULL or 0 is success."""
    if code:
        raise to_error(code)


def dismiss(code: Any) -> None:
    """Releases the status of a call that could only fail where nothing depends on it."""
    if code:
        api().ReleaseStatus(code)


def about(subject: str, error: Error, remedy: str = "") -> Error:
    """The same error with its subject in front of the message, and what mends it after it."""
    named = type(error)(f"{subject}: {error}{remedy and '. '}{remedy}")
    # The attributes that are not in the message: the code, ORT's own words.
    named.__dict__.update(error.__dict__)
    return named


def no_memory(subject: str, error: MemoryError) -> AllocationError:
    """The error about a subject for a `MemoryError` of numpy's or of Python's, which may say nothing."""
    return AllocationError(f"{subject}: {str(error) or 'there is no memory for it'}")


@contextmanager
def named(subject: str, kind: type[Error] | None = None) -> Iterator[None]:
    """Puts the subject in front of the message of an `Error` in the ``with``.

    With a `kind` each `OrtError` becomes an error of that class, and other errors stay as they are. It takes a
    microsecond: dense tensors, texts and sequences are made without it.
    """
    try:
        yield
    except Error as error:
        if kind is not None and not isinstance(error, OrtError):
            raise
        raise (about(subject, error) if kind is None else kind(f"{subject}: {error}")) from error


def make(function: Any, kind: str, *arguments: Any) -> Any:
    """Calls a function of the table that stores a new pointer to a `kind` at its last argument; returns it."""
    place = ffi.new(f"{kind} **")
    check(function(*arguments, place))
    return place[0]


def fetch_list(function: Any, kind: str, *arguments: Any, count: str = "size_t") -> list[Any]:
    """Calls a function of the table whose last arguments are where it stores an array of `kind` and its length.

    `count` is the type of the length. The array itself belongs to ORT, or is the caller's to free: `fetch_array`.
    """
    place, length = fetch_array(function, kind, *arguments, count=count)
    return [place[i] for i in range(length)]


def fetch_array(function: Any, kind: str, *arguments: Any, count: str = "size_t") -> tuple[Any, int]:
    """The pointer and the length that `fetch_list` reads."""
    place, length = ffi.new(f"{kind} **"), ffi.new(f"{count} *")
    check(function(*arguments, place, length))
    return place[0], int(length[0])


def describe(value: Any) -> Any:
    """The ``zrt_description`` of an ``OrtValue``, whose pointers belong to the value."""
    description = ffi.new("zrt_description *")
    check(lib.zrt_describe(api(), value, description))
    return description


def type_and_shape(value: Any) -> tuple[int, tuple[int, ...]]:
    """The element type's number and the shape of an ``OrtValue`` that is a tensor, dense or sparse."""
    description = describe(value)
    return description.type, numbers(description.dims, description.rank)


def fetch(function: Any, kind: str, *arguments: Any) -> Any:
    """Calls a function of the table that stores a plain value of type `kind` at its last argument; returns it."""
    place = ffi.new(f"{kind} *")
    check(function(*arguments, place))
    return place[0]
