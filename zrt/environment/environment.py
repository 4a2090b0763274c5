"""`Environment`: the logger, thread pools and allocators that all sessions of the process share."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from zrt._common.arguments import byte_count, choose, entries, memory_bounds, require_type, seconds, text
from zrt._common.fork_lock import ForkLock
from zrt._common.public import public
from zrt._native import bridge, early_start, ffi, lib, status
from zrt._native.cdata import new_array
from zrt._native.handle import Handle
from zrt._native.library import api, load_api
from zrt.environment import cpu_budget, log_sink
from zrt.environment.cpu_budget import CpuBudget
from zrt.errors import ArgumentError, NotCopyableError, UnsupportedError
from zrt.memory.allocators import CPU, Allocator, MemoryInfo, write_pairs
from zrt.types import LogSeverity

# Imports in functions here are deferred: the modules about devices and their memory take 10 ms of a first session.
if TYPE_CHECKING:
    from zrt.environment.threading_options import ThreadingOptions
    from zrt.memory.arena import ArenaConfig

_lock = ForkLock()
# Stays true in a child forked meanwhile: there ORT's own lock is never released.
_creating = False
_current: Environment | None = None
# The level of the log that a caller has set before there is an environment.
_level_to_come: LogSeverity | None = None
# Whether the environment, or the one to come, logs by a callback if it has no logger.
_calls_back = False


@public
class Environment:
    """ONNX Runtime's environment (``OrtEnv``).

    A process has one, from its first use to its end; the first session creates it with the defaults if there is none
    yet. The same arguments return the same environment again, although the CPUs of the process or its variables have
    changed since; other settings raise `ArgumentError`.

    `log_id` names the process in log lines; `log_severity` is the lowest level that ONNX Runtime logs. The log goes to
    `logger`, a `logging.Logger` or the name of one; None means standard error. `SessionOptions.logger` overrides it
    for a session. `threading` creates thread pools for all sessions that create none of their own; None creates none.
    `config_entries` are settings by the keys of ORT's ``onnxruntime_env_config_keys.h``.

    `cpus` is a budget of CPUs for all runs of the process: a number, or ``"auto"`` for those that the process may use.
    Runs then take turns, no more at a time than fit, and sessions make no thread pools unless their options ask for
    some. None: as the variable ``ZRT_CPUS`` says, and without it there is no budget.

    `memory` and `memory_limit` are for sessions whose `SessionOptions` leave these fields open; None takes them from
    the environment variables ``ZRT_MEMORY`` and ``ZRT_MEMORY_LIMIT``.
    """

    __slots__ = (
        "_asked",
        "_settings",
        "_severity",
        "config_entries",
        "cpus",
        "log_id",
        "logger",
        "memory",
        "memory_limit",
        "pointer",
        "pools",
        "threading",
    )

    log_id: str
    logger: logging.Logger | None
    """The logger that the log goes to; None means standard error."""
    threading: ThreadingOptions | None
    """The thread pools that the environment was created with; None if it has none."""
    config_entries: dict[str, str]
    cpus: int | None
    """The size of the budget of CPUs; None without one."""
    memory: str | None
    """How sessions bound their memory: "bounded"; None if they do not."""
    memory_limit: int | None
    """The limit of each session's arena in bytes; None without a limit."""
    pointer: Any
    pools: Handle | None
    _asked: tuple[object, ...]
    _settings: tuple[object, ...]
    _severity: LogSeverity

    def __new__(
        cls,
        log_id: str = "zrt",
        log_severity: LogSeverity | str = LogSeverity.WARNING,
        logger: logging.Logger | str | None = None,
        *,
        threading: ThreadingOptions | None = None,
        config_entries: Mapping[str, str] | None = None,
        cpus: int | str | None = None,
        memory: str | None = None,
        memory_limit: int | str | None = None,
    ) -> Environment:
        global _current, _creating
        wanted = super().__new__(cls)
        wanted.log_id = text(log_id, "log_id").decode()
        wanted._severity = choose(LogSeverity, log_severity, "log_severity")
        wanted.logger = None if logger is None else log_sink.as_logger(logger, "logger")
        wanted.threading = None
        if threading is not None:
            from zrt.environment.threading_options import ThreadingOptions

            require_type(threading, ThreadingOptions, "threading", "ThreadingOptions")
            # A copy: later changes to the caller's object must not change the settings that are compared.
            wanted.threading = replace(threading)
        pairs = entries({} if config_entries is None else config_entries, "config_entries")
        wanted.config_entries = {key.decode(): entry.decode() for key, entry in pairs}
        wanted.cpus = (cpu_budget.by_variable() if cpus is None else cpu_budget.size_of(cpus)) or None
        wanted.memory = _or_variable(memory, "memory", memory_bounds)
        wanted.memory_limit = _or_variable(memory_limit, "memory_limit", byte_count)
        wanted._asked = cpus, memory, memory_limit
        if _current is not None and _current._asked == wanted._asked:
            # The variables and the CPUs of the process may be others by now.
            wanted.cpus, wanted.memory, wanted.memory_limit = _current.cpus, _current.memory, _current.memory_limit
        wanted._settings = (wanted.log_id, wanted._severity, *wanted._others().values())
        # Loaded before the lock is taken: a signal handler or a forked child may make the environment meanwhile.
        load_api()
        with _lock.now:
            if _current is None:
                if _creating:
                    # In ORT a thread factory or a signal handler would wait for itself: a deadlock.
                    raise UnsupportedError(
                        "this process's environment is being created: a thread factory that is called meanwhile, or "
                        "a process forked from it, cannot use it"
                    )
                # The environment is never released: ORT's threads and values may outlive every Python object.
                _creating = True
                try:
                    wanted._create()
                    _current = wanted
                finally:
                    _creating = False
            elif _current._settings != wanted._settings:
                raise ArgumentError(
                    f"this process has its environment already, as {_current!r}; {wanted!r} cannot be a second one: "
                    "make it before the first session, or set the variables before the process starts"
                )
            return _current

    def _others(self) -> dict[str, object]:
        """The settings other than the log's name and level."""
        return {
            name: getattr(self, name)
            for name in ("logger", "threading", "config_entries", "memory", "memory_limit", "cpus")
        }

    def _create(self) -> None:
        """Makes the ``OrtEnv``, and a handle that must live as long as its thread pools do."""
        # First: it decides about the threads of the pools.
        cpu_budget.begin(self.cpus or 0)
        pools = None if self.threading is None else self.threading.handle()
        pairs = write_pairs(self.config_entries, "config_entries")
        options = ffi.new("OrtEnvCreationOptions *")
        options.version = lib.ZRT_API_VERSION
        options.logging_severity_level = int(self._severity)
        options.log_id = identifier = new_array("char", self.log_id.encode())
        options.config_entries = pairs.pointer
        if self.logger is not None:
            options.custom_logging_function, options.custom_logging_param = log_sink.sink(self.logger)
        elif _calls_back:
            options.custom_logging_function = ffi.addressof(lib, "zrt_log_call")
        if pools is not None:
            options.threading_options = pools.pointer
        early_start.wait()
        pointer = None
        try:
            pointer = status.make(load_api().CreateEnvWithOptions, "OrtEnv", options)
        finally:
            del identifier  # ORT has copied it.
            crew = None if pools is None else pools.crew
            if crew is not None:
                try:
                    crew.settle("Environment")
                except BaseException:
                    # ORT created the environment all the same, with threads that the factory did not make.
                    if pointer is not None:
                        api().ReleaseEnv(pointer)
                    raise
        self.pointer = pointer
        self.pools = None if pools is None else Handle.block("char") if crew is None else crew.block

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotCopyableError("an Environment is its process's only one: no copy, no pickle")

    @property
    def log_severity(self) -> LogSeverity:
        """The lowest level that is logged, by the environment and by sessions without a level of their own.

        It may be set at any time; a session keeps the level that it was loaded with.
        """
        return self._severity

    @log_severity.setter
    def log_severity(self, value: LogSeverity | str) -> None:
        severity = choose(LogSeverity, value, "log_severity")
        status.check(api().UpdateEnvWithCustomLogLevel(self.pointer, int(severity)))
        self._severity = severity

    @staticmethod
    def cpu_budget() -> CpuBudget | None:
        """The budget of CPUs of this process, with its counters at this instant; None if it has none."""
        return cpu_budget.current()

    @staticmethod
    def flush_log(timeout: float | None = None) -> bool:
        """Waits until all lines that were logged before this call are delivered, of the environment and all sessions.

        Gives up after `timeout` seconds; None waits without limit. Returns whether all lines are delivered. In a
        handler it returns False, since the line that the handler gets is not delivered yet.
        """
        return bridge.flush(None if timeout is None else seconds(timeout, "timeout"))

    def register_allocator(self, memory: MemoryInfo = CPU, arena: ArenaConfig | None = None) -> None:
        """Creates an allocator that sessions loaded from now on share, if they have ``use_env_allocators=True``.

        With an `arena` the allocator keeps freed memory for later allocations, as configured; without one each
        allocation goes to the system. A READ_ONLY `memory` is used for weights only. A device has one allocator: a
        new one replaces the old one, which its sessions keep. `memory` is the host's or CUDA's; other memory raises
        `UnsupportedError`, and CUDA's raises `ProviderError` if CUDA cannot be used.
        """
        from zrt.environment import shared_allocators

        shared_allocators.register(self.pointer, memory, arena)

    def unregister_allocator(self, memory: MemoryInfo = CPU) -> None:
        """Unregisters an allocator, so that later sessions do not use it; sessions that have it keep it.

        Raises `ArgumentError` if that device has no allocator, `BusyError` while an `Allocator` that
        `shared_allocator` returned is alive.
        """
        from zrt.environment import shared_allocators

        shared_allocators.unregister(self.pointer, memory)

    def shared_allocator(self, memory: MemoryInfo) -> Allocator | None:
        """The environment's allocator for a memory, None if there is none. It allocates without a session.

        A provider library brings one for each memory of its devices (`EpDevice.memory`, `EpDevice.host_memory`); the
        host has one without an arena. While the allocator or its allocations are alive, replacing or unregistering it
        or its library raises `BusyError`.
        """
        from zrt.environment import shared_allocators

        return shared_allocators.find(self.pointer, memory)

    def create_shared_allocator(self, memory: MemoryInfo, options: Mapping[str, str] | None = None) -> Allocator:
        """Replaces the allocator of a device's `memory` by a new one, with options of the device's provider.

        `memory` is the `EpDevice.memory` or `EpDevice.host_memory` of a device. The old allocator is released, also
        if the provider then refuses to create another; sessions loaded with ``use_env_allocators=True`` keep theirs.
        Raises `BusyError` while an allocator that zrt returned for that memory is alive, `UnsupportedError` for a
        memory that belongs to no device.
        """
        from zrt.environment import shared_allocators

        return shared_allocators.create(self.pointer, memory, options)

    def release_shared_allocator(self, memory: MemoryInfo) -> None:
        """Releases the environment's allocator for a device's memory; sessions that have it keep it.

        Raises `ArgumentError` if there is none, `BusyError` while an allocator that zrt returned for it is alive.
        """
        from zrt.environment import shared_allocators

        shared_allocators.release(self.pointer, memory)

    def register_provider_library(self, name: str, path: str | os.PathLike[str]) -> None:
        """Loads a library with execution providers, under any free `name`; `ep_devices` then lists its devices.

        Raises `ProviderNotFoundError` if the file does not exist, `ProviderError` if it is no provider library or
        fails to initialize, `ArgumentError` for a name that is taken, `BusyError` while a session is loaded by policy.
        """
        from zrt.environment import provider_libraries

        provider_libraries.register(self.pointer, name, path)

    def unregister_provider_library(self, name: str) -> None:
        """Unloads a provider library, after which its devices raise `ClosedError`.

        Raises `BusyError` while sessions (or their lanes and values), streams or options that use it are alive: ONNX
        Runtime would unload the code that they run. Raises `UnknownNameError` if no library has that name.
        """
        from zrt.environment import provider_libraries

        provider_libraries.unregister(self.pointer, name)

    @property
    def provider_libraries(self) -> dict[str, str]:
        """The path of each registered provider library, by its name."""
        from zrt.environment import provider_libraries

        return provider_libraries.registered()

    def __repr__(self) -> str:
        given = {name: value for name, value in self._others().items() if value is not None and value != {}}
        more = "".join(f", {name}={getattr(value, 'name', value)!r}" for name, value in given.items())
        return f"Environment(log_id={self.log_id!r}, log_severity={self.log_severity.name}{more})"


def _or_variable(value: Any, name: str, check: Callable[[Any, str], Any]) -> Any:
    """The checked value of a setting, or of its environment variable; None if both are missing."""
    if value is not None:
        return check(value, name)
    variable = f"ZRT_{name.upper()}"
    value = os.environ.get(variable)
    return check(value, variable) if value else None


def current() -> Environment:
    """The environment of this process, made with the defaults if there is none yet."""
    return _current or _default()


def _default(threading: ThreadingOptions | None = None) -> Environment:
    environment = Environment(threading=threading)
    if _level_to_come is not None:
        environment.log_severity = _level_to_come
    return environment


def create_with_pools(threading: ThreadingOptions) -> bool:
    """Makes the environment with these thread pools and the other defaults; False if there is one already."""
    with _lock.now:
        if _current is not None:
            return False
        _default(threading)
        return True


def set_log_severity(severity: LogSeverity) -> None:
    """Sets the level of the environment's log now, or as soon as `current` makes an environment."""
    global _level_to_come
    if _current is None:
        _level_to_come = severity
    else:
        _current.log_severity = severity


def set_log_callback(callback: Callable[[int, str, str, str, str], object] | None) -> bool:
    """Calls `callback(severity, category, log id, location, text)` with each line of the log; None calls nothing.

    Standard error gets the lines that it does not take: those of threads that Python has not started, those that the
    callback itself causes, and those for which it raises an exception, which goes to `sys.unraisablehook`. Returns
    False if there is an environment already that logs in another way.
    """
    global _calls_back
    with _lock.now:
        if _current is not None and (_current.logger is not None or not _calls_back):
            return callback is None
        _calls_back = _calls_back or callback is not None
        lib.zrt_log_set_callback(0 if callback is None else id(callback))
    return True
