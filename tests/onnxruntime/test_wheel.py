"""The project `nix/zrt-onnxruntime`: a wheel that takes the place of the official package."""

import os
import runpy
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.support import processes
from zrt._native.library import VARIABLES, library

PROJECT = Path(__file__).parents[2] / "nix" / "zrt-onnxruntime"

pytestmark = pytest.mark.skipif(not PROJECT.is_dir(), reason="the folder nix is not beside the tests")


def engine_version() -> str:
    return str(runpy.run_path(str(PROJECT / "engine_version.py"))["engine_version"]())


def build(folder: Path, **variables: str) -> Path:
    """The wheel, built with these variables."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    environment = {name: text for name, text in os.environ.items() if name != "ZRT_ORT_LIBRARY"} | variables
    script = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", script], cwd=PROJECT, env=environment, check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def replace(wheel: Path, folder: Path) -> list[str]:
    """Runs a program with the wheel's files before the official package's: the library's path, and where it is from."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    environment = processes.environment()
    environment["PYTHONPATH"] = os.pathsep.join((str(folder), environment["PYTHONPATH"]))
    command = [sys.executable, str(Path(__file__).parent / "scripts" / "replace_official.py"), wheel.name.split("-")[1]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_wheel_is_a_distribution_of_the_official_name_and_the_engine_s_version(tmp_path: Path) -> None:
    wheel, version = build(tmp_path), engine_version()
    assert wheel.name == f"onnxruntime-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    [installed] = metadata.distributions(path=[str(tmp_path)])
    assert (installed.name, installed.version, installed.requires) == ("onnxruntime", version, ["zrt-onnx"])
    assert {str(file) for file in installed.files or [] if ".dist-info" not in str(file)} == {"onnxruntime/__init__.py"}


def test_version_is_not_that_of_the_folder_in_which_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ZRT_ORT_LIBRARY", "ZRT_ENGINE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "libonnxruntime-9.9.9"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert engine_version() != "9.9.9"


@pytest.mark.skipif(library().path is None, reason="this zrt has a library of its own")
def test_wheel_with_a_library_replaces_the_official_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    wheel = build(tmp_path, ZRT_ORT_LIBRARY=str(library().path))
    assert not wheel.name.endswith("-any.whl")
    path, source = replace(wheel, tmp_path)
    assert Path(path).parent == tmp_path / "onnxruntime" / "capi"
    assert source == f"onnxruntime distribution {library().version}"


@pytest.mark.skipif(library().path is None, reason="this zrt has a library of its own")
def test_wheel_without_a_library_runs_on_the_one_that_a_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZRT_ORT_LIBRARY", str(library().path))
    assert replace(build(tmp_path), tmp_path) == [str(library().path), "ZRT_ORT_LIBRARY"]
