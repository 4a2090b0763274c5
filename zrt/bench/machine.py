"""The machine of a measurement: CPU, cores, versions, and the process's memory."""

from __future__ import annotations

import platform
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zrt._native.library import library
from zrt.bench import caches
from zrt.environment.cpu_limits import affinity, machine_cpus
from zrt.loading import cache
from zrt.version import __version__


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the interpreter."""

    processor: str
    architecture: str
    cores: int
    """The CPU's cores, as the system counts them."""
    usable_cores: int
    """The cores that this process may run on."""
    cache_bytes: int
    """The size of the largest cache."""
    system: str
    python: str
    numpy: str


@dataclass(frozen=True, slots=True)
class Versions:
    """zrt and the ONNX Runtime that it has loaded."""

    zrt: str
    onnxruntime: str
    api_version: int
    path: str | None
    """The library's file; None where it is built into zrt."""
    source: str
    """How zrt found the library."""
    build_info: str
    """The sources and the settings of its build."""


def describe() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        processor=processor(),
        architecture=platform.machine(),
        cores=machine_cpus(),
        usable_cores=affinity(),
        cache_bytes=caches.last_level_size(),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=np.__version__,
    )


def versions() -> Versions:
    """The versions of zrt and of the loaded ONNX Runtime; raises `LibraryError` if there is none."""
    loaded = library()
    return Versions(__version__, loaded.version, loaded.api_version, loaded.path, loaded.source, loaded.build_info)


def processor() -> str:
    """The CPU's product name if the system knows it, else the architecture."""
    facts = cache.processor()
    names = [line.partition(":")[2].strip() for line in facts if line.startswith("model name")]
    if sys.platform == "darwin":
        # The last one is the name alone.
        names = facts[-1:]
    # Not `platform.processor`, which starts a program.
    return next(iter(names), "") or platform.machine()


@dataclass(frozen=True, slots=True)
class Resident:
    """The memory of this process, in bytes; None where the system does not tell it, as macOS does not."""

    now: int | None
    """Its pages in memory."""
    own: int | None
    """Those that are no pages of files: the system cannot drop them, and no other process shares them."""
    peak: int
    """The most pages in memory at any time."""


def resident() -> Resident:
    """The memory of this process now, and its peak."""
    try:
        rows = (line.split() for line in Path("/proc/self/status").read_text("utf-8", "replace").splitlines())
        sizes = {row[0]: int(row[1]) * 1024 for row in rows if row[2:] == ["kB"]}
        return Resident(sizes["VmRSS:"], sizes.get("RssAnon:"), sizes["VmHWM:"])
    except (OSError, KeyError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Resident(None, None, peak if sys.platform == "darwin" else peak * 1024)


def resident_bytes() -> int:
    """The resident memory of this process; its peak on systems that do not report the current value."""
    memory = resident()
    return memory.peak if memory.now is None else memory.now
