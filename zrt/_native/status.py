"""OrtStatus into exceptions, and the small helpers with which everything above calls the C API."""

from __future__ import annotations

from typing import Any

from zrt._native import callback_errors, ffi
from zrt._native.library import api
from zrt.errors import Error, OrtError, from_code


def string(pointer: Any) -> str:
    """A string of ORT's, which it keeps."""
    return str(ffi.string(pointer).decode(errors="replace"))


def to_error(status: Any) -> Error:
    """The exception for a status that is not NULL; the status is released.

    What code of the caller's raised on the way is the `CallbackError`'s cause; an interrupt goes on as it is.
    """
    table = api()
    try:
        code = int(table.GetErrorCode(status))
        message = string(table.GetErrorMessage(status)).strip()
    finally:
        table.ReleaseStatus(status)
    message, cause = callback_errors.from_message(message)
    return from_code(code, message) if cause is None else callback_errors.as_callback_error(cause, message)


def check(status: Any) -> None:
    """Raises what `status` says; NULL is success."""
    if status:
        raise to_error(status)


def to_error_at(address: int) -> Error:
    """`to_error` for the address of a status, which is what the C functions of zrt return."""
    return to_error(ffi.cast("OrtStatus *", address))


def about(subject: str, error: Error) -> Error:
    """The same error, and of the same cause, with its subject in front of the message."""
    named = type(error)(f"{subject}: {error}")
    if isinstance(error, OrtError) and isinstance(named, OrtError):
        named.code = error.code
    return named


def make(function: Any, kind: str, *arguments: Any) -> Any:
    """Calls a function of the table whose last argument is where it stores a new pointer of type `kind`."""
    place = ffi.new(f"{kind} **")
    check(function(*arguments, place))
    return place[0]


def fetch(function: Any, kind: str, *arguments: Any) -> Any:
    """Calls a function of the table whose last argument is where it stores a plain value of type `kind`."""
    place = ffi.new(f"{kind} *")
    check(function(*arguments, place))
    return place[0]
