"""From what a caller names to what ONNX Runtime takes: names found, options read, providers added and tried."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from zrt._common.arguments import shown, text, wrong_type
from zrt._common.public import public, public_in
from zrt._native import ffi, ort_messages, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment.environment import current
from zrt.errors import ArgumentError, DTypeError, Error, ProviderError
from zrt.providers import known
from zrt.providers.attach import ByKeys
from zrt.providers.base import Provider, routed
from zrt.providers.config_entries import add_entry
from zrt.providers.option import Route
from zrt.providers.vendors.cpu import CPU

ProviderLike: TypeAlias = "Provider | str | tuple[str, Mapping[str, str]]"


@public
def available_providers() -> list[str]:
    """The full names of the providers that are compiled into the loaded library.

    Compiled in does not mean usable: a GPU, a driver and its libraries may be missing (see `prefer_gpu`).
    """
    table = api()
    names, count = ffi.new("char ***"), ffi.new("int *")
    status.check(table.GetAvailableProviders(names, count))
    try:
        return [status.string(names[0][i]) for i in range(count[0])]
    finally:
        status.check(table.ReleaseAvailableProviders(names[0], count[0]))


@public_in("zrt.providers")
def full_name(name: str) -> str:
    """ORT's name for a short or full name in any case; `ProviderError` where the library has no such provider."""
    for candidate in available_providers():
        if known.short(candidate) == known.short(name):
            return candidate
    kind = known.kind_of(name)
    if kind and not kind.listed:
        # Whether the library has it shows when it is added.
        return kind.name
    raise lacking(name)


def lacking(name: str) -> ProviderError:
    """The error about a provider that the library does not have: what it has instead, and what would give this one."""
    kind = known.kind_of(name)
    advice = kind.comes_with if kind else known.GONE.get(known.short(name))
    has = f"provider {name!r} is not in this library, which has {', '.join(available_providers())}"
    return ProviderError(f"{has}. {advice}" if advice else has)


@public_in("zrt.providers")
def parse(provider: ProviderLike) -> tuple[str, dict[str, str]]:
    """A provider's full name and its options, checked against the library."""
    if isinstance(provider, Provider):
        return full_name(provider.name), provider.settings()
    if isinstance(provider, str):
        return full_name(provider), {}
    if isinstance(provider, tuple) and len(provider) == 2 and isinstance(provider[0], str):
        name, options = provider
        if not isinstance(options, Mapping):
            raise wrong_type(f"provider {name!r}", "a dict of options", options)
        full = full_name(name)
        kind = known.kind_of(full)
        fields = kind.by_key() if kind else {}
        settings = {}
        for given, value in options.items():
            key = text(given, f"provider {name!r}").decode()
            if value is None:
                continue
            if isinstance(value, bool) and key in fields:
                # Each provider has words of its own for True and False.
                settings[key] = fields[key][1].write(value, f"provider {name!r} option {key!r}")
            else:
                settings[key] = text(str(value), f"provider {name!r} option {key!r}").decode()
        return full, settings
    raise DTypeError(f"providers: {shown(provider)} is neither a provider, a name nor a (name, options) pair")


@public_in("zrt.providers")
def parse_all(providers: Iterable[ProviderLike] | None) -> list[tuple[str, dict[str, str]]]:
    """The providers of a session in their order, each once; None is the processor alone."""
    if providers is None:
        return []
    if isinstance(providers, (str, Provider)) or not isinstance(providers, Iterable):
        raise DTypeError(f"providers: expected a list, got {shown(providers)} alone")
    parsed = [parse(provider) for provider in providers]
    names = [name for name, _ in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"provider {name!r} is given twice")
    if CPU.name in names[:-1]:
        raise ArgumentError("the CPU provider takes every node, so providers after it would get none: put it last")
    return parsed


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns what goes wrong inside into a `ProviderError` that names the provider."""
    try:
        yield
    except Error as error:
        if isinstance(error, ProviderError) and name in str(error):
            raise
        raise ProviderError(f"{name}: {error}") from error


@public_in("zrt.providers")
def append(options: Handle, name: str, settings: Mapping[str, str]) -> None:
    """Adds a provider to session options: by keys, or in the way that its class says.

    ``OrtApi::SessionOptionsAppendExecutionProvider``; ``OrtApi::AddSessionConfigEntry`` for what a provider looks up
    in the session's configuration.
    """
    kind = known.kind_of(name)
    with explained(name):
        routes = routed(kind, settings)
        # First: some look there when they are added.
        for key, value in routes[Route.SESSION].items():
            add_entry(options, key.encode(), value.encode())
        attach = kind.attach if kind else ByKeys()
        try:
            attach(options, name, routes[Route.PROVIDER])
        except Error as error:
            if kind and not kind.listed and ort_messages.NOT_IN_BUILD.matches(error):
                raise lacking(name) from error
            raise


# y = Identity(x) on one float (IR version 8, opset 13): the smallest model that a provider must take.
_IDENTITY = bytes.fromhex(
    "080812003a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a020801"
    "620f0a0179120a0a08080112040a02080142040a00100d"
)


@functools.cache
def usable(name: str) -> str | None:
    """Why a provider cannot be used on this machine, or None if a session on it could be made."""
    try:
        full = full_name(name)
        table = api()
        options = Handle.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")
        append(options, full, {})
        Handle.make(
            table.ReleaseSession,
            [options],
            table.CreateSessionFromArray,
            "OrtSession",
            current().pointer,
            ffi.from_buffer(_IDENTITY),
            len(_IDENTITY),
            options.pointer,
        )
    except Error as error:
        return str(error)
    return None


@public
def prefer_gpu() -> list[Provider]:
    """CUDA before the processor where a session on CUDA can be made here, else the processor alone."""
    # Here, so that whoever stays on the processor never imports it.
    from zrt.providers.vendors.cuda import CUDA

    return [CPU()] if usable(CUDA.name) else [CUDA(), CPU()]
