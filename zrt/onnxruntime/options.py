"""`SessionOptions` and `RunOptions` of the official package, and their conversion to zrt's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeAlias, TypeVar, overload
from weakref import ref

import zrt

# Its names are imported at their first use: most options name no devices, providers and adapters.
import zrt.onnxruntime as ort
from zrt._common.arguments import wrong_type
from zrt._native import library_files
from zrt.onnxruntime import conversions, errors, notices, process
from zrt.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtExecutionProviderDevicePolicy,
)
from zrt.onnxruntime.homes import words
from zrt.onnxruntime.wrapper import NotPickled, Wrapper
from zrt.types import LogSeverity

Kind = TypeVar("Kind")

# From the devices, the model's metadata, metadata of the run time and the largest number of devices to the selection.
Delegate: TypeAlias = (
    "Callable[[list[ort.OrtEpDevice], dict[str, str], dict[str, str], int], Sequence[ort.OrtEpDevice]]"
)

# The most devices that ONNX Runtime takes from a delegate.
MOST_DEVICES = 8

_NO_REUSE = "SessionOptions.enable_mem_reuse=False has no effect: the C API of ONNX Runtime has no such setting"
_NO_ORDER = "SessionOptions.execution_order has no effect: the C API of ONNX Runtime has no such setting"
_NO_PATH = "RunOptions.only_execute_path_to_fetches has no effect: the C API of ONNX Runtime has no such setting"

# The settings that are fields of `zrt.SessionOptions` with the same values.
_SAME = ("enable_mem_pattern", "enable_cpu_mem_arena", "use_deterministic_compute")

LONGEST_KEY = 1024
LONGEST_VALUE = 8192

_CONVERTERS: dict[type, Callable[[Any, str], Any]] = {
    bool: conversions.boolean,
    int: conversions.integer,
    str: conversions.string,
}


class Setting(Generic[Kind]):
    """A property of options: its default value, whose type all values have, and its meaning."""

    def __init__(self, default: Kind, doc: str) -> None:
        self.default: Kind = default
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name: str = name

    @overload
    def __get__(self, options: None, owner: type) -> Self: ...
    @overload
    def __get__(self, options: Settings, owner: type) -> Kind: ...
    def __get__(self, options: Settings | None, owner: type) -> Any:
        return self if options is None else options._values.get(self.name, self.default)

    def __set__(self, options: Settings, value: Kind) -> None:
        subject, kind = f"{type(options).__name__}.{self.name}", type(self.default)
        convert = _CONVERTERS.get(kind)
        options._values[self.name] = convert(value, subject) if convert else conversions.instance(value, kind, subject)
        options._changed()


class _Level(Setting[GraphOptimizationLevel]):
    """The level of graph optimization: a member without a name leaves it as it is."""

    def __set__(self, options: Settings, value: GraphOptimizationLevel) -> None:
        if not isinstance(value, GraphOptimizationLevel) or value in GraphOptimizationLevel.__members__.values():
            super().__set__(options, value)


class _Terminate(Setting[bool]):
    """The switch of `RunOptions`, which also ends the runs that have begun."""

    def __set__(self, options: Any, value: bool) -> None:
        wanted = conversions.boolean(value, "RunOptions.terminate")
        options._values[self.name] = wanted
        for reference in list(options._runs.values()):
            run = reference()
            if run is not None:
                (run.terminate if wanted else run.reset)()


class Settings(NotPickled):
    """The base of `SessionOptions` and `RunOptions`: settings, config entries, and zrt's options made of them."""

    __slots__ = ("_converted", "_entries", "_state", "_values")

    log_severity_level: Setting[int] = Setting(
        -1, "The lowest severity that is logged, from 0 (verbose) to 4 (fatal); -1: the default."
    )
    log_verbosity_level: Setting[int] = Setting(0, "How detailed the verbose log is, in debug builds.")
    logid: Setting[str] = Setting("", "The name of the session or of the runs in log lines.")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._entries: dict[str, str] = {}
        self._changed()
        # The state, and the options of zrt that were made of it.
        self._converted: tuple[object, Any] = (None, None)

    def _changed(self) -> None:
        """Begin a new state, after a change: the options of the state before are of no use."""
        self._state = object()

    def _to_zrt(self) -> Any:
        """The same as zrt's options; the same object while nothing changes."""
        # Read before the settings are: a change that comes while they are read leaves this state behind.
        state = self._state
        converted = self._converted
        if converted[0] is not state:
            converted = self._converted = (state, self._convert())
        return converted[1]

    def _convert(self) -> Any:
        raise NotImplementedError

    def _add_entry(self, key: Any, value: Any) -> None:
        subject = f"{type(self).__name__}: a config entry"
        name, text = conversions.string(key, subject), conversions.string(value, subject)
        if not 0 < len(name.encode()) <= LONGEST_KEY:
            raise RuntimeError(f"Config key is empty or longer than maximum length {LONGEST_KEY}")
        if len(text.encode()) > LONGEST_VALUE:
            raise RuntimeError(f"Config value is longer than maximum length: {LONGEST_VALUE}")
        self._entries[name] = text
        self._changed()

    def _entry(self, key: Any) -> str:
        name = conversions.string(key, f"{type(self).__name__}: a config key")
        if name not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {name}")
        return self._entries[name]

    def _logging(self, failure: Callable[[str], Exception]) -> dict[str, Any]:
        """The settings of the log; raises a `failure` for a severity that is none."""
        severity = self.log_severity_level
        if not -1 <= severity <= 4:
            subject = f"{type(self).__name__}.log_severity_level"
            raise failure(f"{subject}: Not a valid onnxruntime::logging::Severity value: {severity}")
        return {
            "log_severity_level": None if severity == -1 else LogSeverity(severity),
            "log_verbosity_level": max(self.log_verbosity_level, 0) or None,
        }


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

    enable_cpu_mem_arena: Setting[bool] = Setting(True, "Whether the CPU's allocator keeps freed memory.")
    enable_mem_pattern: Setting[bool] = Setting(True, "Whether memory is planned from the inputs' shapes.")
    enable_mem_reuse: Setting[bool] = Setting(True, "Whether intermediate values share memory.")
    enable_profiling: Setting[bool] = Setting(False, "Whether the session writes a profile.")
    execution_mode: Setting[ExecutionMode] = Setting(
        ExecutionMode.ORT_SEQUENTIAL, "Whether nodes run one after another or in parallel."
    )
    execution_order: Setting[ExecutionOrder] = Setting(ExecutionOrder.DEFAULT, "The order in which nodes run.")
    graph_optimization_level: Setting[GraphOptimizationLevel] = _Level(
        GraphOptimizationLevel.ORT_ENABLE_ALL, "How much the graph is rewritten at load."
    )
    inter_op_num_threads: Setting[int] = Setting(0, "Threads between nodes; 0: one for each core.")
    intra_op_num_threads: Setting[int] = Setting(0, "Threads within a node; 0: one for each core.")
    optimized_model_filepath: Setting[str] = Setting("", "The file to which the optimized model is written.")
    profile_file_prefix: Setting[str] = Setting(
        "onnxruntime_profile_", "How the path of the profile begins; the time follows."
    )
    use_deterministic_compute: Setting[bool] = Setting(False, "Whether kernels compute the same bits each time.")
    use_per_session_threads: Setting[bool] = Setting(
        True, "Whether the session has threads of its own; False: it uses the global ones."
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
        self._weights: dict[str, ort.OrtValue] = {}
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
        # Of several sizes for a name ONNX Runtime takes the first.
        sizes.setdefault(conversions.string(name, subject), conversions.integer(size, subject, conversions.INT64))
        self._changed()

    def register_custom_ops_library(self, path: str, /) -> None:
        """Load a shared library of custom operators; raises `Fail` if that is impossible."""
        file = conversions.string(path, "SessionOptions.register_custom_ops_library")
        problem = library_files.problem_of_name(file)
        if problem:
            raise errors.failure(1, f"Failed to load library {file} with error: {file}: {problem}")
        with errors.translated():
            zrt.SessionOptions(custom_op_libraries=[file]).handle()
        self._libraries.append(file)
        self._changed()

    def add_initializer(self, name: str, value: ort.OrtValue, /) -> None:
        """Give sessions a weight, which replaces that of a model which has one of this name.

        `value` is an `OrtValue`. Sessions borrow its memory.
        """
        subject = "SessionOptions.add_initializer"
        text = conversions.string(name, subject)
        if not hasattr(value, "_ortvalue"):
            raise RuntimeError("The provided Python object must be an OrtValue")
        self._add_weights([text], [value], self._optional)

    def add_external_initializers(self, names: list[str], values: list[ort.OrtValue], /) -> None:
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
        texts = conversions.strings(names, f"{subject}: names")
        views = conversions.elements(buffers, f"{subject}: buffers", _bytes)
        sizes = conversions.integers(lengths, f"{subject}: lengths", conversions.UINT64)
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
        subject = "SessionOptions.add_provider"
        provider = conversions.string(name, subject)
        settings = conversions.texts(options, subject)
        if provider not in ort.get_all_providers():
            raise RuntimeError(f"Unknown Provider Type: {provider}")
        if provider not in ort.get_available_providers():
            raise errors.failure(
                2,
                f"Failed to add provider of type '{provider}' to SessionOptions. "
                "Provider configuration is not supported.",
            )
        self._providers.append((provider, settings))

    def add_provider_for_devices(self, devices: Sequence[ort.OrtEpDevice], options: Mapping[str, str], /) -> None:
        """Add the execution provider of these devices, which must all be of the same provider."""
        subject = "SessionOptions.add_provider_for_devices"
        offered = conversions.instances(devices, ort.OrtEpDevice, subject)
        settings = conversions.texts(options, subject)
        if len({device.ep_name for device in offered}) != 1:
            raise errors.failure(2, f"{subject}: expected one or more devices of one execution provider")
        self._providers += [(device._to_zrt(), settings) for device in offered]

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy, /) -> None:
        """Let ONNX Runtime choose among the devices by a rule."""
        subject = "SessionOptions.set_provider_selection_policy"
        rule = conversions.instance(policy, OrtExecutionProviderDevicePolicy, subject)
        if rule not in OrtExecutionProviderDevicePolicy.__members__.values():
            raise errors.failure(2, f"{subject}: {rule!r} is no policy")
        self._policy = zrt.DevicePolicy(rule.value)

    def set_provider_selection_policy_delegate(self, delegate: Delegate | None, /) -> None:
        """Let a function choose among the devices; None ends that.

        It is called with the devices, the model's metadata, metadata of the run time and the largest number of
        devices, and returns those that a session uses.
        """
        ask = conversions.function(delegate, "SessionOptions.set_provider_selection_policy_delegate")
        if ask is None:
            self._policy = None
            return

        def choose(devices: Sequence[zrt.EpDevice], metadata: Mapping[str, str]) -> list[zrt.EpDevice]:
            selection = ask([ort.OrtEpDevice._of(device) for device in devices], dict(metadata), {}, MOST_DEVICES)
            return [conversions.instance(device, ort.OrtEpDevice, "a chosen device")._to_zrt() for device in selection]

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
        copy = SessionOptions()
        for name in {*Settings.__slots__, *SessionOptions.__slots__}:
            value = getattr(self, name)
            setattr(copy, name, value.copy() if isinstance(value, (dict, list, set)) else value)
        return copy

    def _selection(self) -> Any:
        """The `providers` of a `zrt.Session` with these options: pairs, devices or a policy; None without any."""
        return self._providers or self._policy

    def _convert(self) -> zrt.SessionOptions:
        logging = self._logging(RuntimeError)
        if not self.enable_mem_reuse:
            notices.once(_NO_REUSE)
        if self.execution_order != ExecutionOrder.DEFAULT:
            notices.once(_NO_ORDER)
        threads: dict[str, Any] = {"use_per_session_threads": False}
        if self.use_per_session_threads:
            # ONNX Runtime treats a negative number as 0.
            names = ("intra_op_num_threads", "inter_op_num_threads")
            threads = {name: max(getattr(self, name), 0) for name in names}
        return zrt.SessionOptions(
            **{name: getattr(self, name) for name in _SAME},
            **logging,
            **threads,
            graph_optimization_level=zrt.GraphOptimizationLevel(self.graph_optimization_level.value),
            execution_mode=zrt.ExecutionMode(int(self.execution_mode == ExecutionMode.ORT_PARALLEL)),
            free_dimension_overrides=_fixed(self._by_name),
            free_dimension_overrides_by_denotation=_fixed(self._by_denotation),
            logid=self.logid or None,
            profile_file_prefix=self.profile_file_prefix if self.enable_profiling else None,
            optimized_model_filepath=self.optimized_model_filepath or None,
            config_entries=dict(self._entries),
            initializers={name: value._to_zrt() for name, value in self._weights.items()},
            optional_initializers=sorted(self._optional - self._required),
            external_initializer_files=dict(self._files),
            load_cancellation=self._switch(),
            custom_op_libraries=list(self._libraries),
            trusted_folders=process.trusted_folders(),
        )


def _taken(kind: str, name: str) -> RuntimeError:
    return RuntimeError(
        f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : An {kind} for this name has already been added: {name}"
    )


def _bytes(buffer: Any, subject: str) -> memoryview:
    """The bytes of a buffer; a copy where they are not contiguous or where there are none."""
    try:
        view = memoryview(buffer)
    except TypeError:
        raise wrong_type(subject, "an object with the buffer protocol", buffer) from None
    return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())


class RunOptions(Settings):
    """How runs are logged, and the switch that ends them. One object serves any number of runs."""

    __slots__ = ("_adapters", "_runs")

    only_execute_path_to_fetches: Setting[bool] = Setting(
        False, "Whether nodes that no fetched output needs are left out."
    )
    terminate: Setting[bool] = _Terminate(False, "True ends all runs with these options, and refuses new ones.")

    def __init__(self) -> None:
        super().__init__()
        self._adapters: list[ort.LoraAdapter] = []
        # Every object of zrt's that was made of these options and that a run may still use. No lock: a dict's own
        # operations are atomic.
        self._runs: dict[int, ref[zrt.RunOptions]] = {}

    def add_run_config_entry(self, key: str, value: str, /) -> None:
        """Set a config entry; a key that is there already gets the new value."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str, /) -> str:
        """Return the value of a config entry; raises `RuntimeError` if it was not set."""
        return self._entry(key)

    def add_active_adapter(self, adapter: ort.LoraAdapter, /) -> None:
        """Let the runs use the weights of an adapter."""
        self._adapters.append(conversions.instance(adapter, ort.LoraAdapter, "RunOptions.add_active_adapter"))
        self._changed()

    def _convert(self) -> zrt.RunOptions:
        logging = self._logging(partial(errors.failure, 1))
        if self.only_execute_path_to_fetches:
            notices.once(_NO_PATH)
        options = zrt.RunOptions(
            tag=self.logid or None,
            config_entries=dict(self._entries),
            # Of two with the same parameter the official package takes the first one, and the C API the last.
            adapters=[adapter._to_zrt() for adapter in reversed(self._adapters)],
            **logging,
        )
        # Before the switch is read: a thread that sets it meanwhile finds the object here.
        key, runs = id(options), self._runs
        runs[key] = ref(options, lambda _: runs.pop(key, None))
        if self.terminate:
            options.terminate()
        return options


class SessionObjectInitializer(Wrapper):
    """An object without contents, which `get_session_initializer` returns."""


def _fixed(sizes: dict[str, int]) -> dict[str, int]:
    """Without the negative sizes: ONNX Runtime leaves these dimensions open."""
    return {name: size for name, size in sizes.items() if size >= 0}


def get_session_initializer() -> SessionObjectInitializer:
    """Return a `SessionObjectInitializer`."""
    return SessionObjectInitializer._of(None)


def get_default_session_options() -> SessionOptions:
    """Return options with the default settings."""
    return SessionOptions()


# Settings that a model's metadata may have, each as a number.
_OF_MODEL = words("enable_profiling execution_mode graph_optimization_level inter_op_num_threads intra_op_num_threads")


def of_model(text: str) -> SessionOptions:
    """The options in a model's metadata, which ONNX Runtime has read too: it refuses any that are wrong."""
    config = json.loads(text)
    settings = config.get("session_options") if isinstance(config, dict) else None
    options = SessionOptions()
    for name in _OF_MODEL:
        if isinstance(settings, dict) and name in settings:
            setattr(options, name, type(getattr(options, name))(settings[name]))
    return options
