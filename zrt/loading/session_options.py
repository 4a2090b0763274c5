"""`SessionOptions`, with the names that ONNX Runtime's own Python package gives its fields."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from zrt._common.arguments import byte_count, entries, memory_bounds, path_bytes, paths, require_folder, wrong_type
from zrt._common.config_keys import SessionConfigKey
from zrt._common.public import public
from zrt._common.serialization import OptionData, data_field
from zrt._native import library_files, status
from zrt._native.cdata import from_buffer
from zrt._native.handle import Handle, Owner
from zrt._native.later import later
from zrt._native.library import api, load_api
from zrt.environment import cpu_budget
from zrt.environment.log_sink import as_logger, sink
from zrt.environment.options import (
    Call,
    apply,
    calls_of,
    flag,
    kept,
    member,
    number,
    option,
    path,
    require_affinities,
    sizes,
    string,
    switch,
    threads,
)
from zrt.environment.pool_options import PoolOptions
from zrt.environment.thread_factory import Crew, ThreadFactory
from zrt.errors import ArgumentError
from zrt.types import ExecutionMode, GraphOptimizationLevel, LogSeverity

if TYPE_CHECKING:
    from zrt.custom_ops import CustomOpDomain
    from zrt.loading.caller_weights import PrepackedWeights


def cache_folder(name: str) -> str:
    """The name of a cache's folder.

    Raises `ArgumentError` for an empty one, which would be the current folder, and for one that means a switch.
    """
    if not name:
        raise ArgumentError("cache: the name of the folder is empty; False is for no cache")
    if name.lower() in ("true", "false", "yes", "no", "on", "off"):
        raise ArgumentError(
            f"cache: {name!r} would be a folder; ./{name} is one, and True or False (in ZRT_CACHE 1 or 0) switch it"
        )
    return name


@cache
def cache_by_variable() -> str:
    """The variable ``ZRT_CACHE``, read once in a process: it decides where `SessionOptions.cache` is None."""
    return os.environ.get("ZRT_CACHE", "")


# The fields of the session's own threads.
OWN_THREADS = (
    "intra_op_num_threads",
    "inter_op_num_threads",
    "intra_op_allow_spinning",
    "inter_op_allow_spinning",
    "intra_op_thread_affinities",
    "thread_factory",
)


_SPINNING = {
    "intra_op_allow_spinning": SessionConfigKey.INTRA_OP_ALLOW_SPINNING,
    "inter_op_allow_spinning": SessionConfigKey.INTER_OP_ALLOW_SPINNING,
}


@public
class LoadCancellation(Owner):
    """Cancels running loads from any thread; set it as `SessionOptions.load_cancellation`.

    One object serves any number of loads, also at the same time: `cancel` ends them all with
    `ModelLoadCanceledError`, and the object then refuses further loads until `reset`. Loaded sessions are not affected.
    """

    __slots__ = ()

    def __init__(self) -> None:
        table = load_api()
        # ORT keeps the switch in session options, and their clones share it.
        self._handle = Handle.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")

    def cancel(self) -> None:
        """Ends every load with this object, at the next point where ONNX Runtime checks: between optimizer steps, for
        example.

        A long step (a provider that compiles, a kernel that packs a large weight) runs to its end first.
        """
        self._set(True)

    def reset(self) -> None:
        """Makes the object usable again after `cancel`; a load that has not yet checked the switch continues."""
        self._set(False)

    def _set(self, canceled: bool) -> None:
        handle = self._open()
        status.check(api().SessionOptionsSetLoadCancellationFlag(handle.pointer, canceled))


# The fields by which a load writes files, and how it writes none.
WRITING_NOTHING: Final[dict[str, Any]] = {"optimized_model_filepath": None, "profile_file_prefix": None, "cache": False}


@public
@dataclass(kw_only=True, slots=True)
class SessionOptions(OptionData):
    """How a session is loaded and run (``OrtSessionOptions``).

    None leaves a field to ONNX Runtime; the other default values are its own.
    """

    graph_optimization_level: GraphOptimizationLevel | str = member(
        GraphOptimizationLevel, function="SetSessionGraphOptimizationLevel", default=GraphOptimizationLevel.ENABLE_ALL
    )
    """How much the graph is rewritten at load."""
    intra_op_num_threads: int = threads("SetIntraOpNumThreads")
    """Threads within an operator; 1: the caller's own and no pool. 0: one for each core of the machine, or for each CPU
    that the process may use where its affinity mask or the quota of its cgroup says less; under a budget of CPUs 1."""
    inter_op_num_threads: int = threads("SetInterOpNumThreads")
    """Threads between operators, where `execution_mode` is PARALLEL; 0: as for `intra_op_num_threads`."""
    execution_mode: ExecutionMode | str = member(
        ExecutionMode, function="SetSessionExecutionMode", default=ExecutionMode.SEQUENTIAL
    )
    """Whether independent operators run one after another or at the same time."""
    enable_mem_pattern: bool = switch("DisableMemPattern", default=True)
    """Whether the intermediate tensors of one shape share one planned block."""
    enable_cpu_mem_arena: bool = switch("DisableCpuMemArena", default=True)
    """Whether the host's allocator keeps freed memory for the next run."""
    intra_op_allow_spinning: bool | None = flag(key=SessionConfigKey.INTRA_OP_ALLOW_SPINNING)
    """Whether idle threads within operators spin: they wake faster and keep the CPU busy."""
    inter_op_allow_spinning: bool | None = flag(key=SessionConfigKey.INTER_OP_ALLOW_SPINNING)
    """The same for the threads between operators."""
    intra_op_thread_affinities: str | None = string(key=SessionConfigKey.INTRA_OP_THREAD_AFFINITIES)
    """The CPUs on which the threads within an operator run, counted from 1: ``"1,2;3-4"`` has a group for each thread
    except the first, which is the caller's own."""
    set_denormal_as_zero: bool = flag(key=SessionConfigKey.SET_DENORMAL_AS_ZERO, default=False)
    """Whether the session's threads treat denormal numbers as 0. For the caller's own thread, the process's first
    session decides."""
    use_per_session_threads: bool = switch("DisablePerSessionThreads", default=True)
    """Whether the session has thread pools of its own; False: it uses the environment's (`ThreadingOptions`)."""
    thread_factory: ThreadFactory | None = data_field(object | None, default=None)
    """Makes the session's threads: a function that the loading thread calls with the work of each one. The function
    makes a daemon thread that calls ``work()``, which returns when the session ends. If it returns an unstarted
    `threading.Thread`, zrt starts that as a daemon."""
    use_env_allocators: bool = flag(key=SessionConfigKey.USE_ENV_ALLOCATORS, default=False)
    """Whether the session allocates from the environment's registered allocators, where there is one for the device."""
    memory: str | None = kept("str", str, memory_bounds)
    """"bounded": the session has an arena of its own, which returns its memory to the system after runs that are much
    smaller than earlier ones, and no memory patterns. None: that of the environment."""
    memory_limit: int | str | None = kept("bytes", int | str, byte_count)
    """The most memory of the host that the session's arena takes, in bytes or as a text such as ``"512MiB"``: a run
    that needs more raises `MemoryLimitError`. None: that of the environment."""
    use_device_allocator_for_initializers: bool = flag(
        key=SessionConfigKey.USE_DEVICE_ALLOCATOR_FOR_INITIALIZERS, default=False
    )
    """Whether weights are allocated one by one, outside the arena."""
    free_dimension_overrides: Mapping[str, int] = sizes("AddFreeDimensionOverrideByName")
    """Fixed sizes for symbolic dimensions, by name."""
    free_dimension_overrides_by_denotation: Mapping[str, int] = sizes("AddFreeDimensionOverride")
    """Fixed sizes for dimensions, by the denotation that the model gives them ("DATA_BATCH")."""
    logid: str | None = string(function="SetSessionLogId")
    """The name of this session in its log lines."""
    log_severity_level: LogSeverity | str | None = member(LogSeverity, function="SetSessionLogSeverityLevel")
    """The lowest severity that this session logs."""
    log_verbosity_level: int | None = number(function="SetSessionLogVerbosityLevel")
    """How detailed the VERBOSE log is."""
    profile_file_prefix: str | os.PathLike[str] | None = path(function="EnableProfiling")
    """Turns profiling on; the trace is written to this prefix and a time stamp."""
    optimized_model_filepath: str | os.PathLike[str] | None = path(function="SetOptimizedModelFilePath")
    """The file to which the load writes the optimized model; a file of the model itself is refused."""
    use_deterministic_compute: bool = flag(function="SetDeterministicCompute", default=False)
    """Whether kernels must compute the same bits in each run."""
    config_entries: Mapping[str, str] = data_field(Mapping[str, str], default_factory=dict)
    """Further settings by the keys of ORT's ``onnxruntime_session_options_config_keys.h`` (`SessionConfigKey`)."""
    record_placement: bool = flag(key=SessionConfigKey.RECORD_EP_GRAPH_ASSIGNMENT_INFO, default=False)
    """Whether the session records which provider runs each node."""
    logger: logging.Logger | str | None = option(
        "str", str, as_logger, function="SetUserLoggingFunction", arguments=lambda logger: [sink(logger)]
    )
    """The logger of this session, itself or by name; None: that of the environment."""
    initializers: Mapping[str, Any] = data_field(Mapping[str, object], default_factory=dict, compare=False, repr=False)
    """The caller's weights by name, which replace the model's: arrays, values or buffers. The session borrows them
    while it lives, and nobody may write to them; those below 1 KiB are copied."""
    optional_initializers: list[str] = data_field(list[str], default_factory=list)
    """The names in `initializers` that a model may lack: so one object serves models that share only some weights. Any
    other name that the model lacks is an error."""
    external_initializer_files: Mapping[str, Any] = data_field(
        Mapping[str, object], default_factory=dict, compare=False, repr=False
    )
    """The contents of the model's external weight files, by the names that the model has for them: bytes or the like,
    which ONNX Runtime copies at load."""
    trusted_folders: list[str | os.PathLike[str]] = data_field(list[str | os.PathLike[str]], default_factory=list)
    """Folders beside the model's own that may hold its weights. zrt follows links and paths into them, and maps the
    weights itself."""
    prepacked_weights: PrepackedWeights | None = data_field(object | None, default=None, compare=False)
    """The container in which sessions share their prepacked `initializers`."""
    cache: bool | str | os.PathLike[str] | None = data_field(bool | str | os.PathLike[str] | None, default=None)
    """Whether later loads of the same model map what an earlier one computed: True keeps that in the user's folder for
    caches, a path in a folder of its own. None: the variable ``ZRT_CACHE`` decides, which is 1, 0 or a folder. Only
    `Session` uses it."""
    load_cancellation: LoadCancellation | None = data_field(object | None, default=None, compare=False)
    """Cancels the load from another thread; the load then raises `ModelLoadCanceledError`."""
    custom_ops: Sequence[CustomOpDomain] = data_field(Sequence[object], default_factory=list)
    """Custom operators; the session keeps them alive."""
    custom_op_libraries: list[str | os.PathLike[str]] = data_field(list[str | os.PathLike[str]], default_factory=list)
    """Shared libraries of custom operators, each of which exports a function ``RegisterCustomOps``."""
    weightless_source_model: bytes | None = data_field(object | None, default=None, compare=False, repr=False)
    """The bytes of the model from which a model was compiled without its weights (`zrt.compile`), where the provider
    reads them; the session borrows the bytes. It needs ONNX Runtime 1.29 or later."""

    def handle(self) -> PoolOptions:
        """A new ``OrtSessionOptions`` with these settings; raises an error that names a bad field.

        It does not contain the weights, which depend on the model: see `zrt.loading.load.load_model`.
        """
        crew = None if self.thread_factory is None else Crew(self.thread_factory)
        domains = self._domains()
        source = self.weightless_source_model
        if source is not None and not isinstance(source, bytes):
            raise wrong_type("weightless_source_model", "bytes", source)
        table = load_api()
        # ORT's defaults, or a clone that shares the cancellation switch.
        create: tuple[Any, ...] = (table.CreateSessionOptions, "OrtSessionOptions")
        if self.load_cancellation is not None:
            if not isinstance(self.load_cancellation, LoadCancellation):
                raise wrong_type("load_cancellation", "a LoadCancellation", self.load_cancellation)
            # Another thread may close it meanwhile.
            cancellation = self.load_cancellation._open()
            create = (table.CloneSessionOptions, "OrtSessionOptions", cancellation.pointer)
        parents = domains if source is None else [*domains, Handle.pin(source)]
        handle = PoolOptions.make(table.ReleaseSessionOptions, parents, *create)
        if self.profile_file_prefix is not None:
            require_folder(path_bytes(self.profile_file_prefix, "profile_file_prefix"), "profile_file_prefix")
        calls = self._calls()
        calls += [("custom_ops", "AddCustomOpDomain", (domain.pointer,)) for domain in domains]
        libraries = map(os.fsencode, self._libraries())
        calls += [("custom_op_libraries", "RegisterCustomOpsLibrary_V2", (file,)) for file in libraries]
        apply(handle, calls, "SessionOptions")
        handle.bound = bool(domains or self.custom_op_libraries)
        handle.threads = self.intra_op_num_threads or cpu_budget.pool_threads()
        if source is not None:
            give = later("SessionOptionsSetWeightlessSourceModelBuffer", "weightless_source_model")
            status.check(give(handle.pointer, from_buffer(source), len(source)))
        if crew is not None:
            table = api()
            crew.attach(
                handle,
                table.SessionOptionsSetCustomCreateThreadFn,
                table.SessionOptionsSetCustomThreadCreationOptions,
                table.SessionOptionsSetCustomJoinThreadFn,
            )
        return handle

    def effective_config_entries(self) -> dict[str, str]:
        """The config entries as ONNX Runtime reads them: those of the fields and those of `config_entries`."""
        return self.handle().config_entries()

    def _check(self) -> None:
        self._calls()
        if isinstance(self.cache, str):
            cache_folder(self.cache)

    def _calls(self) -> list[Call]:
        """The calls that set the fields; those of `config_entries` come last, so that they take precedence."""
        calls = calls_of(self)
        if self.use_per_session_threads is False:
            default = SessionOptions()
            for name in OWN_THREADS:
                if getattr(self, name) != getattr(default, name):
                    raise ArgumentError(
                        f"{name}: with use_per_session_threads=False it is the environment's, see ThreadingOptions"
                    )
        if cpu_budget.current():
            # Before those of `config_entries`. Threads that spin would use CPUs of other runs.
            calls += [
                (name, "AddSessionConfigEntry", (key.encode(), b"0"))
                for name, key in _SPINNING.items()
                if getattr(self, name) is None
            ]
        require_affinities(self.intra_op_thread_affinities, "intra_op_thread_affinities", self.intra_op_num_threads)
        for key, value in entries(self.config_entries, "config_entries"):
            calls.append((f"config_entries[{key.decode()!r}]", "AddSessionConfigEntry", (key, value)))
        other = self._other_allocators()
        for name in ("memory", "memory_limit"):
            if other and getattr(self, name) is not None:
                raise ArgumentError(f"{name}: the session has no arena of its own with {other}")
        return calls

    def _other_allocators(self) -> str:
        """The setting with which the session has no arena of its own; empty if there is none."""
        if self.enable_cpu_mem_arena is False:
            return "enable_cpu_mem_arena=False"
        by_entry = self.config_entries.get(SessionConfigKey.USE_ENV_ALLOCATORS) == "1"
        return "use_env_allocators=True" if self.use_env_allocators or by_entry else ""

    def _domains(self) -> list[Handle]:
        """The handles of the custom operators' domains, which the session keeps alive."""
        if not isinstance(self.custom_ops, Sequence):
            raise wrong_type("custom_ops", "a list of CustomOpDomains", self.custom_ops)
        # Another thread may change the list meanwhile.
        domains = list(self.custom_ops)
        if not domains:
            return []
        # An import that goes up: docs/architecture.md lists it.
        from zrt.custom_ops import CustomOpDomain

        for domain in domains:
            if not isinstance(domain, CustomOpDomain):
                raise wrong_type("custom_ops", "CustomOpDomains", domain)
        names = [domain.name for domain in domains]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(f"custom_ops: domain {name!r} comes twice: put all of its operators into one")
        return [domain._open() for domain in domains]

    def _libraries(self) -> list[str]:
        """The paths of the operators' libraries; raises where one cannot be loaded."""
        libraries = [os.fsdecode(file) for file in paths(self.custom_op_libraries, "custom_op_libraries")]
        for file in libraries:
            problem = library_files.problem_of_name(file)
            if problem:
                raise ArgumentError(f"custom_op_libraries: {file!r}: {problem}")
        # The system's loader does not look for a bare name in the current folder.
        return [file if library_files.is_found_by_loader(file) else os.path.join(os.curdir, file) for file in libraries]
