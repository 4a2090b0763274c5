"""`SessionOptions` and `RunOptions`, with the names that ONNX Runtime's own Python package gives their fields."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zrt._common.arguments import boolean, choose, entries, integer, path_bytes, require_folder, shown, text, wrong_type
from zrt._common.config_keys import RunConfigKey, SessionConfigKey
from zrt._common.public import public
from zrt._common.serialization import OptionData
from zrt._native import status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.environment.thread_factory import MOST_THREADS, Crew, PoolOptions, ThreadFactory, affinities
from zrt.errors import ArgumentError, DTypeError, Error, UnsupportedError
from zrt.memory.allocators import MemoryInfo
from zrt.providers.config_entries import read_entries
from zrt.types import DeviceType, ExecutionMode, GraphOptimizationLevel, LogSeverity

if TYPE_CHECKING:
    import logging

    from zrt.custom_ops import CustomOpDomain
    from zrt.environment.streams import SyncStream
    from zrt.loading.caller_weights import PrepackedWeights
    from zrt.loading.load_cancellation import LoadCancellation
    from zrt.loading.lora import LoraAdapter

# 2026-01-31_23-59-59_999, as a pattern of file names.
TIME_STAMP = "-".join(["[0-9]" * 4, *["[0-9]" * 2] * 2]) + "_" + "-".join(["[0-9]" * 2] * 3) + "_" + "[0-9]" * 3


@public
@dataclass(slots=True, kw_only=True)
class SessionOptions(OptionData):
    """How a session is loaded and run (``OrtSessionOptions``).

    `None` leaves a field to ONNX Runtime, whose defaults are meant by the values that stand here.
    """

    graph_optimization_level: GraphOptimizationLevel | str = GraphOptimizationLevel.ENABLE_ALL
    """How much the graph is rewritten at load."""
    intra_op_num_threads: int = 0
    """Threads within an operator; 0: one for each core, 1: the caller's own and no pool."""
    inter_op_num_threads: int = 0
    """Threads between operators, where `execution_mode` is PARALLEL; 0: one for each core."""
    execution_mode: ExecutionMode | str = ExecutionMode.SEQUENTIAL
    """Whether independent operators run one after another or at the same time."""
    enable_mem_pattern: bool = True
    """Whether the intermediate tensors of one shape share one planned block."""
    enable_cpu_mem_arena: bool = True
    """Whether the host's allocator keeps freed memory for the next run."""
    intra_op_allow_spinning: bool | None = None
    """Whether idle threads within operators spin: quicker to wake, and a busy processor."""
    inter_op_allow_spinning: bool | None = None
    """The same for the threads between operators."""
    intra_op_thread_affinities: str | None = None
    """Which processors the threads within an operator keep to, counted from 1: ``"1,2;3-4"`` has a group for each
    thread but the first, which is the caller's own."""
    set_denormal_as_zero: bool = False
    """Whether the session's threads take numbers too small to be normal for 0. The caller's own thread does what the
    process's first session said."""
    use_per_session_threads: bool = True
    """Whether the session has thread pools of its own; False: it uses the environment's (`ThreadingOptions`)."""
    thread_factory: ThreadFactory | None = None
    """Makes the session's threads: a function that is called with the work of each, in the thread that loads, and sees
    to it that a daemon thread of its own calls ``work()``, which returns when the session ends. A `threading.Thread`
    that it returns unstarted is started, as a daemon."""
    use_env_allocators: bool = False
    """Whether the session takes memory from the allocators registered with the environment, where it has one for the
    device."""
    use_device_allocator_for_initializers: bool = False
    """Whether weights are allocated one by one, outside the arena."""
    free_dimension_overrides: Mapping[str, int] = field(default_factory=dict)
    """Fixed sizes for symbolic dimensions, by name."""
    free_dimension_overrides_by_denotation: Mapping[str, int] = field(default_factory=dict)
    """Fixed sizes for dimensions, by what the model denotes them as ("DATA_BATCH")."""
    logid: str | None = None
    """What this session's log lines are called."""
    log_severity_level: LogSeverity | str | None = None
    """The least level that this session logs."""
    log_verbosity_level: int | None = None
    """How much of VERBOSE is logged."""
    profile_file_prefix: str | os.PathLike[str] | None = None
    """Turns profiling on; the trace is written to this prefix and a time stamp."""
    optimized_model_filepath: str | os.PathLike[str] | None = None
    """Where the optimized model is written at load."""
    use_deterministic_compute: bool = False
    """Whether kernels must give the same bits each time."""
    config_entries: Mapping[str, str] = field(default_factory=dict)
    """Further settings by the keys of ORT's ``onnxruntime_session_options_config_keys.h`` (`SessionConfigKey`)."""
    record_placement: bool = False
    """Whether the session remembers which provider runs each node."""
    logger: logging.Logger | str | None = None
    """Where this session's log goes, itself or by name; None: where the environment's goes."""
    initializers: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Weights of the caller's, by name, in place of the model's: arrays, values or buffers, which the session reads
    where they lie for as long as it lives. Nobody may write to them meanwhile. Those below 1 KiB are copied."""
    external_initializer_files: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The files in which the model's weights lie, by the names that the model has for them: bytes or the like, out of
    which ONNX Runtime copies at load."""
    prepacked_weights: PrepackedWeights | None = field(default=None, compare=False)
    """Where sessions share what kernels make of `initializers`."""
    load_cancellation: LoadCancellation | None = field(default=None, compare=False)
    """What ends the load from another thread; the load is then a `ModelLoadCanceledError`."""
    custom_ops: Sequence[CustomOpDomain] = field(default_factory=list)
    """Operators of your own; the session keeps them alive."""
    custom_op_libraries: list[str | os.PathLike[str]] = field(default_factory=list)
    """Shared libraries of operators, each of which has a function ``RegisterCustomOps``."""

    def handle(self) -> PoolOptions:
        """A new ``OrtSessionOptions`` with these settings; a bad field is an error that names it.

        The weights are not in it: they depend on the model (`zrt.loading.load.load_model`).
        """
        table = api()
        crew = None if self.thread_factory is None else Crew(self.thread_factory)
        domains = self._domains()
        handle = self._fresh(domains)
        if self.profile_file_prefix is not None:
            require_folder(path_bytes(self.profile_file_prefix, "profile_file_prefix"), "profile_file_prefix")
        calls = self._calls(table)
        calls += [("custom_ops", table.AddCustomOpDomain, domain.pointer) for domain in domains]
        calls += [("custom_op_libraries", table.RegisterCustomOpsLibrary_V2, path) for path in self._libraries()]
        for subject, function, *arguments in calls:
            try:
                status.check(function(handle.pointer, *arguments))
            except Error as error:
                raise ArgumentError(f"SessionOptions.{subject}: {error}") from error
        if crew is not None:
            crew.attach(
                handle.pointer,
                table.SessionOptionsSetCustomCreateThreadFn,
                table.SessionOptionsSetCustomThreadCreationOptions,
                table.SessionOptionsSetCustomJoinThreadFn,
            )
            handle.crew = crew
        return handle

    def _fresh(self, domains: Sequence[Handle]) -> PoolOptions:
        """An ``OrtSessionOptions`` with ORT's defaults, whose load can be canceled; it keeps the operators' domains."""
        if self.load_cancellation is None:
            table = api()
            release, make = table.ReleaseSessionOptions, table.CreateSessionOptions
            return PoolOptions.make(release, domains, make, "OrtSessionOptions")
        from zrt.loading.load_cancellation import LoadCancellation

        if not isinstance(self.load_cancellation, LoadCancellation):
            raise wrong_type("load_cancellation", "a LoadCancellation", self.load_cancellation)
        return self.load_cancellation.session_options(domains)

    def effective_config_entries(self) -> dict[str, str]:
        """All config entries as ONNX Runtime has them: those of the fields and those of `config_entries`."""
        return read_entries(self.handle())

    def _check(self) -> None:
        self._calls(api())

    def _calls(self, table: Any) -> list[tuple[Any, ...]]:
        """Each field's name, the function of the table that sets it, and its arguments."""
        level = choose(GraphOptimizationLevel, self.graph_optimization_level, "graph_optimization_level")
        mode = choose(ExecutionMode, self.execution_mode, "execution_mode")
        pattern = boolean(self.enable_mem_pattern, "enable_mem_pattern")
        arena = boolean(self.enable_cpu_mem_arena, "enable_cpu_mem_arena")
        calls: list[tuple[Any, ...]] = [
            ("graph_optimization_level", table.SetSessionGraphOptimizationLevel, int(level)),
            (
                "intra_op_num_threads",
                table.SetIntraOpNumThreads,
                integer(self.intra_op_num_threads, "intra_op_num_threads", 0, MOST_THREADS),
            ),
            (
                "inter_op_num_threads",
                table.SetInterOpNumThreads,
                integer(self.inter_op_num_threads, "inter_op_num_threads", 0, MOST_THREADS),
            ),
            ("execution_mode", table.SetSessionExecutionMode, int(mode)),
            ("enable_mem_pattern", table.EnableMemPattern if pattern else table.DisableMemPattern),
            ("enable_cpu_mem_arena", table.EnableCpuMemArena if arena else table.DisableCpuMemArena),
            (
                "use_deterministic_compute",
                table.SetDeterministicCompute,
                boolean(self.use_deterministic_compute, "use_deterministic_compute"),
            ),
        ]
        if not boolean(self.use_per_session_threads, "use_per_session_threads"):
            self._refuse_threads()
            calls.append(("use_per_session_threads", table.DisablePerSessionThreads))
        for subject, function in (
            ("free_dimension_overrides", table.AddFreeDimensionOverrideByName),
            ("free_dimension_overrides_by_denotation", table.AddFreeDimensionOverride),
        ):
            overrides = getattr(self, subject)
            if not isinstance(overrides, Mapping):
                raise wrong_type(subject, "a dict of sizes", overrides)
            for name, size in overrides.items():
                calls.append(
                    (
                        subject,
                        function,
                        text(name, subject),
                        integer(size, f"{subject}[{name!r}]", 0, 2**63 - 1),
                    )
                )
        if self.logid is not None:
            calls.append(("logid", table.SetSessionLogId, text(self.logid, "logid")))
        if self.log_severity_level is not None:
            severity = choose(LogSeverity, self.log_severity_level, "log_severity_level")
            calls.append(("log_severity_level", table.SetSessionLogSeverityLevel, int(severity)))
        if self.log_verbosity_level is not None:
            verbosity = integer(self.log_verbosity_level, "log_verbosity_level")
            calls.append(("log_verbosity_level", table.SetSessionLogVerbosityLevel, verbosity))
        if self.profile_file_prefix is not None:
            prefix = path_bytes(self.profile_file_prefix, "profile_file_prefix")
            calls.append(("profile_file_prefix", table.EnableProfiling, prefix))
        if self.optimized_model_filepath is not None:
            path = path_bytes(self.optimized_model_filepath, "optimized_model_filepath")
            calls.append(("optimized_model_filepath", table.SetOptimizedModelFilePath, path))
        if self.logger is not None:
            from zrt.environment import log_sink

            calls.append(
                ("logger", table.SetUserLoggingFunction, *log_sink.sink(log_sink.as_logger(self.logger, "logger")))
            )
        for key, entry in self._config():
            calls.append((f"config_entries[{key.decode()!r}]", table.AddSessionConfigEntry, key, entry))
        return calls

    def _refuse_threads(self) -> None:
        """Refuses what is about threads of the session's own, where it has none."""
        default = SessionOptions()
        for subject in (
            "intra_op_num_threads",
            "inter_op_num_threads",
            "intra_op_allow_spinning",
            "inter_op_allow_spinning",
            "intra_op_thread_affinities",
            "thread_factory",
        ):
            if getattr(self, subject) != getattr(default, subject):
                raise ArgumentError(
                    f"{subject}: with use_per_session_threads=False it is the environment's, see ThreadingOptions"
                )

    def _domains(self) -> list[Handle]:
        """The handles of the domains, for a session to keep alive."""
        if not self.custom_ops:
            return []
        from zrt.custom_ops import CustomOpDomain

        if isinstance(self.custom_ops, CustomOpDomain):
            raise DTypeError("custom_ops: expected a list of CustomOpDomains, got one alone")
        try:
            domains = list(self.custom_ops)
        except TypeError:
            came = type(self.custom_ops).__name__
            raise DTypeError(f"custom_ops: expected a list of CustomOpDomains, got {came}") from None
        for domain in domains:
            if not isinstance(domain, CustomOpDomain):
                raise wrong_type("custom_ops", "CustomOpDomains", domain)
        names = [domain.name for domain in domains]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(f"custom_ops: domain {name!r} comes twice: put all of its operators into one")
        return [domain._open() for domain in domains]

    def _libraries(self) -> list[bytes]:
        """The paths of the libraries, each of a file that is there."""
        if isinstance(self.custom_op_libraries, (str, bytes)) or not isinstance(self.custom_op_libraries, Sequence):
            came = shown(self.custom_op_libraries)
            raise DTypeError(f"custom_op_libraries: expected a list of paths, got {came}")
        paths = [path_bytes(path, "custom_op_libraries") for path in self.custom_op_libraries]
        for path in paths:
            if not os.path.isfile(path):
                raise ArgumentError(f"custom_op_libraries: there is no file {os.fsdecode(path)!r}")
        return paths

    def _config(self) -> list[tuple[bytes, bytes]]:
        """The config entries, those of the typed fields first."""
        typed: list[tuple[bytes, bytes]] = []
        for subject, key in (
            ("intra_op_allow_spinning", SessionConfigKey.INTRA_OP_ALLOW_SPINNING),
            ("inter_op_allow_spinning", SessionConfigKey.INTER_OP_ALLOW_SPINNING),
        ):
            value = getattr(self, subject)
            if value is not None:
                typed.append((key.encode(), b"1" if boolean(value, subject) else b"0"))
        for subject, key in (
            ("record_placement", SessionConfigKey.RECORD_EP_GRAPH_ASSIGNMENT_INFO),
            ("set_denormal_as_zero", SessionConfigKey.SET_DENORMAL_AS_ZERO),
            ("use_env_allocators", SessionConfigKey.USE_ENV_ALLOCATORS),
            ("use_device_allocator_for_initializers", SessionConfigKey.USE_DEVICE_ALLOCATOR_FOR_INITIALIZERS),
        ):
            if boolean(getattr(self, subject), subject):
                typed.append((key.encode(), b"1"))
        if self.intra_op_thread_affinities is not None:
            subject = "intra_op_thread_affinities"
            affinity = affinities(self.intra_op_thread_affinities, subject, self.intra_op_num_threads)
            typed.append((SessionConfigKey.INTRA_OP_THREAD_AFFINITIES.encode(), affinity))
        return typed + entries(self.config_entries, "config_entries")


def _adapters(adapters: Any) -> tuple[tuple[LoraAdapter, ...], list[Handle]]:
    """The adapters of a run, and their handles."""
    if isinstance(adapters, tuple) and not adapters:
        return (), []
    from zrt.loading.lora import LoraAdapter

    if not isinstance(adapters, Sequence):
        raise wrong_type("adapters", "a list of LoraAdapters", adapters)
    for index, adapter in enumerate(adapters):
        if not isinstance(adapter, LoraAdapter):
            raise wrong_type(f"adapters[{index}]", "a LoraAdapter", adapter)
    return tuple(adapters), [adapter._open() for adapter in adapters]


@public
class RunOptions(OptionData, Owner):
    """How runs are logged, where they queue, and the switch that ends them (``OrtRunOptions``).

    `tag` marks the run's log lines (``OrtApi::RunOptionsSetRunTag``), `log_severity_level` is the least level that it
    logs (``OrtApi::RunOptionsSetRunLogSeverityLevel``), `log_verbosity_level` how much of VERBOSE
    (``OrtApi::RunOptionsSetRunLogVerbosityLevel``). `gpu_graph_id` names the graph that a provider which captures
    graphs is to capture or replay; -1 runs without. `sync_stream` is the stream that the run's work on the stream's
    device goes to (``OrtApi::RunOptionsSetSyncStream``). The settings are those given here, for good. One object
    serves any number of runs, at the same time too: `terminate` ends them all with `TerminatedError`, and the object
    then refuses further runs until `reset`.

    `adapters` (`LoraAdapter`) are active in these runs. Of two that hold the same parameter the last one counts.
    `shrink_arenas` names the memories whose arenas, after each run, give back to the system what nothing uses.

    `config_entries` are further settings by ORT's keys (`RunConfigKey`).

    `profile_file_prefix` profiles each run by itself: its trace is written to the prefix and a time stamp (see
    `profile_files`).
    """

    __slots__ = (
        "_made_of",
        "_twins",
        "adapters",
        "config_entries",
        "gpu_graph_id",
        "log_severity_level",
        "log_verbosity_level",
        "profile_file_prefix",
        "shrink_arenas",
        "sync_stream",
        "tag",
        "terminated",
    )

    def __init__(
        self,
        *,
        tag: str | None = None,
        log_severity_level: LogSeverity | str | None = None,
        log_verbosity_level: int | None = None,
        config_entries: Mapping[str, str] | None = None,
        profile_file_prefix: str | os.PathLike[str] | None = None,
        adapters: Sequence[LoraAdapter] = (),
        shrink_arenas: Sequence[MemoryInfo] = (),
        gpu_graph_id: int | None = None,
        sync_stream: SyncStream | None = None,
    ) -> None:
        table = api()
        self.adapters, active = _adapters(adapters)
        stream = _stream(sync_stream)
        self.gpu_graph_id = gpu_graph_id
        self.sync_stream = sync_stream
        self.tag = tag
        self.log_severity_level = log_severity_level
        self.log_verbosity_level = log_verbosity_level
        config = entries({} if config_entries is None else config_entries, "config_entries")
        self.config_entries = {key.decode(): entry.decode() for key, entry in config}
        self.profile_file_prefix = profile_file_prefix
        self.shrink_arenas = shrink_arenas
        arenas = _arenas(shrink_arenas)
        if arenas:
            config = [*config, (RunConfigKey.MEMORY_ENABLE_MEMORY_ARENA_SHRINKAGE.encode(), arenas)]
        calls: list[tuple[Any, ...]] = [(table.RunOptionsAddActiveLoraAdapter, adapter.pointer) for adapter in active]
        if tag is not None:
            calls.append((table.RunOptionsSetRunTag, text(tag, "tag")))
        if log_severity_level is not None:
            severity = choose(LogSeverity, log_severity_level, "log_severity_level")
            calls.append((table.RunOptionsSetRunLogSeverityLevel, int(severity)))
        if log_verbosity_level is not None:
            verbosity = integer(log_verbosity_level, "log_verbosity_level")
            calls.append((table.RunOptionsSetRunLogVerbosityLevel, verbosity))
        calls += [(table.AddRunConfigEntry, key, entry) for key, entry in config]
        if profile_file_prefix is not None:
            prefix = path_bytes(profile_file_prefix, "profile_file_prefix")
            require_folder(prefix, "profile_file_prefix")
            calls.append((table.RunOptionsEnableProfiling, prefix))
        if gpu_graph_id is not None:
            graph = str(integer(gpu_graph_id, "gpu_graph_id", -1)).encode()
            calls.append((table.AddRunConfigEntry, RunConfigKey.GPU_GRAPH_ID.encode(), graph))
        if stream is not None:
            calls.append((table.RunOptionsSetSyncStream, stream.pointer))
        self._make(active if stream is None else [*active, stream], calls)

    def _make(self, parents: Sequence[Handle], calls: Sequence[tuple[Any, ...]]) -> None:
        """The ``OrtRunOptions``: functions of the table with their arguments, and what these belong to."""
        table = api()
        handle = Handle.make(table.ReleaseRunOptions, parents, table.CreateRunOptions, "OrtRunOptions")
        for function, *arguments in calls:
            status.check(function(handle.pointer, *arguments))
        self.terminated = False
        self._twins: dict[int, weakref.ref[RunOptions]] = {}
        self._made_of = (parents, calls)
        self._handle = handle

    @staticmethod
    def opened(options: RunOptions | None, session: Handle | None = None, bound: bool = False) -> Handle | None:
        """The handle of the options for a run of `session`, or None where there are none.

        Anything else is a `DTypeError`; a stream that the session does not take is an `UnsupportedError`. `bound` says
        that the run is over a binding, for which ORT would leave adapters out in silence.
        """
        if options is None:
            return None
        if not isinstance(options, RunOptions):
            raise wrong_type("options", "RunOptions", options)
        if bound and options.adapters:
            raise UnsupportedError("options: ONNX Runtime heeds no adapters in lanes and bindings; use Session.run")
        handle = options._open()
        if options.sync_stream is not None:
            if session is None:
                raise UnsupportedError("sync_stream: runs of this kind take none")
            options.sync_stream.check(session)
        return handle

    def profile_files(self) -> list[str]:
        """The traces under `profile_file_prefix`, the oldest first: one for each run, as ONNX Runtime names them.

        Runs that begin in the same millisecond share a name, and the later one's trace stays.
        """
        if self.profile_file_prefix is None:
            return []
        import glob

        prefix = os.fsdecode(self.profile_file_prefix)
        return sorted(glob.glob(f"{glob.escape(prefix)}_{TIME_STAMP}.json"))

    def settings(self) -> dict[str, Any]:
        """What it was made with, by the names of the arguments."""
        return {name: getattr(self, name) for name in RunOptions.__init__.__kwdefaults__ or ()}

    def twin(self) -> RunOptions:
        """Another object with the same settings, which `terminate` of this one ends too: for one run of several."""
        made_of = self._made_of
        self._open()
        # Not from the arguments: an adapter, a stream or a folder of theirs may be closed or gone by now.
        twin = RunOptions.__new__(RunOptions)
        for name, setting in self.settings().items():
            setattr(twin, name, setting)
        twin._make(*made_of)
        # No lock, which a fork or a finalizer could find held: a dict's own operations are whole.
        key = id(twin)
        self._twins[key] = weakref.ref(twin, lambda _: self._twins.pop(key, None))
        if self.terminated:
            twin.terminate()
        return twin

    def terminate(self) -> None:
        """Ends every run that uses this object, as soon as the operator in hand is done; from any thread."""
        handle = self._open()
        self.terminated = True
        status.check(api().RunOptionsSetTerminate(handle.pointer))
        for reference in list(self._twins.values()):
            twin = reference()
            if twin is not None:
                twin.terminate()

    def close(self) -> None:
        """Closes it; runs that use it go on."""
        super().close()
        # In this order: what a twin is made of is whole as long as this is open.
        self._made_of = ((), ())

    def reset(self) -> None:
        """Makes the object usable again after `terminate`."""
        handle = self._open()
        status.check(api().RunOptionsUnsetTerminate(handle.pointer))
        self.terminated = False


def _arenas(memories: Any) -> bytes:
    """The arenas to shrink, as ORT writes them: ``cpu:0;gpu:1``."""
    if not isinstance(memories, Sequence) or not all(isinstance(memory, MemoryInfo) for memory in memories):
        raise wrong_type("shrink_arenas", "a list of MemoryInfo", memories)
    words = {DeviceType.CPU: "cpu", DeviceType.GPU: "gpu"}
    for memory in memories:
        if memory.device_type not in words:
            raise ArgumentError(
                f"shrink_arenas: memory {memory.name!r}: ONNX Runtime shrinks arenas of CPU and GPU only"
            )
    return ";".join(f"{words[memory.device_type]}:{memory.device_id}" for memory in memories).encode()


def _stream(stream: SyncStream | None) -> Handle | None:
    if stream is None:
        return None
    from zrt.environment.streams import SyncStream

    if not isinstance(stream, SyncStream):
        raise wrong_type("sync_stream", "a SyncStream", stream)
    return stream._open()
