"""The `providers` of a session: providers, devices, or a policy that chooses among the devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from zrt._common.arguments import entries
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.callback_errors import Carrier, as_callback_error, callback, describe
from zrt._native.cdata import strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import ArgumentError, DTypeError, Error, ProviderError
from zrt.memory.allocators import read_pairs
from zrt.providers import node_assignment
from zrt.providers.appending import append
from zrt.providers.base import Provider
from zrt.providers.choice import ProviderLike, parse_all
from zrt.providers.config_entries import read_entries
from zrt.providers.default_selection import DefaultSelection
from zrt.providers.vendors.cpu import CPU

if TYPE_CHECKING:
    from zrt.environment.devices import EpDevice

# The names of the option with which providers capture a run and replay it.
CAPTURE = ("enable_cuda_graph", "trt_cuda_graph_enable", "enableGraphCapture", "enable_graph_capture")


@public
class DevicePolicy(IntEnum):
    """The rule by which ONNX Runtime chooses a session's devices (``OrtExecutionProviderDevicePolicy``).

    In 1.27 MAX_PERFORMANCE is PREFER_GPU; MAX_EFFICIENCY and MIN_OVERALL_POWER are PREFER_NPU; DEFAULT is PREFER_CPU.
    The CPU is the fallback.
    """

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


Chooser: TypeAlias = "Callable[[Sequence[EpDevice], Mapping[str, str]], Iterable[EpDevice]]"
ChosenDevice: TypeAlias = "EpDevice | tuple[EpDevice, Mapping[str, str]]"
ProvidersLike: TypeAlias = "Iterable[ProviderLike | ChosenDevice] | DevicePolicy | Chooser | DefaultSelection | None"


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one provider, and the options for it."""

    name: str
    options: Mapping[str, str]
    devices: tuple[EpDevice, ...]

    def append(self, options: PoolOptions) -> None:
        """Adds the devices to session options."""
        opened = [device._open() for device in self.devices]
        try:
            status.check(
                api().SessionOptionsAppendExecutionProvider_V2(
                    options.pointer,
                    current().pointer,
                    [device.pointer for device in opened],
                    len(opened),
                    strings(self.options),
                    strings(self.options.values()),
                    len(self.options),
                )
            )
        except Error as error:
            raise ProviderError(f"{self.name}: {error}") from error


class _Asking(Carrier):
    """A policy of the caller's, which ONNX Runtime asks during a load."""

    def __init__(self, choose: Chooser) -> None:
        super().__init__()
        self.choose = choose
        self._handle = self.handle()
        self.selector = ffi.new("zrt_selector *", {"api": api(), "python": self._handle, "ask": lib.zrt_policy_asked})

    def ask(self, devices: Sequence[Any], model: Any, room: int) -> list[Any]:
        """The pointers that the policy chooses, at most `room` of the pointers `devices`."""
        from zrt.environment.devices import EpDevice

        with provider_libraries.lock:
            offered = {EpDevice._read(pointer): pointer for pointer in devices}
        answer = self.choose(tuple(offered), read_pairs(model))
        if isinstance(answer, EpDevice) or not isinstance(answer, Iterable):
            raise DTypeError(f"a policy returns a list of devices, not {answer!r:.80}")
        given = list(answer)
        for device in given:
            if not isinstance(device, EpDevice):
                raise DTypeError(f"a policy returns devices, not {device!r:.80}")
            if device not in offered:
                raise ArgumentError(f"a policy returns some of the devices that it is given, and not {device}")
        if not 1 <= len(given) <= room:
            raise ArgumentError(f"a policy returns between 1 and {room} devices, not {len(given)}")
        return [offered[device] for device in given]


@callback()
def zrt_policy_asked(
    python: Any, devices: Any, count: int, model: Any, chosen: Any, room: int, chosen_count: Any
) -> int:
    pointers = ffi.from_handle(python).ask(ffi.unpack(devices, count), model, room)
    chosen[0 : len(pointers)] = pointers
    chosen_count[0] = len(pointers)
    return 0


class Selection(DefaultSelection):
    """The `providers` argument of `Session`, checked, where it names providers, devices or a policy."""

    __slots__ = ("_asking", "_policy", "parts")

    changes_options = True

    parts: tuple[tuple[str, Mapping[str, str]] | Devices, ...]
    """The providers in their order, by name with options or by devices; empty where a policy chooses."""

    def __init__(self, parts: Sequence[tuple[str, Mapping[str, str]] | Devices], policy: Any = None) -> None:
        super().__init__()
        self.parts = tuple(parts)
        self._policy = policy
        self._asking = None if policy is None or isinstance(policy, DevicePolicy) else _Asking(policy)

    def apply(self, options: PoolOptions) -> PoolOptions:
        table = api()
        kept = self._hold()
        if self._policy is None:
            for part in self.parts:
                if isinstance(part, Devices):
                    part.append(options)
                else:
                    append(options, *part)
        elif self._asking is None:
            status.check(table.SessionOptionsSetEpSelectionPolicy(options.pointer, int(self._policy)))
        else:
            # ORT asks the policy during the load only, so this selection owns it. If the session owned it, a policy
            # that refers to its session would be a cycle that the GC cannot collect.
            delegate = ffi.addressof(lib, "zrt_select")
            status.check(
                table.SessionOptionsSetEpSelectionPolicyDelegate(options.pointer, delegate, self._asking.selector)
            )
        if self._policy is not None:
            # The recorded assignment is the only source of the chosen providers.
            node_assignment.record(options)
        self.captures = self._enables_capture(options)
        return options.holding(kept)

    def _enables_capture(self, options: Handle) -> bool:
        """Whether graph capture is on in the options by name, or in the config entries, which hold devices' options."""
        given = list(read_entries(options).items())
        for part in self.parts:
            if not isinstance(part, Devices):
                given += part[1].items()
        return any(key.rpartition(".")[2] in CAPTURE and value.lower() in ("1", "true") for key, value in given)

    def _hold(self) -> Handle:
        devices = [device for part in self.parts if isinstance(part, Devices) for device in part.devices]
        return provider_libraries.hold(device._pointer.library for device in devices)

    def loading(self, options: PoolOptions) -> AbstractContextManager[Handle]:
        return super().loading(options) if self._policy is None else self._choosing()

    @contextmanager
    def _choosing(self) -> Iterator[Handle]:
        with provider_libraries.selecting() as libraries:
            try:
                yield libraries
            except Error as error:
                raised = None if self._asking is None else self._asking.take()
                if raised is None:
                    raise
                raise as_callback_error(raised, f"{error} ({describe(raised)})") from raised
            finally:
                if self._asking is not None:
                    self._asking.take()

    def asked(self) -> list[str]:
        return [part.name if isinstance(part, Devices) else part[0] for part in self.parts]

    def all_names(self, session: Handle) -> tuple[str, ...]:
        policy = self._policy is not None
        names = [subgraph.provider for subgraph in node_assignment.read(session)] if policy else self.asked()
        return (*dict.fromkeys(name for name in names if name != CPU.name), CPU.name)


def parse(given: ProvidersLike) -> Selection:
    """`default_selection.parse` for all that is not None and not parsed yet."""
    if isinstance(given, DevicePolicy) or (callable(given) and not isinstance(given, (type, Provider))):
        return Selection([], given)
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        if is_device(given):
            raise DTypeError(f"providers: expected a list, got {given} alone")
        return Selection(parse_all(given))  # type: ignore[arg-type]  # `parse_all` refuses other types
    items = list(given)
    others: list[Any] = [item for item in items if not is_device(item)]
    named = iter(parse_all(others))
    parts: list[tuple[str, Mapping[str, str]] | Devices] = []
    for item in items:
        parts.append(_devices(item) if is_device(item) else next(named))
    return Selection(_grouped(parts))


def is_device(item: Any) -> bool:
    """Whether an item of `providers` is a device, alone or with options."""
    first = item[0] if isinstance(item, tuple) and item else item
    if first is None or isinstance(first, (str, Provider)):
        return False
    from zrt.environment.devices import EpDevice

    return isinstance(first, EpDevice)


def _devices(item: Any) -> Devices:
    if not isinstance(item, tuple):
        item._open()
        return Devices(item.provider, {}, (item,))
    if len(item) != 2:
        raise DTypeError(f"providers: expected a device or a (device, options) pair, got {len(item)} items")
    device, options = item
    device._open()
    pairs = entries(options, f"options of {device}")
    return Devices(device.provider, {key.decode(): value.decode() for key, value in pairs}, (device,))


def _grouped(parts: Iterable[Any]) -> list[tuple[str, Mapping[str, str]] | Devices]:
    """The parts with all devices of a provider in one, at the place of the first: a session has each provider once."""
    grouped: dict[str, Any] = {}
    for part in parts:
        name = part.name if isinstance(part, Devices) else part[0]
        before = grouped.get(name)
        if before is None:
            grouped[name] = part
        elif isinstance(before, Devices) and isinstance(part, Devices):
            grouped[name] = _joined(before, part)
        else:
            raise ArgumentError(f"provider {name!r} is given twice")
    if CPU.name in list(grouped)[:-1]:
        raise ArgumentError("the CPU provider takes every node, so providers after it would get none: put it last")
    return list(grouped.values())


def _joined(first: Devices, second: Devices) -> Devices:
    if second.devices[0] in first.devices:
        raise ArgumentError(f"providers: {second.devices[0]} is given twice")
    for key, value in second.options.items():
        if first.options.get(key, value) != value:
            raise ArgumentError(f"provider {first.name!r}: its devices share their options, and {key!r} differs")
    return Devices(first.name, {**first.options, **second.options}, first.devices + second.devices)
