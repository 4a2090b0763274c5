"""The places where zrt looks for the library, in order, and the error for each way of not finding it.

Each test loads it in a process of its own: a process loads one library, and its environment decides which.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import zrt._native
from tests.support import compiler
from zrt._common.installation import install_line
from zrt._native import ffi, lib, library

PACKAGES = Path(zrt._native.__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"

FAKE = r"""
#include <stddef.h>
#include <stdint.h>
static const char *get_build(void) { return "ORT Build Info: made for a test"; }
/* The tests call GetBuildInfoString only. */
static void *table[1000] = { [254] = (void *)get_build };
static const void *get_api(uint32_t version) { return version <= NEWEST ? table : NULL; }
static const char *get_version(void) { return VERSION; }
static const struct {
    const void *(*get_api)(uint32_t);
    const char *(*get_version)(void);
} base = { get_api, get_version };
const void *OrtGetApiBase(void) { return &base; }
"""

INSTALL = f"or unset it and install one: {install_line('cpu')}"
without_core = pytest.mark.skipif(
    bool(lib.zrt_library_builtin()), reason="this zrt has a core built in, which comes before these places"
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the names are those of Linux's loader")


@pytest.fixture
def compile_fake(tmp_path: Path) -> Callable[..., Path]:
    """Compiles a shared library with the entry points of an ONNX Runtime of the given API version."""
    command = compiler.command()

    def make(
        name: str,
        *,
        newest: int = 27,
        version: str = "1.27.0",
        text: str = FAKE,
        flags: Sequence[str] = ("-shared", "-fPIC"),
    ) -> Path:
        source = tmp_path / "fake.c"
        source.write_text(text)
        target = tmp_path / name
        macros = [f"-DNEWEST={newest}", f'-DVERSION="{version}"']
        subprocess.run([*command, *flags, *macros, "-o", target, source], check=True)
        return target

    return make


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """Runs a script in a process with these variables, which finds packages in `tmp_path` first; its result."""

    def run(script: str, *arguments: str | Path, **variables: str | Path) -> Any:
        unset = ("ZRT_ORT_LIBRARY", "ORT_DYLIB_PATH")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        environment |= {name: str(value) for name, value in variables.items()}
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(PACKAGES)])
        command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
        child = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert child.returncode == 0, child.stderr
        return json.loads(child.stdout)

    return run


@pytest.fixture
def show(run: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """The library that a process with these variables loads: `Library` as a dictionary, or the error's message.

    The process sees only the distributions in `tmp_path`, unless `hide` is false; `system` false hides those that the
    system loader finds.
    """

    def show(*, hide: bool = True, system: bool = True, **variables: str | Path) -> Any:
        arguments = [tmp_path if hide else "", *([] if system else ["no-system"])]
        return run("show_library.py", *arguments, **variables)

    return show


def install_fake(root: Path, name: str, version: str, files: dict[Path, Path], *, record: bool = True) -> None:
    """Puts a distribution's files and metadata under `root`."""
    info = root / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for source, place in files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        source.rename(root / place)
    if record:
        (info / "RECORD").write_text("".join(f"{place},,\n" for place in files.values()))


class TestOrder:
    def test_zrt_variable_comes_first(self, compile_fake: Any, show: Any) -> None:
        first = compile_fake("first.so", version="1.27.9")
        second = compile_fake("second.so", version="1.27.8")
        assert show(ZRT_ORT_LIBRARY=first, ORT_DYLIB_PATH=second) == {
            "path": str(first),
            "source": "ZRT_ORT_LIBRARY",
            "version": "1.27.9",
            "api_version": 27,
            "build_info": "made for a test",
        }

    @without_core
    def test_shared_variable_comes_before_distributions(self, compile_fake: Any, show: Any) -> None:
        named = compile_fake("named.so", version="1.27.9")
        assert show(hide=False, ORT_DYLIB_PATH=named) == {
            "path": str(named),
            "source": "ORT_DYLIB_PATH",
            "version": "1.27.9",
            "api_version": 27,
            "build_info": "made for a test",
        }

    @linux
    @without_core
    def test_distribution_comes_before_the_loader(self, compile_fake: Any, show: Any, tmp_path: Path) -> None:
        inside = Path("onnxruntime/capi/libonnxruntime.so.1.27.0")
        fake = compile_fake("fake.so")
        install_fake(tmp_path, "onnxruntime", "1.27.0", {fake: inside})
        compile_fake("libonnxruntime.so.1", version="1.27.7")
        assert show(LD_LIBRARY_PATH=tmp_path) == {
            "path": str(tmp_path / inside),
            "source": "onnxruntime distribution 1.27.0",
            "version": "1.27.0",
            "api_version": 27,
            "build_info": "made for a test",
        }

    @linux
    @without_core
    @pytest.mark.parametrize("name", ["libonnxruntime.so.1", "libonnxruntime.so"])
    def test_loader_comes_last(self, compile_fake: Any, show: Any, tmp_path: Path, name: str) -> None:
        compile_fake(name, version="1.27.7")
        assert show(LD_LIBRARY_PATH=tmp_path) == {
            "path": name,
            "source": "system loader",
            "version": "1.27.7",
            "api_version": 27,
            "build_info": "made for a test",
        }

    @without_core
    def test_empty_variables_count_as_unset(self, compile_fake: Any, show: Any) -> None:
        named = compile_fake("named.so", version="1.27.9")
        assert show(ZRT_ORT_LIBRARY="", ORT_DYLIB_PATH=named)["source"] == "ORT_DYLIB_PATH"


class TestVariable:
    """Libraries that a variable names: the errors, and the accepted ones."""

    @pytest.fixture(params=["ZRT_ORT_LIBRARY", pytest.param("ORT_DYLIB_PATH", marks=without_core)])
    def variable(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def refusal(self, variable: str, path: str | Path, reason: str) -> str:
        start = f"{variable}={path}: {reason}. Let {variable} name the file of a libonnxruntime 1.27 or later, "
        return start + INSTALL

    def test_missing_file_raises(self, show: Any, tmp_path: Path, variable: str) -> None:
        path = tmp_path / "absent.so"
        assert show(**{variable: path}) == self.refusal(variable, path, "there is no such file")

    def test_folder_raises(self, show: Any, tmp_path: Path, variable: str) -> None:
        expected = self.refusal(variable, tmp_path, "it is a folder, not a library file")
        assert show(**{variable: tmp_path}) == expected

    def test_file_that_is_no_library_raises(self, show: Any, tmp_path: Path, variable: str) -> None:
        path = tmp_path / "text.so"
        path.write_text("not a library\n" * 100)
        message = show(**{variable: path})
        assert message.startswith(f"{variable}={path}: it cannot be loaded: ")
        assert message.endswith(INSTALL)
        if sys.platform == "linux":
            assert "it cannot be loaded: invalid ELF header." in message

    def test_library_without_entry_point_raises(self, compile_fake: Any, show: Any, variable: str) -> None:
        path = compile_fake("other.so", text="int other;\n")
        reason = "it cannot be loaded: it exports no OrtGetApiBase"
        assert show(**{variable: path}) == self.refusal(variable, path, reason)

    def test_entry_point_that_returns_null_raises(self, compile_fake: Any, show: Any, variable: str) -> None:
        text = "const void *OrtGetApiBase(void) { return 0; }\n"
        path = compile_fake("empty.so", text=text)
        reason = "it cannot be loaded: its OrtGetApiBase returns nothing"
        assert show(**{variable: path}) == self.refusal(variable, path, reason)

    def test_too_old_library_raises(self, compile_fake: Any, show: Any, variable: str) -> None:
        path = compile_fake("old.so", newest=20, version="1.20.0")
        reason = "it is ONNX Runtime 1.20.0, and zrt needs 1.27 or later"
        assert show(**{variable: path}) == self.refusal(variable, path, reason)

    def test_newer_library_is_used(self, compile_fake: Any, show: Any, variable: str) -> None:
        path = compile_fake("new.so", newest=31, version="1.31.0")
        found = {"path": str(path), "source": variable, "version": "1.31.0", "api_version": 31}
        expected = {**found, "build_info": "made for a test"}
        assert show(**{variable: path}) == expected

    def test_library_newer_than_zrt_is_used_as_the_newest_known(
        self, compile_fake: Any, show: Any, variable: str
    ) -> None:
        path = compile_fake("newest.so", newest=99, version="1.99.0")
        assert show(**{variable: path})["api_version"] == lib.ZRT_NEWEST_API_VERSION

    @linux
    def test_system_loader_finds_a_bare_name(self, compile_fake: Any, show: Any, tmp_path: Path, variable: str) -> None:
        compile_fake("libown.so")
        found = show(**{variable: "libown.so"}, LD_LIBRARY_PATH=tmp_path)
        assert found["path"] == "libown.so"
        assert "it cannot be loaded: cannot open shared object file" in show(**{variable: "libown.so"})


@without_core
class TestDistribution:
    def test_gpu_distribution_is_used(self, compile_fake: Any, show: Any, tmp_path: Path) -> None:
        fake = compile_fake("fake")
        inside = Path("onnxruntime/capi", library.FILE_PATTERN.replace("*", ".1.27.0"))
        install_fake(tmp_path, "onnxruntime-gpu", "1.27.0", {fake: inside})
        found = show()
        assert found["path"] == str(tmp_path / inside)
        assert found["source"] == "onnxruntime-gpu distribution 1.27.0"

    def test_distribution_without_record_is_used(self, compile_fake: Any, show: Any, tmp_path: Path) -> None:
        fake = compile_fake("fake")
        inside = Path("onnxruntime/capi", library.FILE_PATTERN.replace("*", ".1.27.0"))
        install_fake(tmp_path, "onnxruntime", "1.27.0", {fake: inside}, record=False)
        assert show()["path"] == str(tmp_path / inside)

    def test_recorded_file_in_another_folder_is_used(self, compile_fake: Any, show: Any, tmp_path: Path) -> None:
        fake = compile_fake("fake")
        elsewhere = Path("onnxruntime/lib", library.FILE_PATTERN.replace("*", ".1.27.0"))
        install_fake(tmp_path, "onnxruntime", "1.27.0", {fake: elsewhere})
        assert show()["path"] == str(tmp_path / elsewhere)

    @linux
    def test_error_lists_each_failure(self, compile_fake: Any, show: Any, tmp_path: Path) -> None:
        fake = compile_fake("fake", newest=20, version="1.20.0")
        inside = Path("onnxruntime/capi/libonnxruntime.so.1.20.0")
        install_fake(tmp_path, "onnxruntime-gpu", "1.20.0", {fake: inside})
        missing = "cannot open shared object file: No such file or directory"
        assert show(system=False) == "\n".join(
            [
                "no usable ONNX Runtime library (libonnxruntime 1.27 or later); looked at:",
                "  ZRT_ORT_LIBRARY: not set",
                "  built in: this zrt was built without a core of its own",
                "  ORT_DYLIB_PATH: not set",
                "  onnxruntime distribution: not installed",
                f"  onnxruntime-gpu distribution 1.20.0: {tmp_path / inside}: "
                "it is ONNX Runtime 1.20.0, and zrt needs 1.27 or later",
                f"  system loader: libabsent.so.1: it cannot be loaded: {missing}",
                f"  system loader: libabsent.so: it cannot be loaded: {missing}",
                f"Install one: {install_line('cpu')} (for CUDA: {install_line('cuda')})",
            ]
        )

    def test_distribution_without_library_is_skipped(self, show: Any, tmp_path: Path) -> None:
        install_fake(tmp_path, "onnxruntime", "1.27.0", {})
        assert f"  onnxruntime distribution 1.27.0: it holds no {library.FILE_PATTERN}\n" in show(system=False)

    def test_recorded_files_that_do_not_exist_are_skipped(self, compile_fake: Any, show: Any, tmp_path: Path) -> None:
        fake = compile_fake("fake")
        inside = Path("onnxruntime/capi", library.FILE_PATTERN.replace("*", ".1.27.0"))
        install_fake(tmp_path, "onnxruntime", "1.27.0", {fake: inside})
        (tmp_path / inside).unlink()
        assert f"  onnxruntime distribution 1.27.0: it holds no {library.FILE_PATTERN}\n" in show(system=False)


@pytest.mark.headers
class TestBuiltIn:
    """A zrt with a core linked in; here the core is the fake library."""

    @pytest.fixture
    def link(self, compile_fake: Any, tmp_path: Path) -> Callable[..., Path]:
        def make(**core: Any) -> Path:
            object_file = compile_fake("core.o", flags=("-c", "-fPIC"), **core)
            package = tmp_path / "zrt"
            built = shutil.ignore_patterns("__pycache__", "_ort.*.so")
            shutil.copytree(PACKAGES / "zrt", package, ignore=built)
            environment = os.environ | {"ZRT_ORT_LINK_ARGS": str(object_file)}
            build = [sys.executable, str(package / "_native" / "build.py")]
            subprocess.run(build, env=environment, check=True, capture_output=True)
            return package

        return make

    def test_built_in_core_comes_before_the_shared_variable(self, link: Any, compile_fake: Any, show: Any) -> None:
        link(version="1.27.3")
        named = compile_fake("named.so", version="1.27.9")
        assert show(ORT_DYLIB_PATH=named) == {
            "path": None,
            "source": "built in",
            "version": "1.27.3",
            "api_version": 27,
            "build_info": "made for a test",
        }
        assert show(ZRT_ORT_LIBRARY=named)["source"] == "ZRT_ORT_LIBRARY"

    def test_too_old_core_is_skipped(self, link: Any, show: Any) -> None:
        link(newest=20, version="1.20.0")
        reason = "it is ONNX Runtime 1.20.0, and zrt needs 1.27 or later"
        assert f"  built in: {reason}\n" in show(system=False)


class TestLoading:
    def test_failed_load_can_be_retried(self, compile_fake: Any, run: Any, tmp_path: Path) -> None:
        path = compile_fake("late.so")
        assert run("retry_load.py", tmp_path / "absent.so", path) == ["LibraryError", "LibraryError", "1.27.0"]

    def test_threads_load_once(self, compile_fake: Any, run: Any) -> None:
        path = compile_fake("one.so")
        assert run("threads_load.py", ZRT_ORT_LIBRARY=path) == [1, 8, 1]

    def test_library_describes_the_loaded_one(self) -> None:
        found = library.library()
        assert library.api() == library.api()
        major, minor = (int(part) for part in found.version.split(".")[:2])
        assert (major, minor) >= (1, 27)
        assert found.api_version == min(minor, lib.ZRT_NEWEST_API_VERSION)
        assert ffi.string(library.api().GetBuildInfoString()).startswith(b"ORT Build Info")

    @pytest.mark.parametrize("when", ["handler", "fork"])
    def test_load_within_a_load_does_not_wait(self, script: Any, when: str) -> None:
        script("load_within.py", when)
