"""Every public symbol of zrt, and of its drop-in for onnxruntime, has a type that no type checker has to infer."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zrt
from tests.support import processes

# Their base classes are of packages that may be missing, or that have no types: pyright calls them unknown.
OTHERS = ("zrt.ray.routing.", "zrt.serving.connection.")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_every_public_symbol_has_a_known_type() -> None:
    # For this, pyright looks for packages in the `python` of the path alone.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--verifytypes", "zrt", "--ignoreexternal", "--outputjson"],
        env=processes.environment() | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    report = json.loads(done.stdout)["typeCompleteness"]
    assert Path(report["packageRootDirectory"]) == Path(zrt.__file__).parent
    symbols = {symbol["name"]: symbol for symbol in report["symbols"]}
    assert "zrt.onnxruntime.sessions.InferenceSession" in symbols
    incomplete = {name: each["diagnostics"] for name, each in symbols.items() if not each["isTypeKnown"]}
    assert {name: why for name, why in incomplete.items() if not name.startswith(OTHERS)} == {}
