"""`Provider`, the base of the typed providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from zrt._common.arguments import entries
from zrt._common.public import public_in
from zrt._common.records import fields, record
from zrt._common.serialization import OptionData, data_field
from zrt.environment import cuda_parts
from zrt.environment.environment import current
from zrt.errors import ProviderError, UnsupportedError
from zrt.providers.attach import Attach, ByKeys, ThroughObject
from zrt.providers.library_providers import available_providers, explained, full_name
from zrt.providers.option import Option, Route


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class Provider(OptionData):
    """The base of the typed providers.

    A field that is None is left to ORT. `extra` holds further keys and values, which are passed on as strings.
    """

    name: ClassVar[str]
    """ORT's full name of the provider."""
    comes_with: ClassVar[str]
    """A sentence on how to get a library with this provider."""
    installed_by: ClassVar[str] = ""
    """The extra of zrt that installs such a library, if there is one."""
    source: ClassVar[str] = ""
    """The file of ORT's source that reads its keys."""
    library: ClassVar[str] = ""
    """The file of a provider that needs CUDA."""
    attach: ClassVar[Attach] = ByKeys()
    """The way in which it is added to session options."""
    listed: ClassVar[bool] = True
    """Whether `available_providers` lists it where the library has it."""

    extra: Mapping[str, str] = data_field(Mapping[str, str], default_factory=dict)

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in fields(self)}
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None and value != {})
        return f"{type(self).__name__}({shown})"

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options by field name."""
        return {name: item.metadata["option"] for name, item in fields(cls).items() if "option" in item.metadata}

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
        if not isinstance(self.attach, ThroughObject):
            raise UnsupportedError(f"{self.name}: ONNX Runtime does not tell what it makes of this provider's options")
        full_name(self.name)
        with explained(self.name):
            settings = routed(type(self), self.settings())[Route.PROVIDER]
            make_ready(type(self))
            return self.attach.read(settings)


def make_ready(kind: type[Provider] | None) -> None:
    """Prepares the process for a provider's library. Raises `ProviderError` where a part is missing that it needs."""
    # ONNX Runtime reports to the environment's logger, and fails without one, if it cannot load the provider.
    current()
    if kind and kind.library and kind.name in available_providers():
        cuda_parts.require(kind.library)


def routed(kind: type[Provider] | None, settings: Mapping[str, str]) -> dict[Route, dict[str, str]]:
    """A provider's settings by `Route`. Raises `ProviderError` for a setting that ORT drops."""
    known = kind.by_key() if kind else {}
    found: dict[Route, dict[str, str]] = {Route.PROVIDER: {}, Route.SESSION: {}}
    for key, value in settings.items():
        route = known[key][1].route if key in known else Route.PROVIDER
        if kind and route is Route.DROPPED:
            raise ProviderError(f"{kind.name} option {key!r} has no effect: the C API of ONNX Runtime drops it")
        found[route][key] = value
    return found
