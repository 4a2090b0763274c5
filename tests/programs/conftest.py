"""Programs of others, each run once with the official package and once with the drop-in, through its runner."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import processes

HERE = Path(__file__).parent
# `-X importtime` prints a line for each import, from which the test learns which package computed.
IMPORTED = re.compile(r"^import time:.*\| *(\S+)$", re.MULTILINE)
PACKAGES = {
    "official": ([], "onnxruntime.capi.onnxruntime_inference_collection"),
    "zrt": (["-m", "zrt.onnxruntime"], "zrt._native._ort"),
}
"""For each package, the arguments before the program's, and a module that each session needs."""


@pytest.fixture
def outputs(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Runs a program, given as Python's arguments, with both packages: `{"official": its output, "zrt": its output}`.

    Each run has a folder of its own, named as the package, below the test's. A program ends with status 0.
    """

    def run(package: str, *program: object) -> str:
        before, session = PACKAGES[package]
        folder = tmp_path / package
        folder.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *before, *map(str, program)],
            cwd=folder,
            env=processes.environment() | {"ORT_DISABLE_TELEMETRY": "1"},
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, re.sub(r"^import time:.*\n", "", done.stderr, flags=re.MULTILINE)
        sessions = {module for _, module in PACKAGES.values()} & set(IMPORTED.findall(done.stderr))
        assert sessions == {session}
        return done.stdout

    return lambda *program: {package: run(package, *program) for package in PACKAGES}


@pytest.fixture
def answer(outputs: Callable[..., dict[str, str]]) -> Callable[..., str]:
    """Runs a program with both packages, which must print the same, and returns that."""

    def run(*program: object) -> str:
        printed = outputs(*program)
        assert printed["zrt"] == printed["official"]
        return printed["zrt"]

    return run


@pytest.fixture
def script(answer: Callable[..., str]) -> Callable[..., str]:
    """Runs a file of the folder `scripts` in the same way."""
    return lambda name, *arguments: answer(HERE / "scripts" / name, *arguments)
