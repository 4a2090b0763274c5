"""An ONNX Runtime in which chosen calls fail, and that counts the objects which are alive.

`build` makes a library that passes each call on to the real one. `LibraryFaults` lets calls of it fail with an error of
ONNX Runtime's, as a full memory or a full disk would, and says what was created and not released.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import zrt
from tests.support import compiler
from tests.support.faults import Faults
from zrt._native import ffi
from zrt._native.library import library

MESSAGE = "a fault of the tests"
# The tables that are wrapped, and how many functions beyond the declared ones each has in a release.
LATER = {
    "OrtApi": {27: 0, 28: 2, 29: 3, 30: 4, 31: 6},
    "OrtModelEditorApi": {27: 0},
    "OrtCompileApi": {27: 0, 29: 1, 31: 4},
}
# Functions whose object belongs to somebody else; so does every object that a function gives as const.
BORROWED = {"GetAllocatorWithDefaultOptions", "GetSharedAllocator", "KernelContext_GetOutput"}
# Functions that take objects over: the kind of them and their number.
TAKEN = {
    "SetGraphInputs": ("OrtValueInfo", "a2"),
    "SetGraphOutputs": ("OrtValueInfo", "a2"),
    "AddNodeToGraph": ("OrtNode", "1"),
    "AddInitializerToGraph": ("OrtValue", "1"),
    "AddGraphToModel": ("OrtGraph", "1"),
}
DECLARED = "".join(path.read_text() for path in (Path(zrt.__file__).parent / "_native" / "decl").glob("*.h"))


def kinds() -> list[str]:
    """The kinds of objects that have a function which releases them; the status is the first."""
    names = [name for struct in LATER for name, _ in ffi.typeof(struct).fields]
    released = re.findall(r"^Release(?!Available|Shared|Status)(\w+)$", "\n".join(names), re.MULTILINE)
    return ["OrtStatus", *(f"Ort{name}" for name in released)]


def build(target: Path) -> Path:
    """Compiles the library around the one that is loaded; skips the test without that or without a C compiler."""
    around = library().path
    if around is None:
        pytest.skip("the core built into zrt has no library of its own")
    text = [Path(__file__).with_suffix(".c").read_text()]
    lines = []
    for struct, later in LATER.items():
        fields = ffi.typeof(struct).fields
        size = len(fields) + max(more for release, more in later.items() if release <= library().api_version)
        # The first text declares the real table of OrtApi.
        text.append(f"static void *fake_{struct}[{size}];")
        if struct != "OrtApi":
            give = f"Get{struct.removeprefix('Ort')}"
            text.append(f"static void **real_{struct};\nstatic void *give_{struct}(void) {{ return fake_{struct}; }}")
            lines.append(f"real_{struct} = ((void **(*)(void))real_OrtApi[{_slot('OrtApi', give)}])();")
            lines.append(f"fake_OrtApi[{_slot('OrtApi', give)}] = give_{struct};")
        lines.append(f"memcpy(fake_{struct}, real_{struct}, sizeof fake_{struct});")
        for name, field in fields:
            body = _body(name, field.type) if field.type.kind == "function" else None
            if body:
                text.append(_function(struct, name, field.type, body))
                lines.append(f"fake_{struct}[{_slot(struct, name)}] = {struct}_{name};")
    text.append("static void **wrap(void) {\n    " + "\n    ".join([*lines, "return fake_OrtApi;"]) + "\n}\n")
    defined = {"KINDS": len(kinds()), "MESSAGE": f'"{MESSAGE}"', "LIBRARY": f'"{around}"'}
    flags = [f"-D{name}={value}" for name, value in defined.items()]
    return compiler.shared_library(target, "\n".join(text), "-O1", "-ldl", *flags)


def _slot(struct: str, name: str) -> int:
    return int(dict(ffi.typeof(struct).fields)[name].offset // ffi.sizeof("void *"))


def _type(type_: Any) -> str:
    """A type for C; all pointers are alike."""
    if type_.kind in ("pointer", "function"):
        return "void *"
    return "int" if type_.kind == "enum" else str(type_.cname)


def _function(struct: str, name: str, type_: Any, body: list[str]) -> str:
    """A function in place of the real one; in `body`, ``CALL`` is the real call and a0, a1, ... are the arguments."""
    types = [_type(each) for each in type_.args]
    declared = ", ".join(f"{each} a{number}" for number, each in enumerate(types)) or "void"
    given = ", ".join(f"a{number}" for number in range(len(types)))
    result = _type(type_.result)
    call = f"(({result} (*)({', '.join(types) or 'void'}))real_{struct}[{_slot(struct, name)}])({given})"
    lines = "\n    ".join(body).replace("CALL", call)
    return f"static {result} {struct}_{name}({declared}) {{\n    {lines}\n}}"


def _body(name: str, type_: Any) -> list[str] | None:
    """The statements for a function that may fail, or that releases; None for others."""
    if name == "CreateStatus":
        return ["return counted(CALL);"]
    if name == "CreateKeyValuePairs":
        return ["CALL;", f"{_alive('OrtKeyValuePairs')} += 1;"]
    if name.startswith("Release") and type_.result.kind == "void":
        return [f"{_alive('Ort' + name.removeprefix('Release'))} -= a0 != NULL;", "CALL;"]
    if type_.result.cname != "struct OrtStatus *":
        return None
    last = len(type_.args) - 1
    made = re.search(rf"\(\*{name}\)\((?:[^;]*,)?\s*(Ort\w+) \*\*\);", DECLARED)
    before, after = "", ""
    if name == "Run":
        # The outputs that were not given are new.
        before = "for (size_t i = 0; status == NULL && i < a6; i++) missing += ((void **)a7)[i] == NULL;"
        after = f"{_alive('OrtValue')} += missing;"
    elif name == "GetBoundOutputValues":
        after = f"{_alive('OrtValue')} += *(size_t *)a{last};"
    elif name in TAKEN:
        kind, number = TAKEN[name]
        after = f"{_alive(kind)} -= {number};"
    elif made and made[1] in kinds() and name not in BORROWED:
        after = f"{_alive(made[1])} += *(void **)a{last} != NULL;"
    return [
        f'void *status = fault("{name}");',
        "size_t missing = 0;" if before else "",
        before,
        "if (status == NULL) status = CALL;",
        f"if (status == NULL) {after}" if after else "",
        "return counted(status);",
    ]


def _alive(kind: str) -> str:
    return f"alive[{kinds().index(kind)}]"


class LibraryFaults(Faults):
    """The faults of a library of `build`, which must be loaded as ``ZRT_ORT_LIBRARY``."""

    def __init__(self) -> None:
        super().__init__(os.environ["ZRT_ORT_LIBRARY"])

    def alive(self) -> dict[str, int]:
        """How many objects of each kind there are; kinds without one are left out."""
        counts = ((kind, self.library.faults_alive(number)) for number, kind in enumerate(kinds()))
        return {kind: count for kind, count in counts if count}
