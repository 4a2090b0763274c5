"""Starts the Python processes of measurements that need one of their own."""

from __future__ import annotations

import os
import subprocess
import sys

from zrt._native import library_files


def start(program: str, **variables: str) -> subprocess.Popen[bytes]:
    """A process that runs `program`, with this one's import path, and with pipes to its input and its output.

    `variables` are set in its environment.
    """
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, library_files.search_path())), **variables}
    command = [sys.executable, "-P", "-c", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=paths)
