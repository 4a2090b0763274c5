"""Questions about the system and the package, as the official package asks them when it is imported."""

from __future__ import annotations

import platform
import warnings

SYSTEMS = ("Linux", "Darwin")


def check_distro_info() -> None:
    """Warn if zrt does not support this system."""
    system = platform.system()
    if system not in SYSTEMS:
        warnings.warn(f"Unsupported platform ({system}): zrt supports Linux and macOS", stacklevel=2)


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Return the package's name, its version and that of CUDA, which is "" in a build without CUDA."""
    from zrt.onnxruntime.engine import package_info

    info = package_info()
    return info["package_name"], info["__version__"], info.get("cuda_version", "")


def check_training_module() -> tuple[bool, str, str, str]:
    """Return whether there is a module for training, which zrt never has, and what the function above returns."""
    return False, *get_package_name_and_version_info()
