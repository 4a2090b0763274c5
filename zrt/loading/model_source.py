"""`Source`: a model to load, from a path, bytes or an ``onnx.ModelProto``."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from zrt._common.arguments import absolute, path_bytes, wrong_type
from zrt._common.config_keys import SessionConfigKey
from zrt._common.public import public_in
from zrt._native.cdata import buffer_at, from_buffer, release
from zrt.errors import ModelError, ModelNotFoundError, UnsupportedError

# The entry with the folder of a model's external weights; ORT ignores it for a model from a path.
EXTERNAL_DATA_DIR = SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH

# protobuf's own limit for one message.
LARGEST_IN_MEMORY = 2**31 - 1

# A session keeps a copy of a model of at most this many bytes, to read its opsets when they are asked for.
COPIED = 1 << 16


@public_in("zrt.typing")
@runtime_checkable
class ModelProto(Protocol):
    """The methods of ``onnx.ModelProto`` that zrt calls: it does not import onnx."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 (protobuf's name)

    def ByteSize(self) -> int: ...  # noqa: N802 (protobuf's name)


Model: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | ModelProto"


def plain_model(model: Model) -> str | bytes:
    """A model as plain data: its path, or its bytes, copied where they can change. A file is not looked up."""
    if isinstance(model, (str, os.PathLike)):
        return os.fsdecode(path_bytes(model, "model"))
    with Source(model) as source:
        return model if type(model) is bytes else bytes(buffer_at(source.data))


class Source:
    """A model to load: a path or bytes, and its name in messages.

    Use it in a ``with``, which releases the caller's bytes: CPython's GC crashes on a memoryview that is still in use
    when an exception's traceback refers to both.
    """

    __slots__ = ("absolute", "data", "lent", "path", "subject")

    absolute: str | None
    """The absolute path of a model from a path."""

    def __init__(self, model: Model) -> None:
        self.lent: bool = False
        self.path: bytes | None = None
        self.absolute = None
        self.data: Any = None
        if isinstance(model, (str, os.PathLike)):
            self.path = path_bytes(model, "model")
            name = model if type(model) is str else os.fsdecode(model)
            self.subject: str = f"model {name!r}"
            _check_file(self.path, self.subject)
            self.absolute = name if name.startswith(os.sep) else absolute(name)
        elif isinstance(model, (bytes, bytearray, memoryview)):
            self.subject = "model in memory"
            self.data = _check_bytes(model, self.subject)
        elif isinstance(model, ModelProto):
            self.subject = "ModelProto"
            advice = "keep its weights outside the model (onnx.save with save_as_external_data=True)"
            self.data = _check_bytes(serialize(model, self.subject, advice), self.subject)
        else:
            raise wrong_type("model", "a path, bytes or an onnx.ModelProto", model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.data is not None and not self.lent:
            release(self.data)

    def check_readable(self) -> None:
        """Raises the system's error if the process may not read the file."""
        if self.path is None:
            return
        try:
            os.close(os.open(self.path, os.O_RDONLY))
        except OSError as error:
            raise _unreadable(self.subject, error) from error

    def opsets(self) -> Callable[[], dict[str, int]]:
        """A function that reads the opsets that the model imports: no load waits for it.

        A model in memory is the caller's, and may be gone by then: of a large one they are read now.
        """
        if self.absolute is not None:
            return partial(_read_opsets, self.absolute)
        data = buffer_at(self.data)
        if len(data) > COPIED:
            with suppress(UnsupportedError):
                return partial(dict, _read_opsets(self))
        return partial(_read_opsets, bytes(data[:COPIED]))

    def read(self) -> Any:
        """The model's bytes as C data, read from its file for a path."""
        if self.path is None:
            return self.data
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise _unreadable(self.subject, error) from error
        return _check_bytes(data, self.subject)


def _read_opsets(model: Model | Source) -> dict[str, int]:
    # Deferred: the reader of models takes 5 ms of a first session.
    from zrt.loading.initializers import opened

    if not isinstance(model, Source):
        with Source(model) as source:
            return _read_opsets(source)
    with opened(model) as file:
        return file.opsets()


def _unreadable(subject: str, error: OSError) -> ModelError:
    return ModelError(f"{subject} cannot be read: {error.strerror}")


def _check_file(path: bytes, subject: str) -> None:
    try:
        state = os.stat(path)
        if stat.S_ISDIR(state.st_mode):
            raise ModelError(f"{subject} is a directory")
    except FileNotFoundError:
        raise ModelNotFoundError(f"{subject}: there is no such file") from None
    except OSError as error:
        raise _unreadable(subject, error) from error
    if state.st_size == 0:
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
        return from_buffer(data)
    except ModelError:
        raise
    except (ValueError, BufferError) as error:
        raise ModelError(f"{subject}: {error}") from error


def serialize(model: ModelProto, subject: str, advice: str) -> bytes:
    """A model's bytes; `ModelError` where protobuf cannot serialize it, with the `advice` for one above 2 GB."""
    try:
        if model.ByteSize() > LARGEST_IN_MEMORY:
            raise ModelError(f"{subject} is larger than the 2 GB that protobuf takes: {advice}")
        data = model.SerializeToString()
        # Raises a TypeError where these are no bytes.
        memoryview(data)
        return data
    except ModelError:
        raise
    # protobuf's exception classes differ between its implementations.
    except Exception as error:
        raise ModelError(f"{subject} cannot be serialized ({error}); if it is larger than 2 GB, {advice}") from error
