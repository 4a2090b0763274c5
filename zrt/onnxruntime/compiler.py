"""Ahead-of-time compilation of models (`ModelCompiler`), and the places of weights outside of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np

from zrt._common.files import replacing
from zrt.errors import CallbackError
from zrt.loading.initializers import Initializer
from zrt.loading.model_contents import model_files
from zrt.loading.model_source import Source
from zrt.onnxruntime import conversions, errors
from zrt.onnxruntime.enums import GraphOptimizationLevel, OrtCompileApiFlags
from zrt.onnxruntime.options import SessionOptions
from zrt.onnxruntime.values import OrtValue
from zrt.onnxruntime.wrapper import NotPickled, Wrapper, attribute, itself
from zrt.session.compile import compile
from zrt.values.value import Value

# Where weights begin in a file: at multiples of this number of bytes.
_ALIGNMENT = 4096


# A function that chooses the file in which a compiled model keeps an initializer: from the initializer's name, its
# value and the place that it has now, if it has one, to the new place, or to None for an initializer inside the model.
GetInitializerLocationFunc: TypeAlias = Callable[
    [str, OrtValue, "OrtExternalInitializerInfo | None"], "OrtExternalInitializerInfo | None"
]
GetInitializerLocationWrapperFunc: TypeAlias = GetInitializerLocationFunc


def make_get_initializer_location_func_wrapper(
    get_initializer_location_func: GetInitializerLocationFunc,
) -> GetInitializerLocationFunc:
    """The caller's function itself: all functions get the `OrtValue` of this package."""
    return get_initializer_location_func


class OrtExternalInitializerInfo(Wrapper):
    """The place of a weight: a file, the offset and the size in bytes."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int, /) -> None:
        self._wrapped = SimpleNamespace(
            filepath=conversions.string(filepath, "filepath"),
            file_offset=conversions.integer(file_offset, "file_offset", conversions.INT64),
            byte_size=conversions.integer(byte_size, "byte_size", conversions.UINT64),
        )

    filepath: Final[str] = attribute("filepath", "The file, relative to the model's folder.")
    file_offset: Final[int] = attribute("file_offset", "The offset of the weight in bytes.")
    byte_size: Final[int] = attribute("byte_size", "The size of the weight in bytes.")


class ModelCompiler(NotPickled):
    """Lets execution providers compile a model ahead of time, and writes the model with the compiled nodes."""

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: OrtCompileApiFlags | int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: GetInitializerLocationFunc | None = None,
    ) -> None:
        """`sess_options` names the providers, the model is a path or bytes.

        Compiled data go beside the output unless `embed_compiled_data_into_model`. Weights of
        `external_initializers_size_threshold` bytes and more go into the file `external_initializers_file_path`, if it
        is given. Or `get_initializer_location_func` is called for each weight with its name, its `OrtValue` and the
        `OrtExternalInitializerInfo` of where it is now (None if in the model), and returns where it has put the weight,
        or None to keep it in the model. `flags` combines values of `OrtCompileApiFlags`.
        """
        model = input_model_path_or_bytes
        if not isinstance(model, (str, os.PathLike, bytes)):
            raise TypeError(f"Unable to load from type '{type(model)}'")
        if not model:
            raise ValueError("input_model_path_or_bytes: the path is empty, or the model has no bytes")
        path = external_initializers_file_path
        if path and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"external_initializers_file_path: a path is expected, not {type(path)}")
        if get_initializer_location_func is not None and path:
            raise ValueError("`external_initializers_file_path` and `get_initializer_location_func` exclude each other")
        self._options = conversions.instance(sess_options, SessionOptions, "sess_options")
        self._model = model if isinstance(model, bytes) else conversions.path(model, "input_model_path_or_bytes")
        self._weights_path = os.fspath(path) if path else ""
        self._threshold = conversions.integer(
            external_initializers_size_threshold, "external_initializers_size_threshold", conversions.UINT64
        )
        self._flags = conversions.integer(flags, "flags", conversions.UINT32)
        self._level = conversions.instance(graph_optimization_level, GraphOptimizationLevel, "graph_optimization_level")
        self._embed = bool(embed_compiled_data_into_model)
        self._locate = conversions.function(get_initializer_location_func, "get_initializer_location_func")
        self._binaries: tuple[str, str] | None = None

    def set_ep_context_binary_information(self, output_directory: str | os.PathLike[str], model_name: str) -> None:
        """Names the folder and the model by which providers name their files, for a model in bytes or a stream.

        The folder's path ends with a separator, or it is a file's, whose folder counts. A model in a file has them
        beside it. Raises `InvalidArgument` for an empty text, and for another path.
        """
        folder = conversions.path(output_directory, "output_directory")
        name = conversions.string(model_name, "model_name")
        if not folder or not name:
            raise errors.failure(2, "output_directory or model_name is empty")
        parent, last = os.path.split(folder)
        if last and not os.path.splitext(last)[1]:
            raise errors.failure(2, f"output_directory: {folder!r} ends with no separator, and is no file's path")
        self._binaries = (parent or os.curdir, name)

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Writes the compiled model to a file."""
        path = conversions.path(output_model_path, "output_model_path")
        if os.path.exists(path) and self._flags & int(OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS):
            raise errors.failure(1, f"the output file {path!r} exists already")
        self._compile(path, os.path.dirname(path))

    def compile_to_bytes(self) -> bytes:
        """The compiled model."""
        return bytes(self._compile(None))

    def compile_to_stream(self, write_function: Callable[[bytes], object]) -> None:
        """Passes the compiled model to a function, in pieces."""
        if write_function is None:
            raise TypeError("write_function: expected a function, got None")
        self._compile(conversions.function(write_function, "write_function"))

    def _compile(self, output: Any, folder: str = "") -> Any:
        with errors.translated(code=2), self._weights(folder) as weights:
            try:
                return compile(
                    self._model,
                    output,
                    self._options._to_zrt(),
                    self._options._selection(),
                    get_initializer_location_func=weights or (None if self._locate is None else self._place),
                    # A model in a file has them beside it.
                    ep_context_binaries=None if isinstance(output, str) else self._binaries,
                    error_if_no_nodes_compiled=bool(self._flags & int(OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED)),
                    embed_compiled_data_into_model=self._embed,
                    graph_optimization_level=int(self._level),
                )
            except CallbackError as error:
                cause = error.__cause__
                raise errors.failure(1, f"{type(cause).__name__}: {cause}") from error

    @contextmanager
    def _weights(self, folder: str) -> Iterator[Callable[..., tuple[str, int] | None] | None]:
        """The function that writes the larger weights into a file and tells their places, if there is to be a file.

        The file replaces an older one once all is written.
        """
        if not self._weights_path:
            yield None
            return
        with Source(self._model) as source:
            options = self._options._to_zrt()
            inputs = [*model_files(source, options.config_entries), *options._libraries()]
        path = os.path.join(folder, self._weights_path)
        with replacing(path, inputs=inputs) as (temporary,), open(temporary, "wb") as file:

            def write(info: Initializer, read: Callable[[], Any]) -> tuple[str, int] | None:
                if info.nbytes < self._threshold:
                    return None
                offset = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
                file.seek(offset)
                file.write(np.ascontiguousarray(read()).tobytes())
                return self._weights_path, offset

            yield write

    def _place(self, info: Initializer, read: Callable[[], Any]) -> tuple[str, int] | None:
        """Asks the caller's function for the place of one weight."""
        array = read()
        packed = info.element_type.packed
        value = Value.from_packed(array, info.element_type, info.shape) if packed else Value.from_array(array)
        present = None
        if info.location is not None:
            present = OrtExternalInitializerInfo(info.location, info.offset or 0, info.nbytes)
        place = self._locate(info.name, OrtValue._of(value), present)
        if place is None:
            return None
        if not isinstance(place, OrtExternalInitializerInfo):
            raise TypeError(f"the place of a weight is an OrtExternalInitializerInfo or None, not {type(place)}")
        return place.filepath, place.file_offset

    _model_compiler = property(itself)

    @property
    def get_initializer_location_func_wrapper(self) -> GetInitializerLocationFunc | None:
        """The caller's function for the places of weights."""
        return self._locate  # type: ignore[no-any-return]
