"""The allocators that sessions share: `OrtArenaCfg`, and the functions that register an allocator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import zrt
from zrt._common.arguments import wrong_type
from zrt.environment.environment import current
from zrt.onnxruntime import conversions
from zrt.onnxruntime.devices import OrtMemoryInfo
from zrt.types import AllocatorType

# The fields, each with its limits and with the number that leaves it to ONNX Runtime.
_FIELDS = {
    "max_mem": (conversions.UINT64, 0),
    "arena_extend_strategy": (conversions.INT32, -1),
    "initial_chunk_size_bytes": (conversions.INT32, -1),
    "max_dead_bytes_per_chunk": (conversions.INT32, -1),
    "initial_growth_chunk_size_bytes": (conversions.INT32, -1),
    "max_power_of_two_extend_bytes": (conversions.INT64, -1),
}
_POSITIONAL = tuple(_FIELDS)[:4]


class OrtArenaCfg:
    """How an arena takes memory from the system, in bytes.

    Made of four numbers (`max_mem`, `arena_extend_strategy`, `initial_chunk_size_bytes`, `max_dead_bytes_per_chunk`)
    or of a dict with any of the fields. -1 leaves a field to ONNX Runtime, as 0 does for `max_mem`.
    """

    __slots__ = ("__weakref__", *_FIELDS)

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    def __init__(self, *arguments: int | dict[str, int]) -> None:
        for name, (_, default) in _FIELDS.items():
            setattr(self, name, default)
        if len(arguments) == len(_POSITIONAL):
            fields: dict[str, Any] = dict(zip(_POSITIONAL, arguments, strict=True))
        elif len(arguments) == 1 and isinstance(arguments[0], dict):
            fields = arguments[0]
        else:
            raise wrong_type("OrtArenaCfg", "four numbers or a dict", arguments)
        for name, value in fields.items():
            if name not in _FIELDS:
                raise RuntimeError(f"Invalid OrtArenaCfg option: {name}")
            try:
                setattr(self, name, value)
            except TypeError as error:
                if len(arguments) == 1:
                    raise RuntimeError(str(error)) from error
                raise

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIELDS:
            value = conversions.integer(value, f"OrtArenaCfg.{name}", _FIELDS[name][0])
        object.__setattr__(self, name, value)

    def _to_zrt(self) -> zrt.ArenaConfig:
        fields: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        return zrt.ArenaConfig(**{name: value for name, value in fields.items() if value != _FIELDS[name][1]})


def create_and_register_allocator(memory: OrtMemoryInfo, arena: OrtArenaCfg | None, /) -> None:
    """Create an allocator of the host's memory that sessions share.

    Those are the sessions with the config entry ``session.use_env_allocators`` = "1".
    """
    function = "create_and_register_allocator"
    info = _memory(memory, function)
    if not info.is_host:
        raise RuntimeError(
            "Error when creating and registering allocator: Only CPU devices are supported. "
            "Please call CreateAndRegisterAllocatorV2() for other device."
        )
    _register(info, arena, function, "Error when creating and registering allocator")


def create_and_register_allocator_v2(
    provider: str, memory: OrtMemoryInfo, options: Mapping[str, str], arena: OrtArenaCfg | None, /
) -> None:
    """Create an allocator that sessions share, of the memory of a provider: of the CPU's or of CUDA's.

    `options` are checked and not used: the allocators of these two have none.
    """
    function = "create_and_register_allocator_v2"
    name = conversions.string(provider, function)
    info = _memory(memory, function)
    conversions.texts(options, function)
    failure = f"Error when creating and registering allocator in {function}"
    if name not in ("CPUExecutionProvider", "CUDAExecutionProvider") or name not in zrt.available_providers():
        raise RuntimeError(f"{failure}: {name} is not implemented in CreateAndRegisterAllocatorV2()")
    _register(info, arena, function, failure)


def _memory(memory: Any, subject: str) -> zrt.MemoryInfo:
    info: zrt.MemoryInfo = conversions.instance(memory, OrtMemoryInfo, subject)._to_zrt()
    return info


def _register(memory: zrt.MemoryInfo, arena: Any, subject: str, failure: str) -> None:
    if arena is not None:
        config = conversions.instance(arena, OrtArenaCfg, subject)._to_zrt()
    elif memory.allocator_type is AllocatorType.ARENA:
        config = zrt.ArenaConfig()
    else:
        config = None
    try:
        current().register_allocator(memory, config)
    except zrt.Error as error:
        raise RuntimeError(f"{failure}: {error}") from error
