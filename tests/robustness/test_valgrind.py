"""Each operation under valgrind, which also sees what ONNX Runtime reads and writes."""

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.robustness.conftest import Child
from tests.support import processes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind"),
]

# The reports that are no fault of zrt's, by kind, library and function.
EXPECTED = {
    # Of ONNX Runtime: as it counts the processors, it copies a number onto itself.
    ("Overlap", "libonnxruntime", ""),
    # The table of functions for children of a fork, which lives as long as the process.
    ("Leak_DefinitelyLost", "_ort", "zrt_forks_table"),
    # The fault of the script.
    ("InvalidWrite", "libonnxruntime", ""),
}


def frames(error: ElementTree.Element) -> list[tuple[str, str]]:
    """Libraries and functions, the innermost first, without those of valgrind and of the languages' own libraries."""
    called = [
        (Path(frame.findtext("obj", "")).name.partition(".")[0], frame.findtext("fn", ""))
        for frame in error.find("stack") or ()
    ]
    while called and called[0][0].startswith(("vgpreload", "libc", "libpthread", "libm", "libstdc++", "ld-linux")):
        del called[0]
    return called


def test_only_the_planted_fault_is_reported(child: Child, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    options = ["--leak-check=full", "--show-leak-kinds=definite", "--num-callers=40", "--error-limit=no"]
    valgrind = ["valgrind", *options, "--xml=yes", f"--xml-file={tmp_path}/%p.xml"]
    # The objects of CPython's own pools have no memory of their own, in which a fault would be seen.
    settings = processes.environment() | {"PYTHONMALLOC": "malloc"}
    # With an empty folder for bytecode, compiling modules would take most of the time.
    settings.pop("PYTHONPYCACHEPREFIX", None)
    process = child.start("valgrind/each_operation.py", [tmp_path / "files"], before=valgrind, env=settings)
    child.finish(process, timeout=600)
    seen = set()
    for error in ElementTree.parse(tmp_path / f"{process.pid}.xml").iter("error"):
        called = frames(error)
        ours = any(library == "_ort" for library, _ in called)
        # Calls of CPython by zrt's module are among the first; further out, the fault is CPython's own.
        near = any(library == "_ort" for library, _ in called[:4])
        if ours and (near or called[0][0] == "libonnxruntime"):
            kind = error.findtext("kind", "")
            seen.add((kind, *called[0]))
    assert seen == EXPECTED
