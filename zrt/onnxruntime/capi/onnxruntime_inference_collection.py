"""The classes and functions that the official package defines in Python, each imported at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zrt.onnxruntime.capi import _pybind_state as C  # noqa: N812
from zrt.onnxruntime.homes import COLLECTION, serve

__all__ = ["C", "GetInitializerLocationFunc", "GetInitializerLocationWrapperFunc", *COLLECTION]

# A function that chooses the file in which a compiled model keeps an initializer: from the initializer's name, its
# value and the place that it has now, if it has one, to the new place, or to None for an initializer inside the model.
GetInitializerLocationFunc = GetInitializerLocationWrapperFunc = Callable[[str, Any, Any], Any]


def __getattr__(name: str) -> Any:
    value = globals()[name] = serve(__name__, name, COLLECTION)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
