"""The names of the official package's extension module, each imported at its first use."""

from __future__ import annotations

from typing import Any

from zrt.onnxruntime.homes import STATE, serve

__all__ = list(STATE)


def __getattr__(name: str) -> Any:
    value = globals()[name] = serve(__name__, name, STATE)
    return value


def __dir__() -> list[str]:
    return sorted(STATE)
