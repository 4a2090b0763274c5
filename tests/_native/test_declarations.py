"""The declarations of the C API match ONNX Runtime's: counted here, and proven where official headers are given."""

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

# An exact build may have been compiled against the headers of a later release.
_HEADER = Path(os.environ.get("ZRT_ORT_INCLUDE_DIR", ""), "onnxruntime_c_api.h")
LATER_HEADERS = _HEADER.is_file() and build.is_later(_HEADER.read_text("utf-8"))

compiled = pytest.mark.skipif(not compiler.find(), reason=compiler.MISSING)


class TestTables:
    @pytest.mark.parametrize(("table", "slots"), TABLES.items())
    def test_number_of_slots(self, table: str, slots: int) -> None:
        assert len(ffi.typeof(table).fields) == slots
        # Where it was compiled against later headers, the table goes on after these.
        later = LATER_HEADERS and ffi.sizeof(table) > slots * POINTER
        assert later or ffi.sizeof(table) == slots * POINTER

    @pytest.mark.parametrize(("name", "slot"), [("CreateSession", 7), ("CopyTensors", 386)])
    def test_known_slots_have_their_offsets(self, name: str, slot: int) -> None:
        assert ffi.offsetof("OrtApi", name) == slot * POINTER

    def test_library_has_the_other_tables(self) -> None:
        api = library.api()
        assert api.GetModelEditorApi()
        assert api.GetCompileApi()
        assert api.GetInteropApi()


def test_every_struct_is_proven_by_exact_builds() -> None:
    text = "".join(path.read_text() for path in (NATIVE / "decl").glob("*.h"))
    proven = re.findall(r"sizeof\(struct (\w+)\)", build.proof("", build.declarations()))
    assert sorted(re.findall(r"struct (\w+) \{", text)) == sorted(proven)


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


Build = Callable[..., subprocess.CompletedProcess[str]]


@compiled
@pytest.mark.slow
class TestBuild:
    @pytest.mark.parametrize(
        "headers", [False, pytest.param(True, marks=pytest.mark.headers)], ids=["portable", "exact"]
    )
    def test_every_slot_is_declared(self, package: Path, build_copy: Build, headers: bool) -> None:
        built = build_copy(headers=headers)
        assert built.returncode == 0, built.stderr
        environment = os.environ | {"PYTHONPATH": str(package.parent)}
        command = [sys.executable, str(SCRIPT), *TABLES]
        counts = subprocess.run(
            command, env=environment, cwd=package.parent, check=True, capture_output=True, text=True
        )
        assert counts.stdout.split() == [str(slots) for slots in TABLES.values()]

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


CODE = "    OrtErrorCode (*GetErrorCode)(const OrtStatus *);\n"
MESSAGE = "    const char *(*GetErrorMessage)(const OrtStatus *);\n"
NUMBER = "(*SetIntraOpNumThreads)(OrtSessionOptions *"
WRONG_TYPE = r"incompatible (function )?pointer type"


def swap(one: str, other: str) -> list[tuple[str, str]]:
    return [(one, "@"), (other, one), ("@", other)]


@pytest.mark.headers
@compiled
@pytest.mark.parametrize(
    ("file", "replacements", "reason"),
    [
        pytest.param(
            "api.h",
            swap("(*SetIntraOpNumThreads)", "(*SetInterOpNumThreads)"),
            r"wrong offset: OrtApi\.SetInterOpNumThreads",
            id="swapped slots of one type",
        ),
        pytest.param(
            "api.h", swap(CODE, MESSAGE), r"wrong offset: OrtApi\.GetErrorMessage", id="swapped slots of two types"
        ),
        pytest.param(
            "api.h",
            [("    OrtStatusPtr (*EnableTelemetryEvents)(const OrtEnv *);\n", "")],
            r"wrong offset: OrtApi\.DisableTelemetryEvents",
            id="missing slot",
        ),
        pytest.param(
            "interop.h",
            [("    OrtStatusPtr (*DeinitGraphicsInteropForEpDevice)(const OrtEpDevice *);\n};\n", "};\n")],
            "wrong size: OrtInteropApi",
            id="missing last slot",
        ),
        pytest.param("api.h", swap("(*GetErrorCode)", "(*GetErrorMessage)"), WRONG_TYPE, id="swapped types"),
        pytest.param(
            "api.h",
            [(f"{NUMBER}, int)", f"{NUMBER}, int64_t)")],
            WRONG_TYPE,
            id="wrong type of an argument",
        ),
    ],
)
def test_exact_build_refuses_a_wrong_declaration(
    package: Path, build_copy: Build, file: str, replacements: list[tuple[str, str]], reason: str
) -> None:
    if reason.startswith("wrong size") and LATER_HEADERS:
        pytest.skip("the tables of later headers may go on after the declared slots")
    path = package / "_native" / "decl" / file
    text = path.read_text()
    for old, new in replacements:
        assert text.count(old) == 1, f"{old} occurs {text.count(old)} times"
        text = text.replace(old, new)
    path.write_text(text)
    built = build_copy(headers=True)
    output = built.stdout + built.stderr
    assert built.returncode != 0
    assert "CompileError" in output
    assert re.search(reason, output)
