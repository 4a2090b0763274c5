"""The finder that `install()` adds to Python's: it serves `onnxruntime` and its submodules from this package."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

THEIRS = "onnxruntime"
OURS = f"zrt.{THEIRS}"
# Pure Python above the interface: taken from the official package.
TOOLS = ("datasets", "quantization", "tools", "transformers")


def install() -> bool:
    """Add the finder to Python's, before the first import of onnxruntime; False if it is there already."""
    if sys.modules.get(THEIRS) not in (None, sys.modules[OURS]):
        raise ImportError(
            "the official onnxruntime is imported already: call zrt.onnxruntime.install() before the first import of "
            "onnxruntime, or run the program with python -m zrt.onnxruntime",
            name=THEIRS,
        )
    if Finder in sys.meta_path:
        return False
    sys.meta_path.insert(0, Finder)
    return True


class Finder:
    """Serves every module under the names `onnxruntime.*` and `zrt.onnxruntime.*` as one object.

    A module's own name, which its `__name__` tells, is `zrt.onnxruntime.*` for a module of this package, and
    `onnxruntime.*` for one of the official package that this one lacks.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The module of this name; None leaves the name to Python's other finders."""
        if name == THEIRS:
            ours = sys.modules[OURS].__spec__
            if ours is None:
                return None
            # Imports search the module's `__path__`, and extensions of onnxruntime look for its library here.
            ours.submodule_search_locations = [*_library_home(), *sys.modules[OURS].__path__]
            return _alias(name, ours)
        parent_name, _, tail = name.rpartition(".")
        parent = sys.modules.get(parent_name)
        if parent is None or tail == "__main__" or not f"{parent_name}.".startswith((f"{THEIRS}.", f"{OURS}.")):
            return None
        own_name = f"{parent.__name__}.{tail}"
        spec = PathFinder.find_spec(own_name, path) or _official(own_name)
        return spec if spec is None or spec.name == name else _alias(name, spec)


class _AliasLoader:
    """Loads a module under a second name."""

    def __init__(self, own_name: str) -> None:
        self._own_name = own_name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._own_name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Python has stored the alias's spec in the module.
        module.__spec__ = self._own_spec


def _alias(name: str, spec: ModuleSpec) -> ModuleSpec | None:
    """The spec that serves the module of another spec under this name too."""
    return spec_from_file_location(
        name,
        spec.origin,
        loader=_AliasLoader(spec.name),  # type: ignore[arg-type]
        submodule_search_locations=spec.submodule_search_locations,
    )


def _library_home() -> list[str]:
    """The folder that has ONNX Runtime's library in its folder `capi`, as the official package does."""
    from zrt._native.library import first_path

    # A name without a folder is one for the system's loader, and "" a core that is built in.
    folder, _ = os.path.split(first_path() or "")
    home, capi = os.path.split(os.path.abspath(folder))
    return [home] if folder and capi == "capi" else []


def _official(own_name: str) -> ModuleSpec | None:
    """The module of the official package in the place of one that this package lacks."""
    if not own_name.startswith(f"{OURS}."):
        return None
    *folders, _ = own_name.removeprefix(f"{OURS}.").split(".")
    name = own_name.removeprefix("zrt.")
    package = PathFinder.find_spec(THEIRS)
    places = [] if package is None else package.submodule_search_locations or []
    spec = PathFinder.find_spec(name, [os.path.join(place, *folders) for place in places])
    if spec is None and name.removeprefix(f"{THEIRS}.") in TOOLS:
        other = "" if package is None else f" ({package.origin} is another one)"
        raise ModuleNotFoundError(
            f"{name} is part of the official onnxruntime package, which is not installed{other}: pip install "
            "onnxruntime, and run the program with python -m zrt.onnxruntime",
            name=name,
        )
    return spec
