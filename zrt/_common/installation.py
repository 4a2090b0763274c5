"""How zrt is installed: the lines that install what is missing, and another package that overwrites zrt's files."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.util import find_spec

from zrt.errors import UnsupportedError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# On the Python index this is the name of somebody else's package; zrt is ``zrt-onnx`` there.
_OTHER = "zrt"

_MEND = f"To keep zrt-onnx alone: pip uninstall {_OTHER}; pip install --force-reinstall --no-deps zrt-onnx"


def _clone() -> str | None:
    """The folder of a clone or of an unpacked sdist, if the package lies in one: a wheel lacks the build's hook."""
    hook = os.path.join(_PACKAGE, "_native", "hatch_build.py")
    return os.path.dirname(_PACKAGE) if os.path.isfile(hook) else None


def search_path() -> list[str]:
    """`sys.path` without what is no str, which Python ignores too."""
    return [place for place in sys.path if isinstance(place, str)]


def install_line(extra: str) -> str:
    """The line for a shell that installs the packages of an extra."""
    clone = _clone()
    return f'pip install -e "{clone}[{extra}]"' if clone else f'pip install "zrt-onnx[{extra}]"'


def missing(package: str, extra: str, purpose: str) -> UnsupportedError:
    """The error about a missing package, which `extra` installs."""
    return UnsupportedError(f"{purpose} needs the {package} package: {install_line(extra)}")


def require(package: str, extra: str, purpose: str) -> None:
    """Raises `UnsupportedError` if a package is missing that only some functions need."""
    if find_spec(package) is None:
        raise missing(package, extra, purpose)


def unusable_module(error: ImportError) -> ImportError:
    """The error about the compiled module, whose import raised `error`."""
    text = f"the compiled module of zrt cannot be imported ({error}). "
    clone = _clone()
    if clone:
        text += (
            f'This zrt is the source code in {clone}. Compile it: pip install -e "{clone}". '
            "If zrt is installed for this Python, start Python in another folder, and it imports that one"
        )
    else:
        text += "Install zrt again, for this Python: pip install --force-reinstall zrt-onnx"
    return ImportError(text, name=error.name, path=error.path)


def warn_of_other() -> None:
    """Warns where the other package ``zrt`` is installed in this folder: both have the file zrt/__init__.py."""
    folder = os.path.dirname(_PACKAGE)
    try:
        entries = os.listdir(folder)
    except OSError:
        # A program that is one file has no such folder.
        return
    for entry in entries:
        if entry.startswith(f"{_OTHER}-") and entry.endswith(".dist-info"):
            warnings.warn(
                f"another package, {entry.removesuffix('.dist-info')}, is installed in the folder of zrt-onnx "
                f"({folder}). Both have the file zrt/__init__.py: an upgrade or an uninstallation of one breaks the "
                f"other. {_MEND}",
                # The line that imports zrt; Python does not count the frames of its import system.
                stacklevel=3,
            )


def overwritten() -> ImportError:
    """The error about a zrt/__init__.py that is not zrt's own, or that is missing."""
    return ImportError(
        f"{os.path.join(_PACKAGE, '__init__.py')} is not the file of zrt-onnx: another package named {_OTHER} was "
        f"installed over it, or uninstalled. {_MEND}",
        name=_OTHER,
    )
