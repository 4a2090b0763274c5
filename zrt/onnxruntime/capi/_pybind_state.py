"""The names of the extension module, under the name by which the official package's own modules import it."""

from __future__ import annotations

from typing import Any

from zrt.onnxruntime.capi import onnxruntime_pybind11_state as _state

__all__ = _state.__all__
__dir__ = _state.__dir__


def __getattr__(name: str) -> Any:
    return getattr(_state, name)
