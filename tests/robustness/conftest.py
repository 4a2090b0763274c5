"""Fixtures of the robustness tests: scripts run in processes of their own, so that a crash is only an exit status."""

import gc
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import zrt
from tests.robustness.vocabulary import QUIET, World
from tests.support import models, processes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _unregister_provider_libraries() -> Iterator[None]:
    """Unregisters the provider libraries that a module has left."""
    yield
    gc.collect()
    environment = zrt.Environment()
    for name in environment.provider_libraries:
        environment.unregister_provider_library(name)


@pytest.fixture(scope="module")
def session() -> zrt.Session:
    """z = x + y over float32 [n, 4]."""
    return zrt.Session(models.add(["n", 4]), QUIET)


@pytest.fixture(scope="module")
def _worlds() -> list[World]:
    return []


@pytest.fixture
def world(tmp_path: Path, _worlds: list[World]) -> Iterator[World]:
    """Objects that are checked before and after each test. The tests of a module share them, to make them only once."""
    world = _worlds.pop() if _worlds else World(tmp_path)
    world.move(tmp_path)
    world.check()
    yield world
    world.check()
    _worlds.append(world)


class Child:
    """Runs the scripts of a folder in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(
        self, script: str, arguments: Sequence[object] = (), before: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[str]:
        """A running process of a script, which has `arguments` in ``sys.argv[1:]``; `before` is a command that runs the
        command after it, and options are Popen's.
        """
        # -P: the names of scripts must not hide modules of the standard library.
        command = [*before, sys.executable, "-P", str(self._folder / script), *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
        environment = processes.environment()
        process: subprocess.Popen[str] = subprocess.Popen(command, **(pipes | {"env": environment} | options))
        return process

    def finish(self, process: subprocess.Popen[str], timeout: float = 120) -> str:
        """Waits for the process, which must exit with status 0, and returns what it printed."""
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            pytest.fail(f"the process hangs\n{errors[-4000:]}", pytrace=False)
        if process.returncode:
            code = process.returncode
            how = f"died of {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
            pytest.fail(f"the process {how}\n{errors[:6000]}", pytrace=False)
        return output

    def __call__(self, script: str, arguments: Sequence[object] = (), timeout: float = 120, **options: Any) -> str:
        """Runs a script to its end, which must have exit status 0; returns what it printed."""
        return self.finish(self.start(script, arguments, **options), timeout)


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Child:
    """Runs scripts from the folder `scripts` beside the test."""
    return Child(request.path.parent / "scripts")


def at_once_or_slowly(cases: Sequence[str]) -> list[Any]:
    """Parameters for a script that takes names of cases: all in one process, and among the slow tests each alone."""
    alone = [pytest.param([case], id=case, marks=pytest.mark.slow) for case in cases]
    return [pytest.param(cases, id="at once"), *alone]
