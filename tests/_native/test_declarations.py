"""The declarations of the C API match ONNX Runtime's: counted here, and proven where official headers are given."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import zrt._native
from tests.support import compiler
from zrt._native import build, ffi, lib, library

NATIVE = Path(zrt._native.__file__).parent
SCRIPT = Path(__file__).parent / "scripts" / "count_slots.py"
POINTER = ffi.sizeof("void *")
STRUCTS = re.findall(r"struct (Ort\w+) \{", build.declarations())
TABLES = {"OrtApi": 422, "OrtModelEditorApi": 20, "OrtCompileApi": 15, "OrtInteropApi": 13}

compiled = pytest.mark.skipif(not compiler.find(), reason=compiler.MISSING)


class TestTables:
    @pytest.mark.parametrize(("table", "slots"), TABLES.items())
    def test_number_of_slots(self, table: str, slots: int) -> None:
        assert len(ffi.typeof(table).fields) == slots
        assert ffi.sizeof(table) == slots * POINTER

    @pytest.mark.parametrize(("name", "slot"), [("CreateSession", 7), ("CopyTensors", 386)])
    def test_known_slots_have_their_offsets(self, name: str, slot: int) -> None:
        assert ffi.offsetof("OrtApi", name) == slot * POINTER

    def test_library_has_the_other_tables(self) -> None:
        api = library.api()
        assert api.GetModelEditorApi()
        assert api.GetCompileApi()
        assert api.GetInteropApi()


class TestFiles:
    """A file that is missing from a list is neither built nor checked."""

    def test_headers_of_ort_h_are_the_declared_ones(self) -> None:
        included = re.findall(r'^#include "(decl/.*)"$', (NATIVE / "src" / "ort.h").read_text(), re.MULTILINE)
        assert included == [name for name in build.DECLARATIONS if name.startswith("decl/")]

    def test_every_header_is_declared(self) -> None:
        headers = {path.relative_to(NATIVE).as_posix() for path in NATIVE.rglob("*.h")}
        # These two include the headers of others, and declare nothing.
        assert headers - {"src/ort.h", "src/python.h"} == set(build.DECLARATIONS)

    def test_every_struct_is_proven_by_exact_builds(self) -> None:
        text = "".join(path.read_text() for path in (NATIVE / "decl").glob("*.h"))
        proven = re.findall(r"sizeof\(struct (\w+)\)", build.proof("", build.declarations()))
        assert sorted(re.findall(r"struct (\w+) \{", text)) == sorted(proven)

    def test_every_source_is_built(self) -> None:
        assert {path.relative_to(NATIVE).as_posix() for path in NATIVE.rglob("*.c")} == set(build.SOURCES)


class TestHeadersOfOtherReleases:
    def test_structs_may_be_longer_in_later_headers(self) -> None:
        text = build.as_in("#define ORT_API_VERSION 31\n", build.declarations())
        for struct in STRUCTS:
            body = re.search(rf"struct {struct} \{{(.*?)\n\}};", text, re.DOTALL)
            assert body
            assert body[1].endswith("\n    ...;"), struct

    def test_declarations_are_complete_for_the_headers_that_they_follow(self) -> None:
        assert build.DECLARED_VERSION == lib.ZRT_API_VERSION
        assert build.as_in(f"#define ORT_API_VERSION {build.DECLARED_VERSION}\n", build.declarations()) == (
            build.declarations()
        )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without its extension module."""
    target = tmp_path / "zrt"
    shutil.copytree(NATIVE.parent, target, ignore=shutil.ignore_patterns("__pycache__", "_ort.*so"))
    return target


@pytest.fixture
def build_copy(package: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Builds the copy, against official headers or without any."""

    def run(*, headers: bool) -> subprocess.CompletedProcess[str]:
        unset = ("ZRT_ORT_LINK_ARGS",) if headers else ("ZRT_ORT_LINK_ARGS", "ZRT_ORT_INCLUDE_DIR")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        command = [sys.executable, str(package / "_native" / "build.py")]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return run


@pytest.fixture
def count_slots(package: Path) -> Callable[[], str]:
    """Imports the copy; the tables' numbers of slots."""

    def run() -> str:
        environment = os.environ | {"PYTHONPATH": str(package.parent)}
        command = [sys.executable, str(SCRIPT), *TABLES]
        child = subprocess.run(command, env=environment, cwd=package.parent, capture_output=True, text=True)
        assert child.returncode == 0, child.stderr
        return child.stdout.strip()

    return run


def change(package: Path, *replacements: tuple[str, str]) -> None:
    """Makes a mistake in the copy's declaration of `OrtApi`."""
    path = package / "_native" / "decl" / "api.h"
    text = path.read_text()
    for old, new in replacements:
        assert text.count(old) == 1, f"{old} occurs {text.count(old)} times"
        text = text.replace(old, new)
    path.write_text(text)


def swap(package: Path, first: str, second: str) -> None:
    """Swaps two slots, with their types."""
    path = package / "_native" / "decl" / "api.h"
    slots = re.findall(r"^    \S[^;]*;\n", path.read_text(), re.MULTILINE)
    [one] = [slot for slot in slots if f"(*{first})" in slot]
    [two] = [slot for slot in slots if f"(*{second})" in slot]
    change(package, (one, "@"), (two, one))
    change(package, ("@", two))


Build = Callable[..., subprocess.CompletedProcess[str]]


@compiled
@pytest.mark.slow
class TestBuild:
    def test_portable_build_declares_every_slot(self, build_copy: Build, count_slots: Callable[[], str]) -> None:
        built = build_copy(headers=False)
        assert built.returncode == 0, built.stderr
        assert count_slots() == " ".join(map(str, TABLES.values()))

    @pytest.mark.headers
    def test_exact_build_declares_every_slot(self, build_copy: Build, count_slots: Callable[[], str]) -> None:
        built = build_copy(headers=True)
        assert built.returncode == 0, built.stderr
        assert count_slots() == " ".join(map(str, TABLES.values()))

    @pytest.mark.parametrize("official", ["const OrtValue* ort_value", "OrtValue* tensor"])
    def test_argument_has_the_type_of_the_official_header(self, official: str) -> None:
        header = f"ORT_API2_STATUS(AddInitializerToGraph, OrtGraph* graph, const char* name, {official}, bool e);"
        [slot] = re.findall(r"\(\*AddInitializerToGraph\)[^;]*;", build.as_in(header, build.declarations(NATIVE)))
        assert ("const OrtValue *" in slot) == official.startswith("const")

    def test_include_folder_without_headers_raises(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("ZRT_ORT_INCLUDE_DIR", str(tmp_path))
        with pytest.raises(FileNotFoundError, match=r"no onnxruntime_c_api\.h there"):
            build.build(tmp_path)

    def test_core_without_its_headers_raises(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("ZRT_ORT_INCLUDE_DIR", raising=False)
        monkeypatch.setenv("ZRT_ORT_LINK_ARGS", "core.a")
        with pytest.raises(ValueError, match="the headers of the core that is linked in"):
            build.build(tmp_path)


@pytest.mark.headers
@compiled
class TestMistakes:
    """The exact build refuses each kind of mistake in the declarations."""

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            pytest.param("SetIntraOpNumThreads", "SetInterOpNumThreads", id="one type"),
            pytest.param("GetErrorCode", "GetErrorMessage", id="two types"),
        ],
    )
    def test_swapped_slots_are_refused(self, package: Path, build_copy: Build, first: str, second: str) -> None:
        swap(package, first, second)
        self.assert_refused(build_copy(headers=True), rf"wrong offset: OrtApi\.{second}")

    def test_missing_slot_is_refused(self, package: Path, build_copy: Build) -> None:
        change(package, ("    OrtStatusPtr (*EnableTelemetryEvents)(const OrtEnv *env);\n", ""))
        self.assert_refused(build_copy(headers=True), r"wrong offset: OrtApi\.DisableTelemetryEvents")

    def test_missing_last_slot_is_refused(self, package: Path, build_copy: Build) -> None:
        path = package / "_native" / "decl" / "interop.h"
        text = path.read_text()
        last = "    OrtStatusPtr (*DeinitGraphicsInteropForEpDevice)(const OrtEpDevice *device);\n};\n"
        assert last in text
        path.write_text(text.replace(last, "};\n"))
        self.assert_refused(build_copy(headers=True), "wrong size: OrtInteropApi")

    def test_swapped_types_are_refused(self, package: Path, build_copy: Build) -> None:
        change(package, ("(*GetErrorCode)", "(*@)"), ("(*GetErrorMessage)", "(*GetErrorCode)"))
        change(package, ("(*@)", "(*GetErrorMessage)"))
        self.assert_refused(build_copy(headers=True))

    def test_wrong_argument_type_is_refused(self, package: Path, build_copy: Build) -> None:
        old = "(*SetIntraOpNumThreads)(OrtSessionOptions *options, int number)"
        change(package, (old, old.replace("int number", "int64_t number")))
        self.assert_refused(build_copy(headers=True))

    def assert_refused(
        self, built: subprocess.CompletedProcess[str], reason: str = r"incompatible (function )?pointer type"
    ) -> None:
        output = built.stdout + built.stderr
        assert built.returncode != 0
        assert "CompileError" in output
        assert re.search(reason, output)
