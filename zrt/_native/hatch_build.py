"""Lets hatchling compile the extension module: into the wheel, or in place for an editable install."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def builder(root: Path) -> Any:
    """The module build.py, loaded by its path: importing the package needs numpy and the extension itself."""
    spec = importlib.util.spec_from_file_location("zrt_build", root / "zrt" / "_native" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tag(build: Any) -> str:
    """The wheel's tag: CPython 3.11 and later where the limited API allows, elsewhere one version of Python only."""
    platform = build.target() or sysconfig.get_platform().replace("-", "_").replace(".", "_")
    interpreter = "cp{}{}".format(*build.python_version())
    return f"cp311-abi3-{platform}" if build.abi3() else f"{interpreter}-{interpreter}t-{platform}"


class ExtensionHook(BuildHookInterface[Any]):
    """Builds for the targets `wheel` (standard and editable); the sdist carries sources alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the module before hatchling collects the wheel's files."""
        build = builder(Path(self.root))
        build_data["pure_python"] = False
        build_data["tag"] = tag(build)
        if version == "editable":
            build.build()
            return
        sbom = os.environ.get("ZRT_SBOM")
        if sbom:
            build_data["sbom_files"].append(os.path.abspath(sbom))
        # Not in the source folder: someone may be running zrt from there.
        self.scratch = tempfile.TemporaryDirectory()
        module = build.build(Path(self.scratch.name))
        build_data["force_include"][str(module)] = f"zrt/_native/{module.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the compiled module after the wheel is built."""
        if version != "editable":
            self.scratch.cleanup()
