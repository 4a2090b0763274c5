"""Adding a provider to session options, and the check whether a session on it can be made."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from zrt._common.public import public_in
from zrt._native import ort_messages
from zrt._native.cdata import from_buffer
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import Error
from zrt.providers import known
from zrt.providers.attach import ByKeys
from zrt.providers.base import make_ready, routed
from zrt.providers.config_entries import add_entry
from zrt.providers.library_providers import explained, full_name, lacking
from zrt.providers.option import Route


@public_in("zrt.providers")
def append(options: PoolOptions, name: str, settings: Mapping[str, str]) -> None:
    """Adds a provider to session options through the C function that its class names."""
    kind = known.kind_of(name)
    with explained(name):
        routes = routed(kind, settings)
        # Before the provider is added: some read the config entries at that time.
        for key, value in routes[Route.SESSION].items():
            add_entry(options, key.encode(), value.encode())
        make_ready(kind)
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
    """The reason why a provider cannot be used on this machine; None if a session on it can be made."""
    try:
        full = full_name(name)
        table = api()
        options = PoolOptions.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")
        append(options, full, {})
        Handle.make(
            table.ReleaseSession,
            [options],
            table.CreateSessionFromArray,
            "OrtSession",
            current().pointer,
            from_buffer(_IDENTITY),
            len(_IDENTITY),
            options.pointer,
        )
    except Error as error:
        return str(error)
    return None
