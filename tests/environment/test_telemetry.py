"""ONNX Runtime's telemetry, which Microsoft's builds have since 1.29: zrt switches it off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes

SCRIPTS = Path(__file__).parent / "scripts"


def run(command, variables):
    """Runs a child with these variables; returns its output."""
    done = subprocess.run(
        [sys.executable, *command], cwd=processes.ROOT, env=variables, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux does")
def test_telemetry_starts_no_thread_and_writes_no_file(tmp_path):
    assert run([SCRIPTS / "no_telemetry.py"], processes.plain_environment(tmp_path)) == "0"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("chosen", ["0", "1", ""])
def test_telemetry_variable_of_the_user_stays(tmp_path, chosen):
    variables = processes.plain_environment(tmp_path) | {"ORT_DISABLE_TELEMETRY": chosen}
    code = "import os, zrt; zrt.Session; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    assert run(["-c", code], variables) == chosen
