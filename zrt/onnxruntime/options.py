"""`SessionOptions` and `RunOptions` of the official package, and their conversion to zrt's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import zrt
from zrt._common.arguments import wrong_type
from zrt.onnxruntime import conversions, errors, notices
from zrt.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtExecutionProviderDevicePolicy,
)
from zrt.onnxruntime.settings import Setting, Settings, member

if TYPE_CHECKING:
    from zrt.onnxruntime.state.adapters import LoraAdapter
    from zrt.onnxruntime.state.devices import OrtEpDevice

# The most devices that ONNX Runtime takes from a delegate.
MOST_DEVICES = 8

_NO_REUSE = "SessionOptions.enable_mem_reuse=False has no effect: the C API of ONNX Runtime has no such setting"
_NO_ORDER = "SessionOptions.execution_order has no effect: the C API of ONNX Runtime has no such setting"
_NO_PATH = "RunOptions.only_execute_path_to_fetches has no effect: the C API of ONNX Runtime has no such setting"

_level_of = member(GraphOptimizationLevel)


def _level(value: Any, subject: str) -> GraphOptimizationLevel | None:
    level = _level_of(value, subject)
    return level if level in GraphOptimizationLevel.__members__.values() else None


class SessionOptions(Settings):
    """How sessions are loaded and run. One object serves any number of sessions, which keep their settings."""

    __slots__ = (
        "_by_denotation",
        "_by_name",
        "_cancellation",
        "_files",
        "_libraries",
        "_optional",
        "_policy",
        "_providers",
        "_required",
        "_weights",
    )

    enable_cpu_mem_arena = Setting(True, conversions.boolean, "Whether the CPU's allocator keeps freed memory.")
    enable_mem_pattern = Setting(True, conversions.boolean, "Whether memory is planned from the inputs' shapes.")
    enable_mem_reuse = Setting(True, conversions.boolean, "Whether intermediate values share memory.")
    enable_profiling = Setting(False, conversions.boolean, "Whether the session writes a profile.")
    execution_mode = Setting(
        ExecutionMode.ORT_SEQUENTIAL, member(ExecutionMode), "Whether nodes run one after another or in parallel."
    )
    execution_order = Setting(ExecutionOrder.DEFAULT, member(ExecutionOrder), "The order in which nodes run.")
    graph_optimization_level = Setting(
        GraphOptimizationLevel.ORT_ENABLE_ALL, _level, "How much the graph is rewritten at load."
    )
    inter_op_num_threads = Setting(0, conversions.integer, "Threads between nodes; 0: one for each core.")
    intra_op_num_threads = Setting(0, conversions.integer, "Threads within a node; 0: one for each core.")
    log_severity_level = Setting(
        -1, conversions.integer, "The lowest severity that is logged, from 0 (verbose) to 4 (fatal); -1: the default."
    )
    log_verbosity_level = Setting(0, conversions.integer, "How detailed the verbose log is, in debug builds.")
    logid = Setting("", conversions.string, "The name of the session in its log lines.")
    optimized_model_filepath = Setting("", conversions.string, "The file to which the optimized model is written.")
    profile_file_prefix = Setting(
        "onnxruntime_profile_", conversions.string, "How the path of the profile begins; the time follows."
    )
    use_deterministic_compute = Setting(False, conversions.boolean, "Whether kernels compute the same bits each time.")
    use_per_session_threads = Setting(
        True, conversions.boolean, "Whether the session has threads of its own; False: it uses the global ones."
    )

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, int] = {}
        self._by_denotation: dict[str, int] = {}
        self._cancellation: zrt.LoadCancellation | None = None
        self._files: dict[str, memoryview] = {}
        self._libraries: list[str | os.PathLike[str]] = []
        self._policy: Any = None
        self._providers: list[Any] = []
        self._weights: dict[str, Any] = {}
        # The names of weights that models may have, and of those that a model must have.
        self._optional: set[str] = set()
        self._required: set[str] = set()

    def add_session_config_entry(self, key: str, value: str, /) -> None:
        """Set a config entry; a key that is there already gets the new value."""
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str, /) -> str:
        """Return the value of a config entry; raises `RuntimeError` if it was not set."""
        return self._entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int, /) -> None:
        """Fix the size of a symbolic dimension of the inputs, by the dimension's name."""
        self._override(self._by_name, name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int, /) -> None:
        """Fix the size of the inputs' dimensions that the model gives this denotation."""
        self._override(self._by_denotation, denotation, size)

    def _override(self, sizes: dict[str, int], name: str, size: int) -> None:
        subject = "SessionOptions: a free dimension"
        sizes[conversions.string(name, subject)] = conversions.integer(size, subject, conversions.INT64)
        self._changed()

    def register_custom_ops_library(self, path: str, /) -> None:
        """Load a shared library of custom operators; raises `Fail` if that is impossible."""
        file = conversions.string(path, "SessionOptions.register_custom_ops_library")
        if not os.path.isfile(file):
            raise errors.made(1, f"Failed to load library {file} with error: {file}: there is no such file")
        with errors.translated():
            zrt.SessionOptions(custom_op_libraries=[file]).handle()
        self._libraries.append(file)
        self._changed()

    def add_initializer(self, name: str, value: Any, /) -> None:
        """Give sessions a weight, which replaces that of a model which has one of this name.

        `value` is an `OrtValue`. Sessions borrow its memory.
        """
        subject = "SessionOptions.add_initializer"
        text = conversions.string(name, subject)
        if not hasattr(value, "_ortvalue"):
            raise RuntimeError("The provided Python object must be an OrtValue")
        self._add_weights([text], [value], self._optional)

    def add_external_initializers(self, names: list[str], values: list[Any], /) -> None:
        """Give sessions the weights that the model has in external files; a model must have all of the names."""
        subject = "SessionOptions.add_external_initializers"
        conversions.instance(names, list, subject)
        conversions.instance(values, list, subject)
        if len(names) != len(values):
            raise RuntimeError("Expecting names and ort_values lists to have equal length")
        for value in values:
            if not hasattr(value, "_ortvalue"):
                raise AttributeError(f"{type(value).__name__!r} object has no attribute '_ortvalue'")
        self._add_weights([str(name) for name in names], values, self._required)

    def _add_weights(self, names: list[str], values: list[Any], known: set[str]) -> None:
        for name, value in zip(names, values, strict=True):
            if name in known:
                raise _taken("OrtValue", name)
            known.add(name)
            self._weights[name] = value
        self._changed()

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int], /
    ) -> None:
        """Give sessions the contents of the model's external files, by the files' names.

        `lengths` are the sizes of the contents in bytes. The buffers are read while a session is loaded.
        """
        subject = "SessionOptions.add_external_initializers_from_files_in_memory"
        texts = [conversions.string(name, f"{subject}: a name") for name in _sequence(names, subject)]
        views = [_bytes(buffer, f"{subject}: a buffer") for buffer in _sequence(buffers, subject)]
        sizes = [
            conversions.integer(length, f"{subject}: a length", conversions.UINT64)
            for length in _sequence(lengths, subject)
        ]
        if not len(texts) == len(views) == len(sizes):
            raise RuntimeError(f"{subject}: the names, buffers and lengths must be of equal number")
        files = {}
        for text, view, size in zip(texts, views, sizes, strict=True):
            if text in self._files or text in files:
                raise _taken("entry", text)
            if size > len(view):
                raise RuntimeError(f"{subject}: the buffer of {text!r} has {len(view)} bytes and not {size}")
            files[text] = view[:size]
        self._files.update(files)
        self._changed()

    def add_provider(self, name: str, options: Mapping[str, str], /) -> None:
        """Add an execution provider with its options; sessions that name no providers themselves use it."""
        from zrt.onnxruntime.provider_args import get_all_providers, get_available_providers

        subject = "SessionOptions.add_provider"
        provider = conversions.string(name, subject)
        settings = conversions.strings(options, subject)
        if provider not in get_all_providers():
            raise RuntimeError(f"Unknown Provider Type: {provider}")
        if provider not in get_available_providers():
            raise errors.made(
                2,
                f"Failed to add provider of type '{provider}' to SessionOptions. "
                "Provider configuration is not supported.",
            )
        self._providers.append((provider, settings))

    def add_provider_for_devices(self, devices: Sequence[OrtEpDevice], options: Mapping[str, str], /) -> None:
        """Add the execution provider of these devices, which must all be of the same provider."""
        from zrt.onnxruntime.state.devices import OrtEpDevice

        subject = "SessionOptions.add_provider_for_devices"
        given = [conversions.instance(device, OrtEpDevice, subject) for device in _sequence(devices, subject)]
        settings = conversions.strings(options, subject)
        if not given:
            raise errors.made(2, "Must provide one or more OrtEpDevice instances.")
        if len({device.ep_name for device in given}) > 1:
            raise errors.made(2, "All OrtEpDevice instances must be of the same execution provider.")
        self._providers += [(device._to_zrt(), settings) for device in given]

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy, /) -> None:
        """Let ONNX Runtime choose among the devices by a rule."""
        subject = "SessionOptions.set_provider_selection_policy"
        rule = conversions.instance(policy, OrtExecutionProviderDevicePolicy, subject)
        if rule not in OrtExecutionProviderDevicePolicy.__members__.values():
            raise errors.made(2, f"{subject}: {rule!r} is no policy")
        self._policy = zrt.DevicePolicy(rule.value)

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Sequence[OrtEpDevice]] | None, /) -> None:
        """Let a function choose among the devices; None ends that.

        It is called with the devices, the model's metadata, metadata of the run time and the largest number of
        devices, and returns those that a session uses.
        """
        if delegate is None:
            self._policy = None
            return
        if not callable(delegate):
            raise wrong_type("SessionOptions.set_provider_selection_policy_delegate", "a function", delegate)

        def choose(devices: Sequence[zrt.EpDevice], metadata: Mapping[str, str]) -> list[zrt.EpDevice]:
            from zrt.onnxruntime.state.devices import OrtEpDevice

            chosen = delegate([OrtEpDevice._of(device) for device in devices], dict(metadata), {}, MOST_DEVICES)
            return [conversions.instance(device, OrtEpDevice, "a chosen device")._to_zrt() for device in chosen]

        self._policy = choose

    def has_providers(self) -> bool:
        """Whether providers, devices or a policy were set here."""
        return bool(self._providers) or self._policy is not None

    def set_load_cancellation_flag(self, canceled: bool, /) -> None:
        """Cancel the loads with these options, also running ones, or allow loads again."""
        if conversions.boolean(canceled, "SessionOptions.set_load_cancellation_flag"):
            self._switch().cancel()
        else:
            self._switch().reset()

    def _switch(self) -> zrt.LoadCancellation:
        if self._cancellation is None:
            self._cancellation = zrt.LoadCancellation()
        return self._cancellation

    def _copy(self) -> SessionOptions:
        """The same settings in an object that a session keeps; a canceled load cancels those of both."""
        # Made before the copy, so that other sessions find zrt's options here.
        self._to_zrt()
        made = SessionOptions()
        for name in {*Settings.__slots__, *SessionOptions.__slots__} - {"__weakref__"}:
            value = getattr(self, name)
            setattr(made, name, value.copy() if isinstance(value, (dict, list, set)) else value)
        return made

    def _selection(self) -> Any:
        """The `providers` of a `zrt.Session` with these options: pairs, devices or a policy; None without any."""
        return self._providers or self._policy

    def _make(self) -> zrt.SessionOptions:
        try:
            severity = self._severity()
        except ValueError as error:
            raise RuntimeError(f"Invalid session log severity level. {error}") from None
        if not self.enable_mem_reuse:
            notices.once(_NO_REUSE)
        if self.execution_order != ExecutionOrder.DEFAULT:
            notices.once(_NO_ORDER)
        return zrt.SessionOptions(
            graph_optimization_level=zrt.GraphOptimizationLevel(self.graph_optimization_level.value),
            execution_mode=zrt.ExecutionMode(int(self.execution_mode == ExecutionMode.ORT_PARALLEL)),
            enable_mem_pattern=self.enable_mem_pattern,
            enable_cpu_mem_arena=self.enable_cpu_mem_arena,
            free_dimension_overrides=dict(self._by_name),
            free_dimension_overrides_by_denotation=dict(self._by_denotation),
            logid=self.logid or None,
            log_severity_level=severity,
            log_verbosity_level=max(self.log_verbosity_level, 0) or None,
            profile_file_prefix=self.profile_file_prefix if self.enable_profiling else None,
            optimized_model_filepath=self.optimized_model_filepath or None,
            use_deterministic_compute=self.use_deterministic_compute,
            config_entries=dict(self._entries),
            initializers={name: value._to_zrt() for name, value in self._weights.items()},
            optional_initializers=sorted(self._optional - self._required),
            external_initializer_files=dict(self._files),
            load_cancellation=self._switch(),
            custom_op_libraries=list(self._libraries),
            **self._threads(),
        )

    def _threads(self) -> dict[str, Any]:
        if not self.use_per_session_threads:
            return {"use_per_session_threads": False}
        # ONNX Runtime treats a negative number as 0.
        names = ("intra_op_num_threads", "inter_op_num_threads")
        return {name: max(getattr(self, name), 0) for name in names}


def _taken(kind: str, name: str) -> RuntimeError:
    return RuntimeError(
        f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : An {kind} for this name has already been added: {name}"
    )


def _sequence(value: Any, subject: str) -> Sequence[Any]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise wrong_type(subject, "a sequence", value)
    return value


def _bytes(buffer: Any, subject: str) -> memoryview:
    """The bytes of a buffer; a copy where they are not contiguous or where there are none."""
    try:
        view = memoryview(buffer)
    except TypeError:
        raise wrong_type(subject, "an object with the buffer protocol", buffer) from None
    return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())


class _Terminate(Setting):
    """The switch of `RunOptions`, which also ends the runs that have begun."""

    def __set__(self, options: Any, value: Any) -> None:
        wanted = self.convert(value, f"{type(options).__name__}.{self.name}")
        options._values[self.name] = wanted
        for reference in list(options._runs.values()):
            run = reference()
            if run is not None:
                if wanted:
                    run.terminate()
                else:
                    run.reset()


class RunOptions(Settings):
    """How runs are logged, and the switch that ends them. One object serves any number of runs."""

    __slots__ = ("_adapters", "_runs")

    log_severity_level = Setting(
        -1, conversions.integer, "The lowest severity that is logged, from 0 (verbose) to 4 (fatal); -1: the default."
    )
    log_verbosity_level = Setting(0, conversions.integer, "How detailed the verbose log is, in debug builds.")
    logid = Setting("", conversions.string, "The name of the runs in their log lines.")
    only_execute_path_to_fetches = Setting(
        False, conversions.boolean, "Whether nodes that no fetched output needs are left out."
    )
    terminate = _Terminate(False, conversions.boolean, "True ends all runs with these options, and refuses new ones.")

    def __init__(self) -> None:
        super().__init__()
        self._adapters: list[LoraAdapter] = []
        # Every object of zrt's that was made of these options and that a run may still use. No lock: a dict's own
        # operations are atomic.
        self._runs: dict[int, ref[zrt.RunOptions]] = {}

    def add_run_config_entry(self, key: str, value: str, /) -> None:
        """Set a config entry; a key that is there already gets the new value."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str, /) -> str:
        """Return the value of a config entry; raises `RuntimeError` if it was not set."""
        return self._entry(key)

    def add_active_adapter(self, adapter: LoraAdapter, /) -> None:
        """Let the runs use the weights of an adapter."""
        from zrt.onnxruntime.state.adapters import LoraAdapter

        self._adapters.append(conversions.instance(adapter, LoraAdapter, "RunOptions.add_active_adapter"))
        self._changed()

    def _make(self) -> zrt.RunOptions:
        try:
            severity = self._severity()
        except ValueError as error:
            raise errors.made(1, f"Invalid run log severity level. {error}") from None
        if self.only_execute_path_to_fetches:
            notices.once(_NO_PATH)
        made = zrt.RunOptions(
            tag=self.logid or None,
            log_severity_level=severity,
            log_verbosity_level=max(self.log_verbosity_level, 0) or None,
            config_entries=dict(self._entries),
            adapters=[adapter._to_zrt() for adapter in self._adapters],
        )
        # Before the switch is read: a thread that sets it meanwhile finds the object here.
        key, runs = id(made), self._runs
        runs[key] = ref(made, lambda _: runs.pop(key, None))
        if self.terminate:
            made.terminate()
        return made


class SessionObjectInitializer:
    """An object without contents, which `get_session_initializer` returns."""

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__}: No constructor defined!")


def get_session_initializer() -> SessionObjectInitializer:
    """Return a `SessionObjectInitializer`."""
    return SessionObjectInitializer.__new__(SessionObjectInitializer)


def get_default_session_options() -> SessionOptions:
    """Return options with the default settings."""
    return SessionOptions()
