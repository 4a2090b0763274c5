"""Child processes of tests."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

# ONNX Runtime has no telemetry where one of these is set: it knows CI systems by their variables.
NO_TELEMETRY = (
    "ORT_DISABLE_TELEMETRY",
    "ORT_RUNNING_UNIT_TESTS",
    "CI",
    "TF_BUILD",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "CIRCLECI",
    "TRAVIS",
    "JENKINS_URL",
    "CODEBUILD_BUILD_ID",
    "BUILDKITE",
    "TEAMCITY_VERSION",
    "APPVEYOR",
    "BITBUCKET_BUILD_NUMBER",
    "SYSTEM_TEAMFOUNDATIONCOLLECTIONURI",
)


def environment() -> dict[str, str]:
    """The variables of a child that imports the tests and whatever this process can import: PYTHONPATH gets longer."""
    path = os.pathsep.join(filter(None, [os.fspath(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def plain_environment(home: Path) -> dict[str, str]:
    """The same as where nobody has switched ONNX Runtime's telemetry off; `home` is the user's folder, for its files.

    If zrt did not switch it off either, its connections would end at a closed port of this machine.
    """
    variables = {name: text for name, text in environment().items() if name not in NO_TELEMETRY}
    folders = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR"), os.fspath(home))
    return variables | folders | {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}


def document(process: subprocess.Popen[str]) -> Any:
    """The JSON document that a command prints at its start, while it goes on."""
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.communicate()
        text += line
    return json.loads(text)
