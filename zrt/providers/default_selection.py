"""The providers of a session that names none: the CPU execution provider alone. It imports nothing about others."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar

from zrt._common.config_keys import SessionConfigKey
from zrt._native.handle import Handle
from zrt.environment.pool_options import PoolOptions

if TYPE_CHECKING:
    from zrt.providers.selection import ProvidersLike

# ONNX Runtime's name of the provider that every session has, as the last one.
CPU_NAME = "CPUExecutionProvider"

# With this entry a session takes all of the environment's allocators, also those of devices that it does not use, and
# frees them at its end.
ENV_ALLOCATORS = SessionConfigKey.USE_ENV_ALLOCATORS


class DefaultSelection:
    """The `providers` argument of `Session`, checked; this class is that of None."""

    __slots__ = ("captures",)

    changes_options: ClassVar[bool] = False
    """Whether `apply` changes the options, so that no other load can share them."""

    by_policy: ClassVar[bool] = False
    """Whether a policy chooses the devices during the load."""

    captures: bool
    """Whether a provider's options enable graph capture; valid after `apply`."""

    def __init__(self) -> None:
        self.captures = False

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU execution provider alone, without options."""
        return True

    def apply(self, options: PoolOptions) -> PoolOptions:
        """Puts the selection into session options; the result keeps the libraries of its devices registered."""
        return options

    def loading(self, options: PoolOptions) -> AbstractContextManager[Handle]:
        """Encloses a load with `options`, to which this was applied; gives the handle that the session must own.

        An exception of a policy is raised as the cause of the failed load.
        """
        if not options.has_config_entry(ENV_ALLOCATORS):
            # The options own the libraries of their devices.
            return nullcontext(options)
        # Deferred: the modules about devices take 8 ms of a first session.
        from zrt.environment import provider_libraries

        return provider_libraries.selecting()

    def asked(self) -> list[str]:
        """The names of the given providers; empty for a policy."""
        return []

    def asked_with_options(self) -> list[str]:
        """The names of those that have options."""
        return []

    def all_names(self, session: Handle) -> tuple[str, ...]:
        """The providers of a session that was loaded with this selection, the CPU's last; for a policy, those that run
        nodes.
        """
        return (CPU_NAME,)


def parse(providers: ProvidersLike) -> DefaultSelection:
    """A session's `providers`, checked against the library and the devices; None means only the CPU."""
    if providers is None:
        return DefaultSelection()
    if isinstance(providers, DefaultSelection):
        return providers
    # Deferred: the providers' classes and the modules about devices take 12 ms of a first session.
    from zrt.providers.selection import selection_of

    return selection_of(providers)
