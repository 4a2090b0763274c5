"""`InferenceSession`: a loaded model, with the methods and conventions of the official package."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, overload

import numpy as np

# Its names are imported at their first use: many programs need no values, devices and bindings.
import zrt.onnxruntime as ort
from zrt._native import callback_errors, ort_messages
from zrt._native.cdata import address_of
from zrt.errors import ArgumentError, CallbackError, DTypeError, ModelError, OrtError, ProviderError, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.loading.session_options import SessionOptions
from zrt.onnxruntime import conversions, errors, feeds, notices, process, provider_args
from zrt.onnxruntime.node_args import ModelMetadata, NodeArg
from zrt.onnxruntime.provider_args import ProviderOptions, Providers
from zrt.onnxruntime.wrapper import accessors, itself
from zrt.session import async_runs
from zrt.session.call import run_feeds
from zrt.session.session import Session as ZrtSession
from zrt.session.value_feeds import ready
from zrt.types import ExecutionMode
from zrt.values.sparse import SparseTensor
from zrt.values.value import Value

_WEBGPU = "WebGpuExecutionProvider"
_DISABLED = "optimization.disable_specified_optimizers"


def _options(options: Any, subject: str) -> Any:
    """zrt's options of `RunOptions` or of `SessionOptions`, None for None."""
    if options is None:
        return None
    if not hasattr(type(options), "_to_zrt"):
        raise TypeError(f"{subject}: expected options, got {type(options).__name__}")
    return options._to_zrt()


def _node_args(kind: str) -> Any:
    """A cached property of a session: the `NodeArg` of each of its `inputs`, `outputs` or `initializers`."""
    return cached_property(lambda self: [NodeArg._of(info) for info in getattr(self._session, kind)])


class Session:
    """The methods that need a loaded model; `InferenceSession` loads it."""

    _session: ZrtSession
    _providers: list[str]
    _provider_options: dict[str, dict[str, str]]
    _fallback_providers: list[str]

    def __init__(self, enable_fallback: bool = True) -> None:
        self._options: ort.SessionOptions | None = None
        self._enable_fallback = enable_fallback

    _sess = property(itself)

    # These are read at their first use, so that a load does not wait for them.

    _inputs_meta: list[NodeArg] = _node_args("inputs")
    _outputs_meta: list[NodeArg] = _node_args("outputs")
    _overridable_initializers: list[NodeArg] = _node_args("initializers")

    @cached_property
    def _model_meta(self) -> ModelMetadata:
        return ModelMetadata._of(self._session.metadata)

    def get_session_options(self) -> ort.SessionOptions:
        """The options of the session, as a `SessionOptions` of its own."""
        if self._options is None:
            self._options = ort.SessionOptions()
        return self._options

    def get_inputs(self) -> Sequence[NodeArg]:
        """The inputs that a run must feed, in the model's order."""
        return self._inputs_meta

    def get_outputs(self) -> Sequence[NodeArg]:
        """The outputs that a run computes, in the model's order."""
        return self._outputs_meta

    def get_overridable_initializers(self) -> Sequence[NodeArg]:
        """The weights that a run may replace by feeding them."""
        return self._overridable_initializers

    def get_modelmeta(self) -> ModelMetadata:
        """The text that the model's author wrote into it."""
        return self._model_meta

    def get_input_memory_infos(self) -> Sequence[ort.OrtMemoryInfo]:
        """The memory from which the session reads each input, as `OrtMemoryInfo`."""
        return [ort.OrtMemoryInfo._of(port.memory._resolved()) for port in self._session.placement().inputs]

    def get_output_memory_infos(self) -> Sequence[ort.OrtMemoryInfo]:
        """The memory into which the session writes each output, as `OrtMemoryInfo`."""
        return [ort.OrtMemoryInfo._of(port.memory._resolved()) for port in self._session.placement().outputs]

    def get_input_epdevices(self) -> Sequence[ort.OrtEpDevice | None]:
        """The device that reads each input, as `OrtEpDevice`; None where ONNX Runtime does not know it."""
        devices = [port.device for port in self._session.placement().inputs]
        return [None if device is None else ort.OrtEpDevice._of(device) for device in devices]

    def get_providers(self) -> Sequence[str]:
        """The names of the session's providers, best first."""
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return self._provider_options

    def get_provider_graph_assignment_info(self) -> Sequence[ort.OrtEpAssignedSubgraph]:
        """The subgraphs that each provider runs.

        The session records them if its options have the entry "session.record_ep_graph_assignment_info" of value "1".
        """
        subgraphs = self._session.placement().subgraphs
        if subgraphs is None:
            raise errors.failure(
                1, "the session's options have no entry session.record_ep_graph_assignment_info with the value 1"
            )
        return [ort.OrtEpAssignedSubgraph._of(subgraph) for subgraph in subgraphs]

    # The names of the extension module's session.
    _sess_options = accessors(get_session_options)
    session_options: Final[ort.SessionOptions] = accessors(get_session_options)
    inputs_meta: Final[Sequence[NodeArg]] = accessors(get_inputs)
    outputs_meta: Final[Sequence[NodeArg]] = accessors(get_outputs)
    overridable_initializers: Final[Sequence[NodeArg]] = accessors(get_overridable_initializers)
    model_meta: Final[ModelMetadata] = accessors(get_modelmeta)
    input_meminfos: Final[Sequence[ort.OrtMemoryInfo]] = accessors(get_input_memory_infos)
    output_meminfos: Final[Sequence[ort.OrtMemoryInfo]] = accessors(get_output_memory_infos)
    input_epdevices: Final[Sequence[ort.OrtEpDevice | None]] = accessors(get_input_epdevices)

    def set_providers(
        self, providers: Providers | None = None, provider_options: ProviderOptions | None = None
    ) -> None:
        """Loads the model again, on other providers; the arguments are those of `InferenceSession`.

        If that fails, the session stays as it was.
        """
        self._reset_session(providers, provider_options)

    def _reset_session(self, providers: Any, provider_options: Any) -> None:
        raise NotImplementedError

    def disable_fallback(self) -> None:
        """Makes a run that fails in a provider raise `EPFail`."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Makes the next run that fails in a provider load the model again on the CPU, or on CUDA if it was given with
        TensorRT."""
        self._enable_fallback = True

    def _check_names(self, feeds: Any) -> None:
        names = list(feeds.keys())
        missing = [
            each.name for each in self._inputs_meta if each.name not in names and not each.type.startswith("optional")
        ]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({names}).")

    def _wanted(self, output_names: Any) -> list[str]:
        return conversions.strings(output_names or self._session.output_names, "output_names")

    def _retried(self, work: Callable[[], Any], failure: OrtError | None = None) -> Any:
        """`work`, once more on the fallback providers if a provider fails; `failure` is that of a first attempt."""
        try:
            if failure is not None:
                raise errors.translate(failure) from failure
            return work()
        except errors.EPFail as error:
            if not self._enable_fallback or provider_args.strict():
                raise
            print(f"EP Error: {error!s} using {self._providers}")
            print(f"Falling back to {self._fallback_providers} and retrying.")
            self.set_providers(self._fallback_providers)
            self.disable_fallback()
            return work()

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: ort.RunOptions | None = None,
    ) -> list[Any]:
        """One inference: the outputs in the order of `output_names`, or all if that is None or empty.

        `input_feed` has an array, a list or an `OrtValue` for each input, by name. Results are arrays; those of other
        types lists, dicts or sparse tensors, and None for an absent optional. Raises `ValueError` for missing inputs,
        and the exceptions of `capi.onnxruntime_pybind11_state`.
        """
        names = output_names or None
        if names is not None and type(names) is not list:
            names = output_names = conversions.listed(names)
        try:
            options = None if run_options is None else run_options._to_zrt()
            if type(input_feed) is dict and (options is None or type(options) is RunOptions):
                # As `zrt.Session.run` begins, without a call of Python where there are no options. Others: see below.
                if options is None:
                    answer = run_feeds(self._session._calls, input_feed, names)
                else:
                    handle = options._open()
                    answer = run_feeds(self._session._calls, input_feed, names, address_of(handle.pointer), 0)
                if type(answer) is list:
                    return list(map(self._official, answer))
                if answer is not None:
                    code, results, call = answer
                    if call.settle(code, results):
                        return list(map(self._official, results))
            return self._run_converted(input_feed, names, options)
        except Exception as error:
            return self._run_checked(output_names, input_feed, run_options, error)

    @cached_property
    def _official(self) -> Callable[[Any], Any]:
        """Makes the official package's form of one of `zrt.Session.run`'s results.

        Arrays become views, as those of the official package are: programs test `base` to learn who owns the memory.
        """
        return np.ndarray.view if all(map(feeds.is_array, self._session.outputs)) else feeds.official

    def _run_converted(self, input_feed: Any, output_names: Any, run_options: Any) -> list[Any]:
        """A run with arrays in the place of lists and of `OrtValue`s."""
        results = self._session.run(self._arrays(input_feed), output_names, run_options)
        if any(isinstance(result, SparseTensor) for result in results):
            # A model may declare them as dense.
            vars(self)["_official"] = feeds.official
        return list(map(self._official, results))

    def _arrays(self, input_feed: Any) -> dict[str, Any]:
        return feeds.as_arrays(dict(input_feed), (*self._session.inputs, *self._session.initializers))

    def _run_checked(self, output_names: Any, input_feed: Any, run_options: Any, failure: Exception) -> list[Any]:
        """`run` by the official package's rules, where zrt's own run has refused the arguments or failed."""
        self._check_names(input_feed)

        def run() -> list[Any]:
            names, values = self._wanted(output_names), self._values(input_feed)
            return [feeds.result(value) for value in self._run_values(names, values, run_options)]

        return self._retried(run, failure if isinstance(failure, OrtError) else None)  # type: ignore[no-any-return]

    def _values(self, input_feed: Any) -> dict[str, Value]:
        return feeds.values(
            conversions.mapping(input_feed, "input_feed"), (*self._session.inputs, *self._session.initializers)
        )

    def _run_values(self, names: list[str], values: dict[str, Value], run_options: Any) -> list[Value | None]:
        options = _options(run_options, "run_options")
        try:
            return self._session.run_values(values, names, options)
        except (OrtError, ArgumentError) as error:
            raise errors.translate(error, code=2) from error

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object] | None,
        user_data: object,
        run_options: ort.RunOptions | None = None,
    ) -> None:
        """Starts a run and returns; at its end a thread calls ``callback(results, user_data, error)``.

        `error` is "" after a successful run; after another one `results` is empty, and `error` has the reason. Feeds
        that cannot be converted raise here. Contiguous arrays are read in place until the run ends. An exception of the
        callback goes to `threading.excepthook`.
        """
        conversions.function(callback, "callback")
        options = _options(run_options, "run_options")
        try:
            work = self._session._ready(feeds.settled(self._arrays(input_feed)), output_names or None, options)
        except Exception:
            # As in `run`: by the official package's rules.
            self._check_names(input_feed)
            names, values = self._wanted(output_names), self._values(input_feed)
            work = ready(self._session, values, names, options)
        _CallbackRun(work, options, callback, user_data)._start()

    @overload
    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, ort.OrtValue],
        run_options: ort.RunOptions | None = None,
    ) -> list[ort.OrtValue]: ...
    @overload
    def run_with_ort_values(
        self,
        output_names: Mapping[str, ort.OrtValue],
        input_dict_ort_values: Sequence[str] | None,
        run_options: ort.RunOptions | None = None,
    ) -> ort.capi.onnxruntime_pybind11_state.OrtValueVector: ...
    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> Any:
        """`run` over an `OrtValue` for each input; returns an `OrtValue` for each output."""
        if isinstance(output_names, Mapping) and not isinstance(input_dict_ort_values, Mapping):
            # The extension module's order of arguments, and its result.
            return ort.OrtValueVector._of(self.run_with_ort_values(input_dict_ort_values, output_names, run_options))
        self._check_names(input_dict_ort_values)
        contents = {name: value._get_c_value() for name, value in input_dict_ort_values.items()}
        if self._makes_arrays:
            arrays = {name: value._as_array() for name, value in contents.items()}
            if not any(array is None for array in arrays.values()):
                with suppress(UnsupportedError):
                    results = Session.run(self, output_names, arrays, run_options)
                    if feeds.are_numbers(results):
                        return [ort.OrtValue._of(None, array) for array in results]
                # The model declares an output wrongly: it is sparse, or has more dimensions than numpy has.
                vars(self)["_makes_arrays"] = False
        values = {name: value._to_zrt() for name, value in contents.items()}
        names = self._wanted(output_names)
        return [ort.OrtValue._of(each) for each in self._retried(lambda: self._run_values(names, values, run_options))]

    @cached_property
    def _makes_arrays(self) -> bool:
        """Whether all outputs are arrays of numbers, and none is an input, whose memory it would share."""
        inputs = {info.name for info in (*self._session.inputs, *self._session.initializers)}
        return inputs.isdisjoint(self._session.output_names) and all(map(feeds.is_numeric, self._session.outputs))

    def run_with_ortvaluevector(
        self,
        run_options: ort.RunOptions,
        feed_names: Sequence[str],
        feeds: ort.capi.onnxruntime_pybind11_state.OrtValueVector,
        fetch_names: Sequence[str],
        fetches: ort.capi.onnxruntime_pybind11_state.OrtValueVector,
        fetch_devices: Sequence[ort.OrtDevice],
    ) -> None:
        """A run over an `OrtValueVector`: `feeds` for the `feed_names`, and results into `fetches`.

        `fetch_devices` has the device on which each output is to lie. An output that has a value already is written
        into its memory; the others are appended.
        """
        conversions.instance(run_options, ort.RunOptions, "run_options")
        names = conversions.strings(fetch_names, "fetch_names")
        values = list(conversions.instance(feeds, ort.OrtValueVector, "feeds"))
        conversions.instance(fetches, ort.OrtValueVector, "fetches")
        devices = conversions.instances(fetch_devices, ort.OrtDevice, "fetch_devices")
        if len(feed_names) != len(values) or len(devices) < len(names) or len(fetches) > len(names):
            raise errors.failure(2, "the numbers of names, values and devices differ")
        by_name = dict(zip(conversions.strings(feed_names, "feed_names"), values, strict=True))
        if not all(device._is_cpu for device in devices):
            binding = ort.IOBinding(self)
            for name, value in by_name.items():
                binding.bind_ortvalue_input(name, value)
            for name, device in zip(names, devices, strict=False):
                binding.bind_output(name, device)
            self.run_with_iobinding(binding, run_options)
            outputs = binding.get_outputs()
        else:
            contents = {name: value._to_zrt() for name, value in by_name.items()}
            outputs = [ort.OrtValue._of(each) for each in self._run_values(names, contents, run_options)]
        for index, output in enumerate(outputs):
            if index < len(fetches):
                fetches[index]._replace(output)
            else:
                fetches.push_back(output)

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: np.typing.DTypeLike | int,
        device_type: str | ort.OrtDevice,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> ort.OrtValue:
        """An `OrtValue` of undefined content from the session's allocator for a device; it keeps the session alive.

        `element_type` is a type of numpy or a number of `onnx.TensorProto`. Raises `RuntimeError` if the session has no
        allocator there, and for strings.
        """
        device = ort.OrtDevice._from(device_type, device_id, vendor_id)
        memory = None if device._is_cpu and device.device_id() else device._memory()
        if memory is not None:
            with suppress(ArgumentError):
                return ort.OrtValue._allocated(self._session.allocator(memory), shape, element_type)
        raise RuntimeError(f"No session allocator found for device {device.device_id()} of type {device.device_type()}")

    create_ortvalue_from_shape_and_onnx_type = create_ortvalue_from_shape_and_type

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Releases the graph that runs with this ``gpu_graph_id`` captured.

        It does nothing where there is none, and for providers that capture none.
        """
        number = conversions.integer(graph_annotation_id, "graph_annotation_id")
        # Runs with a negative number capture none.
        if number >= 0:
            with errors.translated(), suppress(UnsupportedError):
                self._session.release_captured_graph(number)

    def is_webgpu_graph_capture_enabled(self) -> bool:
        """Whether the session captures graphs on WebGPU."""
        return self._provider_options.get(_WEBGPU, {}).get("enableGraphCapture", "0") in ("1", "true")

    def webgpu_context_id(self) -> int:
        """The number of the session's WebGPU context, -1 without WebGPU."""
        return int(self._provider_options[_WEBGPU].get("deviceId", 0)) if _WEBGPU in self._providers else -1

    def end_profiling(self) -> str:
        """Ends the profiling that `SessionOptions.enable_profiling` began; returns the path of the trace."""
        return self._session.end_profiling()

    def get_profiling_start_time_ns(self) -> int:
        """The start of the profiling in nanoseconds, on the clock of the C++ library; 0 without profiling."""
        return self._session.profiling_start_ns

    def io_binding(self) -> ort.IOBinding:
        """A new `IOBinding` of this session."""
        return ort.IOBinding(self)

    def run_with_iobinding(self, iobinding: ort.IOBinding, run_options: ort.RunOptions | None = None) -> None:
        """A run over the inputs and outputs that `iobinding` has bound."""
        iobinding._run(None if run_options is None else _options(run_options, "run_options"), self)

    def set_ep_dynamic_options(self, options: dict[str, str]) -> None:
        """Sets options of the session's providers between runs."""
        if not conversions.instance(options, dict, "options"):
            raise RuntimeError("set_ep_dynamic_options: there is no option")
        with errors.translated():
            self._session.set_dynamic_options({str(key): str(value) for key, value in options.items()})

    def get_tuning_results(self) -> list[Any]:
        """The results of the providers' tuning: none, since no provider that zrt reaches records any."""
        return []

    def set_tuning_results(self, results: list[Any], *, error_on_invalid: bool = False) -> None:
        """Hands results of an earlier tuning to the providers, none of which takes any.

        With `error_on_invalid` each result raises `RuntimeError`; otherwise it is ignored.
        """
        for result in conversions.instance(results, list, "results"):
            provider, *_ = (result["ep"], result["results"], result["validators"])
            if error_on_invalid:
                known = provider in self._providers
                raise RuntimeError(f"{provider} {'takes no results of tuning' if known else 'is not in the session'}")


_READ = [name for name, value in vars(Session).items() if isinstance(value, cached_property)]


class InferenceSession(Session):
    """A loaded model, ready to run."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: ort.SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: ProviderOptions | None = None,
        **kwargs: Any,
    ) -> None:
        """Loads a model from its path or its bytes.

        `providers` has names and (name, options) pairs, best first; or names alone, with the options of each in
        `provider_options`. If the load fails with a `ValueError` or `RuntimeError`, the model is loaded on the fallback
        providers, with a message on the standard output; ``enable_fallback=False`` raises the error instead, and so
        does the environment variable ``ZRT_STRICT=1``. ``disabled_optimizers`` names graph optimizers to leave out.
        """
        super().__init__(enable_fallback=int(kwargs.get("enable_fallback", 1)) == 1)
        self._model_path: str | None = None
        self._model_bytes: bytes | None = None
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model_path = os.fsdecode(path_or_bytes)
            if not self._model_path:
                raise TypeError("path_or_bytes: the path is empty")
        elif isinstance(path_or_bytes, bytes):
            self._model_bytes = path_or_bytes
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._sess_options_initial = sess_options
        try:
            self._create_inference_session(providers, provider_options, kwargs.get("disabled_optimizers"))
        except (ValueError, RuntimeError) as error:
            if not self._enable_fallback or provider_args.strict():
                raise
            print("*************** EP Error ***************")
            print(f"EP Error {error} when using {providers}")
            print(f"Falling back to {self._fallback_providers} and retrying.")
            print("****************************************")
            self._create_inference_session(self._fallback_providers, None)
            self.disable_fallback()

    def _create_inference_session(self, providers: Any, provider_options: Any, disabled_optimizers: Any = None) -> None:
        available = provider_args.get_available_providers()
        self._fallback_providers = provider_args.fallback_for(providers, available)
        provider_args.check_rivals(providers)
        names, options = provider_args.check_and_normalize_provider_args(providers, provider_options, available)
        initial = self._sess_options_initial or None
        if initial is not None and names and initial.has_providers():
            notices.warn(
                "Specified 'providers'/'provider_options' when creating InferenceSession but SessionOptions has "
                "already been configured with providers. InferenceSession will only use the providers passed to "
                "InferenceSession()."
            )
        self._load(names, options, disabled_optimizers)

    def _reset_session(self, providers: Any, provider_options: Any) -> None:
        self._create_inference_session(providers, provider_options)

    def _load(self, names: list[str], provider_options: list[dict[str, str]], disabled_optimizers: Any) -> None:
        """Loads the model with the initial options; if that fails, the session stays as it was."""
        initial = self._sess_options_initial or None
        if initial is None:
            options = SessionOptions(trusted_folders=process.trusted_folders())
        else:
            options = _options(initial, "sess_options")
        # A copy: later changes of the caller's options are for later sessions.
        own = None if initial is None else initial._copy()
        disabled = conversions.strings(list(disabled_optimizers or ()), "disabled_optimizers")
        if disabled:
            entries = {**options.config_entries, _DISABLED: ";".join(sorted(disabled))}
            options = replace(options, config_entries=entries)
        process.check_pools(options.use_per_session_threads)
        selection = provider_args.Selection(names, provider_options, None if own is None else own._selection())
        session = _loaded(self._model_path or self._model_bytes, options, selection)
        if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1":
            from zrt.onnxruntime.options import of_model

            own = of_model(session.metadata.custom_metadata_map.get("ort_config", "{}"))
            options = own._to_zrt()
        if _has_no_threads(options):
            # As in the official package, whose users load such a session before they fork.
            session._open().run_in_children()
        folder = os.environ.get("ZRT_RECORD")
        # It records for as long as this object keeps it.
        self._recorder = session.record(capsules=folder) if folder else None
        self._options = own
        self._session = session
        self._providers = selection.names(session)
        self._provider_options = {name: selection.reported(name) for name in self._providers}
        for name in _READ:
            vars(self).pop(name, None)


def _loaded(model: Any, options: SessionOptions, selection: provider_args.Selection) -> ZrtSession:
    """zrt's session, without the providers that cannot be used unless ``ZRT_STRICT`` forbids that."""
    strict = provider_args.strict()
    while True:
        providers = selection.to_zrt()
        try:
            # A node on the CPU is a fallback only where other providers are named.
            return ZrtSession(model, options, providers, strict=strict and isinstance(providers, list))
        except ProviderError as error:
            if strict:
                raise
            selection.drop(error)
        except OrtError as error:
            if ort_messages.WEIGHTS_ELSEWHERE.matches(error):
                raise errors.failure(error.code, str(error)) from error
            raise errors.translate(error) from error
        except ModelError as error:
            raise _refused(model, error) from error
        except (ArgumentError, CallbackError, DTypeError, OSError) as error:
            raise errors.failure(2 if isinstance(error, OSError) else 1, str(error)) from error


def _has_no_threads(options: SessionOptions) -> bool:
    """Whether a session with these options runs on the caller's thread alone."""
    alone = options.use_per_session_threads and options.intra_op_num_threads == 1
    return alone and options.execution_mode in (ExecutionMode.SEQUENTIAL, ExecutionMode.SEQUENTIAL.name)


def _refused(model: str | bytes, error: ModelError) -> Exception:
    """The exception for a model that zrt refused before ONNX Runtime saw it, of the class that ONNX Runtime's has."""
    if errors.ort_error(error) is not None:
        return errors.translate(error)
    if isinstance(model, bytes):
        return error if model else errors.failure(2, str(error))
    code = 3 if isinstance(error, FileNotFoundError) else 7 if os.path.isdir(model) else 1
    return errors.failure(code, f"Load model from {model} failed: {error}")


class _CallbackRun(async_runs.Run):
    """A run whose own thread calls the caller's function at its end. It has no future: an interrupt of the caller can
    leave a future's lock taken, and the thread would wait forever."""

    def __init__(self, work: async_runs.Work, options: RunOptions | None, callback: Any, data: object) -> None:
        self._prepare(work, options, 0)
        self._callback, self._data = callback, data

    def _settle(self, results: list[Any], error: BaseException | None) -> None:
        answer = []
        try:
            answer = list(map(feeds.result, results))
        except Exception as raised:
            error = raised.with_traceback(None)
        if self._callback is not None:
            try:
                self._callback(answer, self._data, errors.reason(error))
            except BaseException:
                callback_errors.report()
