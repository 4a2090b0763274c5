"""``zrt serve`` as a process: the fixtures that start it, and what its tests ask of it."""

import json
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support import processes

DIGITS = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0] * 64}]}

# A worker counts an answer after it has sent it, while the other one may already tell the counts; this one comes last.
LAST_COUNT = 'zrt_request_seconds_count{model="digits",status="200",version="1"}'


@pytest.fixture(scope="module")
def installed() -> None:
    for package in ("starlette", "uvicorn", "httptools", "prometheus_client"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install --group serving")


@contextmanager
def starting() -> Iterator[Callable[..., Any]]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        process = subprocess.Popen(
            [*processes.ZRT, "serve", "--json", "--port", "0", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**processes.environment(), "ZRT_MODEL": ""},
            # Python handles Ctrl-C only where SIGINT is not ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        running.append(process)
        return process, processes.document(process)

    try:
        yield start
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.fixture
def start(installed: None) -> Iterator[Callable[..., Any]]:
    """Starts ``zrt serve --json`` at a free port: the process, and the document that it prints."""
    with starting() as start:
        yield start


def ask(address: str, path: str, document: Any = None) -> Any:
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", data), timeout=60) as answer:
        return json.load(answer)


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == ""
    return process.returncode, err


def metrics(address: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
