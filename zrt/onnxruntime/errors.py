"""The exceptions of the official package, and the translation of zrt's into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zrt.errors import Error, OrtError


class Fail(Exception):
    """Code 1: a failure that has no code of its own."""


class InvalidArgument(Exception):
    """Code 2: a feed, a name or another argument is wrong."""


class NoSuchFile(Exception):
    """Code 3: a file is not there."""


class NoModel(Exception):
    """Code 4: the session has no model yet."""


class EngineError(Exception):
    """Code 5: the engine of an execution provider failed."""


class RuntimeException(Exception):
    """Code 6: ONNX Runtime threw a C++ exception."""


class InvalidProtobuf(Exception):
    """Code 7: the model's bytes cannot be parsed."""


class ModelLoaded(Exception):
    """Code 8: the session has a model already."""


class NotImplemented(Exception):
    """Code 9: no kernel for a node, or a feature that is missing."""


class InvalidGraph(Exception):
    """Code 10: the model's graph violates the ONNX standard."""


class EPFail(Exception):
    """Code 11: an execution provider failed; `InferenceSession.run` falls back to other providers."""


class ModelLoadCanceled(Exception):
    """Code 12: the load was canceled."""


class ModelRequiresCompilation(Exception):
    """Code 13: the session takes only compiled models."""


class NotFound(Exception):
    """Code 14: there is no object of that name."""


class DeviceReset(Exception):
    """Code 15: a provider's device was reset (since 1.28)."""


# By ONNX Runtime's code: the class, and the word for the code in messages.
_KINDS: dict[int, tuple[type[Exception], str]] = {
    1: (Fail, "FAIL"),
    2: (InvalidArgument, "INVALID_ARGUMENT"),
    3: (NoSuchFile, "NO_SUCHFILE"),
    4: (NoModel, "NO_MODEL"),
    5: (EngineError, "ENGINE_ERROR"),
    6: (RuntimeException, "RUNTIME_EXCEPTION"),
    7: (InvalidProtobuf, "INVALID_PROTOBUF"),
    8: (ModelLoaded, "MODEL_LOADED"),
    9: (NotImplemented, "NOT_IMPLEMENTED"),
    10: (InvalidGraph, "INVALID_GRAPH"),
    11: (EPFail, "EP_FAIL"),
    12: (ModelLoadCanceled, "MODEL_LOAD_CANCELED"),
    13: (ModelRequiresCompilation, "MODEL_REQUIRES_COMPILATION"),
    14: (NotFound, "NOT_FOUND"),
    15: (DeviceReset, "DEVICE_RESET"),
}


def failure(code: int, message: str) -> Exception:
    """The exception for a code of ONNX Runtime's; one of a later release becomes a `RuntimeError`."""
    kind, word = _KINDS.get(code, (RuntimeError, "GENERAL ERROR"))
    return kind(f"[ONNXRuntimeError] : {code} : {word} : {message}")


def ort_error(error: BaseException) -> OrtError | None:
    """ONNX Runtime's error in an exception: itself, or the cause of zrt's sentence about it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OrtError):
        cause = cause.__cause__
    return cause


def reason(error: BaseException | None) -> str:
    """The text for a callback: "" without an error; ONNX Runtime's own words for its error; never "" for others."""
    if error is None:
        return ""
    return error.ort_message if isinstance(error, OrtError) else str(error) or type(error).__name__


def translate(error: Exception, code: int = 0) -> Exception:
    """The exception to raise in the place of one of zrt's.

    One that is not ONNX Runtime's becomes the exception of `code`, and without a code is returned as it is.
    """
    cause = ort_error(error)
    if cause is None:
        return failure(code, str(error)) if code else error
    return failure(cause.code, cause.ort_message or str(cause))


@contextmanager
def translated(code: int = 0) -> Iterator[None]:
    """Raises the official package's exceptions for zrt's, as `translate` makes them; zrt's is the cause."""
    try:
        yield
    except Error as error:
        if not code and ort_error(error) is None:
            raise
        # No name for the exception: its traceback would refer to it, and keep all feeds alive.
        raise translate(error, code) from error


@contextmanager
def as_runtime_error(prefix: str = "") -> Iterator[None]:
    """Raises `RuntimeError` for any error of zrt's."""
    try:
        yield
    except Error as error:
        raise RuntimeError(f"{prefix}{error}") from error
