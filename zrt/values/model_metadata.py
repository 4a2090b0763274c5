"""`ModelMetadata`: what the author of a model wrote into it beside the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zrt._common.public import public
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.memory.allocators import default_allocator, free, take_string

# The version that ONNX Runtime reports for a model without one.
NO_VERSION = 2**63 - 1


class _Opsets:
    """The part of `ModelMetadata` that is read when it is asked for, and no field."""

    __slots__ = ("_read",)

    _read: Callable[[], dict[str, int]]


@public
@dataclass(frozen=True, slots=True)
class ModelMetadata(_Opsets):
    """The metadata that the model's author wrote into the file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)

    @property
    def opsets(self) -> dict[str, int]:
        """The version of each operator set that the model imports, by domain; "" is ONNX's own.

        They are read at each access: from the model's file, if the session was loaded from one. Raises `ModelError` if
        the file is gone, and `UnsupportedError` for a model in ONNX Runtime's own format.
        """
        return getattr(self, "_read", dict)()

    def __reduce__(self) -> tuple[Any, ...]:
        return with_opsets, (getattr(self, "_read", dict), *(getattr(self, name) for name in self.__match_args__))


def with_opsets(read: Callable[[], dict[str, int]], *fields: Any) -> ModelMetadata:
    """Metadata with these fields; `read` returns the opsets."""
    metadata = ModelMetadata(*fields)
    object.__setattr__(metadata, "_read", read)
    return metadata


def read_metadata(session: Any, opsets: Callable[[], dict[str, int]]) -> ModelMetadata:
    """The model's metadata; `opsets` reads the opsets, which ONNX Runtime does not report."""
    table = api()
    allocator = default_allocator()
    handle = Handle.make(table.ReleaseModelMetadata, [], table.SessionGetModelMetadata, "OrtModelMetadata", session)

    def read(function: Any, *arguments: Any) -> str:
        return take_string(allocator, status.make(function, "char", handle.pointer, allocator, *arguments))

    list_keys = table.ModelMetadataGetCustomMetadataMapKeys
    keys, count = status.fetch_array(list_keys, "char *", handle.pointer, allocator, count="int64_t")
    custom = {}
    for i in range(count):
        key = keys[i]
        value = status.make(table.ModelMetadataLookupCustomMetadataMap, "char", handle.pointer, allocator, key)
        label = take_string(allocator, key)
        custom[label] = take_string(allocator, value) if value else ""
    if keys:
        free(allocator, keys)
    return with_opsets(
        opsets,
        read(table.ModelMetadataGetProducerName),
        read(table.ModelMetadataGetGraphName),
        read(table.ModelMetadataGetDomain),
        read(table.ModelMetadataGetDescription),
        read(table.ModelMetadataGetGraphDescription),
        int(status.fetch(table.ModelMetadataGetVersion, "int64_t", handle.pointer)),
        custom,
    )
