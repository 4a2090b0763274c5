"""The package's name, its version, and that of CUDA if the engine was built for it."""

from __future__ import annotations

from zrt.onnxruntime.engine import package_info


def __getattr__(name: str) -> str:
    value = package_info().get(name)
    if value is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return value


def __dir__() -> list[str]:
    return sorted(package_info())
