"""The threads of this process, as Linux lists them."""

from __future__ import annotations

from pathlib import Path

from zrt._native import preload

TASKS = Path("/proc/self/task")
# A flag of a thread that ends: the system lists it for a while after it was joined.
PF_EXITING = 0x4


def count() -> int:
    """The threads of this process, without the one that opened ONNX Runtime, and without those that end."""
    # The thread gets its name when it runs.
    preload.wait()
    return sum(map(_counts, TASKS.iterdir()))


def _counts(task: Path) -> bool:
    try:
        text = (task / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    name, _, fields = text.partition("(")[2].rpartition(")")
    return name != "zrt-open" and not int(fields.split()[6]) & PF_EXITING
