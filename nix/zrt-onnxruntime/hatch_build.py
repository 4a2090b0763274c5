"""Puts the library that ZRT_ORT_LIBRARY names, and the providers beside it, into the wheel, where zrt finds them."""

import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface[Any]):
    """Without that variable the wheel is for every platform and has no library."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the files to the wheel."""
        named = os.environ.get("ZRT_ORT_LIBRARY")
        if not named:
            return
        library = Path(named).resolve(strict=True)
        files = [library, *library.parent.glob("libonnxruntime_providers_*")]
        build_data["force_include"] |= {str(file): f"onnxruntime/capi/{file.name}" for file in files}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
