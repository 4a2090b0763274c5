"""Compatibility of a compiled model with the devices of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from zrt._common.arguments import text, wrong_type
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import sizeof
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.devices import EpDevice
from zrt.environment.environment import current
from zrt.errors import ProviderError
from zrt.loading.model_source import Model, Source
from zrt.memory.allocators import default_allocator, take_string


@public
class ModelCompatibility(IntEnum):
    """A provider's verdict on a compiled model (``OrtCompiledModelCompatibility``)."""

    NOT_APPLICABLE = 0
    """The model was not compiled for this provider, or the provider does not check compatibility."""
    OPTIMAL = 1
    """The model runs as fast as one compiled here."""
    PREFER_RECOMPILATION = 2
    """The model runs, but compiling it again would make it faster."""
    UNSUPPORTED = 3
    """The model does not run here."""


@public
def compatibility_info(model: Model, provider: str) -> str | None:
    """The compatibility string that a provider (its full name) wrote into a compiled model; None without one.

    Raises `ModelNotFoundError`, `ModelError` or the exception for ONNX Runtime's own error, with the model's name.
    """
    if not isinstance(provider, str) or not provider:
        raise wrong_type("provider", "a provider's full name", provider)
    name = text(provider, "provider")
    table = api()
    allocator = default_allocator()
    with Source(model) as source:
        if source.path is not None:
            call: tuple[Any, ...] = (table.GetCompatibilityInfoFromModel, "char", source.path)
        else:
            call = table.GetCompatibilityInfoFromModelBytes, "char", source.data, sizeof(source.data)
        with status.named(source.subject):
            information = status.make(*call, name, allocator)
    return take_string(allocator, information) if information else None


@public
def model_compatibility(info: str, provider: str) -> ModelCompatibility:
    """A provider's verdict on a model's `compatibility_info`, for all devices that it has in this process.

    `provider` is its full name. Raises `ProviderError` if it has no devices here.
    """
    encoded = text(info, "info")
    text(provider, "provider")
    table, environment = api(), current().pointer
    # Hold the lock: unregistering a library would free its devices.
    with provider_libraries.lock:
        devices = provider_libraries.device_pointers(environment)
        names = [status.string(table.EpDevice_EpName(device)) for device in devices]
        chosen = [device for device, name in zip(devices, names, strict=True) if name == provider]
        if not chosen:
            known = ", ".join(sorted(set(names))) or "none"
            raise ProviderError(f"provider {provider!r} has no devices here; those that have: {known}")
        return _verdict(chosen, encoded)


def verdict(info: str, devices: Sequence[EpDevice]) -> ModelCompatibility:
    """As `model_compatibility`, for some devices of one provider."""
    encoded = text(info, "info")
    opened = [device._open() for device in devices]
    return _verdict([device.pointer for device in opened], encoded)


def _verdict(devices: list[Any], info: bytes) -> ModelCompatibility:
    function = api().GetModelCompatibilityForEpDevices
    return ModelCompatibility(status.fetch(function, "OrtCompiledModelCompatibility", devices, len(devices), info))
