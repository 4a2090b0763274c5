"""`RunOptions`: how runs are logged and profiled, where they queue, and the switch that ends them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from zrt._common.arguments import entries, integer, path_bytes, require_folder, wrong_type
from zrt._common.config_keys import RunConfigKey
from zrt._common.public import public
from zrt._common.records import Field
from zrt._common.serialization import OptionData, data_field
from zrt._native import status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api, load_api
from zrt.errors import ArgumentError, UnsupportedError
from zrt.loading.option_fields import Call, apply, calls_of, choice, entry, number, opaque, path, string
from zrt.memory.allocators import MemoryInfo
from zrt.types import DeviceType, LogSeverity

if TYPE_CHECKING:
    from zrt.environment.streams import SyncStream
    from zrt.loading.lora import LoraAdapter

# The glob pattern of a time stamp such as 2026-01-31_23-59-59_999.
TIME_STAMP = "-".join(["[0-9]" * 4, *["[0-9]" * 2] * 2]) + "_" + "-".join(["[0-9]" * 2] * 3) + "_" + "[0-9]" * 3


def _arenas(memories: Any, name: str) -> bytes | None:
    """The arenas to shrink in ORT's notation, ``cpu:0;gpu:1``; None for an empty list."""
    if not isinstance(memories, Sequence) or not all(isinstance(memory, MemoryInfo) for memory in memories):
        raise wrong_type(name, "a list of MemoryInfo", memories)
    words = {DeviceType.CPU: "cpu", DeviceType.GPU: "gpu"}
    for memory in memories:
        if memory.device_type not in words:
            raise ArgumentError(f"{name}: memory {memory.name!r}: ONNX Runtime shrinks arenas of CPU and GPU only")
    return ";".join(f"{words[memory.device_type]}:{memory.device_id}" for memory in memories).encode() or None


def _stream(stream: SyncStream | None) -> Handle | None:
    if stream is None:
        return None
    from zrt.environment.streams import SyncStream

    if not isinstance(stream, SyncStream):
        raise wrong_type("sync_stream", "a SyncStream", stream)
    return stream._open()


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


def _graph_id(value: Any, name: str) -> bytes:
    return str(integer(value, name, -1)).encode()


def _prefix(value: Any, name: str) -> bytes:
    prefix = path_bytes(value, name)
    require_folder(prefix, name)
    return prefix


_FIELDS: dict[str, Field] = {
    "tag": string("RunOptionsSetRunTag"),
    "log_severity_level": choice("RunOptionsSetRunLogSeverityLevel", LogSeverity),
    "log_verbosity_level": number("RunOptionsSetRunLogVerbosityLevel"),
    "config_entries": data_field(Mapping[str, str] | None, default=None),
    "profile_file_prefix": path("RunOptionsEnableProfiling", _prefix),
    "adapters": data_field(Sequence[object], default=()),
    "shrink_arenas": entry(
        "AddRunConfigEntry", RunConfigKey.MEMORY_ENABLE_MEMORY_ARENA_SHRINKAGE, _arenas, Sequence[object], ()
    ),
    "gpu_graph_id": entry("AddRunConfigEntry", RunConfigKey.GPU_GRAPH_ID, _graph_id, int),
    "sync_stream": opaque(),
}


@public
class RunOptions(OptionData, Owner):
    """How runs are logged and profiled, and the switch that ends them (``OrtRunOptions``).

    `tag` marks the run's log lines, `log_severity_level` is the lowest severity that the run logs,
    `log_verbosity_level` says how detailed its VERBOSE log is. `config_entries` are further settings by ORT's keys
    (`RunConfigKey`). `profile_file_prefix` profiles each run by itself: its trace is written to the prefix and a time
    stamp (see `profile_files`).

    `adapters` (`LoraAdapter`) are active in these runs; of two that hold the same parameter the last one counts.
    `shrink_arenas` names the memories whose arenas return unused memory to the system after each run. `gpu_graph_id`
    names the graph that a provider with graph capture captures or replays; -1 runs without one. `sync_stream` is the
    stream that executes the run's work on the stream's device.

    The settings do not change after construction. One object serves any number of runs, also at the same time:
    `terminate` ends them all with `TerminatedError`, and the object then refuses further runs until `reset`.
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
        self.adapters, active = _adapters(adapters)
        stream = _stream(sync_stream)
        self.gpu_graph_id = gpu_graph_id
        self.sync_stream = sync_stream
        self.tag = tag
        self.log_severity_level = log_severity_level
        self.log_verbosity_level = log_verbosity_level
        config = entries({} if config_entries is None else config_entries, "config_entries")
        self.config_entries = {key.decode(): value.decode() for key, value in config}
        self.profile_file_prefix = profile_file_prefix
        self.shrink_arenas = shrink_arenas
        calls: list[Call] = [("adapters", "RunOptionsAddActiveLoraAdapter", (adapter.pointer,)) for adapter in active]
        calls += [("config_entries", "AddRunConfigEntry", pair) for pair in config]
        calls += calls_of(self)
        if stream is not None:
            calls.append(("sync_stream", "RunOptionsSetSyncStream", (stream.pointer,)))
        self._make(active if stream is None else [*active, stream], calls)

    def _make(self, parents: Sequence[Handle], calls: Iterable[Call]) -> None:
        """Makes the ``OrtRunOptions``; `parents` own the pointers among the calls' arguments."""
        table = load_api()
        handle = Handle.make(table.ReleaseRunOptions, parents, table.CreateRunOptions, "OrtRunOptions")
        apply(handle, calls)
        self.terminated = False
        self._twins: dict[int, weakref.ref[RunOptions]] = {}
        self._made_of = (parents, calls)
        self._handle = handle

    @classmethod
    def _data_fields(cls) -> Mapping[str, Field]:
        return _FIELDS

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
        import glob

        prefix = os.fsdecode(self.profile_file_prefix)
        return sorted(glob.glob(f"{glob.escape(prefix)}_{TIME_STAMP}.json"))

    def settings(self) -> dict[str, Any]:
        """The settings by the names of the constructor's arguments."""
        return {name: getattr(self, name) for name in _FIELDS}

    def twin(self) -> RunOptions:
        """Another object with the same settings, for one run of several; `terminate` of this object ends it too."""
        made_of = self._made_of
        self._open()
        # Repeat the calls rather than check the arguments again: an adapter or a stream may be closed by now.
        twin = RunOptions.__new__(RunOptions)
        for name, setting in self.settings().items():
            setattr(twin, name, setting)
        twin._make(*made_of)
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
        for reference in list(self._twins.values()):
            twin = reference()
            if twin is not None:
                twin.terminate()

    def close(self) -> None:
        """Closes the object; runs that use it continue."""
        super().close()
        # After the close: `twin` needs these while the object is open.
        self._made_of = ((), ())

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
