"""Counts the threads that a session makes by default on one CPU, and with a number of them given.

Argument 1 says whose pools are used, argument 2 whether an affinity mask or a cgroup limits this process.
"""

import contextlib
import os
import sys
from pathlib import Path

import zrt
from tests.support import models, tasks


def join_cgroup() -> Path | None:
    """Moves this process to a new cgroup with a quota of one CPU; None where the system does not let it."""
    places = [Path("/sys/fs/cgroup", name) for name in ("cpu", "cpu,cpuacct", "")]
    place = next(filter(Path.is_dir, places), None)
    if place is None:
        return None
    folder = place / f"zrt-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        if (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_quota_us").write_text("100000")
            (folder / "cpu.cfs_period_us").write_text("100000")
        else:
            (folder / "cpu.max").write_text("100000 100000")
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        folder.rmdir()
        return None
    return folder


def threads_of_a_session(**options: int) -> int:
    """The threads that a session makes."""
    before = tasks.count()
    with zrt.Session(models.add(["n"]), zrt.SessionOptions(**options)):
        return tasks.count() - before


def main() -> None:
    if sys.argv[1] == "environment":
        before = tasks.count()
        zrt.Environment(threading=zrt.ThreadingOptions())
        assert tasks.count() == before, tasks.count() - before
        return
    threads_of_a_session(intra_op_num_threads=1)
    assert threads_of_a_session() == 0
    assert threads_of_a_session(execution_mode="parallel") == 0
    assert threads_of_a_session(intra_op_num_threads=3) == 2
    assert zrt.SessionOptions().intra_op_num_threads == 0


group = None
if sys.argv[2] == "affinity":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
else:
    group = join_cgroup()
    if group is None:
        print("no cgroup can be made here")
        sys.exit(0)
try:
    main()
finally:
    if group is not None:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        with contextlib.suppress(OSError):
            group.rmdir()
