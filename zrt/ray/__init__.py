"""Models on a cluster of Ray: `Scorer` puts the rows of its data sets through a model, `deployment` serves models.

``pip install "zrt-onnx[ray]"`` installs the packages that it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zrt.ray.replicas import deployment as deployment
    from zrt.ray.scorer import Scorer as Scorer

_HOMES = {"Scorer": "scorer", "deployment": "replicas"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'zrt.ray' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"zrt.ray.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
