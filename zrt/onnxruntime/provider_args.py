"""The arguments `providers` and `provider_options`: checked, and handed to zrt."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from zrt._native.library import library
from zrt.environment import provider_libraries
from zrt.errors import Error, ProviderError
from zrt.onnxruntime import conversions, notices
from zrt.onnxruntime.homes import words
from zrt.providers import known
from zrt.providers.base import available_providers, lacking

if TYPE_CHECKING:
    from zrt.environment.devices import EpDevice
    from zrt.session.session import Session

# Names, and pairs of a name and its options; the options of providers that are names alone.
Providers: TypeAlias = Sequence[str | tuple[str, dict[str, Any]]]
ProviderOptions: TypeAlias = Sequence[dict[str, Any]]

CPU = "CPUExecutionProvider"

# The names that ONNX Runtime knows, in its order of preference; the loaded library has some of them.
_ALL = [
    f"{short}ExecutionProvider"
    for short in words(
        "NvTensorRTRTX Tensorrt CUDA MIGraphX OpenVINO Dnnl VitisAI QNN Nnapi VSINPU Js CoreML ACL Dml Rknpu WebNN "
        "WebGpu Xnnpack CANN Azure CPU"
    )
]

# 1.32 no longer knows these.
_UNTIL_31 = {"ACLExecutionProvider", "NvTensorRTRTXExecutionProvider"}

_RIVALS = "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"


def minor() -> int:
    """The second number of the library's version, on which some answers depend: 27 for 1.27.0."""
    return int(library().version.split(".")[1])


def get_all_providers() -> list[str]:
    """The names of all providers that ONNX Runtime knows, in its order of preference."""
    return [name for name in _ALL if minor() <= 31 or name not in _UNTIL_31]


def get_available_providers() -> list[str]:
    """The names of the providers that the loaded library has, and those of registered libraries."""
    return [*_available(), *_plugins()]


@cache
def _available() -> tuple[str, ...]:
    # They are compiled into the library.
    return tuple(available_providers())


def _plugins() -> dict[str, list[EpDevice]]:
    """The devices of the providers that come from registered libraries, by the providers' names."""
    devices: dict[str, list[EpDevice]] = {}
    # Without any, no environment is needed, whose thread pools a program may still configure.
    if provider_libraries.registered():
        from zrt.environment.devices import ep_devices

        for device in ep_devices():
            if device.provider not in _available():
                devices.setdefault(device.provider, []).append(device)
    return devices


def strict() -> bool:
    """Whether the environment variable ``ZRT_STRICT`` is 1: then no provider is left out silently."""
    return os.environ.get("ZRT_STRICT") == "1"


def check_and_normalize_provider_args(
    providers: Providers | None, provider_options: ProviderOptions | None, available_provider_names: Sequence[str]
) -> tuple[list[str], list[dict[str, str]]]:
    """The names of the providers, each once, and the options of each one as strings.

    `providers` has names and (name, options) pairs; or it has names alone, and `provider_options` the options of each.
    Warns of a name that is not available and of one that is given twice, which is ignored. Raises `ValueError`.
    """
    if providers is None:
        return [], []
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    settings: dict[str, dict[str, str]] = {}
    for name, options in _pairs(providers, provider_options):
        if name not in available_provider_names:
            has = ", ".join(available_provider_names)
            notices.warn(f"Specified provider '{name}' is not in available provider names.Available providers: '{has}'")
        if name in settings:
            notices.warn(f"Duplicate provider '{name}' encountered, ignoring.")
            continue
        settings[name] = {str(key): str(value) for key, value in options.items()}
    return list(settings), list(settings.values())


def _pairs(providers: Sequence[Any], provider_options: Any) -> list[tuple[str, dict[Any, Any]]]:
    """Each provider with its options."""
    if provider_options is None:
        return [_pair(provider) for provider in providers]
    if not isinstance(provider_options, Sequence):
        raise ValueError("'provider_options' should be a sequence.")
    if len(providers) != len(provider_options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    if not all(isinstance(provider, str) for provider in providers):
        raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
    if not all(isinstance(options, dict) for options in provider_options):
        raise ValueError("'provider_options' values must be dicts.")
    return list(zip(providers, provider_options, strict=True))


def _pair(provider: Any) -> tuple[str, dict[Any, Any]]:
    if isinstance(provider, str):
        return provider, {}
    if isinstance(provider, tuple) and len(provider) == 2:
        name, options = provider
        if isinstance(name, str) and isinstance(options, dict):
            return name, options
    raise ValueError("'providers' values must be either strings or (string, dict) tuples.")


def _named(providers: Any) -> set[Any]:
    """The names in an argument that is not checked yet."""
    names = [each[0] if isinstance(each, tuple) and each else each for each in providers or ()]
    return {name for name in names if isinstance(name, str)}


def check_rivals(providers: Providers | None) -> None:
    """Raises `ValueError` for two providers that no session can have together."""
    if _named(providers).issuperset(_RIVALS):
        raise ValueError(f"Cannot enable both '{_RIVALS[0]}' and '{_RIVALS[1]}' in the same session.")


def fallback_for(providers: Providers | None, available: Sequence[str]) -> list[str]:
    """The providers to fall back to: with TensorRT those of CUDA too, if both were given."""
    rival = next((name for name in reversed(_RIVALS) if name in available), None)
    cuda = "CUDAExecutionProvider"
    return [cuda, CPU] if rival is not None and _named(providers).issuperset((cuda, rival)) else [CPU]


class Selection:
    """The providers of one session: those that zrt gets, and those that the session reports.

    `own` is the selection of the session's options, which counts where no names are given. A provider that the
    library lacks is left out, with ``ZRT_STRICT`` refused; a name that ONNX Runtime does not know raises
    `RuntimeError`.
    """

    def __init__(self, names: Sequence[str], options: Sequence[dict[str, str]], own: Any = None) -> None:
        self._own = None if names else own
        self._options: dict[str, dict[str, str]] = {}
        if callable(self._own):
            self._own = self._noting(self._own)
        for one, settings in self._own if isinstance(self._own, list) else ():
            self._options[one if isinstance(one, str) else one.provider] = settings
        self._plugins = _plugins()
        for given, settings in zip(names, options, strict=True):
            name = conversions.string(given, "providers")
            settings = conversions.texts(settings, f"the options of {name}")
            if name in _available() or name in self._plugins:
                self._options[name] = settings if strict() else _effectual(name, settings)
            elif strict():
                raise lacking(name)
            elif name not in get_all_providers():
                raise RuntimeError(f"Unknown Provider Type: {name}")
        self._options.setdefault(CPU, {})

    def _noting(self, choose: Callable[..., list[EpDevice]]) -> Callable[..., list[EpDevice]]:
        """The caller's function that chooses devices; the session reports their providers, also those without nodes."""

        def choice(*arguments: Any) -> list[EpDevice]:
            chosen = choose(*arguments)
            self._options = {name: {} for name in (*(device.provider for device in chosen), CPU)}
            return chosen

        return choice

    def to_zrt(self) -> Any:
        """The `providers` of `zrt.Session`: the CPU takes every node, so those after it get none."""
        if self._own is not None:
            return self._own
        arguments: list[Any] = []
        for name, settings in self._options.items():
            if name == CPU:
                break
            arguments += [(place, settings) for place in self._plugins.get(name, [name])]
        return arguments or None

    def drop(self, error: ProviderError) -> None:
        """Leaves out the provider that cannot be used, with a warning; raises `error` if none is at fault."""
        for name in [] if self._own is not None else list(self._options):
            if name != CPU and name in str(error):
                del self._options[name]
                notices.warn(f"{name} cannot be used and is left out: {error}")
                return
        raise error

    def names(self, session: Session) -> list[str]:
        """The names that the session reports, best first."""
        # Of the devices that a rule (an `IntEnum`) has chosen, ONNX Runtime tells only those with nodes.
        return list(session.providers if isinstance(self._own, int) else self._options)

    def reported(self, name: str) -> dict[str, str]:
        """The options of a provider as the session reports them."""
        settings, devices = self._options.get(name, {}), self._plugins.get(name)
        return _effective(name, settings) if devices is None else {**devices[0].options, **settings}


def _effectual(name: str, settings: dict[str, str]) -> dict[str, str]:
    """The settings without those that the C API of ONNX Runtime drops, with a warning; zrt would refuse them."""
    kind = None if not settings or name == CPU else known.kind_of(name)
    if kind is None:
        return settings
    from zrt.environment.options import Route

    dropped = {key for key, (_, option) in kind.by_key().items() if option.route is Route.DROPPED and key in settings}
    if dropped:
        has = ", ".join(sorted(dropped))
        notices.warn(f"{name}: the C API of ONNX Runtime drops {has}, so there is no effect")
    return {key: value for key, value in settings.items() if key not in dropped}


def _effective(name: str, options: dict[str, str]) -> dict[str, str]:
    """The options of a provider, where ONNX Runtime reports any, with its own defaults where it tells them."""
    if name in (CPU, "AzureExecutionProvider"):
        return {}
    kind = known.kind_of(name)
    try:
        return dict(options) if kind is None else kind(extra=options).effective()
    except Error:
        return dict(options)
