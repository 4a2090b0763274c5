"""The `providers` of a session: providers as objects, names or pairs, devices, or a policy that chooses devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from zrt._common.arguments import entries, require_type, shown, text
from zrt._common.public import public, public_in
from zrt._native import ffi, lib, status
from zrt._native.callback_errors import Carrier, as_callback_error, callback, describe
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.devices import EpDevice
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import ArgumentError, DTypeError, Error, ProviderError
from zrt.memory.allocators import read_pairs
from zrt.providers import known, node_assignment
from zrt.providers.attach import as_arrays
from zrt.providers.base import Provider, append, full_name, usable
from zrt.providers.default_selection import DefaultSelection
from zrt.providers.vendors.cpu import CPU

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


ProviderLike: TypeAlias = "Provider | str | tuple[str, Mapping[str, str]]"
Chooser: TypeAlias = "Callable[[Sequence[EpDevice], Mapping[str, str]], Iterable[EpDevice]]"
ChosenDevice: TypeAlias = "EpDevice | tuple[EpDevice, Mapping[str, str]]"
ProvidersLike: TypeAlias = "Iterable[ProviderLike | ChosenDevice] | DevicePolicy | Chooser | DefaultSelection | None"


def as_data(provider: ProviderLike, naming: Callable[[str], str]) -> tuple[str, dict[str, str]]:
    """A provider's name as `naming` makes it of the caller's, and its options as strings by ORT's keys."""
    if isinstance(provider, Provider):
        return naming(provider.name), provider.settings()
    if isinstance(provider, str):
        return naming(provider), {}
    if isinstance(provider, tuple) and len(provider) == 2 and isinstance(provider[0], str):
        name, options = provider
        require_type(options, Mapping, f"provider {name!r}", "a dict of options")
        full = naming(name)
        kind = known.kind_of(full)
        fields = kind.by_key() if kind else {}
        settings = {}
        for option, value in options.items():
            key = text(option, f"provider {name!r}").decode()
            if value is None:
                continue
            if isinstance(value, bool) and key in fields:
                # Providers differ in how they write True and False.
                settings[key] = fields[key][1].write(value, f"provider {name!r} option {key!r}")
            else:
                settings[key] = text(str(value), f"provider {name!r} option {key!r}").decode()
        return full, settings
    raise DTypeError(f"providers: {shown(provider)} is neither a provider, a name nor a (name, options) pair")


@public_in("zrt.providers")
def parse(provider: ProviderLike) -> tuple[str, dict[str, str]]:
    """A provider's full name and its options, checked against the library."""
    return as_data(provider, full_name)


@public_in("zrt.providers")
def parse_all(providers: Iterable[ProviderLike] | None) -> list[tuple[str, dict[str, str]]]:
    """The providers of a session in their order, each once; None means only the CPU execution provider."""
    parts = [] if providers is None else _grouped(Part(*parse(item)) for item in _items(providers))
    return [(part.name, dict(part.options)) for part in parts]


def _items(providers: Any) -> list[Any]:
    # The names of a dict are iterable, and its options would be lost.
    if isinstance(providers, (str, Provider, Mapping)) or not isinstance(providers, Iterable):
        one = str(providers) if is_device(providers) else shown(providers)
        raise DTypeError(f"providers: expected a list, got {one} alone")
    return list(providers)


@public
def prefer_gpu() -> list[Provider]:
    """CUDA and then the CPU where a session on CUDA can be made on this machine, otherwise only the CPU."""
    # Deferred, as in `known.kind_of`.
    from zrt.providers.vendors.cuda import CUDA

    return [CPU()] if usable(CUDA.name) else [CUDA(), CPU()]


class Part(NamedTuple):
    """A provider with its options, which runs on the `devices` if there are any."""

    name: str
    options: Mapping[str, str]
    devices: tuple[EpDevice, ...] = ()

    def append(self, options: PoolOptions) -> None:
        """Adds the provider or its devices to session options."""
        if not self.devices:
            append(options, self.name, self.options)
            return
        opened = [device._open() for device in self.devices]
        devices = (current().pointer, [device.pointer for device in opened], len(opened))
        with status.named(self.name, ProviderError):
            function = api().SessionOptionsAppendExecutionProvider_V2
            status.check(function(options.pointer, *devices, *as_arrays(self.options)))


class _Asking(Carrier):
    """A policy of the caller's, which ONNX Runtime asks during a load."""

    def __init__(self, choose: Chooser) -> None:
        super().__init__()
        self.choose = choose
        self._handle = self.handle()
        self.selector = ffi.new("zrt_selector *", {"api": api(), "python": self._handle, "ask": lib.zrt_policy_asked})

    def ask(self, devices: Sequence[Any], model: Any, most: int) -> list[Any]:
        """The pointers that the policy chooses, at most `most` of the pointers `devices`."""
        with provider_libraries.lock:
            offered = {EpDevice._read(pointer): pointer for pointer in devices}
        answer = self.choose(tuple(offered), read_pairs(model))
        if isinstance(answer, EpDevice) or not isinstance(answer, Iterable):
            raise DTypeError(f"a policy returns a list of devices, not {answer!r:.80}")
        selected = list(answer)
        for device in selected:
            if not isinstance(device, EpDevice):
                raise DTypeError(f"a policy returns devices, not {device!r:.80}")
            if device not in offered:
                raise ArgumentError(f"a policy returns some of the devices that it is given, and not {device}")
        if not 1 <= len(selected) <= most:
            raise ArgumentError(f"a policy returns between 1 and {most} devices, not {len(selected)}")
        return [offered[device] for device in selected]


@callback()
def zrt_policy_asked(
    python: Any, devices: Any, count: int, model: Any, selected: Any, most: int, selected_count: Any
) -> int:
    pointers = ffi.from_handle(python).ask(ffi.unpack(devices, count), model, most)
    selected[0 : len(pointers)] = pointers
    selected_count[0] = len(pointers)
    return 0


class Selection(DefaultSelection):
    """The `providers` argument of `Session`, checked, where it names providers, devices or a policy."""

    __slots__ = ("_asking", "_policy", "parts")

    changes_options = True

    @property
    def by_policy(self) -> bool:  # type: ignore[override]
        return self._policy is not None

    parts: Sequence[Part]
    """The providers in their order; empty where a policy chooses."""

    def __init__(self, parts: Sequence[Part], policy: Any = None) -> None:
        super().__init__()
        self.parts = parts
        self._policy = policy
        self._asking = None if policy is None or isinstance(policy, DevicePolicy) else _Asking(policy)

    @property
    def is_cpu(self) -> bool:
        return self._policy is None and all(part == Part(CPU.name, {}) for part in self.parts)

    def apply(self, options: PoolOptions) -> PoolOptions:
        table = api()
        libraries = provider_libraries.hold(device._pointer.library for part in self.parts for device in part.devices)
        if self._policy is None:
            for part in self.parts:
                part.append(options)
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
        self.captures: bool = self._enables_capture(options)
        return options.holding(libraries)

    def _enables_capture(self, options: PoolOptions) -> bool:
        """Whether graph capture is on in the options by name, or in the config entries, which hold devices' options."""
        entries = list(options.config_entries().items())
        for part in self.parts:
            if not part.devices:
                entries += part.options.items()
        return any(key.rpartition(".")[2] in CAPTURE and value.lower() in ("1", "true") for key, value in entries)

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
        return [part.name for part in self.parts]

    def asked_with_options(self) -> list[str]:
        return [part.name for part in self.parts if part.options]

    def all_names(self, session: Handle) -> tuple[str, ...]:
        policy = self._policy is not None
        names = [subgraph.provider for subgraph in node_assignment.read(session)] if policy else self.asked()
        return (*dict.fromkeys(name for name in names if name != CPU.name), CPU.name)


def selection_of(providers: ProvidersLike) -> Selection:
    """`default_selection.parse` for all that is not None and not parsed yet."""
    if isinstance(providers, DevicePolicy) or (callable(providers) and not isinstance(providers, (type, Provider))):
        return Selection([], providers)
    return Selection(_grouped(_devices(item) if is_device(item) else Part(*parse(item)) for item in _items(providers)))


def is_device(item: Any) -> bool:
    """Whether an item of `providers` is a device, alone or with options."""
    return isinstance(item[0] if isinstance(item, tuple) and item else item, EpDevice)


def _devices(item: Any) -> Part:
    if not isinstance(item, tuple):
        item = (item, {})
    if len(item) != 2:
        raise DTypeError(f"providers: expected a device or a (device, options) pair, got {len(item)} items")
    device, options = item
    device._open()
    pairs = entries(options, f"options of {device}")
    return Part(device.provider, {key.decode(): value.decode() for key, value in pairs}, (device,))


def _grouped(parts: Iterable[Part]) -> list[Part]:
    """The parts with all devices of a provider in one, at the place of the first: a session has each provider once."""
    grouped: dict[str, Part] = {}
    for part in parts:
        before = grouped.get(part.name)
        if before is None:
            grouped[part.name] = part
        elif before.devices and part.devices:
            grouped[part.name] = _joined(before, part)
        else:
            raise ArgumentError(f"provider {part.name!r} is given twice")
    if CPU.name in list(grouped)[:-1]:
        raise ArgumentError("the CPU provider takes every node, so providers after it would get none: put it last")
    return list(grouped.values())


def _joined(first: Part, second: Part) -> Part:
    if second.devices[0] in first.devices:
        raise ArgumentError(f"providers: {second.devices[0]} is given twice")
    for key, value in second.options.items():
        if first.options.get(key, value) != value:
            raise ArgumentError(f"provider {first.name!r}: its devices share their options, and {key!r} differs")
    return Part(first.name, {**first.options, **second.options}, first.devices + second.devices)
