"""`RunOptions`: how runs are logged and profiled, where they queue, and the switch that ends them."""

from __future__ import annotations

import glob
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from zrt._common.arguments import entries, path_bytes, require_folder, require_type, wrong_type
from zrt._common.config_keys import RunConfigKey
from zrt._common.public import public
from zrt._common.serialization import OptionData, data_field
from zrt._native import lib, status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api, load_api
from zrt.environment.options import Call, apply, calls_of, member, number, option, path, string
from zrt.errors import ArgumentError, UnsupportedError
from zrt.memory.allocators import MemoryInfo
from zrt.types import DeviceType, LogSeverity

if TYPE_CHECKING:
    from zrt.environment.streams import SyncStream
    from zrt.loading.lora import LoraAdapter

# The glob pattern of a time stamp such as 2026-01-31_23-59-59_999.
TIME_STAMP = "-".join(["[0-9]" * 4, *["[0-9]" * 2] * 2]) + "_" + "-".join(["[0-9]" * 2] * 3) + "_" + "[0-9]" * 3


def _arenas(memories: Any, subject: str) -> str:
    """The arenas to shrink in ORT's notation, ``cpu:0;gpu:1``."""
    if not isinstance(memories, Sequence) or not all(isinstance(memory, MemoryInfo) for memory in memories):
        raise wrong_type(subject, "a list of MemoryInfo", memories)
    words = {DeviceType.CPU: "cpu", DeviceType.GPU: "gpu"}
    for memory in memories:
        if memory.device_type not in words:
            raise ArgumentError(f"{subject}: memory {memory.name!r}: ONNX Runtime shrinks arenas of CPU and GPU only")
    return ";".join(f"{words[memory.device_type]}:{memory.device_id}" for memory in memories)


@public
@dataclass(kw_only=True, eq=False, repr=False, slots=True)
class RunOptions(OptionData, Owner):
    """How runs are logged and profiled, and the switch that ends them (``OrtRunOptions``).

    The settings do not change after construction. One object serves any number of runs, also at the same time:
    `terminate` ends them all with `TerminatedError`, and the object then refuses further runs until `reset`.
    """

    tag: str | None = string(function="RunOptionsSetRunTag")
    """Marks the run's log lines."""
    log_severity_level: LogSeverity | str | None = member(LogSeverity, function="RunOptionsSetRunLogSeverityLevel")
    """The lowest severity that the run logs."""
    log_verbosity_level: int | None = number(function="RunOptionsSetRunLogVerbosityLevel")
    """How detailed the run's VERBOSE log is."""
    config_entries: Mapping[str, str] | None = data_field(Mapping[str, str] | None, default=None)
    """Further settings by ORT's keys (`RunConfigKey`)."""
    profile_file_prefix: str | os.PathLike[str] | None = path(function="RunOptionsEnableProfiling")
    """Profiles each run by itself: its trace is written to this prefix and a time stamp (see `profile_files`)."""
    adapters: Sequence[LoraAdapter] = data_field(Sequence[object], default=())
    """The adapters that are active in these runs; of two that hold the same parameter the last one counts."""
    shrink_arenas: Sequence[MemoryInfo] = option(
        "memories", Sequence[object], _arenas, default=(), key=RunConfigKey.MEMORY_ENABLE_MEMORY_ARENA_SHRINKAGE
    )
    """The memories whose arenas return unused memory to the system after each run."""
    gpu_graph_id: int | None = number(low=-1, key=RunConfigKey.GPU_GRAPH_ID)
    """The graph that a provider with graph capture captures or replays; -1 runs without one."""
    sync_stream: SyncStream | None = data_field(object | None, default=None)
    """The stream that executes the run's work on the stream's device."""
    terminated: bool = field(init=False, default=False)
    _handle: Handle | None = field(init=False, default=None)
    _parents: Sequence[Handle] = field(init=False, default=())
    _calls: Sequence[Call] = field(init=False, default=())
    _twins: dict[int, weakref.ref[RunOptions]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        adapters = self._open_adapters()
        stream = self._open_stream()
        pairs = entries({} if self.config_entries is None else self.config_entries, "config_entries")
        self.config_entries = {key.decode(): value.decode() for key, value in pairs}
        calls: list[Call] = [("adapters", "RunOptionsAddActiveLoraAdapter", (adapter.pointer,)) for adapter in adapters]
        calls += [("config_entries", "AddRunConfigEntry", pair) for pair in pairs]
        calls += calls_of(self, "AddRunConfigEntry")
        calls += [("sync_stream", "RunOptionsSetSyncStream", (handle.pointer,)) for handle in stream]
        if self.profile_file_prefix is not None:
            require_folder(path_bytes(self.profile_file_prefix, "profile_file_prefix"), "profile_file_prefix")
        self._make([*adapters, *stream], calls)

    def _open_adapters(self) -> list[Handle]:
        """The adapters' handles."""
        if not isinstance(self.adapters, Sequence):
            raise wrong_type("adapters", "a list of LoraAdapters", self.adapters)
        self.adapters = tuple(self.adapters)
        if not self.adapters:
            return []
        # Deferred: an adapter's file is mapped or replaced, and the modules for that take 20 ms of a first session.
        from zrt.loading.lora import LoraAdapter

        for index, adapter in enumerate(self.adapters):
            require_type(adapter, LoraAdapter, f"adapters[{index}]", "a LoraAdapter")
        return [adapter._open() for adapter in self.adapters]

    def _open_stream(self) -> list[Handle]:
        """The stream's handle, if there is one."""
        if self.sync_stream is None:
            return []
        # Deferred: the modules about devices take 10 ms of a first session.
        from zrt.environment.streams import SyncStream

        require_type(self.sync_stream, SyncStream, "sync_stream", "a SyncStream")
        return [self.sync_stream._open()]

    def _make(self, parents: Sequence[Handle], calls: Sequence[Call]) -> None:
        """Makes the ``OrtRunOptions``; `parents` own the pointers among the calls' arguments."""
        table = load_api()
        handle = Handle.make(table.ReleaseRunOptions, parents, table.CreateRunOptions, "OrtRunOptions")
        apply(handle, calls)
        self._parents, self._calls = parents, calls
        self._handle = handle

    @staticmethod
    def opened(options: RunOptions | None, session: Handle | None = None, bound: bool = False) -> Handle | None:
        """The handle of the options for a run of `session`, or None where there are none.

        Raises `DTypeError` for another object, `UnsupportedError` for a stream that the session does not take, and for
        adapters where the run is over a binding (`bound`): there ORT ignores adapters without an error.
        """
        if options is None:
            return None
        if not isinstance(options, RunOptions):
            raise wrong_type("options", "RunOptions", options)
        if bound and options.adapters:
            raise UnsupportedError("options: ONNX Runtime ignores adapters in lanes and bindings; use Session.run")
        handle = options._open()
        if options.sync_stream is not None:
            if session is None:
                raise UnsupportedError("sync_stream: runs of this kind take no stream")
            options.sync_stream._check(session)
        return handle

    def profile_files(self) -> list[str]:
        """The paths of the traces under `profile_file_prefix`, one for each run, the oldest first.

        Runs that begin in the same millisecond share a file name: the later trace replaces the earlier one.
        """
        if self.profile_file_prefix is None:
            return []
        prefix = os.fsdecode(self.profile_file_prefix)
        return sorted(glob.glob(f"{glob.escape(prefix)}_{TIME_STAMP}.json"))

    def settings(self) -> dict[str, Any]:
        """The settings by the names of the constructor's arguments."""
        return {name: getattr(self, name) for name in self._data_fields()}

    def twin(self) -> RunOptions:
        """Another object with the same settings, for one run of several; `terminate` of this object ends it too."""
        parents, calls = self._parents, self._calls
        self._open()
        # Repeat the calls rather than check the arguments again: an adapter or a stream may be closed by now.
        twin = RunOptions.__new__(RunOptions)
        twin.terminated, twin._twins = False, {}
        for name, setting in self.settings().items():
            setattr(twin, name, setting)
        twin._make(parents, calls)
        # No lock: a fork or a finalizer could find it held, and a dict's own operations are atomic.
        key = id(twin)
        self._twins[key] = weakref.ref(twin, lambda _: self._twins.pop(key, None))
        if self.terminated:
            twin.terminate()
        return twin

    def terminate(self) -> None:
        """Ends every run that uses this object after its current operator; may be called from any thread."""
        handle = self._open()
        self.terminated = True
        status.check(api().RunOptionsSetTerminate(handle.pointer))
        lib.zrt_budget_wake(handle.pointer)
        for reference in list(self._twins.values()):
            twin = reference()
            if twin is not None:
                twin.terminate()

    def close(self) -> None:
        """Closes the object; runs that use it continue."""
        Owner.close(self)
        # After the close: `twin` needs these while the object is open.
        self._parents = self._calls = ()

    def reset(self) -> None:
        """Makes the object usable again after `terminate`."""
        handle = self._open()
        status.check(api().RunOptionsUnsetTerminate(handle.pointer))
        self.terminated = False


@cache
def default_run_options() -> Handle:
    """The ``OrtRunOptions`` of runs that are given none, which all sessions of the process share."""
    table = load_api()
    return Handle.make(table.ReleaseRunOptions, [], table.CreateRunOptions, "OrtRunOptions")


# A handle from before a fork counts as inherited, and so would everything that the child makes with it.
os.register_at_fork(after_in_child=default_run_options.cache_clear)
