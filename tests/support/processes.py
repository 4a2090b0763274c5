"""Child processes of tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from zrt.environment import telemetry

ROOT = Path(__file__).parents[2]
ZRT = (sys.executable, "-m", "zrt")


def environment() -> dict[str, str]:
    """The variables of a child that imports the tests and whatever this process can import: PYTHONPATH gets longer."""
    path = os.pathsep.join(filter(None, [os.fspath(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def plain_environment(home: Path) -> dict[str, str]:
    """The same as where nobody has switched ONNX Runtime's telemetry off; `home` is the user's folder, for its files.

    If zrt did not switch it off either, its connections would end at a closed port of this machine.
    """
    variables = {name: text for name, text in environment().items() if name not in telemetry.VARIABLES}
    folders = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR"), os.fspath(home))
    # Hosts that the user's NO_PROXY names would be reached without the proxy.
    proxy = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")
    return variables | folders | proxy | dict.fromkeys(("NO_PROXY", "no_proxy"), "")


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, for a minute at most, and keeps its outputs; options are `subprocess.run`'s."""
    usual = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60}
    return subprocess.run([*map(str, command)], **{**usual, **options})


def document(process: subprocess.Popen[str]) -> Any:
    """The JSON document that a command prints at its start, while it goes on."""
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.communicate()
        text += line
    return json.loads(text)
