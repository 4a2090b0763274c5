"""Fixtures: processes and threads of the robustness tests, and operators in C, compiled once."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import zrt
from tests.robustness.conftest import child as child
from tests.support import compiler

HERE = Path(__file__).parent
NATIVE = Path(zrt.__file__).parent / "_native"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles a file of this folder into a shared library, with the official headers where they are available."""
    command = compiler.command()
    folder = tmp_path_factory.mktemp("compiled")
    headers = os.environ.get("ZRT_ORT_INCLUDE_DIR")
    where = ["-DOFFICIAL", "-I", headers] if headers else ["-I", str(NATIVE), "-I", str(NATIVE / "src")]

    def compile_one(name: str) -> Path:
        target = folder / f"{name}.so"
        if not target.exists():
            flags = ["-O2", "-shared", "-fPIC", *where]
            subprocess.run([*command, *flags, "-o", str(target), str(HERE / name)], check=True)
        return target

    return compile_one
