"""The ONNX Runtime in use: its version, its build, its device; and a report for those who look for a problem."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from functools import cache

from zrt._native.library import Library, library
from zrt.environment import cuda_parts
from zrt.onnxruntime.homes import words
from zrt.onnxruntime.provider_args import get_available_providers
from zrt.version import __version__ as zrt_version

# The libraries that a build for CUDA needs, in an order in which each finds those before it; {} is a version.
_CUDA_FILES = words(
    "libcublasLt.so.{cuda} libcublas.so.{cuda} libnvrtc.so.{cuda} libcurand.so.10 libcufft.so.{cufft} "
    "libcudart.so.{cuda}"
)
_CUFFT = {"12": "11", "13": "12"}
_OLDEST_CUDA = 12


@cache
def package_info() -> dict[str, str]:
    """The variables of the official package's `build_and_package_info`, where the engine is that package's library.

    Else those that the package has in any case.
    """
    variables = {"package_name": "onnxruntime", "__version__": library().version}
    folder = os.path.dirname(library().path or "")
    try:
        with open(os.path.join(folder, "build_and_package_info.py"), encoding="utf-8") as file:
            variables |= re.findall(r"^(\w+) = '([^']*)'$", file.read(), re.MULTILINE)
    except OSError:
        pass
    return variables


def __getattr__(name: str) -> str:
    if name in ("__version__", "version"):
        return get_version_string()
    if name in ("cuda_version", "package_name"):
        return package_info().get(name, "")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_version_string() -> str:
    """The version of ONNX Runtime, such as "1.27.0"."""
    return library().version


def get_build_info() -> str:
    """The sources and options of the build of ONNX Runtime."""
    return f"ORT Build Info: {library().build_info}"


def get_device() -> str:
    """ "GPU" if ONNX Runtime was built for CUDA, else "CPU"."""
    return "GPU" if "CUDAExecutionProvider" in get_available_providers() else "CPU"


def has_collective_ops() -> bool:
    """Whether ONNX Runtime has operators over several processes; no official package, 1.27 to 1.32, has them."""
    return False


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Load the libraries of CUDA and cuDNN before a session needs them.

    `directory` has them, and a relative one is in the folder of this module; "" and None stand for the folders of
    NVIDIA's Python packages, and then for the places of the system's loader. Without an engine that is built for CUDA
    nothing happens. `msvc` is for Windows and ignored. Raises `RuntimeError` if the directory does not exist.
    """
    version = package_info().get("cuda_version", "")
    if not version and (cuda or cudnn):
        return
    if directory and not os.path.isdir(os.path.join(os.path.dirname(__file__), directory)):
        raise RuntimeError(f"Invalid parameter of directory={directory}. The directory does not exist!")
    if not cuda and not cudnn:
        return
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < _OLDEST_CUDA:
        print(f"WARNING: the engine was built with CUDA {version}, whose libraries cannot be preloaded")
        return
    wanted = (_CUDA_FILES if cuda else []) + (["libcudnn.so.9"] if cudnn else [])
    files = [file.format(cuda=major, cufft=_CUFFT.get(major, "11")) for file in wanted]
    loaded = [_preload(file, directory) for file in files]
    if not all(loaded):
        print("Install CUDA and cuDNN as described on https://onnxruntime.ai/docs/install/#cuda-and-cudnn")


def _preload(file: str, directory: str | None) -> bool:
    """Load a library from the first place that has it; prints why none could be loaded."""
    folders = [os.path.join(os.path.dirname(__file__), directory)] if directory else cuda_parts.nvidia_folders()
    paths = [os.path.join(folder, file) for folder in folders]
    for path in [*filter(os.path.isfile, paths), file]:
        try:
            ctypes.CDLL(path)
            return True
        except OSError as error:
            print(f"Failed to load {path}: {error}")
    return False


def print_debug_info() -> None:
    """Print what helps to find a problem: versions, places, and the libraries that are loaded."""
    # Deferred: it takes more than 3 ms, and only this report needs it.
    from importlib.metadata import distributions

    engine: Library = library()
    print(f"{package_info()['package_name']} version: {engine.version}")
    print(f"engine: {engine.path or engine.source}, through zrt {zrt_version}")
    if cuda_version := package_info().get("cuda_version"):
        print(f"CUDA version used in build: {cuda_version}")
    print(f"platform: {platform.platform()}")
    print("\nPython package, version and location:")
    for name, version, place in sorted(
        (each.metadata["Name"], each.version, str(each.locate_file("")))
        for each in distributions()
        if each.metadata["Name"] and re.match(r"(onnxruntime|ort|zrt|nvidia|torch)(-|$)", each.metadata["Name"])
    ):
        print(f"{name}=={version} at {place}")
    variable = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
    print(f"\nEnvironment variable:\n{variable}={os.environ.get(variable, '(unset)')}")
    print("\nList of loaded DLLs:")
    for path in _loaded():
        print(path)


def _loaded() -> list[str]:
    """The files of ONNX Runtime, CUDA and cuDNN that this process has mapped, where the system tells."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "/" in line}
    except OSError:
        return []
    words = ("onnxruntime", "cublas", "cudart", "cudnn", "cufft", "curand", "nvrtc")
    return sorted(path for path in paths if any(word in os.path.basename(path) for word in words))
