"""The version of the wheel: that of the engine that it runs on."""

import os
import re
from pathlib import Path


def engine_version() -> str:
    """The version of the flake's engine, of the library that the wheel is to have, or else of the newest pinned source.

    The flake names its own in ``ZRT_ENGINE_VERSION``. The file of the library in ``ZRT_ORT_LIBRARY`` has a version too.
    """
    given = os.environ.get("ZRT_ENGINE_VERSION")
    library = os.path.basename(os.path.realpath(os.environ.get("ZRT_ORT_LIBRARY") or os.sep))
    named = re.search(r"libonnxruntime\D*(\d+\.\d+\.\d+)", library)
    files = Path(__file__).parents[1].glob("pins/*.nix")
    pinned = [file.stem for file in files if "source = {" in file.read_text("utf-8")]
    newest = max(pinned, key=lambda version: [int(number) for number in version.split(".")], default=None)
    version = given or (named and named[1]) or newest
    assert version, "there is no version: ZRT_ENGINE_VERSION names none, nor does ZRT_ORT_LIBRARY"
    return version
