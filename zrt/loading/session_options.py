"""`SessionOptions`, with the names that ONNX Runtime's own Python package gives its fields."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zrt._common.arguments import entries, path_bytes, require_folder, wrong_type
from zrt._common.config_keys import SessionConfigKey
from zrt._common.public import public
from zrt._common.records import record
from zrt._common.serialization import OptionData, data_field
from zrt._native import status
from zrt._native.cdata import from_buffer
from zrt._native.handle import Handle
from zrt._native.library import api, load_api
from zrt.environment.cpu_limits import pool_threads
from zrt.environment.pool_options import MOST_THREADS, PoolOptions
from zrt.errors import ArgumentError, DTypeError
from zrt.loading.option_fields import (
    Call,
    apply,
    calls_of,
    choice,
    config_flag,
    flag,
    number,
    opaque,
    option,
    path,
    sizes,
    string,
    switch,
)
from zrt.providers.config_entries import read_entries
from zrt.types import ExecutionMode, GraphOptimizationLevel, LogSeverity

if TYPE_CHECKING:
    import logging

    from zrt.custom_ops import CustomOpDomain
    from zrt.environment.thread_factory import ThreadFactory
    from zrt.loading.caller_weights import PrepackedWeights
    from zrt.loading.load_cancellation import LoadCancellation


def _log_to(value: Any, name: str) -> list[Call]:
    from zrt.environment import log_sink

    return [(name, "SetUserLoggingFunction", log_sink.sink(log_sink.as_logger(value, name)))]


@public
@record(kw_only=True)
class SessionOptions(OptionData):
    """How a session is loaded and run (``OrtSessionOptions``).

    None leaves a field to ONNX Runtime; the other default values are its own.
    """

    graph_optimization_level: GraphOptimizationLevel | str = choice(
        "SetSessionGraphOptimizationLevel", GraphOptimizationLevel, default=GraphOptimizationLevel.ENABLE_ALL
    )
    """How much the graph is rewritten at load."""
    intra_op_num_threads: int = number("SetIntraOpNumThreads", MOST_THREADS, default=0)
    """Threads within an operator; 1: the caller's own and no pool. 0: one for each core of the machine, or for each CPU
    that the process may use where its affinity mask or the quota of its cgroup says less."""
    inter_op_num_threads: int = number("SetInterOpNumThreads", MOST_THREADS, default=0)
    """Threads between operators, where `execution_mode` is PARALLEL; 0: as for `intra_op_num_threads`."""
    execution_mode: ExecutionMode | str = choice(
        "SetSessionExecutionMode", ExecutionMode, default=ExecutionMode.SEQUENTIAL
    )
    """Whether independent operators run one after another or at the same time."""
    enable_mem_pattern: bool = switch("EnableMemPattern", "DisableMemPattern", default=True)
    """Whether the intermediate tensors of one shape share one planned block."""
    enable_cpu_mem_arena: bool = switch("EnableCpuMemArena", "DisableCpuMemArena", default=True)
    """Whether the host's allocator keeps freed memory for the next run."""
    intra_op_allow_spinning: bool | None = config_flag(SessionConfigKey.INTRA_OP_ALLOW_SPINNING)
    """Whether idle threads within operators spin: they wake faster and keep the CPU busy."""
    inter_op_allow_spinning: bool | None = config_flag(SessionConfigKey.INTER_OP_ALLOW_SPINNING)
    """The same for the threads between operators."""
    intra_op_thread_affinities: str | None = data_field(str | None, default=None)
    """The CPUs on which the threads within an operator run, counted from 1: ``"1,2;3-4"`` has a group for each thread
    except the first, which is the caller's own."""
    set_denormal_as_zero: bool = config_flag(SessionConfigKey.SET_DENORMAL_AS_ZERO, default=False)
    """Whether the session's threads treat denormal numbers as 0. For the caller's own thread, the process's first
    session decides."""
    use_per_session_threads: bool = switch(None, "DisablePerSessionThreads", default=True)
    """Whether the session has thread pools of its own; False: it uses the environment's (`ThreadingOptions`)."""
    thread_factory: ThreadFactory | None = opaque()
    """Makes the session's threads: a function that the loading thread calls with the work of each one. The function
    makes a daemon thread that calls ``work()``, which returns when the session ends. If it returns an unstarted
    `threading.Thread`, zrt starts that as a daemon."""
    use_env_allocators: bool = config_flag(SessionConfigKey.USE_ENV_ALLOCATORS, default=False)
    """Whether the session allocates from the environment's registered allocators, where there is one for the device."""
    use_device_allocator_for_initializers: bool = config_flag(
        SessionConfigKey.USE_DEVICE_ALLOCATOR_FOR_INITIALIZERS, default=False
    )
    """Whether weights are allocated one by one, outside the arena."""
    free_dimension_overrides: Mapping[str, int] = sizes("AddFreeDimensionOverrideByName")
    """Fixed sizes for symbolic dimensions, by name."""
    free_dimension_overrides_by_denotation: Mapping[str, int] = sizes("AddFreeDimensionOverride")
    """Fixed sizes for dimensions, by the denotation that the model gives them ("DATA_BATCH")."""
    logid: str | None = string("SetSessionLogId")
    """The name of this session in its log lines."""
    log_severity_level: LogSeverity | str | None = choice("SetSessionLogSeverityLevel", LogSeverity)
    """The lowest severity that this session logs."""
    log_verbosity_level: int | None = number("SetSessionLogVerbosityLevel")
    """How detailed the VERBOSE log is."""
    profile_file_prefix: str | os.PathLike[str] | None = path("EnableProfiling")
    """Turns profiling on; the trace is written to this prefix and a time stamp."""
    optimized_model_filepath: str | os.PathLike[str] | None = path("SetOptimizedModelFilePath")
    """The file to which the load writes the optimized model; a file of the model itself is refused."""
    use_deterministic_compute: bool = flag("SetDeterministicCompute", default=False)
    """Whether kernels must compute the same bits in each run."""
    config_entries: Mapping[str, str] = data_field(Mapping[str, str], default_factory=dict)
    """Further settings by the keys of ORT's ``onnxruntime_session_options_config_keys.h`` (`SessionConfigKey`)."""
    record_placement: bool = config_flag(SessionConfigKey.RECORD_EP_GRAPH_ASSIGNMENT_INFO, default=False)
    """Whether the session records which provider runs each node."""
    logger: logging.Logger | str | None = option(str, _log_to)
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
    prepacked_weights: PrepackedWeights | None = opaque(compare=False)
    """The container in which sessions share their prepacked `initializers`."""
    load_cancellation: LoadCancellation | None = opaque(compare=False)
    """Cancels the load from another thread; the load then raises `ModelLoadCanceledError`."""
    custom_ops: Sequence[CustomOpDomain] = data_field(Sequence[object], default_factory=list)
    """Custom operators; the session keeps them alive."""
    custom_op_libraries: list[str | os.PathLike[str]] = data_field(list[str | os.PathLike[str]], default_factory=list)
    """Shared libraries of custom operators, each of which exports a function ``RegisterCustomOps``."""
    weightless_source_model: bytes | None = opaque(compare=False, repr=False)
    """The bytes of the model from which a model was compiled without its weights (`zrt.compile`), where the provider
    reads them; the session borrows the bytes. It needs ONNX Runtime 1.29 or later."""

    def handle(self) -> PoolOptions:
        """A new ``OrtSessionOptions`` with these settings; raises an error that names a bad field.

        It does not contain the weights, which depend on the model: see `zrt.loading.load.load_model`.
        """
        crew = None
        if self.thread_factory is not None:
            from zrt.environment.thread_factory import Crew

            crew = Crew(self.thread_factory)
        domains = self._domains()
        source = self.weightless_source_model
        if source is not None and not isinstance(source, bytes):
            raise wrong_type("weightless_source_model", "bytes", source)
        handle = self._fresh(domains if source is None else [*domains, Handle.pin(source)])
        if self.profile_file_prefix is not None:
            require_folder(path_bytes(self.profile_file_prefix, "profile_file_prefix"), "profile_file_prefix")
        calls = self._calls()
        calls += [("custom_ops", "AddCustomOpDomain", (domain.pointer,)) for domain in domains]
        calls += [("custom_op_libraries", "RegisterCustomOpsLibrary_V2", (file,)) for file in self._libraries()]
        apply(handle, calls, "SessionOptions")
        if source is not None:
            from zrt._native.later import later

            give = later("SessionOptionsSetWeightlessSourceModelBuffer", "weightless_source_model")
            status.check(give(handle.pointer, from_buffer(source), len(source)))
        if crew is not None:
            table = api()
            crew.attach(
                handle.pointer,
                table.SessionOptionsSetCustomCreateThreadFn,
                table.SessionOptionsSetCustomThreadCreationOptions,
                table.SessionOptionsSetCustomJoinThreadFn,
            )
            handle.crew = crew
        return handle

    def _fresh(self, domains: Sequence[Handle]) -> PoolOptions:
        """An ``OrtSessionOptions`` with ORT's defaults and the cancellation switch; it keeps the domains alive."""
        if self.load_cancellation is None:
            table = load_api()
            release, make = table.ReleaseSessionOptions, table.CreateSessionOptions
            return PoolOptions.make(release, domains, make, "OrtSessionOptions")
        from zrt.loading.load_cancellation import LoadCancellation

        if not isinstance(self.load_cancellation, LoadCancellation):
            raise wrong_type("load_cancellation", "a LoadCancellation", self.load_cancellation)
        return self.load_cancellation._session_options(domains)

    def effective_config_entries(self) -> dict[str, str]:
        """The config entries as ONNX Runtime reads them: those of the fields and those of `config_entries`."""
        return read_entries(self.handle())

    def _check(self) -> None:
        self._calls()

    def _calls(self) -> list[Call]:
        """The calls that set the fields; those of `config_entries` come last, so that they take precedence."""
        if self.use_per_session_threads is False:
            self._refuse_threads()
        calls = self._open_pools() if self.use_per_session_threads else []
        calls += calls_of(self)
        if self.intra_op_thread_affinities is not None:
            from zrt.environment.thread_factory import affinities

            subject = "intra_op_thread_affinities"
            affinity = affinities(self.intra_op_thread_affinities, subject, self.intra_op_num_threads)
            key = SessionConfigKey.INTRA_OP_THREAD_AFFINITIES.encode()
            calls.append((subject, "AddSessionConfigEntry", (key, affinity)))
        for key, value in entries(self.config_entries, "config_entries"):
            calls.append((f"config_entries[{key.decode()!r}]", "AddSessionConfigEntry", (key, value)))
        return calls

    def _open_pools(self) -> list[Call]:
        """The calls that fit pools of no given size to the CPUs that the process may use, where those are fewer."""
        threads = pool_threads()
        pools = (
            ("intra_op_num_threads", "SetIntraOpNumThreads", self.intra_op_num_threads),
            ("inter_op_num_threads", "SetInterOpNumThreads", self.inter_op_num_threads),
        )
        return [(name, function, (threads,)) for name, function, given in pools if threads and given == 0]

    def _refuse_threads(self) -> None:
        """Refuses the settings of the session's own threads, where it has none."""
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
        """The handles of the custom operators' domains, which the session keeps alive."""
        if not self.custom_ops:
            return []
        from zrt.custom_ops import CustomOpDomain

        if isinstance(self.custom_ops, CustomOpDomain):
            raise DTypeError("custom_ops: expected a list of CustomOpDomains, got one alone")
        try:
            domains = list(self.custom_ops)
        except TypeError:
            raise wrong_type("custom_ops", "a list of CustomOpDomains", self.custom_ops) from None
        for domain in domains:
            if not isinstance(domain, CustomOpDomain):
                raise wrong_type("custom_ops", "CustomOpDomains", domain)
        names = [domain.name for domain in domains]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(f"custom_ops: domain {name!r} comes twice: put all of its operators into one")
        return [domain._open() for domain in domains]

    def _libraries(self) -> list[bytes]:
        """The paths of the operators' libraries; raises where a file does not exist."""
        if isinstance(self.custom_op_libraries, (str, bytes)) or not isinstance(self.custom_op_libraries, Sequence):
            raise wrong_type("custom_op_libraries", "a list of paths", self.custom_op_libraries)
        paths = [path_bytes(file, "custom_op_libraries") for file in self.custom_op_libraries]
        for file in paths:
            if not os.path.isfile(file):
                raise ArgumentError(f"custom_op_libraries: there is no file {os.fsdecode(file)!r}")
        return paths
