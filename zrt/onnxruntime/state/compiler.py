"""Ahead-of-time compilation of models, and the places of weights outside of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, ClassVar

import numpy as np

from zrt._common.files import replacing
from zrt.errors import CallbackError, Error, ModelNotFoundError
from zrt.loading.initializers import Initializer
from zrt.loading.model_contents import model_files
from zrt.loading.model_source import Source
from zrt.onnxruntime import errors
from zrt.onnxruntime.enums import GraphOptimizationLevel, OrtCompileApiFlags
from zrt.onnxruntime.options import SessionOptions
from zrt.onnxruntime.state.arguments import INT64, TEXT, UINT32, UINT64, Kind, instance, take
from zrt.onnxruntime.state.devices import NotPickled
from zrt.onnxruntime.state.values import OrtValue
from zrt.session.compile import compile
from zrt.values import Value

# Where weights begin in a file: at multiples of this number of bytes.
_ALIGNMENT = 4096


def _function(value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError
    return value


_BOOL = Kind("bool", bool)
_FUNCTION = Kind("collections.abc.Callable", _function)
_WRITER = Kind("collections.abc.Callable[[bytes], None]", lambda value: _function(value or 0))
_MODEL = Kind("str", lambda value: value if isinstance(value, bytes) else TEXT.convert(value))


class OrtExternalInitializerInfo(NotPickled):
    """The place of a weight: a file, the offset and the size in bytes."""

    __slots__ = ("_place",)

    _FORMS: ClassVar = {"": (TEXT, INT64, UINT64)}

    def __init__(self, *arguments: Any) -> None:
        _, self._place = take("__init__", self._FORMS, arguments)

    @property
    def filepath(self) -> str:
        """The file, relative to the model's folder."""
        return str(self._place[0])

    @property
    def file_offset(self) -> int:
        """The offset of the weight in bytes."""
        return int(self._place[1])

    @property
    def byte_size(self) -> int:
        """The size of the weight in bytes."""
        return int(self._place[2])


class _WeightsFile:
    """Writes the larger weights of a model into an open file, and tells their places in the file `path`."""

    def __init__(self, file: IO[bytes], path: str, threshold: int) -> None:
        self._path = path
        self._threshold = threshold
        self._file = file

    def __call__(self, info: Initializer, read: Callable[[], Any]) -> tuple[str, int] | None:
        if info.nbytes < self._threshold:
            return None
        offset = -(-self._file.tell() // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(offset)
        self._file.write(np.ascontiguousarray(read()).tobytes())
        return self._path, offset


class ModelCompiler(NotPickled):
    """A model and the settings with which to compile it."""

    __slots__ = ("_binaries", "_external", "_flags", "_locate", "_model", "_options", "_settings")

    _FORMS: ClassVar = {
        "": (
            instance(SessionOptions),
            _MODEL,
            _BOOL,
            _BOOL,
            TEXT,
            UINT64,
            UINT32,
            instance(GraphOptimizationLevel),
            _FUNCTION,
        )
    }

    def __init__(self, *arguments: Any) -> None:
        _, given = take("__init__", self._FORMS, arguments)
        self._options, self._model, _, embed, external, threshold, self._flags, level, self._locate = given
        self._external = (external, threshold)
        self._binaries: tuple[str, str] | None = None
        self._settings = {"embed_compiled_data_into_model": embed, "graph_optimization_level": int(level)}

    def set_ep_context_binary_information(self, output_directory: str, model_name: str) -> None:
        """Sets the folder and the name of the providers' files, for a model that is not compiled to a file."""
        given = (output_directory, model_name)
        _, (folder, name) = take("set_ep_context_binary_information", {"": (TEXT, TEXT)}, given)
        if not folder or not name:
            raise errors.made(2, "output_dir or model_name is empty.")
        parent, last = os.path.split(folder)
        if last and not os.path.splitext(last)[1]:
            raise errors.made(2, "output_dir is not a valid directory.")
        self._binaries = (parent or os.curdir, name)

    def compile_to_file(self, *arguments: Any) -> None:
        """Writes the compiled model to a file."""
        _, (path,) = take("compile_to_file", {"": (TEXT,)}, arguments)
        if os.path.exists(path) and self._flags & int(OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS):
            raise errors.made(1, f"the output file {path!r} exists already")
        self._compile(path, os.path.dirname(path))

    def compile_to_bytes(self) -> bytes:
        """The compiled model."""
        return bytes(self._compile(None))

    def compile_to_stream(self, *arguments: Any) -> None:
        """Passes the compiled model to a function, in pieces."""
        _, (write,) = take("compile_to_stream", {"": (_WRITER,)}, arguments)
        self._compile(write)

    def _compile(self, output: Any, folder: str = "") -> Any:
        locate: Any = None if self._locate is None else self._place
        try:
            with self._weights(folder) as weights:
                return compile(
                    self._model,
                    output,
                    self._options._to_zrt(),
                    self._options._selection(),
                    get_initializer_location_func=weights or locate,
                    # A model in a file has them beside it.
                    ep_context_binaries=None if isinstance(output, str) else self._binaries,
                    error_if_no_nodes_compiled=bool(self._flags & int(OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED)),
                    **self._settings,
                )
        except CallbackError as error:
            cause = error.__cause__
            raise errors.made(1, f"{type(cause).__name__}: {cause}") from error
        except ModelNotFoundError as error:
            raise errors.made(2, f'Input model path does not exist: "{self._model}"') from error
        except Error as error:
            translated = errors.translate(error)
            raise (errors.made(2, str(error)) if translated is error else translated) from error

    @contextmanager
    def _weights(self, folder: str) -> Iterator[_WeightsFile | None]:
        """The file of weights, if there is to be one; it replaces an older one once all is written."""
        path, threshold = self._external
        if not path:
            yield None
            return
        with Source(self._model) as source:
            kept = model_files(source, self._options._to_zrt().config_entries)
        with replacing(os.path.join(folder, path), inputs=kept) as (written,), open(written, "wb") as file:
            yield _WeightsFile(file, path, threshold)

    def _place(self, info: Initializer, read: Callable[[], Any]) -> tuple[str, int] | None:
        """Asks the caller's function for the place of one weight."""
        array = read()
        packed = info.element_type.packed
        value = Value.from_packed(array, info.element_type, info.shape) if packed else Value.from_array(array)
        there = None
        if info.location is not None:
            there = OrtExternalInitializerInfo(info.location, info.offset, info.nbytes)
        found = self._locate(info.name, OrtValue._of(value), there)
        if found is None:
            return None
        if not isinstance(found, OrtExternalInitializerInfo):
            raise TypeError(f"the place of a weight is an OrtExternalInitializerInfo or None, not {type(found)}")
        return found.filepath, found.file_offset
