"""The exceptions of zrt.

Everything derives from `Error`. `OrtError` is ONNX Runtime's own refusal and carries its code; `ZrtError` is
zrt's. Each concrete class is also the builtin that a caller would expect (`ValueError`, `FileNotFoundError` ...).
"""

from __future__ import annotations

__all__ = [
    "AllocationError",
    "ArgumentError",
    "BusyError",
    "CallbackError",
    "ClosedError",
    "DLPackError",
    "DTypeError",
    "EngineError",
    "EpFailError",
    "Error",
    "FailError",
    "FileError",
    "InvalidArgumentError",
    "InvalidGraphError",
    "InvalidProtobufError",
    "LibraryError",
    "LockError",
    "ModelError",
    "ModelLoadCanceledError",
    "ModelLoadedError",
    "ModelNotFoundError",
    "ModelRequiresCompilationError",
    "NoModelError",
    "NoSuchFileError",
    "NotCopyableError",
    "NotFoundError",
    "NotImplementedByOrtError",
    "OrtError",
    "OutOfRangeError",
    "ProviderError",
    "ProviderNotFoundError",
    "RuntimeExceptionError",
    "ShapeError",
    "TerminatedError",
    "TraceError",
    "UnknownNameError",
    "UnsupportedError",
    "ZeroCopyError",
    "ZrtError",
]


class Error(Exception):
    """The root of every exception that zrt raises on purpose."""


class OrtError(Error):
    """ONNX Runtime refused; `code` is its ``OrtErrorCode``. ``OrtApi::GetErrorCode``, ``OrtApi::GetErrorMessage``,
    ``OrtApi::ReleaseStatus``; ``OrtApi::CreateStatus`` for what zrt's own C code has to say.
    """

    code: int = 1


class FailError(OrtError, RuntimeError):
    """``ORT_FAIL``: an unspecified failure; the message says more."""

    code = 1


class TerminatedError(FailError):
    """The run ended because its `RunOptions.terminate` was called."""


class InvalidArgumentError(OrtError, ValueError):
    """``ORT_INVALID_ARGUMENT``."""

    code = 2


class NoSuchFileError(OrtError, FileNotFoundError):
    """``ORT_NO_SUCHFILE``."""

    code = 3


class NoModelError(OrtError, ValueError):
    """``ORT_NO_MODEL``."""

    code = 4


class EngineError(OrtError, RuntimeError):
    """``ORT_ENGINE_ERROR``."""

    code = 5


class RuntimeExceptionError(OrtError, RuntimeError):
    """``ORT_RUNTIME_EXCEPTION``: a C++ exception inside ONNX Runtime."""

    code = 6


class InvalidProtobufError(OrtError, ValueError):
    """``ORT_INVALID_PROTOBUF``: the bytes are no ONNX model."""

    code = 7


class ModelLoadedError(OrtError, RuntimeError):
    """``ORT_MODEL_LOADED``."""

    code = 8


class NotImplementedByOrtError(OrtError, NotImplementedError):
    """``ORT_NOT_IMPLEMENTED``: no kernel, type or feature of that kind in this build."""

    code = 9


class InvalidGraphError(OrtError, ValueError):
    """``ORT_INVALID_GRAPH``: the model's graph breaks ONNX's rules."""

    code = 10


class EpFailError(OrtError, RuntimeError):
    """``ORT_EP_FAIL``: an execution provider failed."""

    code = 11


class ModelLoadCanceledError(OrtError, RuntimeError):
    """``ORT_MODEL_LOAD_CANCELED``: the load ended because its `LoadCancellation.cancel` was called."""

    code = 12


class ModelRequiresCompilationError(OrtError, RuntimeError):
    """``ORT_MODEL_REQUIRES_COMPILATION``."""

    code = 13


class NotFoundError(OrtError, LookupError):
    """``ORT_NOT_FOUND``."""

    code = 14


class ZrtError(Error):
    """zrt refused."""


class LibraryError(ZrtError, ImportError):
    """No usable libonnxruntime; the message lists what was looked for, where, and what mends it."""


class ArgumentError(ZrtError, ValueError):
    """An argument has a value that cannot be used."""


class UnknownNameError(ArgumentError, KeyError):
    """A name that the model (or the object) does not have."""

    # KeyError shows the repr of its argument; a sentence should be read as one.
    __str__ = Exception.__str__


class OutOfRangeError(ArgumentError, IndexError):
    """There are not so many."""


class ShapeError(ArgumentError):
    """An array has another shape or size than is wanted."""


class DTypeError(ZrtError, TypeError):
    """An array, or another argument, has another type than is wanted."""


class DLPackError(ZrtError, BufferError):
    """DLPack cannot carry the tensor as it is, or the library that has it does not give it away."""


class ModelError(ZrtError, ValueError):
    """The model cannot be loaded: too large, too new, or not a model; or a graph does not make one."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """There is no model file at that path."""


class FileError(ZrtError, OSError):
    """A file that is no model cannot be read or written; the message names it and the reason."""


class TraceError(ZrtError, ValueError):
    """A profile cannot be read: the file is cut short, or ONNX Runtime did not write it."""


class ProviderError(ZrtError, ValueError):
    """The execution provider is not in this library, or does not take these options."""


class ProviderNotFoundError(ProviderError, FileNotFoundError):
    """There is no provider library at that path."""


class UnsupportedError(ZrtError, NotImplementedError):
    """Neither wrong nor broken: this cannot be done here, and the message says why."""


class ClosedError(ZrtError, ValueError):
    """The object was closed before."""


class NotCopyableError(ZrtError, TypeError):
    """The object stands for one thing in ONNX Runtime, so `copy` and `pickle` are refused."""


class BusyError(ZrtError, RuntimeError):
    """A second thread used what belongs to one at a time."""


class CallbackError(ZrtError, RuntimeError):
    """What the caller gave to be called (a custom operator, a thread factory) raised, or did not do what it is for.

    Where it raised, `__cause__` is its exception.
    """


class AllocationError(ZrtError, MemoryError):
    """The system gave no memory."""


class LockError(ZrtError, OSError):
    """The system refused to lock memory; the message names the limit."""


class ZeroCopyError(ZrtError, RuntimeError):
    """A lane's audit found a copy on the hot path."""


BY_CODE: dict[int, type[OrtError]] = {
    kind.code: kind
    for kind in (
        FailError,
        InvalidArgumentError,
        NoSuchFileError,
        NoModelError,
        EngineError,
        RuntimeExceptionError,
        InvalidProtobufError,
        ModelLoadedError,
        NotImplementedByOrtError,
        InvalidGraphError,
        EpFailError,
        ModelLoadCanceledError,
        ModelRequiresCompilationError,
        NotFoundError,
    )
}
