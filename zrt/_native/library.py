"""Finds libonnxruntime, loads it, checks its version and returns the API table.

It looks in these places, in this order: the file that ``ZRT_ORT_LIBRARY`` names, the core built into zrt, the file that
``ORT_DYLIB_PATH`` names, the library inside an installed ``onnxruntime`` or ``onnxruntime-gpu`` distribution,
the system's loader. A library that a variable names is used or is an error; zrt does not go on to the next place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from zrt._common.fork_lock import ForkLock
from zrt._common.installation import install_line
from zrt._native import ffi, lib, library_files
from zrt._native.library_files import DISTRIBUTIONS, FILE_PATTERN, LOADER_NAMES, METADATA_SUFFIX
from zrt.errors import LibraryError

__all__ = ["Library", "api", "library", "load_api"]

# The variables that name a library: before the core built into zrt, and after it.
VARIABLES = ("ZRT_ORT_LIBRARY", "ORT_DYLIB_PATH")
WANTED = f"1.{lib.ZRT_API_VERSION}"
# The newest release with which the tests pass. docs/building.md lists those that were tested.
NEWEST_TESTED = "1.32.0"
# The releases with the faults that docs/security.md describes: from each first one to before the one that mends it.
_FAULTY = (([1, 27], [1, 28, 3]), ([1, 29], [1, 30, 1]))

# Microsoft's builds since 1.29 report to Microsoft which models a process loads, unless this variable is set. A process
# that is forked beside the reporting thread hangs or crashes when it exits: there is no such thread to join. ONNX
# Runtime reads the variable once, when it creates the environment.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


class Library(NamedTuple):
    """The ONNX Runtime in use; there is one per process.

    `path` is the loaded file, or None for the core built into zrt. `source` is the place where it was found:
    ``ZRT_ORT_LIBRARY``, ``built in``, ``ORT_DYLIB_PATH``, ``onnxruntime distribution 1.27.0`` or
    ``system loader``. `version` is the version of the library. `api_version` is that of its table, or
    the newest that zrt knows. `build_info` names the sources and the options of its build.
    """

    path: str | None
    source: str
    version: str
    api_version: int
    build_info: str

    @property
    def newer_than_tested(self) -> bool:
        """Whether the library is newer than the newest that was tested with this zrt."""
        return _numbers(self.version) > _numbers(NEWEST_TESTED)

    @property
    def faults(self) -> list[str]:
        """The known faults of this version of the library, each with what mends it: docs/security.md describes them."""
        if not any(first <= _numbers(self.version) < mended for first, mended in _FAULTY):
            return []
        return [
            "a model that computes int4, uint4, int2 or uint2 values can write outside its memory and compute "
            "wrong values: take 1.31.0 or later",
            "a damaged model can read outside memory while it loads, and end the process: take 1.31.0 or later",
        ]

    @property
    def required_operators(self) -> str | None:
        """The file that lists the only operators with kernels for the CPU; None for a library that has all of them."""
        return library_files.required_operators() if self.path is None else None


class UnusableError(Exception):
    """One candidate cannot be used; the message has the reason."""


# A signal handler may load the library while its own thread does: both find the same.
_lock = ForkLock()
_table: Any = None
_load_table: Any = None
_library: Library | None = None


def api() -> Any:
    """The ``OrtApi`` table of the loaded library (loads it at the first call).

    Raises `LibraryError` if no usable library is found; the next call tries again.
    """
    return _table or _load()[0]


def load_api() -> Any:
    """The same table as a struct of the functions that a first answer calls, `LOAD_FUNCTIONS` in build.py.

    cffi makes the types of all functions of a struct at the first use of one, and those of `api` take it as long as the
    import of ten modules.
    """
    return _load_table or _load()[1]


def library() -> Library:
    """Which ONNX Runtime is in use (loads it at the first call).

    Raises `LibraryError` if no usable library is found.
    """
    return _library or _load()[2]


def _load() -> tuple[Any, Any, Library]:
    global _library, _load_table, _table
    with _lock.now:
        if _library is None:
            table, description = find()
            _table, _load_table, _library = ffi.cast("const OrtApi *", table), table, description
        return _table, _load_table, _library


def loaded() -> bool:
    """Whether the library is loaded."""
    return _library is not None


def first_path() -> str | None:
    """The file that `library` looks at first, or a name for the system's loader; None for the core built into zrt."""
    path, _ = next(_candidates([]))
    return path


def find() -> tuple[Any, Library]:
    """Opens the library that is to be used now: its table, with the functions of a load, and its description.

    Raises `LibraryError` if there is none.
    """
    looked: list[str] = []
    for path, source in _candidates(looked):
        try:
            return _table_of(lib.zrt_library_builtin(), None, source) if path is None else _open(path, source)
        except UnusableError as error:
            if source in VARIABLES:
                raise LibraryError(
                    f"{source}={path}: {error}. Let {source} name the file of a libonnxruntime {WANTED} or "
                    f"later, or unset it and install one: {install_line('cpu')}"
                ) from None
            looked.append(f"{source}: {error}" if path is None else f"{source}: {path}: {error}")
    places = "\n".join(f"  {line}" for line in looked)
    raise LibraryError(
        f"no usable ONNX Runtime library (libonnxruntime {WANTED} or later); looked at:\n{places}\n"
        f"Install one: {install_line('cpu')} (for CUDA: {install_line('cuda')})"
    )


def _candidates(looked: list[str]) -> Iterator[tuple[str | None, str]]:
    """The libraries to try and their sources; None is the core built into zrt. `looked` gets the places without one."""
    first, second = VARIABLES
    yield from _named(first, looked)
    if lib.zrt_library_builtin():
        yield None, "built in"
    else:
        looked.append("built in: this zrt was built without a core of its own")
    yield from _named(second, looked)
    for name in DISTRIBUTIONS:
        metadata = library_files.metadata(name)
        if metadata is None:
            looked.append(f"{name} distribution: not installed")
            continue
        source = f"{name} distribution {metadata.removesuffix(METADATA_SUFFIX).rpartition('-')[2]}"
        path = library_files.library_file(metadata)
        if path is None:
            looked.append(f"{source}: it holds no {FILE_PATTERN}")
        else:
            yield path, source
    for name in LOADER_NAMES:
        yield name, "system loader"


def _named(variable: str, looked: list[str]) -> Iterator[tuple[str, str]]:
    path = os.environ.get(variable)
    if path:
        yield path, variable
    else:
        looked.append(f"{variable}: not set")


def for_loader(path: str) -> str:
    """The path for the system's loader, which finds a name without a folder itself.

    Raises `UnusableError` for a file that it must not get.
    """
    if os.sep not in path:
        return path
    problem = library_files.problem(path)
    if problem:
        raise UnusableError(problem)
    # ONNX Runtime and zrt look for providers beside the library, also after the working folder has changed.
    return os.path.abspath(path)


def _open(path: str, source: str) -> tuple[Any, Library]:
    path = for_loader(path)
    message = ffi.new("char[]", 1024)
    base = lib.zrt_library_open(os.fsencode(path), message, len(message))
    if not base:
        reason = os.fsdecode(ffi.string(message)) or "its OrtGetApiBase returns nothing"
        if os.sep not in path and os.path.exists(path):
            reason += f" (the system's loader does not look in the current folder: ./{path} is the file there)"
        raise UnusableError(f"it cannot be loaded: {reason.removeprefix(f'{path}: ')}")
    return _table_of(base, path, source)


def _table_of(base: Any, path: str | None, source: str) -> tuple[Any, Library]:
    version = ffi.string(base.GetVersionString()).decode(errors="replace")
    api_version = _api_version(version)
    table = ffi.cast("const zrt_load_api *", base.GetApi(api_version))
    if not table:
        raise UnusableError(f"it is ONNX Runtime {version}, and zrt needs {WANTED} or later")
    build = ffi.string(table.GetBuildInfoString()).decode(errors="replace").removeprefix("ORT Build Info: ")
    return table, Library(path, source, version, api_version, build)


def _api_version(version: str) -> int:
    """The API version to ask a library of this version for: its own, as far as zrt knows it.

    It follows from the name: a library that is asked for a version that it does not have prints a line.
    """
    major, minor, *_ = [*version.split("."), ""]
    newest = min(int(minor), int(lib.ZRT_NEWEST_API_VERSION)) if major == "1" and minor.isdecimal() else 0
    return max(newest, int(lib.ZRT_API_VERSION))


def _numbers(version: str) -> list[int]:
    """The numbers that a version begins with: 1, 31 and 1 for "1.31.1" and "1.31.1.dev20261101"."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
