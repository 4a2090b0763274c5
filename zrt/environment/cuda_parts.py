"""The parts of a machine that a provider for CUDA needs: the driver, and the libraries of CUDA, cuDNN and TensorRT.

ONNX Runtime loads its provider with the system's loader, whose message names the first missing file only, be it the
driver's or a library's. So zrt looks for each part first: where the loader looks, and then in NVIDIA's Python packages.
The loader takes a library that is loaded already, from whichever folder.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from zrt._common import elf, installation
from zrt._native import _ort, ffi, lib, library_files
from zrt._native.library import library
from zrt.errors import ProviderError

PROVIDER = "libonnxruntime_providers_cuda.so"
DRIVER = "libcuda.so.1"
RUNTIME = "libcudart"
MISSING = "missing"
_INSTALL = "To mend it, for example: pip install "

# By the name of the file before ".so": the name that people know, NVIDIA's Python package, and the function that tells
# the version.
_LIBRARIES = {
    RUNTIME: ("CUDA runtime", "nvidia-cuda-runtime", "cudaRuntimeGetVersion"),
    "libcudnn": ("cuDNN", "nvidia-cudnn", "cudnnGetProperty"),
    "libcublasLt": ("cuBLASLt", "nvidia-cublas", "cublasLtGetProperty"),
    "libcublas": ("cuBLAS", "nvidia-cublas", "cublasGetProperty"),
    "libcufft": ("cuFFT", "nvidia-cufft", "cufftGetProperty"),
    "libcurand": ("cuRAND", "nvidia-curand", "curandGetProperty"),
    "libnvrtc": ("NVRTC", "nvidia-cuda-nvrtc", "nvrtcVersion"),
    # The parser needs TensorRT.
    "libnvinfer": ("TensorRT", "tensorrt", "getInferLibVersion"),
    "libnvonnxparser": ("TensorRT's ONNX parser", "tensorrt", "getNvOnnxParserVersion"),
}
# By the version of CUDA: the libraries that the provider of 1.31.1 opens when a model needs them. That of 1.27.0 is
# linked to them.
_OPENED = {
    12: ("libcudnn.so.9", "libcufft.so.11", "libnvrtc.so.12"),
    13: ("libcudnn.so.9", "libcufft.so.12", "libnvrtc.so.13"),
}
# The oldest driver for each CUDA.
_DRIVERS = {12: "525", 13: "580"}
# Results of cuInit.
_STUB, _NO_DEVICE = 34, 100


class Part(NamedTuple):
    """A part that was looked for: where it is and its version, or its problem and the mend."""

    name: str
    file: str
    path: str | None = None
    version: str | None = None
    problem: str | None = None
    """The reason why it cannot be used; None where it can."""
    mend: str | None = None
    """The thing to do about the problem."""
    optional: bool = False
    """Whether the provider starts without it, and opens it when a model needs it."""


class Search(NamedTuple):
    """The parts that a provider needs, the driver first, and the places where they were looked for."""

    parts: tuple[Part, ...] = ()
    places: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The parts and the places as JSON has them."""
        return {"parts": [part._asdict() for part in self.parts], "places": list(self.places)}


def search(provider: str = PROVIDER) -> Search:
    """Looks for the parts that a provider needs, and makes those ready that are in NVIDIA's Python packages.

    `provider` is as in `provider_file`. A provider that does not use CUDA needs none.
    """
    core, file = core_file(), provider_file(provider)
    problem = library_files.problem(file)
    if problem:
        mend = f'{_INSTALL}"onnxruntime-gpu", or copy the provider there'
        reason = problem if os.path.exists(file) else MISSING
        return Search((Part("provider", provider, problem=reason, mend=mend),), (f"the folder of {core}",))
    shared = elf.read(file)
    variable = os.environ.get("LD_LIBRARY_PATH", "")
    run_path = tuple(dict.fromkeys((*shared.run_path, *elf.read(core).run_path)))
    folders = [*filter(None, variable.split(":")), *run_path]
    cuda = next((_number(name) for name in shared.needed if _stem(name) == RUNTIME), None)
    parts = [_driver(folders, cuda)] if cuda or DRIVER in shared.needed else []
    opened = _OPENED.get(cuda or 0, ()) if os.path.basename(file) == PROVIDER else ()
    files = dict.fromkeys((*shared.needed, *opened))
    for stem, (name, package, symbol) in _LIBRARIES.items():
        for needed in files:
            if _stem(needed) == stem:
                part = _library(name, needed, symbol, _requirement(package, needed, cuda), folders)
                parts.append(part._replace(optional=needed not in shared.needed))
    places = (
        f"LD_LIBRARY_PATH ({variable or 'not set'})",
        f"the run paths of {os.path.basename(provider)} and ONNX Runtime ({':'.join(run_path) or 'they have none'})",
        "the system's folders",
        f"NVIDIA's Python packages ({':'.join(nvidia_folders()) or 'there are none'})",
    )
    return Search(tuple(parts), places)


def provider_file(provider: str = PROVIDER) -> str:
    """The file of a provider: ONNX Runtime looks for one without a folder beside its own code."""
    return os.path.join(os.path.dirname(core_file()), provider)


def require(provider: str = PROVIDER) -> None:
    """Makes the parts ready that a provider needs, as `search` does.

    Raises `ProviderError` that names each part that cannot be used. Without a driver it is about the driver alone.
    """
    result = search(provider)
    bad = [part for part in result.parts if part.problem and not part.optional]
    if not bad:
        return
    first = bad[0]
    if first.file == DRIVER:
        # No Python package has a driver.
        message = f"the {first.name} {first.problem}"
        if first.problem == MISSING:
            message = f"there is no {first.name}: {DRIVER} is not in {_listed(result.places[:-1])}"
        raise ProviderError(f"{message}. {first.mend}")
    missing = ", ".join(f"{part.name} ({part.file})" for part in bad if part.problem == MISSING)
    reasons = [f"{part.name} ({part.file}) {part.problem}" for part in bad if part.problem != MISSING]
    if missing:
        reasons.insert(0, f"missing: {missing}, looked for in {_listed(result.places)}")
    mends = dict.fromkeys(part.mend or "" for part in bad)
    raise ProviderError(f"{'; '.join(reasons)}. {_INSTALL}{' '.join(mend.removeprefix(_INSTALL) for mend in mends)}")


def _listed(places: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(places[:-1]), places[-1]]))


def core_file() -> str:
    """The file with ONNX Runtime's own code: the library, or the extension that has it built in."""
    path = library().path
    if path is None:
        # The extension may have it inside, or be linked to a library.
        return _file_at(ctypes.c_void_p(int(ffi.cast("uintptr_t", lib.zrt_library_builtin())))) or str(_ort.__file__)
    if os.sep in path:
        return path
    # A name that the system's loader has resolved.
    return _file_of(ctypes.CDLL(path), "OrtGetApiBase") or path


def _stem(file: str) -> str:
    return file.partition(".so")[0]


def _number(file: str) -> int | None:
    """The number behind ".so.", which is the major version."""
    number = file.rpartition(".so.")[2]
    return int(number) if number.isdecimal() else None


def _requirement(package: str, file: str, cuda: int | None) -> str:
    """The name and the version for pip. Since CUDA 13 packages of CUDA itself have no version in their names."""
    suffix = f"-cu{cuda}" if cuda and (cuda < 13 or package in ("nvidia-cudnn", "tensorrt")) else ""
    return f"{package}{suffix}=={_number(file)}.*"


def nvidia_folders() -> Iterator[str]:
    """The folders of libraries in NVIDIA's Python packages."""
    for folder in installation.search_path():
        packages = os.path.join(folder, "nvidia")
        # It is not there, or not for this user.
        with suppress(OSError):
            for name in sorted(os.listdir(packages)):
                yield os.path.join(packages, name, "lib")
        tensorrt = os.path.join(folder, "tensorrt_libs")
        if os.path.isdir(tensorrt):
            yield tensorrt


def _open(path: str) -> ctypes.CDLL:
    problem = library_files.problem(path)
    if problem:
        raise OSError(f"{path}: {problem}")
    return ctypes.CDLL(path)


def _load(file: str, folders: list[str]) -> tuple[ctypes.CDLL, str | None]:
    """Loads a library as the loader does for the provider; also its path, or None if the system's loader chose it."""
    try:
        return ctypes.CDLL(file, os.RTLD_NOLOAD), None
    except OSError:
        pass
    for folder in folders:
        path = os.path.join(folder, file)
        if os.path.exists(path):
            return _open(path), path
    return ctypes.CDLL(file), None


def _library(name: str, file: str, symbol: str, requirement: str, folders: list[str]) -> Part:
    mend = f'{_INSTALL}"{requirement}"'
    try:
        library, path = _load(file, folders)
    except OSError as error:
        places = [os.path.join(folder, file) for folder in nvidia_folders()]
        path = next(filter(os.path.exists, places), None)
        if path is None:
            return Part(name, file, problem=_failure(file, error), mend=mend)
        try:
            library = _open(path)
        except OSError as error:
            return Part(name, file, path, problem=_failure(file, error), mend=mend)
    # A replacement of NVIDIA's library need not tell its version.
    version = _version(library, symbol) if hasattr(library, symbol) else None
    return Part(name, file, path or _file_of(library, symbol), version)


def _failure(file: str, error: OSError) -> str:
    """Why a library cannot be loaded. The loader says "No such file" also of the libraries that the file needs."""
    gone = str(error).startswith(f"{file}: cannot open shared object file: No such file")
    return MISSING if gone else f"cannot be loaded: {error}"


def _version(library: ctypes.CDLL, symbol: str) -> str:
    """The version that a library reports by that function."""
    function = getattr(library, symbol)
    numbers = [ctypes.c_int() for _ in range(3)]
    if symbol == "cudaRuntimeGetVersion":
        function(ctypes.byref(numbers[0]))
        return _cuda_version(numbers[0].value)
    if symbol == "nvrtcVersion":
        function(ctypes.byref(numbers[0]), ctypes.byref(numbers[1]))
        return f"{numbers[0].value}.{numbers[1].value}"
    if not symbol.endswith("GetProperty"):
        number = function()
        return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
    for kind, number in enumerate(numbers):
        function(kind, ctypes.byref(number))
    return ".".join(str(number.value) for number in numbers)


def _cuda_version(number: int) -> str:
    """ "13.0" for 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver(folders: list[str], cuda: int | None) -> Part:
    """The driver, which must know the CUDA that the provider was compiled for."""
    name, takes = "NVIDIA driver", f"CUDA {cuda} takes driver {_DRIVERS.get(cuda or 0, 'of that CUDA')} or later"
    install = f"ONNX Runtime was built for CUDA, and {takes}: install it, or give the container access to the GPU"
    try:
        library, path = _load(DRIVER, folders)
    except OSError as error:
        return Part(name, DRIVER, problem=_failure(DRIVER, error), mend=install)
    path = path or _file_of(library, "cuInit")
    number, count = ctypes.c_int(), ctypes.c_int()
    try:
        library.cuDriverGetVersion(ctypes.byref(number))
        code = library.cuInit(0)
        if code == 0:
            library.cuDeviceGetCount(ctypes.byref(count))
    except AttributeError as error:
        return Part(name, DRIVER, path, problem=f"cannot be used: {error}", mend=install)
    release = re.search(r"\.so\.(\d{3}[\d.]*)$", os.path.realpath(path or ""))
    version = f"CUDA {_cuda_version(number.value)}" + (f", release {release[1]}" if release else "")
    problem, mend = None, None
    if code == _STUB:
        problem, mend = f"is a stub for linking ({path})", f"Take its folder out of the search. {install}"
    elif cuda and number.value // 1000 < cuda:
        problem, mend = f"is too old: it is for {version} ({path})", f"Update it: {takes}"
    elif code == _NO_DEVICE or (code == 0 and not count.value):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        limit = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
        problem, mend = f"sees no GPU{limit}", "nvidia-smi lists those that there are"
    elif code:
        problem = f"does not start: cuInit reports {_reason(library, code)}"
        mend = "nvidia-smi may say more; restart the machine if the driver was updated"
    return Part(name, DRIVER, path, version, problem, mend)


def _reason(driver: ctypes.CDLL, code: int) -> str:
    """The driver's words for a result of one of its functions."""
    text = ctypes.c_char_p()
    with suppress(AttributeError):
        driver.cuGetErrorString(code, ctypes.byref(text))
    return f"{code} ({text.value.decode(errors='replace')})" if text.value else str(code)


def _file_of(library: ctypes.CDLL, symbol: str) -> str | None:
    """The file that a function of a loaded library is in."""
    try:
        return _file_at(ctypes.cast(getattr(library, symbol), ctypes.c_void_p))
    except AttributeError:
        return None


def _file_at(place: ctypes.c_void_p) -> str | None:
    """The file that an address of a loaded library belongs to."""
    # Dl_info of the C library has four pointers, and the first is the file's name.
    info = (ctypes.c_char_p * 4)()
    try:
        known = ctypes.CDLL(None).dladdr(place, info)
    except (AttributeError, OSError):
        return None
    return os.fsdecode(info[0]) if known and info[0] else None
