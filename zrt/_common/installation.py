"""The lines that install zrt and the packages of its extras, for the errors about what is missing."""

from __future__ import annotations

import os

from zrt.errors import UnsupportedError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _clone() -> str | None:
    """The folder of a clone or of an unpacked sdist, if the package lies in one: a wheel lacks the build's hook."""
    hook = os.path.join(_PACKAGE, "_native", "hatch_build.py")
    return os.path.dirname(_PACKAGE) if os.path.isfile(hook) else None


def install_line(extra: str) -> str:
    """The line for a shell that installs the packages of an extra."""
    clone = _clone()
    return f'pip install -e "{clone}[{extra}]"' if clone else f'pip install "zrt-onnx[{extra}]"'


def missing(package: str, extra: str, purpose: str) -> UnsupportedError:
    """The error about a missing package, which `extra` installs."""
    return UnsupportedError(f"{purpose} needs the {package} package: {install_line(extra)}")


def require(package: str, extra: str, purpose: str) -> None:
    """Raises `UnsupportedError` if a package is missing that only some functions need."""
    # Deferred: most programs need no extra.
    from importlib.util import find_spec

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
