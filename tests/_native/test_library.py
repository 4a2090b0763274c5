"""The places where zrt looks for the library, in order, and the error for each way of not finding it.

Each test loads it in a process of its own: a process loads one library, and its environment decides which.
"""

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
from tests.support.libc import GLIBC
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

PLACE = Path("onnxruntime/capi", library.FILE_PATTERN.replace("*", ".1.27.0"))
"""The usual file of the library in a distribution."""
TOO_OLD = "it is ONNX Runtime 1.20.0, and zrt needs 1.27 or later"
without_core = pytest.mark.skipif(
    bool(lib.zrt_library_builtin()), reason="this zrt has a core built in, which comes before these places"
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the names are those of Linux's loader")
glibc = pytest.mark.skipif(not GLIBC, reason="the words are those of glibc's loader")


@pytest.fixture
def compile_fake(tmp_path: Path) -> Callable[..., Path]:
    """Compiles a shared library with the entry points of an ONNX Runtime of the given API version."""
    command = compiler.command()

    def make(
        name: str | Path,
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


@pytest.fixture
def install(compile_fake: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Installs a distribution, with a fake library at a place; returns the library's path."""

    def install(
        name: str, *, version: str = "1.27.0", place: Path | None = PLACE, record: bool = True, **fake: Any
    ) -> Path:
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if record:
            (info / "RECORD").write_text(f"{place},,\n" if place else "")
        if place:
            (tmp_path / place).parent.mkdir(parents=True)
            compile_fake(place, version=version, **fake)
        return tmp_path / (place or "")

    return install


def described(path: str | Path | None, source: str, version: str) -> dict[str, Any]:
    """A fake library as `Library` describes it."""
    api_version = min(int(version.split(".")[1]), lib.ZRT_NEWEST_API_VERSION)
    return {
        "path": path and str(path),
        "source": source,
        "version": version,
        "api_version": api_version,
        "build_info": "made for a test",
    }


class TestOrder:
    def test_zrt_variable_comes_first(self, compile_fake: Any, show: Any) -> None:
        first = compile_fake("first.so", version="1.27.9")
        second = compile_fake("second.so", version="1.27.8")
        assert show(ZRT_ORT_LIBRARY=first, ORT_DYLIB_PATH=second) == described(first, "ZRT_ORT_LIBRARY", "1.27.9")

    @without_core
    def test_shared_variable_comes_before_distributions(self, compile_fake: Any, show: Any) -> None:
        """An empty variable counts as unset."""
        named = compile_fake("named.so", version="1.27.9")
        shown = show(hide=False, ZRT_ORT_LIBRARY="", ORT_DYLIB_PATH=named)
        assert shown == described(named, "ORT_DYLIB_PATH", "1.27.9")

    @linux
    @without_core
    def test_distribution_comes_before_the_loader(
        self, compile_fake: Any, install: Any, show: Any, tmp_path: Path
    ) -> None:
        path = install("onnxruntime")
        compile_fake("libonnxruntime.so.1", version="1.27.7")
        assert show(LD_LIBRARY_PATH=tmp_path) == described(path, "onnxruntime distribution 1.27.0", "1.27.0")

    @linux
    @without_core
    @pytest.mark.parametrize("name", ["libonnxruntime.so.1", "libonnxruntime.so"])
    def test_loader_comes_last(self, compile_fake: Any, show: Any, tmp_path: Path, name: str) -> None:
        compile_fake(name, version="1.27.7")
        assert show(LD_LIBRARY_PATH=tmp_path) == described(name, "system loader", "1.27.7")


class TestVariable:
    """Libraries that a variable names: the errors, and the accepted ones."""

    def assert_refused(self, show: Any, path: Path, reason: str, variable: str = "ZRT_ORT_LIBRARY") -> None:
        message = show(**{variable: path})
        assert message.startswith(f"{variable}={path}: {reason}")
        assert message.endswith(
            f". Let {variable} name the file of a libonnxruntime 1.27 or later, or unset it and install one: "
            f"{install_line('cpu')}"
        )

    @pytest.mark.parametrize("variable", ["ZRT_ORT_LIBRARY", pytest.param("ORT_DYLIB_PATH", marks=without_core)])
    def test_missing_file_raises(self, show: Any, tmp_path: Path, variable: str) -> None:
        self.assert_refused(show, tmp_path / "absent.so", "there is no such file", variable)

    def test_folder_raises(self, show: Any, tmp_path: Path) -> None:
        self.assert_refused(show, tmp_path, "it is not a file")

    def test_pipe_raises(self, show: Any, tmp_path: Path) -> None:
        """The system's loader would wait for its writer."""
        os.mkfifo(tmp_path / "pipe.so")
        self.assert_refused(show, tmp_path / "pipe.so", "it is not a file")

    @linux
    def test_cut_library_raises(self, show: Any, tmp_path: Path) -> None:
        """The system's loader would end the process by SIGBUS."""
        path = compiler.cut_library(tmp_path / "cut.so")
        self.assert_refused(show, path, "it is cut off: the file is shorter than its headers say")

    def test_file_that_is_no_library_raises(self, show: Any, tmp_path: Path) -> None:
        path = tmp_path / "text.so"
        path.write_text("not a library\n" * 100)
        reason = "invalid ELF header." if GLIBC else ""
        self.assert_refused(show, path, f"it cannot be loaded: {reason}")

    @pytest.mark.parametrize(
        ("fake", "reason"),
        [
            ({"text": "int other;\n"}, "it cannot be loaded: it exports no OrtGetApiBase"),
            (
                {"text": "const void *OrtGetApiBase(void) { return 0; }\n"},
                "it cannot be loaded: its OrtGetApiBase returns nothing",
            ),
            ({"newest": 20, "version": "1.20.0"}, TOO_OLD),
        ],
        ids=["no entry point", "entry point that returns NULL", "too old"],
    )
    def test_unusable_library_raises(self, compile_fake: Any, show: Any, fake: dict[str, Any], reason: str) -> None:
        self.assert_refused(show, compile_fake("fake.so", **fake), reason)

    @pytest.mark.parametrize(("newest", "version"), [(31, "1.31.0"), (99, "1.99.0")])
    def test_newer_library_is_used(self, compile_fake: Any, show: Any, newest: int, version: str) -> None:
        """Also one that is newer than zrt."""
        path = compile_fake("new.so", newest=newest, version=version)
        assert show(ZRT_ORT_LIBRARY=path) == described(path, "ZRT_ORT_LIBRARY", version)

    def test_relative_path_stays_valid(self, compile_fake: Any, show: Any) -> None:
        """Providers are looked for beside the library, also after a change of the working folder."""
        path = compile_fake("fake.so")
        assert show(ZRT_ORT_LIBRARY="./fake.so")["path"] == str(path)

    @glibc
    def test_loader_s_words_do_not_repeat_a_path_that_is_not_utf8(self, show: Any, tmp_path: Path) -> None:
        path = tmp_path / "\udcff.so"
        path.write_text("not a library\n" * 100)
        self.assert_refused(show, path, "it cannot be loaded: invalid ELF header.")

    @glibc
    def test_system_loader_finds_a_bare_name(self, compile_fake: Any, show: Any, tmp_path: Path) -> None:
        compile_fake("libown.so")
        shown = show(ZRT_ORT_LIBRARY="libown.so", LD_LIBRARY_PATH=tmp_path)
        assert shown["path"] == "libown.so"
        without = show(ZRT_ORT_LIBRARY="libown.so")
        assert "it cannot be loaded: cannot open shared object file" in without
        assert "./libown.so is the file there" in without


@without_core
class TestDistribution:
    @pytest.mark.parametrize(
        "options",
        [
            {"name": "onnxruntime-gpu"},
            {"name": "onnxruntime", "record": False},
            {"name": "onnxruntime", "place": Path("onnxruntime/lib", PLACE.name)},
        ],
        ids=["for CUDA", "without a record", "recorded in another folder"],
    )
    def test_distribution_is_used(self, install: Any, show: Any, options: dict[str, Any]) -> None:
        path = install(**options)
        assert show() == described(path, f"{options['name']} distribution 1.27.0", "1.27.0")

    @glibc
    def test_error_lists_each_failure(self, install: Any, show: Any) -> None:
        path = install("onnxruntime-gpu", newest=20, version="1.20.0")
        missing = "cannot open shared object file: No such file or directory"
        assert show(system=False) == "\n".join(
            [
                "no usable ONNX Runtime library (libonnxruntime 1.27 or later); looked at:",
                "  ZRT_ORT_LIBRARY: not set",
                "  built in: this zrt was built without a core of its own",
                "  ORT_DYLIB_PATH: not set",
                "  onnxruntime distribution: not installed",
                f"  onnxruntime-gpu distribution 1.20.0: {path}: {TOO_OLD}",
                f"  system loader: libabsent.so.1: it cannot be loaded: {missing}",
                f"  system loader: libabsent.so: it cannot be loaded: {missing}",
                f"Install one: {install_line('cpu')} (for CUDA: {install_line('cuda')})",
            ]
        )

    def test_record_that_is_not_utf8_is_read(self, install: Any, show: Any, tmp_path: Path) -> None:
        path = install("onnxruntime", place=Path("onnxruntime/lib", PLACE.name))
        record = next(tmp_path.glob("*.dist-info/RECORD"))
        record.write_bytes(b"\xff.py,,\n" + record.read_bytes())
        assert show()["path"] == str(path)

    @pytest.mark.parametrize("entry", ["''", "b'/'", "None"], ids=["current folder that is gone", "bytes", "None"])
    def test_odd_entries_of_the_search_path_are_skipped(self, entry: str, tmp_path: Path) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        code = (
            f"import os, sys; import zrt; os.rmdir({str(gone)!r}); sys.path.insert(0, {entry}); "
            "print(bool(zrt.available_providers()))"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=gone, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("True\n", "")

    @pytest.mark.parametrize("recorded", [False, True], ids=["not recorded", "recorded"])
    def test_distribution_without_library_is_skipped(self, install: Any, show: Any, recorded: bool) -> None:
        path = install("onnxruntime", place=PLACE if recorded else None)
        if recorded:
            path.unlink()
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
        assert show(ORT_DYLIB_PATH=named) == described(None, "built in", "1.27.3")
        assert show(ZRT_ORT_LIBRARY=named)["source"] == "ZRT_ORT_LIBRARY"

    def test_too_old_core_is_skipped(self, link: Any, show: Any) -> None:
        link(newest=20, version="1.20.0")
        assert f"  built in: {TOO_OLD}\n" in show(system=False)


class TestLoading:
    def test_failed_load_can_be_retried(self, compile_fake: Any, run: Any, tmp_path: Path) -> None:
        path = compile_fake("late.so")
        assert run("retry_load.py", tmp_path / "absent.so", path) == ["LibraryError", "LibraryError", "1.27.0"]

    def test_threads_load_once(self, compile_fake: Any, run: Any) -> None:
        path = compile_fake("one.so")
        assert run("threads_load.py", ZRT_ORT_LIBRARY=path) == [1, 8, 1]

    def test_library_describes_the_loaded_one(self) -> None:
        loaded = library.library()
        assert library.api() == library.api()
        major, minor = (int(part) for part in loaded.version.split(".")[:2])
        assert (major, minor) >= (1, 27)
        assert loaded.api_version == min(minor, lib.ZRT_NEWEST_API_VERSION)
        assert ffi.string(library.api().GetBuildInfoString()).startswith(b"ORT Build Info")

    @pytest.mark.parametrize("when", ["handler", "fork"])
    def test_load_within_a_load_does_not_wait(self, script: Any, when: str) -> None:
        script("load_within.py", when)

    def test_threads_make_the_first_sessions(self, script: Any) -> None:
        assert script("first_sessions.py").stdout.split() == ["8"] * 8

    @pytest.mark.parametrize("package", ["zrt", "drop-in"])
    def test_first_answer_reads_few_functions_of_the_table(self, script: Any, package: str) -> None:
        assert script("first_answer.py", package).stdout == "8\n"
