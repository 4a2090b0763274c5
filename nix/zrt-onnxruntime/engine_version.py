"""The version of the wheel: that of the flake's engine from source."""

import os
import re
from pathlib import Path


def engine_version() -> str:
    """What the flake says in ``ZRT_ENGINE_VERSION``; elsewhere the newest release whose source is pinned."""
    files = Path(__file__).parents[1].glob("pins/*.nix")
    pinned = [file.stem for file in files if "source = {" in file.read_text("utf-8")]
    return os.environ.get("ZRT_ENGINE_VERSION") or max(
        pinned, key=lambda it: [int(part) for part in re.findall(r"\d+", it)]
    )
