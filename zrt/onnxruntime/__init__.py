"""The names and conventions of the `onnxruntime` package over zrt: `import zrt.onnxruntime as ort`.

A program that is written for that package runs on zrt with this one line changed. Each name is imported at its first
use, so that importing this module costs little and opens no library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.homes import HOMES, PACKAGE, serve

if TYPE_CHECKING:
    from zrt.onnxruntime import capi as capi
    from zrt.onnxruntime._typed import *  # noqa: F403
    from zrt.onnxruntime.binding import IOBinding as IOBinding
    from zrt.onnxruntime.capi import onnxruntime_validation as onnxruntime_validation
    from zrt.onnxruntime.compiler import ModelCompiler as ModelCompiler
    from zrt.onnxruntime.engine import preload_dlls as preload_dlls
    from zrt.onnxruntime.engine import print_debug_info as print_debug_info
    from zrt.onnxruntime.sessions import InferenceSession as InferenceSession
    from zrt.onnxruntime.sparse import SparseTensor as SparseTensor

    __version__: str
    cuda_version: str
    package_name: str
    version: str

_SUBMODULES = {"capi": "capi", "onnxruntime_validation": "capi.onnxruntime_validation"}

__author__ = "zrt developers"
__all__ = list(PACKAGE)


def install() -> None:
    """Make this package the `onnxruntime` of all code in the process; call it before the first import of onnxruntime.

    The process's `PYTHONPATH` then has a folder that does the same in child processes that are a Python of this
    environment. A log message names those that are started without it.

    `onnxruntime.quantization`, `.transformers`, `.tools` and `.datasets` are then those of the official package, if it
    is installed, and run on this one. A second call does nothing. Raises `ImportError` if the official package is
    imported already.
    """
    from zrt.onnxruntime import finder

    if finder.install():
        from zrt.onnxruntime import children

        children.reach()


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"zrt.onnxruntime.{_SUBMODULES[name]}")
    value = globals()[name] = serve(__name__, name, HOMES)
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, "install"))
