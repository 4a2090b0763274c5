"""Every call that can fail does so once, in each kind of operation: see scripts/faults/each_call.py."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.robustness.conftest import Child
from tests.support import faulty_library, faulty_system

# The calls whose failure need not be an error, and why.
IGNORED = {
    # Frees and ends: there is nothing left to do, and the result is there.
    "AllocatorFree",
    "UnregisterAllocator",
    "munmap",
    # A hint: `Buffer.hugepage` and `MappedFile.refused` say that the system does not take it.
    "madvise",
    # The texts are then read one by one.
    "GetStringTensorContent",
    "GetStringTensorDataLength",
    # Python then makes the array, from a value.
    "GetTensorSizeInBytes",
    # The trial of an operator with more inputs than it takes: it should fail.
    "CreateSessionFromArray",
    "HasSessionConfigEntry",
    "malloc",
    # ONNX Runtime reads weights that it cannot map; a load goes on without the cache; a source that cannot be read does
    # not make a model stale; a temporary folder stays.
    "mmap",
    "open",
    "open64",
    "pread64",
    "read",
    # The next run removes what an interrupted `zrt score` leaves.
    "unlink",
}
# A recorder leaves out the shapes that it cannot read, and the run goes on.
IGNORED_BY_RECORDER = {"GetTensorElementTypeAndShapeDataReference", "GetValueType"}

pytestmark = pytest.mark.slow


def faults(child: Child, kind: str, folder: Path, **variables: str) -> dict[str, dict[str, object]]:
    """The report of the script."""
    printed = child("faults/each_call.py", [kind, folder], timeout=600, env=os.environ | variables)
    report: dict[str, dict[str, object]] = json.loads(printed)
    return report


@pytest.mark.parametrize(
    ("kind", "build", "variable", "least"),
    [
        ("library", faulty_library.build, "ZRT_ORT_LIBRARY", 1500),
        pytest.param(
            *("system", faulty_system.build, "LD_PRELOAD", 600),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="the library that is loaded before is Linux's"),
        ),
    ],
    ids=["library", "system"],
)
def test_any_failed_call_is_a_typed_error_that_leaves_nothing(
    child: Child, tmp_path: Path, kind: str, build: Callable[[Path], Path], variable: str, least: int
) -> None:
    (tmp_path / "files").mkdir()
    report = faults(child, kind, tmp_path / "files", **{variable: str(build(tmp_path / "faulty.so"))})
    assert {name: each["wrong"] for name, each in report.items() if each["wrong"]} == {}
    ignored = {name: set(each["ignored"]) for name, each in report.items()}
    ignored["record"] -= IGNORED_BY_RECORDER
    assert set.union(*ignored.values()) <= IGNORED
    assert sum(each["calls"] for each in report.values()) > least


def test_first_run_in_the_background_survives_any_failed_call(child: Child, tmp_path: Path) -> None:
    library = faulty_library.build(tmp_path / "faulty.so")
    child("faults/first_submit.py", env=os.environ | {"ZRT_ORT_LIBRARY": str(library)})


def test_failed_move_of_a_lane_with_state_changes_nothing(child: Child, tmp_path: Path) -> None:
    library = faulty_library.build(tmp_path / "faulty.so")
    child("faults/moves.py", env=os.environ | {"ZRT_ORT_LIBRARY": str(library)})
