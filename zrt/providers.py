"""Execution providers: what a session may run on, and with which options.

A provider is named by a typed object (`CPU()`, `CUDA(device_id=1)`), by its short or full name ("cuda",
"CUDAExecutionProvider"), or by a (name, options) pair as in ONNX Runtime's own package.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, TypeAlias

from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.arguments import boolean, entries, integer, text
from zrt.environment import current
from zrt.errors import ArgumentError, DTypeError, Error, ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The base of the typed providers; `extra` passes keys through that have no field, as strings."""

    name: ClassVar[str]
    """ORT's full name of the provider."""

    extra: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        """The options as ORT takes them: strings by key; fields that are None are left to ORT."""
        settings = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "extra" or value is None:
                continue
            settings[item.name] = ("1" if value else "0") if isinstance(value, bool) else str(value)
        for key, value in entries(self.extra, f"{self.name} extra"):
            if key.decode() in settings:
                raise ProviderError(f"{self.name} option {key.decode()!r} is given twice")
            settings[key.decode()] = value.decode()
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CPU(Provider):
    """ONNX Runtime's own kernels on the processor: always there, and always last."""

    name: ClassVar[str] = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True, kw_only=True)
class CUDA(Provider):
    """NVIDIA GPUs through CUDA and cuDNN.

    The fields are ORT's keys (``cuda_execution_provider_info.cc``); None leaves one to ORT.
    """

    name: ClassVar[str] = "CUDAExecutionProvider"

    device_id: int = 0
    """Which GPU."""
    gpu_mem_limit: int | None = None
    """The most that the arena takes, in bytes."""
    arena_extend_strategy: str | None = None
    """"kNextPowerOfTwo" or "kSameAsRequested"."""
    cudnn_conv_algo_search: str | None = None
    """"EXHAUSTIVE", "HEURISTIC" or "DEFAULT"."""
    do_copy_in_default_stream: bool | None = None
    """Whether copies go through the default stream."""
    cudnn_conv_use_max_workspace: bool | None = None
    """Whether cuDNN may take all the memory it likes for convolutions."""
    enable_cuda_graph: bool | None = None
    """Whether runs are captured as a CUDA graph and replayed."""
    use_tf32: bool | None = None
    """Whether float32 matrix products may use TF32."""
    prefer_nhwc: bool | None = None
    """Whether convolutions run channels-last."""
    use_ep_level_unified_stream: bool | None = None
    """Whether all threads share one stream."""

    def settings(self) -> dict[str, str]:
        integer(self.device_id, "CUDA.device_id")
        if self.gpu_mem_limit is not None:
            integer(self.gpu_mem_limit, "CUDA.gpu_mem_limit", 0, 2**64 - 1)
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type == "bool | None" and value is not None:
                boolean(value, f"CUDA.{item.name}")
        # The zero-argument form of super does not survive the class that slots=True makes anew.
        return Provider.settings(self)


ProviderLike: TypeAlias = "Provider | str | tuple[str, Mapping[str, str]]"

KINDS: tuple[type[Provider], ...] = (CPU, CUDA)


def available_providers() -> list[str]:
    """The full names of the providers that are compiled into the loaded library. ``GetAvailableProviders``.

    Compiled in does not mean usable: a GPU, a driver and its libraries may be missing (see `prefer_gpu`).
    """
    table = api()
    names, count = ffi.new("char ***"), ffi.new("int *")
    status.check(table.GetAvailableProviders(names, count))
    try:
        return [ffi.string(names[0][i]).decode() for i in range(count[0])]
    finally:
        status.check(table.ReleaseAvailableProviders(names[0], count[0]))


def full_name(name: str) -> str:
    """ORT's name for a short or full name in any case; `ProviderError` where the library has no such provider."""
    available = available_providers()
    wanted = name.lower().removesuffix("executionprovider")
    for candidate in available:
        if candidate.removesuffix("ExecutionProvider").lower() == wanted:
            return candidate
    raise ProviderError(f"provider {name!r} is not in this library, which has {', '.join(available)}")


def parse(provider: ProviderLike) -> tuple[str, dict[str, str]]:
    """A provider's full name and its options, checked against the library."""
    if isinstance(provider, Provider):
        return full_name(provider.name), provider.settings()
    if isinstance(provider, str):
        return full_name(provider), {}
    if isinstance(provider, tuple) and len(provider) == 2 and isinstance(provider[0], str):
        name, options = provider
        if not isinstance(options, Mapping):
            raise DTypeError(f"provider {name!r}: expected a dict of options, got {type(options).__name__}")
        return full_name(name), {
            text(key, f"provider {name!r}").decode(): value if isinstance(value, str) else str(value)
            for key, value in options.items()
        }
    raise DTypeError(f"providers: {provider!r} is neither a provider, a name nor a (name, options) pair")


def parse_all(providers: Iterable[ProviderLike] | None) -> list[tuple[str, dict[str, str]]]:
    """The providers of a session in their order, each once; None is the processor alone."""
    if providers is None:
        return []
    if isinstance(providers, (str, Provider)) or not isinstance(providers, Iterable):
        raise DTypeError(f"providers: expected a list, got {providers!r} alone")
    parsed = [parse(provider) for provider in providers]
    names = [name for name, _ in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"provider {name!r} is given twice")
    if CPU.name in names[:-1]:
        raise ArgumentError("the CPU provider takes every node, so providers after it would get none: put it last")
    return parsed


def append(options: Handle, name: str, settings: Mapping[str, str]) -> None:
    """Adds a provider to session options. ``SessionOptionsAppendExecutionProvider`` and CUDA's own form of it."""
    if name == CPU.name:
        # ORT adds the processor by itself, last of all.
        if settings:
            raise ProviderError(f"{name} takes no options, got {', '.join(settings)}")
        return
    table = api()
    keys = [ffi.new("char[]", key.encode()) for key in settings]
    values = [ffi.new("char[]", value.encode()) for value in settings.values()]
    try:
        if name == CUDA.name:
            pointer = status.make(table.CreateCUDAProviderOptions, "OrtCUDAProviderOptionsV2")
            cuda = Handle.own(pointer, table.ReleaseCUDAProviderOptions)
            status.check(table.UpdateCUDAProviderOptions(cuda.pointer, keys, values, len(keys)))
            status.check(table.SessionOptionsAppendExecutionProvider_CUDA_V2(options.pointer, cuda.pointer))
        else:
            # By the full name, since ORT's own short ones are spelled in ways of their own.
            status.check(
                table.SessionOptionsAppendExecutionProvider(options.pointer, name.encode(), keys, values, len(keys))
            )
    except Error as error:
        raise ProviderError(f"{name}: {error}") from error


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
        options = Handle.own(status.make(table.CreateSessionOptions, "OrtSessionOptions"), table.ReleaseSessionOptions)
        append(options, full, {})
        pointer = status.make(
            table.CreateSessionFromArray,
            "OrtSession",
            current().pointer,
            ffi.from_buffer(_IDENTITY),
            len(_IDENTITY),
            options.pointer,
        )
    except Error as error:
        return str(error)
    Handle.own(pointer, table.ReleaseSession)
    return None


def prefer_gpu() -> list[Provider]:
    """CUDA before the processor where a session on CUDA can be made here, else the processor alone."""
    return [CPU()] if usable(CUDA.name) else [CUDA(), CPU()]
