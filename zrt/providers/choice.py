"""Providers as a caller names them: objects, names and pairs, checked against the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from zrt._common.arguments import shown, text, wrong_type
from zrt._common.public import public, public_in
from zrt.errors import ArgumentError, DTypeError
from zrt.providers import known
from zrt.providers.appending import usable
from zrt.providers.base import Provider
from zrt.providers.library_providers import full_name
from zrt.providers.vendors.cpu import CPU

ProviderLike: TypeAlias = "Provider | str | tuple[str, Mapping[str, str]]"


def as_data(provider: ProviderLike, naming: Callable[[str], str]) -> tuple[str, dict[str, str]]:
    """A provider's name as `naming` makes it of the caller's, and its options as strings by ORT's keys."""
    if isinstance(provider, Provider):
        return naming(provider.name), provider.settings()
    if isinstance(provider, str):
        return naming(provider), {}
    if isinstance(provider, tuple) and len(provider) == 2 and isinstance(provider[0], str):
        name, options = provider
        if not isinstance(options, Mapping):
            raise wrong_type(f"provider {name!r}", "a dict of options", options)
        full = naming(name)
        kind = known.kind_of(full)
        fields = kind.by_key() if kind else {}
        settings = {}
        for given, value in options.items():
            key = text(given, f"provider {name!r}").decode()
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
    if providers is None:
        return []
    # The names of a dict are iterable, and its options would be lost.
    if isinstance(providers, (str, Provider, Mapping)) or not isinstance(providers, Iterable):
        raise DTypeError(f"providers: expected a list, got {shown(providers)} alone")
    parsed = [parse(provider) for provider in providers]
    names = [name for name, _ in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"provider {name!r} is given twice")
    if CPU.name in names[:-1]:
        raise ArgumentError("the CPU provider takes every node, so providers after it would get none: put it last")
    return parsed


@public
def prefer_gpu() -> list[Provider]:
    """CUDA and then the CPU where a session on CUDA can be made on this machine, otherwise only the CPU."""
    # Deferred: a session on the CPU does not need it.
    from zrt.providers.vendors.cuda import CUDA

    return [CPU()] if usable(CUDA.name) else [CUDA(), CPU()]
