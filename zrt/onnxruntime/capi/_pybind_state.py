"""The names of the extension module, under the name by which the official package's own modules import it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.capi import onnxruntime_pybind11_state as _state

if TYPE_CHECKING:
    from zrt.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403

__all__ = dir(_state)


def __getattr__(name: str) -> Any:
    return getattr(_state, name)


def __dir__() -> list[str]:
    return dir(_state)
