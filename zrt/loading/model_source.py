"""From a model, in whatever form it comes, to an ``OrtSession``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from zrt._common.arguments import path_bytes, wrong_type
from zrt._common.config_keys import SessionConfigKey
from zrt._native import callback_errors, ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment.environment import current
from zrt.environment.thread_factory import PoolOptions
from zrt.errors import CallbackError, Error, ModelError, ModelNotFoundError

# protobuf's own limit for one message.
LARGEST_IN_MEMORY = 2**31 - 1

# With this setting a session reads a model in ORT's own format from the caller's bytes for as long as it lives.
BYTES_IN_USE = SessionConfigKey.USE_ORT_MODEL_BYTES_DIRECTLY.encode()

# Where the weights of a model in memory lie; ORT heeds it only there.
EXTERNAL_DATA_DIR = SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH.encode()


@runtime_checkable
class ModelProto(Protocol):
    """What zrt needs of an ``onnx.ModelProto``, so that importing onnx is the caller's business."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 (protobuf's name)

    def ByteSize(self) -> int: ...  # noqa: N802 (protobuf's name)


Model: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | ModelProto"


class Source:
    """A model to load: a path, or bytes with a word for messages.

    To be used in a ``with``, which gives the caller's bytes back: CPython's collector crashes over a memoryview that
    is still in use when an exception's traceback holds both.
    """

    __slots__ = ("data", "kept", "path", "subject")

    def __init__(self, model: Model) -> None:
        self.kept = False
        self.path: bytes | None = None
        self.data: Any = None
        if isinstance(model, (str, os.PathLike)):
            self.path = path_bytes(model, "model")
            self.subject = f"model {os.fsdecode(self.path)!r}"
            _check_file(self.path, self.subject)
        elif isinstance(model, (bytes, bytearray, memoryview)):
            self.subject = "model in memory"
            self.data = _check_bytes(model, self.subject)
        elif isinstance(model, ModelProto):
            self.subject = "ModelProto"
            self.data = _serialize(model, self.subject)
        else:
            raise wrong_type("model", "a path, bytes or an onnx.ModelProto", model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.data is not None and not self.kept:
            ffi.release(self.data)

    def read(self) -> Any:
        """The model's bytes as C sees them, read from the file where it is one."""
        if self.path is None:
            return self.data
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise ModelError(f"{self.subject} cannot be read: {error.strerror}") from error
        return _check_bytes(data, self.subject)


def _check_file(path: bytes, subject: str) -> None:
    try:
        if os.path.isdir(path):
            raise ModelError(f"{subject} is a directory")
        size = os.stat(path).st_size
        if size:
            # Opened only to hear the system's own reason.
            open(path, "rb").close()
    except FileNotFoundError:
        raise ModelNotFoundError(f"{subject}: there is no such file") from None
    except OSError as error:
        raise ModelError(f"{subject} cannot be read: {error.strerror}") from error
    if size == 0:
        raise ModelError(f"{subject} is {'empty' if os.path.isfile(path) else 'no plain file'}")


def _check_bytes(data: bytes | bytearray | memoryview, subject: str) -> Any:
    try:
        size = memoryview(data).nbytes
        if size == 0:
            raise ModelError(f"{subject} is empty")
        if size > LARGEST_IN_MEMORY:
            raise ModelError(
                f"{subject} has {size} bytes, more than the 2 GB that protobuf takes: keep its weights outside "
                "the model"
            )
        return ffi.from_buffer(data)
    except ModelError:
        raise
    except (ValueError, BufferError) as error:
        raise ModelError(f"{subject}: {error}") from error


def _serialize(model: ModelProto, subject: str) -> Any:
    advice = "keep its weights outside the model (onnx.save with save_as_external_data=True)"
    try:
        if model.ByteSize() > LARGEST_IN_MEMORY:
            raise ModelError(f"{subject} is larger than the 2 GB that protobuf takes: {advice}")
        return _check_bytes(model.SerializeToString(), subject)
    except ModelError:
        raise
    # protobuf raises classes of its own, which differ between its implementations.
    except Exception as error:
        raise ModelError(f"{subject} cannot be serialized ({error}); if it is larger than 2 GB, {advice}") from error


def says(options: Handle, key: bytes) -> bool:
    """Whether options have a config entry of that key."""
    return bool(status.fetch(api().HasSessionConfigEntry, "int", options.pointer, key))


def data_of(source: Source, options: Handle) -> Any:
    """The bytes to load a model from; None where its path is better."""
    return source.read() if source.path is None or says(options, EXTERNAL_DATA_DIR) else None


def refusal(source: Source, error: Error) -> Error:
    """What to raise where ONNX Runtime did not load a model."""
    if "model IR version" in str(error):
        return ModelError(
            f"{source.subject} is written in a newer form than this library reads ({error}): "
            "set the model's ir_version to what the library supports"
        )
    return status.about(source.subject, error)


def create(
    source: Source, options: PoolOptions, container: Handle | None = None, lent: Sequence[Handle] = ()
) -> Handle:
    """The session, which keeps alive what it was `lent`.

    ``CreateSession`` or ``CreateSessionFromArray``, with a prepacked-weights container or not.
    """
    table = api()
    environment = current().pointer
    shared = () if container is None else (container.pointer,)
    data = data_of(source, options)
    if data is None:
        function = table.CreateSessionWithPrepackedWeightsContainer if shared else table.CreateSession
        model: tuple[Any, ...] = (source.path,)
    else:
        function = table.CreateSessionFromArrayWithPrepackedWeightsContainer if shared else table.CreateSessionFromArray
        model = data, ffi.sizeof(data)
    # What the options refer to (custom operators, say) goes after the session.
    parents = [options, *([] if container is None else [container]), *lent]
    if data is not None and says(options, BYTES_IN_USE):
        source.kept = True
        parents.append(Handle.pin(data))
    try:
        with callback_errors.loading() as load:
            arguments = (environment, *model, options.pointer, *shared)
            return make(options, source.subject, parents, (load.kept,), function, *arguments)
    except Error as error:
        source.kept = False
        settle(options, source.subject)
        if isinstance(error, CallbackError):
            # What the caller's own code raised is its direct cause.
            raise
        raise refusal(source, error) from error


def _pools(options: PoolOptions) -> list[Handle]:
    """What the threads of a session need: what made them, or what stands for the environment's."""
    made_by = [] if options.crew is None else [options.crew.block]
    # After a fork this one tells that they are not here.
    return made_by if options.pools is None else [*made_by, options.pools]


def settle(options: PoolOptions, subject: str) -> None:
    """To be called when a session's threads are made, or will not be; raises what their factory raised."""
    if options.crew is not None:
        options.crew.settle(subject)


def make(
    options: PoolOptions,
    subject: str,
    parents: Sequence[Handle],
    kept: tuple[object, ...],
    function: Any,
    *arguments: Any,
) -> Handle:
    """A new ``OrtSession`` of a function of the table; it keeps alive `parents`, what made its threads, and `kept`."""
    parents = [*parents, *_pools(options)]
    session = Handle.make(api().ReleaseSession, parents, function, "OrtSession", *arguments, kept=kept)
    try:
        settle(options, subject)
    except BaseException:
        # It was loaded nonetheless, and goes at once, whatever the error's traceback keeps.
        ffi.release(session.reference)
        raise
    return session
