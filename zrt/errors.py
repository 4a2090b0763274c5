"""The exceptions of zrt.

All derive from `Error`: an `OrtError` comes from ONNX Runtime and carries its code, a `ZrtError` comes from zrt. Each
concrete class also derives from the builtin that a caller expects (`ValueError`, `FileNotFoundError` ...).
"""

from __future__ import annotations

import builtins


class Error(Exception):
    """The base of every exception that zrt raises itself. The classes below say when."""


class OrtError(Error):
    """A call of ONNX Runtime failed. The message is ONNX Runtime's, often with the subject in front.

    This class itself is raised for codes that zrt does not know, of later releases.
    """

    code: int = 1
    """The ``OrtErrorCode``."""
    ort_message: str = ""
    """ONNX Runtime's own words, without a subject."""


class FailError(OrtError, RuntimeError):
    """``ORT_FAIL``: any failure that has no code of its own. The message has the reason."""

    code = 1


class TerminatedError(FailError):
    """`RunOptions.terminate` ended the run; or SIGINT did, under a `timeout`, and its handler raised nothing."""


class MemoryLimitError(FailError, MemoryError):
    """A run, or a load, needs more memory than its arena may have: `memory_limit`, or `ArenaConfig.max_mem`.

    The session goes on.
    """

    requested: int = 0
    """The bytes of the allocation for which there was no room; 0 if not known."""
    node: str = ""
    """The name of the node that asked for them; empty if it has none, or is not known."""


class InvalidArgumentError(OrtError, ValueError):
    """``ORT_INVALID_ARGUMENT``: ONNX Runtime refused a feed, an option or another argument that zrt does not check."""

    code = 2


class NoSuchFileError(OrtError, FileNotFoundError):
    """``ORT_NO_SUCHFILE``: ONNX Runtime could not find a file, such as a model's external data."""

    code = 3


class NoModelError(OrtError, ValueError):
    """``ORT_NO_MODEL``: no model was loaded before the call that needs it."""

    code = 4


class EngineError(OrtError, RuntimeError):
    """``ORT_ENGINE_ERROR``: the engine of an execution provider failed."""

    code = 5


class RuntimeExceptionError(OrtError, RuntimeError):
    """``ORT_RUNTIME_EXCEPTION``: a kernel or another part of ONNX Runtime threw a C++ exception."""

    code = 6


class InvalidProtobufError(OrtError, ValueError):
    """``ORT_INVALID_PROTOBUF``: the model's bytes cannot be parsed as ONNX."""

    code = 7


class ModelLoadedError(OrtError, RuntimeError):
    """``ORT_MODEL_LOADED``: the session has a model already."""

    code = 8


class NotImplementedByOrtError(OrtError, NotImplementedError):
    """``ORT_NOT_IMPLEMENTED``: the library has no kernel for a node, or lacks a type or feature."""

    code = 9


class InvalidGraphError(OrtError, ValueError):
    """``ORT_INVALID_GRAPH``: the model's graph violates the ONNX standard."""

    code = 10


class EpFailError(OrtError, RuntimeError):
    """``ORT_EP_FAIL``: an execution provider failed, at load or in a run."""

    code = 11


class ModelLoadCanceledError(OrtError, RuntimeError):
    """``ORT_MODEL_LOAD_CANCELED``: `LoadCancellation.cancel` ended the load."""

    code = 12


class ModelRequiresCompilationError(OrtError, RuntimeError):
    """``ORT_MODEL_REQUIRES_COMPILATION``: the session accepts only models compiled ahead of time."""

    code = 13


class NotFoundError(OrtError, LookupError):
    """``ORT_NOT_FOUND``: ONNX Runtime has no object, such as an attribute, of that name."""

    code = 14


class DeviceResetError(OrtError, RuntimeError):
    """``ORT_DEVICE_RESET``, since 1.28: a provider's device was reset. Close the session and make a new one."""

    code = 15


class ZrtError(Error):
    """zrt refused a call, or the system refused zrt."""


class LibraryError(ZrtError, ImportError):
    """No usable libonnxruntime was found. The message lists where zrt looked, and how to install one."""


class ArgumentError(ZrtError, ValueError):
    """An argument has the right type and an invalid value, or does not fit the other arguments."""


class UnknownNameError(ArgumentError, KeyError):
    """A name that the model, or another object, does not have. The message lists the names that it has."""

    # KeyError shows the repr of its message.
    def __str__(self) -> str:
        return Exception.__str__(self)


class OutOfRangeError(ArgumentError, IndexError):
    """An index is out of range, of a lane, an input or an output."""


class ShapeError(ArgumentError):
    """An array, or a shape, has another shape or size than expected."""


class DTypeError(ZrtError, TypeError):
    """An argument has another type, or an array another element type, than expected."""


class DLPackError(ZrtError, BufferError):
    """A tensor cannot be exchanged through DLPack without a copy, or the other library refuses to export it."""


class ModelError(ZrtError, ValueError):
    """A model cannot be loaded: unreadable, too large, too new or no model; or a `Graph` is invalid."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """No model file, or no `external_data_dir`, is at that path."""


class FileError(ZrtError, OSError):
    """A file cannot be written, or one that is no model cannot be read. The message has its name and the reason."""


class TraceError(ZrtError, ValueError):
    """A trace cannot be read: its file is truncated, or ONNX Runtime did not write it."""


class ProviderError(ZrtError, ValueError):
    """The execution provider is not in this library, refuses its options, or does not work on this machine."""


class ProviderNotFoundError(ProviderError, FileNotFoundError):
    """No provider library is at that path."""


class UnsupportedError(ZrtError, NotImplementedError):
    """The call is correct, but not possible with this library, model, type or platform. The message has the reason."""


class ClosedError(ZrtError, ValueError):
    """A method was called on an object that was closed, or that is no longer valid."""


class ForkedError(ZrtError, RuntimeError):
    """A session that was made before a fork is used in the child. The parent alone has its threads."""


class NotCopyableError(ZrtError, TypeError):
    """`copy` or `pickle` of an object that cannot be copied, such as a session, a device or a `Graph`."""


class BusyError(ZrtError, RuntimeError):
    """Another thread uses the object, which only one may use at a time; or the resource is still in use."""


class TimeoutError(ZrtError, builtins.TimeoutError):
    """The `timeout` of a run has passed before its end."""


class CallbackError(ZrtError, RuntimeError):
    """A function that the caller passed in (of a custom operator, a thread factory) raised, or did not do its task.

    `__cause__` is the exception that it raised, if it did. A `KeyboardInterrupt` or `SystemExit` comes out as it is.
    """


class CapacityError(ZrtError, OverflowError):
    """A state of a lane is full: it cannot take the steps of another run."""


class AllocationError(ZrtError, MemoryError):
    """The system, or ONNX Runtime's allocator, has no more memory; or no thread can be started."""


class LockError(ZrtError, OSError):
    """The system refused to lock memory. The message has the limit."""


class ZeroCopyError(ZrtError, RuntimeError):
    """`LaneAudit.require_zero_copy` found a copy in the lane's runs."""


BY_CODE: dict[int, type[OrtError]] = {kind.code: kind for kind in OrtError.__subclasses__()}

__all__ = sorted(name for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, Error))
