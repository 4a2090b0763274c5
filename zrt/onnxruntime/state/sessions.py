"""The session of the extension module: a `zrt.Session` behind the methods that the Python layer calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import cached_property, partial
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Any

from zrt.errors import ArgumentError, Error, ModelError, OrtError, ProviderError, UnsupportedError
from zrt.loading.session_options import SessionOptions
from zrt.onnxruntime import errors, feeds
from zrt.onnxruntime.node_args import ModelMetadata, NodeArg
from zrt.onnxruntime.provider_args import Selection, strict
from zrt.onnxruntime.state.arguments import ANY, INT32, TEXT, Kind, instance, sequence, take
from zrt.onnxruntime.state.devices import CPU, OrtDevice, OrtEpDevice, OrtMemoryInfo, memory_of
from zrt.onnxruntime.state.values import SHAPE, OrtValue, allocated_by, numpy_type, onnx_number_type
from zrt.onnxruntime.state.vectors import OrtValueVector
from zrt.session.session import Session
from zrt.types import ExecutionMode
from zrt.values import Value

if TYPE_CHECKING:
    from concurrent.futures import Future

    from zrt.memory.allocators import Allocator

_WEBGPU = "WebGpuExecutionProvider"
_DISABLED = "optimization.disable_specified_optimizers"

# The C API puts a blank into one of the messages.
_SPACED, _PLAIN = "Invalid output name: ", "Invalid output name:"


def _only(name: str, *kinds: type) -> Kind:
    """An argument of one of these classes."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError
        return value

    return Kind(name, convert)


def _each(name: str, *kinds: type) -> Kind:
    """A container of one of these classes with texts, or with texts as its keys."""
    container = _only(name, *kinds)

    def convert(value: Any) -> Any:
        for each in container.convert(value):
            TEXT.convert(each)
        return value

    return Kind(name, convert)


def _mapping(element: str) -> Kind:
    """An object with `items` and `[]`, such as a dict or a data frame, with texts as its keys."""

    def convert(value: Any) -> dict[str, Any]:
        if not (hasattr(type(value), "__getitem__") and hasattr(value, "items")):
            raise TypeError
        return {TEXT.convert(key): each for key, each in value.items()}

    return Kind(f"collections.abc.Mapping[str, {element}]", convert)


def _function(value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError
    return value


def _runnable(value: Any) -> Any:
    # Its module imports this one.
    if not hasattr(type(value), "_run"):
        raise TypeError
    return value


def _counterpart(name: str, optional: bool = True) -> Kind:
    """Options with a counterpart of zrt's, which it gives."""

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        if not hasattr(type(value), "_to_zrt"):
            raise TypeError
        return value._to_zrt()

    return Kind(name, convert)


_NAMES = sequence(TEXT)
_FEEDS = _mapping("object")
_RUN_OPTIONS = _counterpart("RunOptions")
_CALLBACK = Kind("collections.abc.Callable[[collections.abc.Sequence[object], object, str], None]", _function)
_VECTOR = instance(OrtValueVector)
_DICT, _LIST = _only("dict", dict), _only("list", list)
_FLAG = Kind("bool", bool)

_FORMS: dict[str, tuple[Kind, ...]] = {
    "__init__": (_counterpart("SessionOptions"), _only("str", str, bytes), _FLAG, _FLAG),
    "initialize_session": (
        _NAMES,
        sequence(_mapping("str")),
        _each("collections.abc.Set[str]", Set),
    ),
    "run": (_NAMES, _FEEDS, _RUN_OPTIONS),
    "run_async": (_NAMES, _FEEDS, _CALLBACK, ANY, _RUN_OPTIONS),
    "run_with_ort_values": (_DICT, _NAMES, _RUN_OPTIONS),
    "run_with_iobinding": (Kind("SessionIOBinding", _runnable), _RUN_OPTIONS),
    "run_with_ortvaluevector": (
        _counterpart("RunOptions", optional=False),
        _NAMES,
        _VECTOR,
        _NAMES,
        _VECTOR,
        sequence(instance(OrtDevice)),
    ),
    "create_ortvalue_from_shape_and_onnx_type": (SHAPE, INT32, instance(OrtDevice)),
    "create_ortvalue_from_shape_and_type": (SHAPE, ANY, instance(OrtDevice)),
    "release_captured_graph": (INT32,),
    "set_ep_dynamic_options": (_DICT,),
    "set_tuning_results": (_LIST, _FLAG),
}


def _take(function: str, *arguments: Any) -> list[Any]:
    """The arguments of a method, converted; raises `TypeError` for wrong types."""
    return take(function, {"": _FORMS[function]}, arguments)[1]


class InferenceSession:
    """A model and its options; `initialize_session` loads it."""

    session: Session

    def __init__(self, *arguments: Any) -> None:
        """`arguments`: options or None, the model's path or bytes, whether it is a path, and an ignored switch."""
        _, self._model, *_ = _take("__init__", *arguments)
        # A copy: later changes of the caller's options are for later sessions.
        self._options = None if arguments[0] is None else arguments[0]._copy()
        self._selection = Selection([], [])

    def initialize_session(self, *arguments: Any) -> None:
        """Loads the model: the names of the providers, the options of each, the optimizers to leave out."""
        names, provider_options, disabled = _take("initialize_session", *arguments)
        options = SessionOptions() if self._options is None else self._options._to_zrt()
        if disabled:
            # Deferred: it costs time at start-up, and few programs get here.
            from dataclasses import replace

            entries = {**options.config_entries, _DISABLED: ";".join(sorted(disabled))}
            options = replace(options, config_entries=entries)
        selection = Selection(names, provider_options, None if self._options is None else self._options._selection())
        self.session = self._load(options, selection)
        self._selection = selection

    def _load(self, options: SessionOptions, selection: Selection) -> Session:
        try:
            while True:
                providers = selection.to_zrt()
                try:
                    session = Session(self._model, options, providers, strict=strict() and selection.names_others())
                    if _has_no_threads(options):
                        # As in the official package, whose users load such a session before they fork.
                        session._open().run_in_children()
                    return session
                except ProviderError as error:
                    if strict():
                        raise
                    selection.drop(error)
        except OrtError as error:
            raise errors.translate(error) from error
        except ModelError as error:
            raise _refused(self._model, error) from error

    @cached_property
    def returns_as_official(self) -> bool:
        """Whether `Session.run` returns all of the model's outputs in the official package's form."""
        return all(map(feeds.returns_as_official, self.session.outputs))

    @property
    def inputs_meta(self) -> list[NodeArg]:
        """The inputs that a run must feed."""
        return [NodeArg._of(info) for info in self.session.inputs]

    @property
    def outputs_meta(self) -> list[NodeArg]:
        """The outputs that a run computes."""
        return [NodeArg._of(info) for info in self.session.outputs]

    @property
    def overridable_initializers(self) -> list[NodeArg]:
        """The weights that a run may replace by feeding them."""
        return [NodeArg._of(info) for info in self.session.initializers]

    @property
    def input_meminfos(self) -> list[OrtMemoryInfo]:
        """The memory from which each input is read."""
        return [OrtMemoryInfo._of(port.memory) for port in self.session.placement().inputs]

    @property
    def output_meminfos(self) -> list[OrtMemoryInfo]:
        """The memory into which each output is written."""
        return [OrtMemoryInfo._of(port.memory) for port in self.session.placement().outputs]

    @property
    def input_epdevices(self) -> list[OrtEpDevice | None]:
        """The device that reads each input, None where ONNX Runtime does not know it."""
        devices = [port.device for port in self.session.placement().inputs]
        return [None if device is None else OrtEpDevice._of(device) for device in devices]

    @property
    def model_meta(self) -> ModelMetadata:
        """The model's metadata."""
        return ModelMetadata._of(self.session.metadata)

    @property
    def session_options(self) -> Any:
        """The session's own copy of the options with which it was loaded."""
        if self._options is None:
            from zrt.onnxruntime.options import SessionOptions as Options

            self._options = Options()
        return self._options

    def get_providers(self) -> list[str]:
        """The names of the session's providers, best first."""
        return self._selection.names(self.session)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return self._selection.reported(self.session)

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """The subgraphs that each provider runs, if the options had them recorded."""
        from zrt.onnxruntime.assignment import assigned

        return assigned(self.session)

    def run(self, *arguments: Any) -> list[Any]:
        """One run: the names of the outputs, the feeds by name, run options or None."""
        names, given, options = _take("run", *arguments)
        return [feeds.result(value) for value in self._run(names, self._values(given), options)]

    def _values(self, given: Mapping[str, Any]) -> dict[str, Value]:
        return feeds.values(given, (*self.session.inputs, *self.session.initializers))

    def _run(self, names: list[str], values: dict[str, Value], options: Any) -> list[Value | None]:
        try:
            return self.session.run_values(values, names, options)
        except OrtError as error:
            raise errors.made(error.code, error.ort_message.replace(_SPACED, _PLAIN)) from error
        except ArgumentError as error:
            raise errors.made(2, str(error)) from error

    def run_async(self, *arguments: Any) -> None:
        """Starts a run: as `run`, with a callback and its data before the options. The callback may be None."""
        names, given, callback, user_data, options = _take("run_async", *arguments)
        future = self.session.submit_values(self._values(given), names, options)
        if callback is not None:
            future.add_done_callback(partial(_call_back, callback, user_data, get_ident()))

    def run_with_ort_values(self, *arguments: Any) -> OrtValueVector:
        """One run over values: those by name, the names of the outputs, run options or None."""
        given, names, options = _take("run_with_ort_values", *arguments)
        found = self._run(names, {name: value._to_zrt() for name, value in given.items()}, options)
        return OrtValueVector._of([OrtValue._of(value) for value in found])

    def run_with_ortvaluevector(self, *arguments: Any) -> None:
        """One run over vectors: run options, names and values of the feeds, names and values of the outputs, devices.

        An output that has a value already is written into its memory; the others are appended.
        """
        _, fed, given, names, fetched, devices = _take("run_with_ortvaluevector", *arguments)
        if len(fed) != len(given) or len(devices) < len(names) or len(fetched) > len(names):
            raise errors.made(2, "the numbers of names, values and devices differ")
        values = dict(zip(fed, given, strict=True))
        found: Iterable[OrtValue]
        if any(device.device_type() for device in devices):
            found = self._run_on_devices(values, dict(zip(names, devices, strict=False)), arguments[0])
        else:
            found = self.run_with_ort_values(values, names, arguments[0])
        for index, value in enumerate(found):
            if index < len(fetched):
                _write(value._value, fetched[index])
            else:
                fetched.push_back(value)

    def _run_on_devices(
        self, values: dict[str, OrtValue], devices: dict[str, OrtDevice], options: Any
    ) -> Iterable[OrtValue]:
        from zrt.onnxruntime.state.binding import SessionIOBinding

        binding = SessionIOBinding(self)
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name, device in devices.items():
            binding.bind_output(name, device)
        binding._run(options)
        return binding.get_outputs()

    def run_with_iobinding(self, *arguments: Any) -> None:
        """One run over a `SessionIOBinding`: that, and run options or None."""
        binding, _ = _take("run_with_iobinding", *arguments)
        binding._run(arguments[1], self)

    def create_ortvalue_from_shape_and_type(self, *arguments: Any) -> OrtValue:
        """A tensor of undefined content from the session's allocator: of a shape and a type of numpy, on a device."""
        shape, given, device = _take("create_ortvalue_from_shape_and_type", *arguments)
        return OrtValue._of(allocated_by(self._allocator(device), shape, numpy_type(given)))

    def create_ortvalue_from_shape_and_onnx_type(self, *arguments: Any) -> OrtValue:
        """The same of a shape and the number of an ONNX type."""
        shape, code, device = _take("create_ortvalue_from_shape_and_onnx_type", *arguments)
        return OrtValue._of(allocated_by(self._allocator(device), shape, onnx_number_type(code)))

    def _allocator(self, device: OrtDevice) -> Allocator:
        memory = None if device.device_type() == CPU and device.device_id() else memory_of(device)
        if memory is not None:
            with suppress(ArgumentError):
                return self.session.allocator(memory)
        raise RuntimeError(f"No session allocator found for device {device.device_id()} of type {device.device_type()}")

    def release_captured_graph(self, *arguments: Any) -> None:
        """Releases the graph that runs with this ``gpu_graph_id`` captured, if there is one."""
        (number,) = _take("release_captured_graph", *arguments)
        if number < 0:
            # Runs with such a number capture none.
            return
        with errors.translated(), suppress(UnsupportedError):
            self.session.release_captured_graph(number)

    def is_webgpu_graph_capture_enabled(self) -> bool:
        """Whether the session captures graphs on WebGPU."""
        return self._webgpu().get("enableGraphCapture", "0") in ("1", "true")

    def webgpu_context_id(self) -> int:
        """The number of the session's WebGPU context, -1 without WebGPU."""
        return int(self._webgpu().get("deviceId", 0)) if _WEBGPU in self.get_providers() else -1

    def _webgpu(self) -> dict[str, str]:
        return self.get_provider_options().get(_WEBGPU, {})

    def end_profiling(self) -> str:
        """Ends the profiling; returns the path of the trace, "" without profiling."""
        return self.session.end_profiling()

    @property
    def get_profiling_start_time_ns(self) -> int:
        """The start of the profiling in nanoseconds, 0 without profiling."""
        return self.session.profiling_start_ns

    def set_ep_dynamic_options(self, *arguments: Any) -> None:
        """Sets options of providers between runs."""
        (options,) = _take("set_ep_dynamic_options", *arguments)
        if not options:
            raise RuntimeError("No options were provided")
        with errors.translated():
            self.session.set_dynamic_options({str(key): str(value) for key, value in options.items()})

    def get_tuning_results(self) -> list[Any]:
        """The results of tuning: none, since the C API of ONNX Runtime does not give them."""
        return []

    def set_tuning_results(self, *arguments: Any) -> None:
        """Takes no result of tuning: each is ignored, or with True as the second argument refused."""
        results, refuse = _take("set_tuning_results", *arguments)
        for result in results:
            provider, *_ = (result["ep"], result["results"], result["validators"])
            if refuse:
                known = provider in self.get_providers()
                reason = (
                    f"{provider} does not support TunableOp." if known else f"Cannot find execution provider {provider}"
                )
                raise RuntimeError(f"Error in execution: {reason}")


def _has_no_threads(options: SessionOptions) -> bool:
    """Whether a session with these options runs on the caller's thread alone."""
    alone = options.use_per_session_threads and options.intra_op_num_threads == 1
    return alone and options.execution_mode in (ExecutionMode.SEQUENTIAL, ExecutionMode.SEQUENTIAL.name)


def _write(source: Value | None, target: OrtValue) -> None:
    """Puts an output into the place of an earlier value: into its memory, if it has any."""
    if source is None or target._value is None:
        target._value = source
        return
    from zrt.values.copy import copy

    try:
        copy(source, target._value)
    except Error as error:
        raise errors.made(2, str(error)) from error


def _call_back(
    callback: Callable[..., object], user_data: object, caller: int, future: Future[list[Value | None]]
) -> None:
    """Hands the end of a run to a caller's function, never on the caller's thread, which may hold a lock."""
    if get_ident() == caller:
        # The run ended before the callback was registered.
        Thread(target=_call_back, args=(callback, user_data, 0, future), name="zrt-callback").start()
        return
    error = future.exception()
    if error is None:
        callback([feeds.result(value) for value in future.result()], user_data, "")
    else:
        callback([], user_data, error.ort_message if isinstance(error, OrtError) else str(error))


def _refused(model: str | bytes, error: ModelError) -> Exception:
    """The exception for a model that zrt refused before ONNX Runtime saw it, in ONNX Runtime's words."""
    if errors.ort_error(error) is not None:
        return errors.translate(error)
    if isinstance(model, bytes):
        return errors.made(2, "No graph was found in the protobuf.") if not model else error
    if isinstance(error, FileNotFoundError):
        return errors.made(3, f"Load model from {model} failed:Load model {model} failed. File doesn't exist")
    if os.path.isdir(model):
        return errors.made(7, f"Load model from {model} failed:Protobuf parsing failed.")
    return errors.made(1, f"Load model from {model} failed:{error}")
