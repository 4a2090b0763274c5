"""The providers that the loaded library has: their names, and errors about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zrt._common.public import public, public_in
from zrt._native import status
from zrt._native.library import api
from zrt.errors import Error, ProviderError
from zrt.providers import known


@public
def available_providers() -> list[str]:
    """The full names of the providers that are compiled into the loaded library.

    Compiled in does not mean usable: a GPU, a driver and its libraries may be missing (see `prefer_gpu`).
    """
    table = api()
    names, count = status.fetch_array(table.GetAvailableProviders, "char *", count="int")
    try:
        return [status.string(names[i]) for i in range(count)]
    finally:
        status.check(table.ReleaseAvailableProviders(names, count))


@public_in("zrt.providers")
def full_name(name: str) -> str:
    """ORT's name for a short or full name in any case; `ProviderError` where the library has no such provider."""
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
    kind = known.kind_of(name)
    advice = kind.comes_with if kind else known.GONE.get(known.short(name))
    if kind and kind.installed_by:
        # Deferred: only this error needs it.
        from zrt._common.installation import install_line

        advice = f"{advice}. To install it: {install_line(kind.installed_by)}"
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
