"""ONNX Runtime's telemetry: whether a library can report to Microsoft, and the variable that switches it off."""

from __future__ import annotations

import mmap
import os

# The host to which Microsoft's builds report. Their files contain it since 1.29.
_COLLECTOR = b"mobile.events.data.microsoft.com"
_SWITCH = "ORT_DISABLE_TELEMETRY"
_YES = ("1", "true", "yes", "on", "y")
# The signs of ONNX Runtime's own tests and of CI systems: there it reports nothing, whatever the switch says.
_SIGNS = (
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
_NO = ("", "0", "false", "no", "off")
VARIABLES = (_SWITCH, *_SIGNS)


def can_report(file: str) -> bool | None:
    """Whether this library contains the address of Microsoft's collector; None if the file cannot be read."""
    try:
        with open(file, "rb") as library, mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_COLLECTOR) >= 0
    except (OSError, ValueError):
        # A file that is empty cannot be mapped (ValueError).
        return None


def switched_off_by() -> str | None:
    """The variable by which this process has no telemetry; None where no variable switches it off.

    ONNX Runtime reads the variables when it creates its environment: a later change has no effect.
    """
    values = {name: os.environ.get(name, "").strip().lower() for name in VARIABLES}
    if values[_SWITCH] in _YES:
        return _SWITCH
    return next((name for name in _SIGNS if values[name] not in _NO), None)
