"""`Provider`, the base of the typed providers: the providers that the library has, and adding one to options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar, TypeVar, dataclass_transform

from zrt._common.arguments import entries, require_type
from zrt._common.installation import install_line
from zrt._common.public import public, public_in
from zrt._common.serialization import OptionData, data_field
from zrt._native import ort_messages, status
from zrt._native.handle import Handle
from zrt._native.library import api, load_api
from zrt.environment import cuda_parts
from zrt.environment.environment import current
from zrt.environment.options import Option, Route, options_of
from zrt.environment.pool_options import PoolOptions
from zrt.errors import Error, ProviderError, UnsupportedError
from zrt.providers import known
from zrt.providers.attach import Attach, ThroughObject, by_keys
from zrt.types import ElementType

Kind = TypeVar("Kind")


@public
def available_providers() -> list[str]:
    """The full names of the providers that are compiled into the loaded library.

    Compiled in does not mean usable: a GPU, a driver and its libraries may be missing (see `prefer_gpu`).
    """
    table = load_api()
    names, count = status.fetch_array(table.GetAvailableProviders, "char *", count="int")
    try:
        return [status.string(names[i]) for i in range(count)]
    finally:
        status.check(table.ReleaseAvailableProviders(names, count))


@public_in("zrt.providers")
def full_name(name: str) -> str:
    """ORT's name for a short or full name in any case; `ProviderError` where the library has no such provider."""
    require_type(name, str, "provider", "a str")
    for candidate in available_providers():
        if known.short(candidate) == known.short(name):
            return candidate
    kind = known.kind_of(name)
    if kind and not kind.listed:
        # ORT does not list it: adding it shows whether the library has it.
        return kind.name
    raise lacking(name)


def lacking(name: str) -> ProviderError:
    """The error about a provider that the library lacks: it names the library's own, and how to get the missing one."""
    # Deferred: names that are right need no devices.
    from zrt.environment import provider_libraries
    from zrt.environment.devices import ep_devices

    kind = known.kind_of(name)
    advice = kind.comes_with if kind else known.GONE.get(known.short(name))
    if kind and kind.installed_by:
        advice = f"{advice}. To install it: {install_line(kind.installed_by)}"
    # Without a provider library there may be no environment yet, which `ep_devices` would make.
    devices = ep_devices() if provider_libraries.registered() else ()
    if any(device.library and known.short(device.provider) == known.short(name) for device in devices):
        advice = "A registered provider library has it: give the session its devices, see zrt.ep_devices"
    has = f"provider {name!r} is not in this library, which has {', '.join(available_providers())}"
    return ProviderError(f"{has}. {advice}" if advice else has)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Raises errors from inside the ``with`` as a `ProviderError` that names the provider."""
    try:
        yield
    except Error as error:
        if isinstance(error, ProviderError) and name in str(error):
            raise
        raise ProviderError(f"{name}: {error}") from error


@dataclass_transform(frozen_default=True, kw_only_default=True)
def provider(kind: type[Kind]) -> type[Kind]:
    """Makes a class the typed options of a provider: a frozen dataclass of `zrt.providers`."""
    return public_in("zrt.providers")(dataclass(frozen=True, kw_only=True, repr=False, slots=True)(kind))


@provider
class Provider(OptionData):
    """The base of the typed providers.

    A field that is None is left to ORT. `extra` holds further keys and values, which are passed on as strings.
    """

    name: ClassVar[str] = "Provider"
    """ORT's full name of the provider, which each class below this one has."""
    comes_with: ClassVar[str]
    """A sentence on how to get a library with this provider."""
    installed_by: ClassVar[str] = ""
    """The extra of zrt that installs such a library, if there is one."""
    source: ClassVar[str] = ""
    """The file of ORT's source that reads its keys."""
    library: ClassVar[str] = ""
    """The file of a provider that needs CUDA."""
    attach: ClassVar[Attach] = by_keys
    """The way in which it is added to session options."""
    listed: ClassVar[bool] = True
    """Whether `available_providers` lists it where the library has it."""

    extra: Mapping[str, str] = data_field(Mapping[str, str], default_factory=dict)

    def __repr__(self) -> str:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items() if value is not None and value != {})
        return f"{type(self).__name__}({shown})"

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options by field name."""
        return options_of(cls)

    @classmethod
    def by_key(cls) -> dict[str, tuple[str, Option]]:
        """The fields and their options by ORT's key."""
        return {option.key or name: (name, option) for name, option in cls.options().items()}

    def _check(self) -> None:
        self.settings()

    def settings(self) -> dict[str, str]:
        """The options as strings by ORT's keys. Raises an error that names the field for a wrong value."""
        settings = {}
        for key, (name, option) in self.by_key().items():
            value = getattr(self, name)
            if value is not None:
                settings[key] = option.write(value, f"{type(self).__name__}.{name}")
        for further, written in entries(self.extra, f"{self.name} extra"):
            if further.decode() in settings:
                raise ProviderError(f"{self.name} option {further.decode()!r} is given twice")
            settings[further.decode()] = written.decode()
        return settings

    def addresses(self) -> tuple[str, ...]:
        """The names of the fields that hold an address, which cannot be written as data."""
        return tuple(
            name for name, option in self.options().items() if option.is_address and getattr(self, name) is not None
        )

    def effective(self) -> dict[str, str]:
        """The options as the library reads them, with its own defaults.

        Only for providers with an options object in ONNX Runtime: CUDA, TensorRT, CANN, oneDNN, ROCm. Raises
        `UnsupportedError` for others, `ProviderError` where the library does not have the provider.
        """
        attach = type(self).attach
        if not isinstance(attach, ThroughObject):
            raise UnsupportedError(f"{self.name}: ONNX Runtime does not tell what it makes of this provider's options")
        full_name(self.name)
        with explained(self.name):
            settings = routed(type(self), self.settings())[Route.PROVIDER]
            make_ready(type(self))
            return attach.read(settings)


def make_ready(kind: type[Provider] | None) -> None:
    """Prepares the process for a provider's library. Raises `ProviderError` where a part is missing that it needs."""
    # ONNX Runtime reports to the environment's logger, and fails without one, if it cannot load the provider.
    current()
    if kind and kind.library and kind.name in available_providers():
        cuda_parts.require(kind.library)


def routed(kind: type[Provider] | None, settings: Mapping[str, str]) -> dict[Route, dict[str, str]]:
    """A provider's settings by `Route`. Raises `ProviderError` for a setting that ORT drops."""
    known = kind.by_key() if kind else {}
    routes: dict[Route, dict[str, str]] = {Route.PROVIDER: {}, Route.SESSION: {}}
    for key, value in settings.items():
        route = known[key][1].route if key in known else Route.PROVIDER
        if kind and route is Route.DROPPED:
            raise ProviderError(f"{kind.name} option {key!r} has no effect: the C API of ONNX Runtime drops it")
        routes[route][key] = value
    return routes


@public_in("zrt.providers")
def append(options: PoolOptions, name: str, settings: Mapping[str, str]) -> None:
    """Adds a provider to session options through the C function that its class names."""
    kind = known.kind_of(name)
    with explained(name):
        routes = routed(kind, settings)
        # Before the provider is added: some read the config entries at that time.
        for key, value in routes[Route.SESSION].items():
            options.add_config_entry(key, value.encode())
        make_ready(kind)
        attach = kind.attach if kind else by_keys
        try:
            attach(options, name, routes[Route.PROVIDER])
        except Error as error:
            if kind and not kind.listed and ort_messages.NOT_IN_BUILD.matches(error):
                raise lacking(name) from error
            raise


@public_in("zrt.providers")
def usable(name: str) -> str | None:
    """The reason why a provider cannot be used on this machine; None if a session on it can be made."""
    require_type(name, str, "provider", "a str")
    try:
        return _obstacle(full_name(name))
    except Error as error:
        return str(error)


@cache
def _obstacle(full: str) -> str | None:
    """`usable` for a full name: a trial, whose result stays.

    Errors of the environment are raised, so that they do not stay.
    """
    # Deferred: a session needs no model of zrt's.
    from zrt._common.one_node import one_node, tensor_type

    environment = current()
    try:
        table = api()
        options = PoolOptions.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")
        append(options, full, {})
        # The smallest model that a provider must take.
        kind = tensor_type(int(ElementType.FLOAT), [1])
        model = one_node("Identity", "", 13, [kind], [kind], [])
        create = (table.CreateSessionFromArray, "OrtSession", environment.pointer, model, len(model), options.pointer)
        Handle.make(table.ReleaseSession, [options], *create)
    except Error as error:
        return str(error)
    return None
