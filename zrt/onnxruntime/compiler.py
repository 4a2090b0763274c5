"""`ModelCompiler` as programs use it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from zrt.onnxruntime.enums import GraphOptimizationLevel, OrtCompileApiFlags
from zrt.onnxruntime.state import compiler as state
from zrt.onnxruntime.state import values
from zrt.onnxruntime.values import OrtValue


def make_get_initializer_location_func_wrapper(get_initializer_location_func: Callable[..., Any]) -> Callable[..., Any]:
    """The caller's function, called with the `OrtValue` of this package."""

    def wrapper(name: str, value: values.OrtValue, external_info: Any) -> Any:
        return get_initializer_location_func(name, OrtValue(value), external_info)

    return wrapper


class ModelCompiler:
    """Lets execution providers compile a model ahead of time, and writes the model with the compiled nodes."""

    def __init__(
        self,
        sess_options: Any,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: Any = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Callable[..., Any] | None = None,
    ) -> None:
        """`sess_options` names the providers, the model is a path or bytes.

        Compiled data go beside the output unless `embed_compiled_data_into_model`. Weights of
        `external_initializers_size_threshold` bytes and more go into the file `external_initializers_file_path`, if it
        is given. Or `get_initializer_location_func` is called for each weight with its name, its `OrtValue` and the
        `OrtExternalInitializerInfo` of where it is now (None if in the model), and returns where it has put the weight,
        or None to keep it in the model. `flags` combines values of `OrtCompileApiFlags`.
        """
        model: str | bytes
        if isinstance(input_model_path_or_bytes, (str, os.PathLike)):
            if not input_model_path_or_bytes:
                raise ValueError("Input model path is empty")
            model = os.fspath(input_model_path_or_bytes)
        elif isinstance(input_model_path_or_bytes, bytes):
            if not input_model_path_or_bytes:
                raise ValueError("Input model bytes array is empty")
            model = input_model_path_or_bytes
        else:
            raise TypeError(f"Unable to load from type '{type(input_model_path_or_bytes)}'")
        path = external_initializers_file_path
        if path and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"Output external initializer filepath is of unexpected type '{type(path)}'")
        if get_initializer_location_func is not None and path:
            raise ValueError(
                "Cannot initialize ModelCompiler with both `external_initializers_file_path` "
                "and `get_initializer_location_func`"
            )
        locate = get_initializer_location_func
        if locate is not None:
            locate = make_get_initializer_location_func_wrapper(locate)
        self.get_initializer_location_func_wrapper = locate
        self._model_compiler = state.ModelCompiler(
            sess_options,
            model,
            isinstance(model, str),
            embed_compiled_data_into_model,
            os.fspath(path) if path else "",
            external_initializers_size_threshold,
            flags,
            graph_optimization_level,
            locate,
        )

    def set_ep_context_binary_information(self, output_directory: str | os.PathLike[str], model_name: str) -> None:
        """Names the folder and the model by which providers name their files, for a model in bytes or a stream.

        The folder's path ends with a separator, or it is a file's, whose folder counts. A model in a file has them
        beside it. Raises `InvalidArgument` for an empty text, and for another path.
        """
        self._model_compiler.set_ep_context_binary_information(os.fspath(output_directory), model_name)

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Writes the compiled model to a file."""
        if output_model_path:
            if not isinstance(output_model_path, (str, os.PathLike)):
                raise TypeError(f"Output model's filepath is of unexpected type '{type(output_model_path)}'")
            output_model_path = os.fspath(output_model_path)
        self._model_compiler.compile_to_file(output_model_path)

    def compile_to_bytes(self) -> bytes:
        """The compiled model."""
        return self._model_compiler.compile_to_bytes()

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Passes the compiled model to a function, in pieces."""
        self._model_compiler.compile_to_stream(write_function)
