"""The threads of this process, as Linux lists them."""

from pathlib import Path

from zrt._native import early_start

TASKS = Path("/proc/self/task")
# A flag of a thread that ends: the system lists it for a while after it was joined.
PF_EXITING = 0x4


def count() -> int:
    """The threads of this process, without those that end, and without the one that opens ONNX Runtime."""
    early_start.wait()
    opening = {str(thread.native_id) for thread in early_start._threads.values()}
    return sum(task.name not in opening and _counts(task) for task in TASKS.iterdir())


def named(name: str) -> list[int]:
    """The threads with this name."""
    return [int(task.name) for task in TASKS.iterdir() if _read(task / "comm") == f"{name}\n"]


def _counts(task: Path) -> bool:
    text = _read(task / "stat")
    return text is not None and not int(text.rpartition(")")[2].split()[6]) & PF_EXITING


def _read(file: Path) -> str | None:
    """The text of a file about a thread; None if the thread has ended."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
