"""The CPUs that this process may use: its affinity mask and the CPU quota of its cgroups, which containers set."""

from __future__ import annotations

import os
from functools import cache

CGROUPS = "/proc/self/cgroup"
MOUNTS = "/sys/fs/cgroup"
ONLINE = "/sys/devices/system/cpu/online"
SMT = "/sys/devices/system/cpu/smt/active"


def affinity() -> int:
    """The number of logical CPUs that the process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def quota(cgroups: str = CGROUPS, mounts: str = MOUNTS) -> float | None:
    """The CPUs' worth of time that the cgroups of this process grant it, the smallest of all; None without a limit.

    `cgroups` is the file that names them, `mounts` the folder in which the system shows them.
    """
    limits = []
    for line in _read(cgroups).splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "none", "")
        if controllers == "":
            # Version 2, and beside version 1 in a folder of its own.
            limits += _limits([mounts, f"{mounts}/unified"], path)
        elif "cpu" in controllers.split(","):
            limits += _limits([f"{mounts}/{controllers}", f"{mounts}/cpu"], path)
    return min(limits, default=None)


def cpus() -> int:
    """The number of CPUs that the process may keep busy, at least 1; a part of a CPU does not count."""
    granted = quota()
    return affinity() if granted is None else max(1, min(affinity(), int(granted)))


def pool_threads() -> int:
    """The number of threads for a pool that leaves it open; 0 where ONNX Runtime's own choice is right.

    ONNX Runtime makes a thread for each core of the machine and binds it to that core, whatever the process may use.
    """
    usable, machine = cpus(), machine_cpus()
    if usable >= machine:
        return 0
    cores = _cores()
    # A mask leaves out CPUs, to which ONNX Runtime would bind its threads all the same.
    return min(usable, cores) if usable < cores or affinity() < machine else 0


@cache
def machine_cpus() -> int:
    """The logical CPUs of the machine. With musl Python's own count is that of the process's mask."""
    # Such as 0-3,5.
    ranges = [part.split("-") for part in _read(ONLINE).split(",")]
    try:
        return sum(int(each[-1]) - int(each[0]) + 1 for each in ranges)
    except ValueError:
        return os.cpu_count() or 1


@cache
def _cores() -> int:
    """The cores of the machine: half of its logical CPUs where two of them share a core."""
    return max(1, machine_cpus() // 2) if _read(SMT).strip() == "1" else machine_cpus()


def _limits(folders: list[str], path: str) -> list[float]:
    """The limits of the cgroup at `path` and of those around it, in the first of the folders that has any.

    In a container the path may be that outside: then only the folder itself is there.
    """
    for folder in dict.fromkeys(folders):
        parts = [part for part in path.split("/") if part and part != ".."]
        around = ("/".join([folder, *parts[:count]]) for count in range(len(parts), -1, -1))
        limits = [limit for group in around if (limit := _limit(group)) is not None]
        if limits:
            return limits
    return []


def _limit(group: str) -> float | None:
    """The time that a cgroup grants, divided by its period. "max" and -1 set no limit, and are no numbers here."""
    times = _read(f"{group}/cpu.max").split()
    if not times:
        times = [_read(f"{group}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    granted, period = (*times, "100000")[:2]
    if not granted.isdigit() or not period.isdigit() or not int(granted) or not int(period):
        return None
    return int(granted) / int(period)


def _read(path: str) -> str:
    """The content of a small file of the system; "" where it cannot be read."""
    try:
        # Python's own files take three times as long.
        file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            return os.read(file, 1 << 14).decode("utf-8", "replace")
        finally:
            os.close(file)
    except OSError:
        return ""


# A child may be moved to another cgroup.
os.register_at_fork(after_in_child=quota.cache_clear)
