"""`InferenceSession`: a loaded model, with the methods and conventions of the official package."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from zrt.errors import ArgumentError, DTypeError, OrtError
from zrt.onnxruntime import errors, feeds, provider_args
from zrt.onnxruntime.node_args import ModelMetadata, NodeArg
from zrt.onnxruntime.state import sessions as state
from zrt.values import SparseTensor


class Session:
    """The methods that need a loaded model; `InferenceSession` loads it."""

    _sess: state.InferenceSession
    _own_options: Any
    _providers: list[str]
    _provider_options: dict[str, dict[str, str]]
    _fallback_providers: list[str]

    def __init__(self, enable_fallback: bool = True) -> None:
        self._sess = None  # type: ignore[assignment]
        self._enable_fallback = enable_fallback

    # These are read at their first use, so that a load does not wait for them.

    @cached_property
    def _inputs_meta(self) -> list[NodeArg]:
        return self._sess.inputs_meta

    @cached_property
    def _outputs_meta(self) -> list[NodeArg]:
        return self._sess.outputs_meta

    @cached_property
    def _output_names(self) -> list[str]:
        return [each.name for each in self._outputs_meta]

    @cached_property
    def _overridable_initializers(self) -> list[NodeArg]:
        return self._sess.overridable_initializers

    @cached_property
    def _model_meta(self) -> ModelMetadata:
        return self._sess.model_meta

    def get_session_options(self) -> Any:
        """The options of the session, as a `SessionOptions` of its own."""
        if self._own_options is None:
            self._own_options = self._sess.session_options
        return self._own_options

    @property
    def _sess_options(self) -> Any:
        return self.get_session_options()

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

    def get_input_memory_infos(self) -> Sequence[Any]:
        """The memory from which the session reads each input, as `OrtMemoryInfo`."""
        return self._sess.input_meminfos

    def get_output_memory_infos(self) -> Sequence[Any]:
        """The memory into which the session writes each output, as `OrtMemoryInfo`."""
        return self._sess.output_meminfos

    def get_input_epdevices(self) -> Sequence[Any]:
        """The device that reads each input, as `OrtEpDevice`; None where ONNX Runtime does not know it."""
        return self._sess.input_epdevices

    def get_providers(self) -> Sequence[str]:
        """The names of the session's providers, best first."""
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return self._provider_options

    def get_provider_graph_assignment_info(self) -> Sequence[Any]:
        """The subgraphs that each provider runs.

        The session records them if its options have the entry "session.record_ep_graph_assignment_info" of value "1".
        """
        return self._sess.get_provider_graph_assignment_info()

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
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

    def _validate_input(self, feed_input_names: list[str]) -> None:
        missing = [
            each.name
            for each in self._inputs_meta
            if each.name not in feed_input_names and not each.type.startswith("optional")
        ]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({feed_input_names}).")

    def _wanted(self, output_names: Any) -> Any:
        return output_names if output_names else list(self._output_names)

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

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        """One inference: the outputs in the order of `output_names`, or all if that is None or empty.

        `input_feed` has an array, a list or an `OrtValue` for each input, by name. Results are arrays; those of other
        types lists, dicts or sparse tensors, and None for an absent optional. Raises `ValueError` for missing inputs,
        and the exceptions of `capi.onnxruntime_pybind11_state`.
        """
        if type(input_feed) is not dict:
            if not isinstance(input_feed, Mapping):
                return self._run(output_names, input_feed, run_options)
            input_feed = dict(input_feed)
        try:
            return self._direct(
                input_feed,
                None if not output_names or output_names == self._output_names else output_names,
                None if run_options is None else run_options._to_zrt(),
            )
        except Exception as error:
            return self._run(output_names, input_feed, run_options, error)

    def _direct(self, input_feed: dict[str, Any], output_names: Any, run_options: Any) -> Any:
        """zrt's own run, which takes the place of this method if nothing has to be converted for it.

        That is so where no feed is a list or an `OrtValue`, and where its results have the official package's form.
        """
        session = self._sess.session
        if not self._sess.returns_as_official:
            raise ArgumentError("the outputs need a conversion")
        converted = feeds.as_arrays(input_feed, (*session.inputs, *session.initializers))
        results = session.run(converted or input_feed, output_names, run_options)
        if any(isinstance(result, SparseTensor) for result in results):
            # A model may declare them as dense.
            self._sess.returns_as_official = False
            raise ArgumentError("an output is sparse")
        if output_names is None and converted is None:
            vars(self)["_direct"] = session.run
        return results

    def _run(self, output_names: Any, input_feed: Any, run_options: Any, failure: Exception | None = None) -> Any:
        """`run` by the official package's rules, where zrt's own run has refused the arguments or failed."""
        self._validate_input(list(input_feed.keys()))
        if isinstance(failure, DTypeError) and vars(self).pop("_direct", None):
            # The method that comes back converts lists, which zrt's own run refuses.
            return self.run(output_names, input_feed, run_options)
        return self._retried(
            lambda: self._sess.run(self._wanted(output_names), input_feed, run_options),
            failure if isinstance(failure, OrtError) else None,
        )

    def run_async(
        self, output_names: Any, input_feed: Any, callback: Any, user_data: Any, run_options: Any = None
    ) -> None:
        """Starts a run and returns; at its end a thread calls ``callback(results, user_data, error)``.

        `error` is "" after a successful run; after another one `results` is empty, and `error` has the reason. Feeds
        that cannot be converted raise here.
        """
        self._validate_input(list(input_feed.keys()))
        self._sess.run_async(self._wanted(output_names), input_feed, callback, user_data, run_options)

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> list[Any]:
        """`run` over an `OrtValue` for each input; returns an `OrtValue` for each output."""
        from zrt.onnxruntime.values import OrtValue

        self._validate_input(list(input_dict_ort_values.keys()))
        given = {name: value._get_c_value() for name, value in input_dict_ort_values.items()}
        names = self._wanted(output_names)
        found = self._retried(lambda: self._sess.run_with_ort_values(given, names, run_options))
        return [OrtValue(value) for value in found]

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> Any:
        """An `OrtValue` of undefined content from the session's allocator for a device; it keeps the session alive.

        `element_type` is a type of numpy or a number of `onnx.TensorProto`. Raises `RuntimeError` if the session has no
        allocator there, and for strings.
        """
        from zrt.onnxruntime.devices import state_device
        from zrt.onnxruntime.values import OrtValue

        device = state_device(device_type, device_id, vendor_id)
        by_number = isinstance(element_type, int)
        name = "create_ortvalue_from_shape_and_onnx_type" if by_number else "create_ortvalue_from_shape_and_type"
        return OrtValue(getattr(self._sess, name)(shape, element_type, device), session=self._sess)

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Releases the graph that runs with this ``gpu_graph_id`` captured.

        It does nothing where there is none, and for providers that capture none.
        """
        self._sess.release_captured_graph(graph_annotation_id)

    def end_profiling(self) -> str:
        """Ends the profiling that `SessionOptions.enable_profiling` began; returns the path of the trace."""
        return self._sess.end_profiling()

    def get_profiling_start_time_ns(self) -> int:
        """The start of the profiling in nanoseconds, on the clock of the C++ library; 0 without profiling."""
        return self._sess.get_profiling_start_time_ns

    def io_binding(self) -> Any:
        """A new `IOBinding` of this session."""
        from zrt.onnxruntime.binding import IOBinding

        return IOBinding(self)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """A run over the inputs and outputs that `iobinding` has bound."""
        iobinding._iobinding._run(run_options, self._sess)

    def set_ep_dynamic_options(self, options: dict[str, str]) -> None:
        """Sets options of the session's providers between runs."""
        self._sess.set_ep_dynamic_options(options)

    def get_tuning_results(self) -> list[Any]:
        """The results of the providers' tuning: none, since no provider that zrt reaches records any."""
        return self._sess.get_tuning_results()

    def set_tuning_results(self, results: list[Any], *, error_on_invalid: bool = False) -> None:
        """Hands results of an earlier tuning to the providers, none of which takes any.

        With `error_on_invalid` each result raises `RuntimeError`; otherwise it is ignored.
        """
        self._sess.set_tuning_results(results, error_on_invalid)

    def run_with_ortvaluevector(
        self, run_options: Any, feed_names: Any, feeds: Any, fetch_names: Any, fetches: Any, fetch_devices: Any
    ) -> None:
        """A run over values of the extension module: `feeds` for the `feed_names`, and results into `fetches`.

        `fetch_devices` has the device on which each output is to lie.
        """
        self._sess.run_with_ortvaluevector(run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)


_READ = [name for name, value in vars(Session).items() if isinstance(value, cached_property)]


class InferenceSession(Session):
    """A loaded model, ready to run."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
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
            self._model_path = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, bytes):
            self._model_bytes = path_or_bytes
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._sess_options_initial = sess_options
        config = kwargs.get("read_config_from_model", os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1")
        self._read_config_from_model = int(config) == 1
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
        given = self._sess_options_initial or None
        if given is not None and names and given.has_providers():
            warnings.warn(
                "Specified 'providers'/'provider_options' when creating InferenceSession but SessionOptions has "
                "already been configured with providers. InferenceSession will only use the providers passed to "
                "InferenceSession().",
                stacklevel=3,
            )
        model = self._model_path or self._model_bytes
        loaded = state.InferenceSession(given, model, bool(self._model_path), self._read_config_from_model)
        loaded.initialize_session(names, options, set(disabled_optimizers or ()))
        self._adopt(loaded)

    def _adopt(self, loaded: state.InferenceSession) -> None:
        self._sess = loaded
        self._own_options = None
        self._providers = loaded.get_providers()
        self._provider_options = loaded.get_provider_options()
        for name in ("_direct", *_READ):
            vars(self).pop(name, None)

    def _reset_session(self, providers: Any, provider_options: Any) -> None:
        self._create_inference_session(providers, provider_options)
