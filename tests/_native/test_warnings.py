"""Our C sources: gcc and clang compile them without a warning, and clang-format leaves them as they are."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import zrt._native
from zrt._native import build

NATIVE = Path(zrt._native.__file__).parent
ROOT = NATIVE.parents[1]
FORMATTED = ("zrt/_native/src/*.[ch]", "zrt/_native/decl/*.h", "tests/support/*.[ch]", "tests/custom_ops/*.[ch]")


def gcc() -> list[str]:
    """The command of gcc. Skips the test where it is missing, or where another compiler has that name."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc on the path")
    if "clang" in subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True).stdout:
        pytest.skip("gcc is another name for clang here")
    return [compiler]


def clang() -> list[str]:
    """The command of clang, which the package ziglang contains."""
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    compiler = shutil.which("clang")
    return [compiler] if compiler else pytest.skip("no clang: neither the Python package ziglang nor clang on the path")


def includes() -> list[str]:
    """The folders of headers as arguments. Skips the test where this Python came without its own headers."""
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").is_file():
        pytest.skip(f"no Python.h in {python}")
    return [f"-I{NATIVE}", f"-I{NATIVE / 'src'}", f"-I{python}"]


@pytest.mark.parametrize("compiler", [gcc, clang])
def test_sources_compile_without_warnings(compiler, tmp_path):
    # Some warnings come only from the optimizer: compile as the build does.
    command = [*compiler(), "-c", *build.COMPILE_ARGS, "-Wall", "-Wextra", "-Werror", *includes()]
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "zig")}
    messages = ""
    for source in build.SOURCES:
        module = tmp_path / f"{Path(source).stem}.o"
        done = subprocess.run(
            [*command, str(NATIVE / source), "-o", str(module)], env=environment, capture_output=True, text=True
        )
        messages += done.stderr
        assert done.returncode == 0, messages
        assert module.is_file()
    assert messages == ""


def test_sources_are_formatted():
    # The version of the package counts: others format differently.
    package = pytest.importorskip("clang_format", reason="the Python package clang-format is not installed")
    if not (ROOT / ".clang-format").is_file():
        pytest.skip("zrt is installed without its repository, which has the style")
    files = [str(path) for pattern in FORMATTED for path in sorted(ROOT.glob(pattern))]
    assert len(files) > len(build.SOURCES)
    command = [package.get_executable("clang-format"), "--dry-run", "-Werror", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
