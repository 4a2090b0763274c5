"""The package's metadata, and the contents of its sdist, wheel and editable install."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support import compiler
from zrt._native import build, library
from zrt.version import __version__

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
# The name and the version in the names of files.
STEM = f"zrt_onnx-{__version__}"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

# The tests run against an installed zrt too, from a folder without its sources.
sources = pytest.mark.skipif(not (ROOT / "zrt").is_dir(), reason="no sources of zrt beside the tests")


class TestMetadata:
    def test_project_fields(self) -> None:
        project = PROJECT["project"]
        assert project["name"] == "zrt-onnx"
        assert project["dynamic"] == ["version"]
        assert project["requires-python"] == ">=3.11"
        assert project["license"] == "Apache-2.0"
        assert project["scripts"] == {"zrt": "zrt.cli:main"}

    def test_runtime_dependencies(self) -> None:
        names = {requirement.partition(">")[0] for requirement in PROJECT["project"]["dependencies"]}
        assert names == {"numpy", "cffi", "ml_dtypes"}

    def test_extras_take_no_release_with_a_known_fault(self) -> None:
        extras = PROJECT["project"]["optional-dependencies"]
        for extra, package in (("cpu", "onnxruntime"), ("cuda", "onnxruntime-gpu")):
            [requirement] = extras[extra]
            assert requirement.startswith(f"{package}>=")
            oldest = requirement.partition(">=")[2]
            assert library.Library(None, "", f"{oldest}.0", 0, "").faults == []
        assert library.Library(None, "", "1.30.0", 0, "").faults
        assert set(extras) == {"cpu", "cuda", "cli", "plot", "ray", "score", "serve", "sparse", "toml"}

    def test_development_requirements(self) -> None:
        group = PROJECT["dependency-groups"]["dev"]
        names = {requirement.partition(">")[0].partition("=")[0] for requirement in group}
        assert names >= {"pytest", "pytest-benchmark", "hypothesis", "onnx", "onnxruntime", "ruff", "mypy"}
        assert "onnx==1.21.*" in group
        assert "onnxruntime==1.27.0" in group
        assert PROJECT["dependency-groups"]["newest"] == [f"onnxruntime=={library.NEWEST_TESTED}"]

    def test_build_requirements_have_lower_bounds(self) -> None:
        assert all(">=" in requirement for requirement in PROJECT["build-system"]["requires"])


def run_build(folder: Path, *arguments: str) -> None:
    """Runs `python -m build`: with the installed packages if they suffice, else in an isolated environment."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("the Python package build, which makes the sdist and the wheel, is not installed")
    needs = ("hatchling", "cffi", "setuptools")
    isolation = [] if any(importlib.util.find_spec(name) is None for name in needs) else ["--no-isolation"]
    command = [sys.executable, "-m", "build", *isolation, *arguments, str(ROOT), "--outdir", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist and the wheel that was made from it."""
    folder = tmp_path_factory.mktemp("dist")
    run_build(folder)
    return folder


@sources
@pytest.mark.slow
class TestDistributions:
    @pytest.fixture
    def sdist(self, distributions: Path) -> set[str]:
        with tarfile.open(distributions / f"{STEM}.tar.gz") as archive:
            return {name.removeprefix(f"{STEM}/") for name in archive.getnames()}

    @pytest.fixture
    def wheel(self, distributions: Path) -> zipfile.ZipFile:
        [path] = distributions.glob("*.whl")
        return zipfile.ZipFile(path)

    @pytest.fixture
    def native_sources(self) -> set[str]:
        return {f"zrt/_native/{name}" for name in ("src/ort.h", *build.DECLARATIONS, *build.SOURCES)}

    def test_wheel_s_name_and_tag(self, distributions: Path, wheel: zipfile.ZipFile) -> None:
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
        tag = f"cp311-abi3-{platform}" if build.abi3() else f"{interpreter}-{interpreter}t-{platform}"
        assert [path.name for path in distributions.glob("*.whl")] == [f"{STEM}-{tag}.whl"]
        lines = wheel.read(f"{STEM}.dist-info/WHEEL").decode().splitlines()
        assert f"Tag: {tag}" in lines
        assert "Root-Is-Purelib: false" in lines

    def test_wheel_s_files(self, wheel: zipfile.ZipFile, native_sources: set[str]) -> None:
        names = set(wheel.namelist())
        module = f"zrt/_native/{build.extension_filename()}"
        assert {name for name in names if name.endswith(".so")} == {module}
        assert names >= {"zrt/py.typed", "zrt/models/digits.onnx", "zrt/models/digits.npz"} | native_sources
        assert f"{STEM}.dist-info/licenses/LICENSE" in names
        assert all(name.startswith(("zrt/", f"{STEM}.dist-info/")) for name in names)

    def test_sdist_s_files(self, sdist: set[str], native_sources: set[str]) -> None:
        assert sdist >= native_sources
        assert sdist >= {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".ci/wheel"}
        assert sdist >= {"zrt/py.typed", "zrt/_native/hatch_build.py", "zrt/models/digits.onnx"}
        assert {name.partition("/")[0] for name in sdist} >= {"zrt", "tests", "benches", "docs"}

    def test_sdist_has_no_built_files(self, sdist: set[str]) -> None:
        assert not [name for name in sdist if name.endswith((".so", ".pyc")) or "__pycache__" in name]

    def test_wheel_s_metadata(self, wheel: zipfile.ZipFile) -> None:
        lines = wheel.read(f"{STEM}.dist-info/METADATA").decode().splitlines()
        assert f"Version: {__version__}" in lines
        assert "License-Expression: Apache-2.0" in lines
        assert "Requires-Dist: onnxruntime>=1.31; extra == 'cpu'" in lines
        assert "Requires-Dist: onnxruntime-gpu>=1.31; extra == 'cuda'" in lines


class TestFailedBuild:
    """The last line of the error, which pip shows too, says what the build lacks."""

    def test_missing_compiler_is_named(self, tmp_path: Path) -> None:
        absent = str(tmp_path / "cc")
        line = self.last_line(build.__file__, CC=absent)
        assert absent in line
        assert "No such file" in line

    def test_missing_headers_of_python_are_named(self, tmp_path: Path) -> None:
        compiler.command()
        line = self.last_line(str(SCRIPTS / "build_without_headers.py"), str(tmp_path))
        assert f"The headers of this Python are missing: there is no {tmp_path}" in line
        assert line.endswith("Python.h. Linux distributions have them in a package of their own, such as python3-dev")
        assert not [*tmp_path.glob("*.so")]

    def test_link_arguments_that_are_none_are_named(self) -> None:
        assert self.last_line(build.__file__, ZRT_ORT_LINK_ARGS='"core.a') == (
            "ValueError: ZRT_ORT_LINK_ARGS: No closing quotation"
        )

    def test_full_disk_leaves_no_half_a_module(self, tmp_path: Path) -> None:
        code = (
            "import pathlib, resource, sys\n"
            "from zrt._native import build\n"
            "def compiled(ffi, scratch):\n"
            "    module = pathlib.Path(scratch, 'module.so')\n"
            "    module.write_bytes(bytes(10_000))\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
            "    return module\n"
            "build.compiled = compiled\n"
            "build.build(pathlib.Path(sys.argv[1]))\n"
        )
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=False)
        sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
        assert sizes == {build.extension_filename(): 10_000}

    def last_line(self, *arguments: str, **variables: str) -> str:
        environment = os.environ | variables
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        return done.stderr.splitlines()[-1]


@sources
@pytest.mark.slow
def test_editable_install_compiles_in_place(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    copy = tmp_path / "zrt"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    built = shutil.ignore_patterns("__pycache__", "_ort.*so")
    shutil.copytree(ROOT / "zrt", copy / "zrt", ignore=built)
    script = f"from hatchling.build import build_editable; build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", script], cwd=copy, check=True)
    assert (copy / "zrt" / "_native" / build.extension_filename()).is_file()
    [path] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        [link] = [name for name in wheel.namelist() if name.endswith(".pth")]
        assert wheel.read(link).decode().strip() == str(copy)
        assert not [name for name in wheel.namelist() if name.endswith(".so")]
