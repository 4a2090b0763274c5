"""What the tests of robustness share: processes of their own, in which a crash is an exit code and nothing worse."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import zrt
from tests.robustness.vocabulary import QUIET
from tests.support import models

ROOT = Path(__file__).parents[2]

# What every script below begins with; the scripts see nothing else of the tests.
PROLOGUE = """
import faulthandler, gc, os, random, sys, threading, time
faulthandler.enable()
import numpy as np
import zrt
from benches.models import build as bench
from tests.support import models

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
ADD = models.add(["n"])
FEEDS = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}
SUM = FEEDS["x"] + FEEDS["y"]

def session(options=QUIET):
    return zrt.Session(ADD, options)

def lane(session):
    made = session.lane({"x": 4, "y": 4})
    for name, feed in FEEDS.items():
        made.inputs[name][...] = feed
    return made

def fail(failed):
    sys.__excepthook__(failed.exc_type, failed.exc_value, failed.exc_traceback)
    os._exit(9)

# What fails in a thread fails the script.
threading.excepthook = fail

def binding(session):
    made = session.binding()
    for name, feed in FEEDS.items():
        made.bind_input(name, feed)
    made.bind_output("z")
    return made
"""


@pytest.fixture(scope="module", autouse=True)
def _no_provider_library_stays() -> Iterator[None]:
    """A module that registered some leaves none to the next."""
    yield
    gc.collect()
    environment = zrt.Environment()
    for name in environment.provider_libraries:
        environment.unregister_provider_library(name)


@pytest.fixture(scope="module")
def session() -> zrt.Session:
    """z = x + y over float32 [n, 4]."""
    return zrt.Session(models.add(["n", 4]), QUIET)


class Child:
    """Runs scripts in processes of their own."""

    def start(self, *scripts: str, arguments: Sequence[object] = (), **options: Any) -> subprocess.Popen[str]:
        """A process that runs `PROLOGUE` and the scripts, under way; ``sys.argv[1:]`` are the arguments."""
        script = "\n".join(map(textwrap.dedent, (PROLOGUE, *scripts)))
        command = [sys.executable, "-c", script, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
        process: subprocess.Popen[str] = subprocess.Popen(command, **(pipes | options))
        return process

    def finish(self, process: subprocess.Popen[str], timeout: float = 120) -> str:
        """Waits for the end, which must be a good one, and gives what the process printed."""
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            pytest.fail(f"the process hangs\n{errors[-4000:]}", pytrace=False)
        if process.returncode:
            code = process.returncode
            how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            pytest.fail(f"the process {how}\n{errors[:6000]}", pytrace=False)
        return output

    def __call__(self, *scripts: str, arguments: Sequence[object] = (), timeout: float = 120, **options: Any) -> str:
        """What the scripts print; any end but a good one fails the test."""
        return self.finish(self.start(*scripts, arguments=arguments, **options), timeout)


@pytest.fixture(scope="session")
def child() -> Child:
    return Child()


@pytest.fixture(scope="session")
def together() -> Callable[..., None]:
    """Runs functions in threads that begin at the same moment; what one raises fails the test."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    def run(*functions: Callable[[], object]) -> None:
        barrier = Barrier(len(functions))

        def begin(function: Callable[[], object]) -> None:
            barrier.wait()
            function()

        with ThreadPoolExecutor(len(functions)) as pool:
            for future in [pool.submit(begin, function) for function in functions]:
                future.result(120)

    return run
