"""The exceptions of the official package, and the translation of zrt's into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zrt.errors import Error, OrtError

# ONNX Runtime's code: the class, and the word for the code in messages.
_KINDS: dict[int, tuple[type[Exception], str]] = {}


def _kind(code: int, name: str, word: str, meaning: str) -> type[Exception]:
    """The exception class `name` for a code of ONNX Runtime's."""
    kind = type(name, (Exception,), {"__doc__": f"Code {code}: {meaning}.", "__module__": __name__})
    _KINDS[code] = kind, word
    return kind


Fail = _kind(1, "Fail", "FAIL", "a failure that has no code of its own")
InvalidArgument = _kind(2, "InvalidArgument", "INVALID_ARGUMENT", "a feed, a name or another argument is wrong")
NoSuchFile = _kind(3, "NoSuchFile", "NO_SUCHFILE", "a file is not there")
NoModel = _kind(4, "NoModel", "NO_MODEL", "the session has no model yet")
EngineError = _kind(5, "EngineError", "ENGINE_ERROR", "the engine of an execution provider failed")
RuntimeException = _kind(6, "RuntimeException", "RUNTIME_EXCEPTION", "ONNX Runtime threw a C++ exception")
InvalidProtobuf = _kind(7, "InvalidProtobuf", "INVALID_PROTOBUF", "the model's bytes cannot be parsed")
ModelLoaded = _kind(8, "ModelLoaded", "MODEL_LOADED", "the session has a model already")
NotImplemented = _kind(9, "NotImplemented", "NOT_IMPLEMENTED", "no kernel for a node, or a feature that is missing")
InvalidGraph = _kind(10, "InvalidGraph", "INVALID_GRAPH", "the model's graph violates the ONNX standard")
# `InferenceSession.run` falls back to other providers.
EPFail = _kind(11, "EPFail", "EP_FAIL", "an execution provider failed")
ModelLoadCanceled = _kind(12, "ModelLoadCanceled", "MODEL_LOAD_CANCELED", "the load was canceled")
ModelRequiresCompilation = _kind(
    13, "ModelRequiresCompilation", "MODEL_REQUIRES_COMPILATION", "the session takes only compiled models"
)
NotFound = _kind(14, "NotFound", "NOT_FOUND", "there is no object of that name")
DeviceReset = _kind(15, "DeviceReset", "DEVICE_RESET", "a provider's device was reset (since 1.28)")


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
