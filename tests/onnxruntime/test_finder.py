"""`zrt.onnxruntime.install()`: this package under the name `onnxruntime`, in a process of its own for each test."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

import zrt.onnxruntime
from zrt._native.library import library
from zrt.onnxruntime.finder import TOOLS, Finder


def test_names_are_served_by_this_package(script) -> None:
    script("serve_names.py")


@pytest.mark.skipif(library().path is None, reason="this zrt has a library of its own")
@pytest.mark.parametrize("before", [(), ("import",)], ids=["find", "import"])
def test_extensions_find_the_library_in_use(script, tmp_path: Path, monkeypatch, before: tuple[str, ...]) -> None:
    file = tmp_path / "onnxruntime" / "capi" / Path(str(library().path)).name
    file.parent.mkdir(parents=True)
    file.symlink_to(str(library().path))
    monkeypatch.setenv("ZRT_ORT_LIBRARY", str(file))
    script("serve_library.py", *before, str(file))


@pytest.mark.official
@pytest.mark.parametrize("before", [(), ("import",)], ids=["find", "import"])
def test_extensions_find_the_library_of_the_official_package(script, before: tuple[str, ...]) -> None:
    script("serve_library.py", *before, str(library().path))


def test_install_after_the_official_package_raises_an_error_and_changes_nothing(monkeypatch) -> None:
    official = ModuleType("onnxruntime")
    monkeypatch.setitem(sys.modules, "onnxruntime", official)
    before = list(sys.meta_path), os.environ.get("PYTHONPATH")
    with pytest.raises(ImportError, match=r"call zrt\.onnxruntime\.install\(\) before the first import of onnxruntime"):
        zrt.onnxruntime.install()
    assert sys.modules["onnxruntime"] is official
    assert (sys.meta_path, os.environ.get("PYTHONPATH")) == before


@pytest.mark.official
def test_official_tools_run_on_this_package(script) -> None:
    script("serve_tools.py")


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_without_the_official_package_raises_an_error_that_names_it(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for package in ("onnxruntime", "zrt.onnxruntime"):
        monkeypatch.setitem(sys.modules, package, zrt.onnxruntime)
        with pytest.raises(ModuleNotFoundError, match=r"pip install onnxruntime, and run") as caught:
            Finder.find_spec(f"{package}.{tool}", zrt.onnxruntime.__path__)
        assert caught.value.name == f"onnxruntime.{tool}"


def test_error_names_a_package_in_the_place_of_the_official_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "onnxruntime" / "__init__.py"
    other.parent.mkdir()
    other.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="is not installed") as caught:
        Finder.find_spec("zrt.onnxruntime.tools", zrt.onnxruntime.__path__)
    assert f"({other} is another one)" in str(caught.value)


def test_finder_leaves_other_names_to_python() -> None:
    assert Finder.find_spec("numpy") is None
    assert Finder.find_spec("onnxruntime_extensions") is None
    assert Finder.find_spec("zrt.session", zrt.__path__) is None
    assert importlib.util.find_spec("zrt.onnxruntime.finder") is not None
