"""The process's one ONNX Runtime environment: the logger and what all sessions share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

from zrt._common.arguments import choose, entries, text, wrong_type
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import allocator_registry, provider_libraries, shared_allocators
from zrt.errors import ArgumentError, Error, NotCopyableError, ProviderError, UnsupportedError
from zrt.memory.allocators import CPU, Allocator, ArenaConfig, MemoryInfo, write_pairs
from zrt.types import AllocatorType, LogSeverity

if TYPE_CHECKING:
    import logging

    from zrt.environment.threading_options import ThreadingOptions

_lock = RLock()
_making = False
_current: Environment | None = None


@public
class Environment:
    """ONNX Runtime's environment (``OrtEnv``).

    There is one in a process, from its first use to the end: sessions make it with the defaults where nobody did
    before. Asking again with the same settings gives the same environment, with other settings an
    `ArgumentError`.

    `log_id` names the process in log lines; `log_severity` is the least level that ONNX Runtime logs. `logger`, a
    `logging.Logger` or the name of one, is where the log goes; None: to standard error. A session's own
    `SessionOptions.logger` comes before it. `threading` makes thread pools for all sessions that want none of their
    own; without it there are none. `config_entries` are settings by the keys of ORT's
    ``onnxruntime_env_config_keys.h``.
    ``OrtApi::CreateEnvWithOptions`` (which does what ``OrtApi::CreateEnv``, ``OrtApi::CreateEnvWithCustomLogger``,
    ``OrtApi::CreateEnvWithGlobalThreadPools`` and ``OrtApi::CreateEnvWithCustomLoggerAndGlobalThreadPools`` do);
    ``OrtApi::ReleaseEnv`` where its making failed.
    """

    __slots__ = ("_asked", "_severity", "config_entries", "log_id", "logger", "pointer", "pools", "threading")

    log_id: str
    logger: logging.Logger | None
    """Where the log goes; None: to standard error."""
    threading: ThreadingOptions | None
    """The thread pools that the environment was made with; None: it has none."""
    config_entries: dict[str, str]
    pointer: Any
    pools: Handle | None
    _asked: tuple[object, ...]
    _severity: LogSeverity

    def __new__(
        cls,
        log_id: str = "zrt",
        log_severity: LogSeverity | str = LogSeverity.WARNING,
        logger: logging.Logger | str | None = None,
        *,
        threading: ThreadingOptions | None = None,
        config_entries: Mapping[str, str] | None = None,
    ) -> Environment:
        global _current, _making
        name = text(log_id, "log_id")
        severity = choose(LogSeverity, log_severity, "log_severity")
        chosen = None
        if logger is not None:
            from zrt.environment import log_sink

            chosen = log_sink.as_logger(logger, "logger")
        if threading is not None:
            from zrt.environment.threading_options import ThreadingOptions

            if not isinstance(threading, ThreadingOptions):
                raise wrong_type("threading", "ThreadingOptions", threading)
        # A copy, so that nobody changes afterwards what the environment was made with.
        pools = copy(threading)
        given = entries({} if config_entries is None else config_entries, "config_entries")
        config = {key.decode(): entry.decode() for key, entry in given}
        asked = (log_id, severity, chosen, pools, config)
        with _lock:
            if _current is None:
                if _making:
                    # ORT would let a thread factory, or a signal's handler, wait for itself.
                    raise UnsupportedError(
                        "this process's environment is just being made: what is called meanwhile (a thread factory, "
                        "say), or forked off, cannot use it"
                    )
                created = super().__new__(cls)
                created.log_id = log_id
                created.logger = chosen
                created.threading = pools
                created.config_entries = config
                created._severity = severity
                created._asked = asked
                # Never released: ORT's threads and values may outlive every Python object.
                _making = True
                try:
                    created.pointer, created.pools = _create(name, severity, chosen, pools, config)
                    _current = created
                finally:
                    _making = False
            elif _current._asked != asked:
                raise ArgumentError(
                    f"this process has its environment already, as {_current!r}; "
                    f"{log_id!r} at {severity.name}{_with(chosen, pools, config)} cannot be a second one"
                )
            return _current

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotCopyableError("an Environment is its process's only one: no copy, no pickle")

    @property
    def log_severity(self) -> LogSeverity:
        """The least level that is logged, by the environment and by sessions that have none of their own.

        May be set at any time; a session keeps the level that it was loaded with.
        """
        return self._severity

    @log_severity.setter
    def log_severity(self, value: LogSeverity | str) -> None:
        severity = choose(LogSeverity, value, "log_severity")
        status.check(api().UpdateEnvWithCustomLogLevel(self.pointer, int(severity)))
        self._severity = severity

    @staticmethod
    def flush_log(timeout: float | None = None) -> bool:
        """Waits until the loggers have all that was logged before this call, of the environment and every session.

        Gives up after `timeout` seconds; None waits for as long as it takes. Returns whether they have it all: False
        too where a handler calls it, since that one's own line is not done yet.
        """
        from zrt.environment import log_sink

        return log_sink.flush(timeout)

    def register_allocator(self, memory: MemoryInfo = CPU, arena: ArenaConfig | None = None) -> None:
        """Makes an allocator that sessions loaded from now on share, if they have ``use_env_allocators=True``.

        With an `arena` it keeps freed memory for the next, as configured; without, each allocation is the system's. Of
        a READ_ONLY `memory` weights alone are taken. There is one for each device: it takes the place of the one
        before, which sessions that have it keep. On the host and with CUDA; `UnsupportedError` for other memory,
        `ProviderError` where CUDA cannot be used. ``OrtApi::CreateAndRegisterAllocatorV2`` (which does what
        ``OrtApi::CreateAndRegisterAllocator`` does).
        """
        if not isinstance(memory, MemoryInfo):
            raise wrong_type("memory", "a MemoryInfo", memory)
        if arena is not None and not isinstance(arena, ArenaConfig):
            raise wrong_type("arena", "an ArenaConfig", arena)
        provider = self._provider_of(memory)
        config = (arena or ArenaConfig()).handle()
        where = (memory if arena is None else replace(memory, allocator_type=AllocatorType.ARENA)).handle()
        register = api().CreateAndRegisterAllocatorV2
        with provider_libraries.freeing([allocator_registry.place_of(where.pointer)], f"memory {memory.name!r}"):
            status.check(register(self.pointer, provider, where.pointer, config.pointer, ffi.NULL, ffi.NULL, 0))

    @staticmethod
    def _provider_of(memory: MemoryInfo) -> bytes:
        """The provider that makes allocators for a memory; only those two can in 1.27."""
        text(memory.name, "MemoryInfo.name")
        if memory.name in ("Cpu", "CpuAligned4K"):
            return b"CPUExecutionProvider"
        if memory.name in ("Cuda", "CudaPinned"):
            from zrt.providers import usable

            # Where CUDA is missing ORT throws across its own C interface, which ends the process.
            reason = usable("CUDA")
            if reason is None:
                return b"CUDAExecutionProvider"
            raise ProviderError(f"memory {memory.name!r}: {reason}")
        raise UnsupportedError(f"memory {memory.name!r}: ONNX Runtime registers allocators of the host and of CUDA")

    def unregister_allocator(self, memory: MemoryInfo = CPU) -> None:
        """Takes a registered allocator away from sessions to come; those that have it keep it.

        `ArgumentError` where there is none for that device, `BusyError` while zrt has handed it out
        (`shared_allocator`).
        """
        if not isinstance(memory, MemoryInfo):
            raise wrong_type("memory", "a MemoryInfo", memory)
        where = memory.handle()
        with provider_libraries.freeing([allocator_registry.place_of(where.pointer)], f"memory {memory.name!r}"):
            try:
                status.check(api().UnregisterAllocator(self.pointer, where.pointer))
            except Error as error:
                raise ArgumentError(f"memory {memory.name!r}: {error}") from error

    def shared_allocator(self, memory: MemoryInfo) -> Allocator | None:
        """The environment's allocator for a memory, None where there is none: no session is needed to allocate there.

        A provider library brings one for each memory of its devices (`EpDevice.memory`, `EpDevice.host_memory`); the
        host has a plain one. As long as the allocator, or what it allocated, is alive nothing takes its place and its
        library stays: those are a `BusyError` then.
        """
        return shared_allocators.find(self.pointer, memory)

    def create_shared_allocator(self, memory: MemoryInfo, options: Mapping[str, str] | None = None) -> Allocator:
        """Has a device make another allocator for its `memory`, with options that its provider knows.

        `memory` is the `EpDevice.memory` or `EpDevice.host_memory` of a device. What there was before goes, also where
        the provider then refuses; sessions loaded with ``use_env_allocators=True`` keep theirs.
        `BusyError` while zrt has handed out an allocator for that memory, `UnsupportedError` for memory of no device.
        """
        return shared_allocators.create(self.pointer, memory, options)

    def release_shared_allocator(self, memory: MemoryInfo) -> None:
        """Takes away the environment's allocator for a device's memory; sessions that have it keep it.

        `ArgumentError` where there is none, `BusyError` while zrt has handed it out.
        """
        shared_allocators.release(self.pointer, memory)

    def register_provider_library(self, name: str, path: str | os.PathLike[str]) -> None:
        """Loads a library with execution providers, under a name of the caller's; `ep_devices` lists what it offers.

        Raises `ProviderNotFoundError` where there is no such file, `ProviderError` where it is no such library or
        refuses, `ArgumentError` for a name that is taken, `BusyError` while a session is loaded by policy.
        """
        provider_libraries.register(self.pointer, name, path)

    def unregister_provider_library(self, name: str) -> None:
        """Unloads a provider library; its devices are closed with it.

        Raises `BusyError` as long as sessions (and their lanes and values), streams or options of it are alive:
        ONNX Runtime itself would unload the code under them. `UnknownNameError` where there is no such name.
        """
        provider_libraries.unregister(self.pointer, name)

    @property
    def provider_libraries(self) -> dict[str, str]:
        """The path of each registered provider library, by its name."""
        return provider_libraries.registered()

    def __repr__(self) -> str:
        more = _with(self.logger, self.threading, self.config_entries)
        return f"Environment(log_id={self.log_id!r}, log_severity={self.log_severity.name}{more})"


def _with(logger: logging.Logger | None, threading: ThreadingOptions | None, config: dict[str, str]) -> str:
    """What an environment has besides the log's name and level, for messages."""
    said = "" if logger is None else f", logger={logger.name!r}"
    said += "" if threading is None else f", threading={threading!r}"
    return said + (f", config_entries={config!r}" if config else "")


def _create(
    name: bytes,
    severity: LogSeverity,
    logger: logging.Logger | None,
    threading: ThreadingOptions | None,
    config: dict[str, str],
) -> tuple[Any, Handle | None]:
    """The ``OrtEnv`` with these settings, and what stands for its pools: it must be there for as long as they are."""
    pools = None if threading is None else threading.handle()
    pairs = write_pairs(config, "config_entries")
    options = ffi.new("OrtEnvCreationOptions *")
    options.version = lib.ORT_API_VERSION
    options.logging_severity_level = int(severity)
    options.log_id = identifier = ffi.new("char[]", name)
    options.config_entries = pairs.pointer
    if logger is not None:
        from zrt.environment import log_sink

        options.custom_logging_function, options.custom_logging_param = log_sink.sink(logger)
    if pools is not None:
        options.threading_options = pools.pointer
    table = api()
    pointer = None
    try:
        pointer = status.make(table.CreateEnvWithOptions, "OrtEnv", options)
    finally:
        del identifier  # ORT has copied it.
        crew = None if pools is None else pools.crew
        if crew is not None:
            try:
                crew.settle("Environment")
            except BaseException:
                # It was made nonetheless, with threads that the factory did not make.
                if pointer is not None:
                    table.ReleaseEnv(pointer)
                raise
    if pools is None:
        return pointer, None
    return pointer, Handle.block("char") if crew is None else crew.block


def current() -> Environment:
    """The environment of this process, made with the defaults if there is none yet."""
    return _current or Environment()


def _forked() -> None:
    # What was being made stays so: ORT's own lock on it is held for good.
    global _lock
    _lock = RLock()


os.register_at_fork(after_in_child=_forked)
