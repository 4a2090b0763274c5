"""The classes of the extension module that are used otherwise than those of the package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from zrt.onnxruntime import compiler, conversions, sessions, sparse
from zrt.onnxruntime.binding import IOBinding
from zrt.onnxruntime.devices import OrtDevice
from zrt.onnxruntime.enums import GraphOptimizationLevel, OrtSparseFormat
from zrt.onnxruntime.options import SessionOptions
from zrt.onnxruntime.values import OrtValueVector
from zrt.onnxruntime.wrapper import accessors


class InferenceSession(sessions.InferenceSession):
    """An `InferenceSession` whose methods have the extension module's arguments; it loads in a step of its own."""

    def __init__(self, options: SessionOptions | None, model: str | bytes, is_path: bool, read_config: bool, /) -> None:
        sessions.Session.__init__(self)
        self._model_path = conversions.string(model, "model") if is_path else None
        self._model_bytes = None if is_path else conversions.instance(model, bytes, "model")
        self._sess_options_initial = options

    def initialize_session(
        self, names: Sequence[str], provider_options: Sequence[dict[str, str]], disabled_optimizers: Iterable[str], /
    ) -> None:
        """Loads the model: the names of the providers, the options of each, the optimizers to leave out."""
        settings = conversions.elements(provider_options, "provider_options", conversions.texts)
        self._load(conversions.strings(names, "names"), settings, disabled_optimizers)

    def set_tuning_results(self, results: list[Any], error_on_invalid: bool, /) -> None:  # type: ignore[override]
        """Takes no result of tuning: each is ignored, or refused."""
        super().set_tuning_results(results, error_on_invalid=error_on_invalid)

    get_profiling_start_time_ns: int = accessors(  # type: ignore[assignment]
        sessions.Session.get_profiling_start_time_ns
    )


class SessionIOBinding(IOBinding):
    """An `IOBinding` whose methods have the extension module's arguments: a device is one argument."""

    def bind_input(self, name: str, array_or_device: Any, *memory: Any) -> None:
        """Binds an input to an array; or to memory: a device, an element type, a shape and an address."""
        if memory:
            super().bind_input(name, array_or_device, 0, *memory)
        else:
            self.bind_cpu_input(name, array_or_device)

    def bind_output(self, name: str, device: OrtDevice, *memory: Any) -> None:  # type: ignore[override]
        """Binds an output to a device, on which runs make it; or to memory on it, as `bind_input` does."""
        super().bind_output(name, device, 0, *memory)

    def get_outputs(self) -> OrtValueVector:  # type: ignore[override]
        """The outputs of the last run, in the order of binding."""
        return self.get_outputs_as_ortvaluevector()


class SparseTensor(sparse.SparseTensor):
    """A `SparseTensor` whose format is an attribute; runs return it."""

    format: Final[OrtSparseFormat] = accessors(sparse.SparseTensor.format)  # type: ignore[assignment]


class ModelCompiler(compiler.ModelCompiler):
    """A `ModelCompiler` that is told whether the model is a path, and has no arguments with defaults."""

    def __init__(
        self,
        options: SessionOptions,
        model: str | bytes,
        is_path: bool,
        embed: bool,
        weights: str,
        threshold: int,
        flags: int,
        level: GraphOptimizationLevel,
        locate: compiler.GetInitializerLocationFunc | None,
        /,
    ) -> None:
        super().__init__(options, model, embed, weights, threshold, flags, level, locate)
