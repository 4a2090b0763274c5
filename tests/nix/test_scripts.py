"""The flake's scripts, each on invented input. These tests do not need Nix."""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import pytest

NIX = Path(__file__).parents[2] / "nix"


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command and returns its output and status."""
    return subprocess.run(
        [str(part) for part in command], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def passes(*command: str | Path, **environment: str) -> None:
    """Runs a check, which must pass silently."""
    done = run(*command, **environment)
    assert (done.returncode, done.stderr) == (0, "")


def refused(*command: str | Path, **environment: str) -> str:
    """Runs a check, which must fail; returns its message."""
    done = run(*command, **environment)
    assert done.returncode == 1
    return done.stderr


# A pipe whose reader ends early: the writer may get SIGPIPE, and under `set -o pipefail` the pipe then fails.
EARLY_READER = re.compile(
    r"\|\s*(?:grep\s+(?:-\w+\s+)*-\w*[qm]|head\b|sed\s+(?:-\w+\s+)*[^|]*\bq\b|awk\s+(?![^|]*\bEND\b)[^|]*\bexit\b)"
    r"(?!.*\|\| true)"
)


def scripts() -> list[Path]:
    """Every shell script of the repository, and every Nix file, which may have shell code in strings."""
    root = NIX.parent
    found = [*(root / ".ci").iterdir(), root / "flake.nix"]
    for folder in (NIX, root / "tests"):
        found += [*folder.rglob("*.sh"), *folder.rglob("*.nix")]
    return sorted(path for path in found if path.is_file())


class TestPipes:
    @pytest.mark.parametrize("path", scripts(), ids=lambda path: str(path.relative_to(NIX.parent)))
    def test_no_reader_ends_early(self, path: Path) -> None:
        # A pipe may continue on the next line.
        lines = re.sub(r"\|\s*\n\s*", "| ", path.read_text("utf-8")).splitlines()
        assert [line for line in lines if EARLY_READER.search(line)] == []

    @pytest.mark.parametrize(
        "line",
        [
            "printf '%s' \"$all\" | grep -qxF word || missing+=(word)",
            "readelf -d file | grep -q NEEDED",
            "seq 9 | head -n 1",
            "readelf -d file | grep -m 1 NEEDED",
            "readelf -d file | awk '/NEEDED/ { print; exit }'",
        ],
    )
    def test_pattern_finds_early_readers(self, line: str) -> None:
        assert EARLY_READER.search(line)


class TestMergeArchives:
    NAMES = (
        *(
            f"onnxruntime_{part}"
            for part in [
                "session",
                "optimizer",
                "providers",
                "lora",
                "framework",
                "graph",
                "util",
                "mlas",
                "common",
                "flatbuffers",
            ]
        ),
        *["onnx", "onnx_proto", "protobuf-lite", "re2", "cpuinfo", "flatbuffers", "absl_base"],
    )

    @pytest.fixture(scope="class")
    @classmethod
    def archives(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A build folder: an archive of each name, every one with a member code.o that defines one function."""
        folder = tmp_path_factory.mktemp("archives")
        for number, name in enumerate((*cls.NAMES, "protobuf", "protoc")):
            place = folder / "_deps" / name
            place.mkdir(parents=True)
            (place / "code.c").write_text(f"int function_{number}(void) {{ return {number}; }}\n")
            subprocess.run(["cc", "-c", "code.c", "-o", "code.o"], cwd=place, check=True)
            subprocess.run(["ar", "cr", f"lib{name}.a", "code.o"], cwd=place, check=True)
        return folder

    @pytest.fixture
    def build(self, archives: Path, tmp_path: Path) -> Path:
        """The test's own copy of that folder."""
        return Path(shutil.copytree(archives, tmp_path / "build"))

    def test_members_of_equal_names_are_all_merged(self, build: Path, tmp_path: Path) -> None:
        done = run(NIX / "merge-archives.sh", tmp_path / "libonnxruntime.a", build)
        assert done.returncode == 0, done.stderr
        symbols = run("nm", "-A", tmp_path / "libonnxruntime.a").stdout
        found = {int(number) for number in re.findall(r"T function_(\d+)", symbols)}
        # The last two are the full protobuf and protoc, which the core does not use.
        assert found == set(range(len(self.NAMES)))

    def test_missing_archive_is_named(self, build: Path, tmp_path: Path) -> None:
        (build / "_deps" / "re2" / "libre2.a").unlink()
        assert "libre2.a" in refused(NIX / "merge-archives.sh", tmp_path / "libonnxruntime.a", build)
        assert not (tmp_path / "libonnxruntime.a").exists()

    def test_many_archives_are_merged(self, build: Path, tmp_path: Path) -> None:
        # Their names are longer than the buffer of a pipe.
        for number in range(600):
            (build / f"libz{'z' * 200}{number}.a").write_bytes(b"!<arch>\n")
        done = run(NIX / "merge-archives.sh", tmp_path / "libonnxruntime.a", build)
        assert done.returncode == 0, done.stderr

    def test_second_merge_gives_the_same_bytes(self, build: Path, tmp_path: Path) -> None:
        for name in ("one.a", "two.a"):
            assert run(NIX / "merge-archives.sh", tmp_path / name, build).returncode == 0
        assert (tmp_path / "one.a").read_bytes() == (tmp_path / "two.a").read_bytes()


class TestCheckMirror:
    @pytest.fixture
    def mirror(self, tmp_path: Path) -> Path:
        place = tmp_path / "mirror" / "github.com" / "some" / "one.zip"
        place.parent.mkdir(parents=True)
        place.write_bytes(b"one")
        sha1 = hashlib.sha1(b"one").hexdigest()
        (tmp_path / "deps.txt").write_text(f"#Name;Url;SHA1\none;https://github.com/some/one.zip;{sha1}\n")
        return tmp_path / "mirror"

    def test_matching_mirror_passes(self, mirror: Path) -> None:
        passes(NIX / "onnxruntime" / "check-mirror.sh", mirror.parent / "deps.txt", mirror)

    def test_wrong_hash_is_named(self, mirror: Path) -> None:
        (mirror / "github.com" / "some" / "one.zip").write_bytes(b"two")
        assert "https://github.com/some/one.zip has SHA-1" in refused(
            NIX / "onnxruntime" / "check-mirror.sh", mirror.parent / "deps.txt", mirror
        )

    def test_archive_of_another_release_is_named(self, mirror: Path) -> None:
        (mirror / "github.com" / "some" / "old.zip").write_bytes(b"old")
        assert "https://github.com/some/old.zip is not in deps.txt" in refused(
            NIX / "onnxruntime" / "check-mirror.sh", mirror.parent / "deps.txt", mirror
        )


class TestCheckExtension:
    CODE = '__attribute__((visibility("default"))) int PyInit__ort(void) { return 0; }\n'
    SCRIPT = NIX / "zrt" / "check-extension.sh"

    def test_good_extension_passes(self, compile_library: Callable[..., Path]) -> None:
        passes(self.SCRIPT, compile_library(self.CODE, "-fvisibility=hidden", "-Wl,-z,noexecstack"))

    def test_executable_stack_is_reported(self, compile_library: Callable[..., Path]) -> None:
        assert "its stack is not RW" in refused(
            self.SCRIPT, compile_library(self.CODE, "-fvisibility=hidden", "-Wl,-z,execstack")
        )

    def test_second_exported_symbol_is_named(self, compile_library: Callable[..., Path]) -> None:
        assert "other" in refused(self.SCRIPT, compile_library(self.CODE + "int other(void) { return 1; }\n"))

    def test_needed_library_is_found_in_a_long_listing(
        self, compile_library: Callable[..., Path], tmp_path: Path
    ) -> None:
        library = compile_library(self.CODE, "-fvisibility=hidden", "-Wl,-z,noexecstack")
        readelf = tmp_path / "readelf"
        readelf.write_text(
            '#!/bin/sh\n[ $1 = -dW ] || exec readelf "$@"\n'
            "echo '0x1 (NEEDED) Shared library: [libonnxruntime.so.1]'\nseq 100000\n"
        )
        readelf.chmod(0o755)
        assert "it needs a libonnxruntime" in refused(self.SCRIPT, library, READELF=str(readelf))


class TestCheckBundle:
    SCRIPT = NIX / "bundle" / "check-bundle.sh"
    # Put together here, so that no file of the repository holds it whole.
    STORE_PATH = "/".join(["", "nix", "store", "0123456789abcdfghijklmnpqrsvwxyz-glibc-2.42", "lib"])

    @pytest.fixture
    def bundle(self, tmp_path: Path) -> Path:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "library.so").write_bytes(b"\x7fELF\0/nix/store/" + b"e" * 32 + b"-glibc/lib\0")
        (tmp_path / "lib" / "library.so.1").symlink_to("library.so")
        return tmp_path

    def test_blanked_store_paths_pass(self, bundle: Path) -> None:
        passes(self.SCRIPT, bundle)

    def test_store_path_in_a_binary_is_named(self, bundle: Path) -> None:
        (bundle / "lib" / "planted.so").write_bytes(b"\x7fELF\0\xff\0" + self.STORE_PATH.encode() + b"\0")
        assert "planted.so names" in refused(self.SCRIPT, bundle)

    def test_link_into_the_store_is_named(self, bundle: Path) -> None:
        (bundle / "lib" / "planted").symlink_to(self.STORE_PATH)
        assert "planted leads to" in refused(self.SCRIPT, bundle)

    def test_folder_that_is_missing_is_an_error(self, bundle: Path) -> None:
        assert run(self.SCRIPT, bundle / "missing").returncode != 0


class TestCheckNoCuda:
    SCRIPT = NIX / "check-no-cuda.sh"
    # Put together here, so that no file of the repository holds it whole.
    STORE_PATH = "/".join(["", "nix", "store", "0123456789abcdfghijklmnpqrsvwxyz-"])

    def test_output_without_cuda_passes(self, tmp_path: Path) -> None:
        (tmp_path / "library.so").write_bytes(b"\x7fELF\0" + self.STORE_PATH.encode() + b"glibc-2.42\0cudaMalloc\0")
        passes(self.SCRIPT, tmp_path)

    @pytest.mark.parametrize("name", ["cuda_cudart-13.2", "libcublas-13.2-lib", "cudnn-9", "nvidia-x11"])
    def test_reference_to_cuda_is_named(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "library.so").write_bytes(b"\x7fELF\0\xff" + f"{self.STORE_PATH}{name}/lib\0".encode())
        assert f"names {self.STORE_PATH}{name}" in refused(self.SCRIPT, tmp_path)

    def test_cuda_provider_library_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "libonnxruntime_providers_cuda.so").touch()
        assert "libonnxruntime_providers_cuda.so is in a CPU output" in refused(self.SCRIPT, tmp_path)


class TestCheckCuda:
    NVCC = "/".join(["", "nix", "store", "0123456789abcdfghijklmnpqrsvwxyz-cuda_nvcc"])

    @pytest.fixture
    def check(self, tmp_path: Path) -> Callable[[str, bytes], subprocess.CompletedProcess[str]]:
        """Runs the check on an invented provider library with this run path and content."""

        def run_check(runpath: str, content: bytes = b"") -> subprocess.CompletedProcess[str]:
            (tmp_path / "patchelf").write_text(f"#!/bin/sh\necho '{runpath}'\n")
            (tmp_path / "patchelf").chmod(0o755)
            (tmp_path / "libonnxruntime_providers_cuda.so").write_bytes(content)
            path = f"{tmp_path}:{os.environ['PATH']}"
            return run(NIX / "onnxruntime" / "check-cuda.sh", tmp_path, self.NVCC, PATH=path)

        return run_check

    def test_good_library_passes(self, check: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        done = check("/run/opengl-driver/lib:/cuda/lib")
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("runpath", "content", "message"),
        [
            ("/cuda/lib", b"", "lacks the driver's folder"),
            ("/run/opengl-driver/lib:/cuda/lib/stubs", b"", "holds stubs"),
            ("/run/opengl-driver/lib", NVCC.encode() + b"/bin/nvcc", "still names the compiler"),
        ],
    )
    def test_bad_library_is_reported(
        self, check: Callable[..., subprocess.CompletedProcess[str]], runpath: str, content: bytes, message: str
    ) -> None:
        done = check(runpath, content)
        assert done.returncode == 1
        assert message in done.stderr


class TestDriverFolder:
    SCRIPT = NIX / "apps" / "driver-folder.sh"
    DRIVER: ClassVar[set[str]] = {"libcuda.so.1", "libcuda.so.580.1", "libnvidia-ml.so.1"}

    @pytest.fixture
    def host(self, tmp_path: Path) -> Path:
        """The library folder of a host with a driver."""
        host = tmp_path / "host"
        host.mkdir()
        for name in (*self.DRIVER, "libc.so.6", "libstdc++.so.6"):
            (host / name).touch()
        return host

    def names(self, folder: str) -> set[str]:
        return {path.name for path in Path(folder.strip()).iterdir() if path.exists()}

    def test_folder_links_only_the_driver(self, host: Path, tmp_path: Path) -> None:
        done = run("sh", self.SCRIPT, tmp_path / "nothing", host, XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert done.returncode == 0, done.stderr
        assert self.names(done.stdout) == self.DRIVER

    def test_processes_start_at_the_same_time(self, host: Path, tmp_path: Path) -> None:
        command = ["sh", str(self.SCRIPT), str(host)]
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        for _ in range(10):
            started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
            for process in started:
                folder, _ = process.communicate()
                assert process.returncode == 0
                # The others still run: where two made the same link, ln gives one another name for a moment.
                assert self.names(folder) >= self.DRIVER
            assert self.names(folder) == self.DRIVER

    def test_links_of_an_earlier_driver_are_replaced(self, host: Path, tmp_path: Path) -> None:
        links = tmp_path / "cache" / "zrt" / "driver"
        links.mkdir(parents=True)
        (links / "libcuda.so.1").symlink_to(tmp_path / "gone")
        run("sh", self.SCRIPT, host, XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert (links / "libcuda.so.1").samefile(host / "libcuda.so.1")

    @pytest.mark.parametrize("cache", [[], ["XDG_CACHE_HOME={}/file"]], ids=["no home", "no folder"])
    def test_home_that_cannot_be_written(self, host: Path, tmp_path: Path, cache: list[str]) -> None:
        (tmp_path / "file").touch()
        variables = [variable.format(tmp_path) for variable in cache]
        command = ["env", "-u", "HOME", "-u", "XDG_CACHE_HOME", *variables, "sh", self.SCRIPT, host]
        done = run(*command, TMPDIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert self.names(done.stdout) == self.DRIVER

    def test_missing_driver_is_status_1(self, tmp_path: Path) -> None:
        assert run("sh", self.SCRIPT, tmp_path).returncode == 1


class TestEnterShell:
    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        """A folder whose build.py makes a module, which names who built it."""
        native = tmp_path / "zrt" / "_native"
        native.mkdir(parents=True)
        (native / "build.py").write_text("open('zrt/_native/_ort.abi3.so', 'w').write('shell')\n")
        (tmp_path / "python").symlink_to(sys.executable)
        return tmp_path

    def enter(self, checkout: Path) -> str:
        command = f'cd "{checkout}" && source "{NIX}/shells/enter.sh" && zrt_enter'
        names = ("ZRT_ORT_INCLUDE_DIR", "ZRT_ORT_LINK_ARGS", "ZRT_ORT_PROVIDERS")
        done = run("bash", "-c", command, PATH=f"{checkout}:{os.environ['PATH']}", **dict.fromkeys(names, ""))
        assert done.returncode == 0, done.stderr
        return (checkout / "zrt" / "_native" / "_ort.abi3.so").read_text()

    def test_module_that_somebody_else_built_is_replaced(self, checkout: Path) -> None:
        module = checkout / "zrt" / "_native" / "_ort.abi3.so"
        assert self.enter(checkout) == "shell"
        built = module.stat().st_mtime_ns
        assert self.enter(checkout) == "shell"
        assert module.stat().st_mtime_ns == built
        module.write_text("pip")
        assert self.enter(checkout) == "shell"


class TestCudaProbe:
    SCRIPT = NIX / "apps" / "cuda-probe.py"
    OPTIONS = ("--driver", "580", "--driver-api", "13000", "--architectures", "75;80;90;120-virtual")

    @pytest.fixture
    def probe(self, compile_library: Callable[..., Path]) -> Callable[..., list[str]]:
        """Runs the probe on an invented driver, with the given version, result of cuInit, and GPUs."""

        def run_probe(version: int = 13000, init: int = 0, gpus: int = 1, capability: int = 90) -> list[str]:
            library = compile_library(f"""
                int cuInit(unsigned flags) {{ return {init}; }}
                int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
                int cuDeviceGetCount(int *count) {{ *count = {gpus}; return 0; }}
                int cuDeviceGet(int *device, int index) {{ *device = index; return 0; }}
                int cuDeviceGetAttribute(int *value, int attribute, int device)
                {{ *value = attribute == 75 ? {capability // 10} : {capability % 10}; return 0; }}
            """)
            done = run(sys.executable, self.SCRIPT, library, *self.OPTIONS)
            lines = done.stderr.splitlines()
            assert done.returncode == bool(lines)
            return lines

        return run_probe

    @pytest.mark.parametrize("capability", [75, 80, 86, 90, 120, 121, 130])
    def test_suitable_gpu_passes(self, probe: Callable[..., list[str]], capability: int) -> None:
        assert probe(capability=capability) == []

    @pytest.mark.parametrize(
        ("architecture", "capabilities"),
        [
            ("90", [90]),
            ("90-virtual", [90, 100, 103, 120]),
            ("90a", [90]),
            ("90a-virtual", [90]),
            ("100f", [100, 103]),
            ("100f-virtual", [100, 103]),
        ],
    )
    def test_gpus_that_an_architecture_runs_on(self, architecture: str, capabilities: list[int]) -> None:
        """Code for "a" runs on that capability alone, code for "f" within its family."""
        runs_on = runpy.run_path(str(self.SCRIPT))["runs_on"]
        assert [each for each in (89, 90, 100, 103, 120) if runs_on(architecture, each)] == capabilities

    def test_later_driver_passes(self, probe: Callable[..., list[str]]) -> None:
        assert probe(version=14020) == []

    def test_missing_driver_is_reported(self, tmp_path: Path) -> None:
        done = run(sys.executable, self.SCRIPT, tmp_path / "libcuda.so.1", *self.OPTIONS)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("bench-cuda: no driver: ")

    @pytest.mark.parametrize("missing", [{"gpus": 0}, {"init": 100}])
    def test_missing_gpu_is_reported(self, probe: Callable[..., list[str]], missing: dict[str, int]) -> None:
        assert probe(**missing) == ["bench-cuda: no GPU: the driver sees none"]

    def test_old_driver_is_reported(self, probe: Callable[..., list[str]]) -> None:
        [line] = probe(version=12080)
        assert "driver too old: it knows CUDA 12.8, this build needs 13.0 (driver 580 or later)" in line

    def test_failing_driver_is_reported(self, probe: Callable[..., list[str]]) -> None:
        assert probe(init=999) == ["bench-cuda: driver fails: cuInit returns 999"]

    @pytest.mark.parametrize("capability", [70, 100, 103])
    def test_uncompiled_architecture_is_named(self, probe: Callable[..., list[str]], capability: int) -> None:
        first, second = probe(capability=capability, gpus=2)
        assert first.startswith(f"bench-cuda: GPU 0 has architecture {capability}, which is not compiled in")
        assert f'cudaArchitectures = [ "{capability}" ]' in second


class TestCheckSilent:
    """The check of built libraries: no address of a collector, and no function of the network."""

    SCRIPT = NIX / "check-silent.sh"

    def check(self, *libraries: Path) -> subprocess.CompletedProcess[str]:
        return run("bash", self.SCRIPT, *libraries)

    def test_library_that_refers_to_documentation_passes(self, compile_library: Callable[..., Path]) -> None:
        library = compile_library(
            'const char *text = "see https://github.com/onnx and https://arxiv.org/abs/1502.03167.";'
        )
        done = self.check(library)
        assert (done.returncode, done.stderr) == (0, "")

    def test_library_with_an_address_fails(self, compile_library: Callable[..., Path]) -> None:
        library = compile_library('const char *text = "https://collector.example.com/1.0/";')
        done = self.check(library)
        assert done.returncode == 1
        assert done.stderr == f"check-silent: {library} contains the address of collector.example.com\n"

    def test_library_that_connects_fails(self, compile_library: Callable[..., Path]) -> None:
        library = compile_library("int connect(int, void *, unsigned); int call(void) { return connect(0, 0, 0); }")
        done = self.check(library)
        assert done.returncode == 1
        assert done.stderr == f"check-silent: {library} calls connect\n"

    def test_archive_that_resolves_names_fails(self, compile_library: Callable[..., Path], tmp_path: Path) -> None:
        code = "int getaddrinfo(void *, void *, void *, void *); int call(void) { return getaddrinfo(0, 0, 0, 0); }"
        # With these options the compiler leaves an object file.
        part = compile_library(code, "-c", "-r").rename(tmp_path / "part.o")
        library = tmp_path / "lib.a"
        subprocess.run(["ar", "cr", library, part], check=True)
        done = self.check(library)
        assert done.returncode == 1
        assert "calls getaddrinfo" in done.stderr

    def test_official_library_before_telemetry_passes(self) -> None:
        try:
            distribution = metadata.distribution("onnxruntime")
        except metadata.PackageNotFoundError:
            pytest.skip("the onnxruntime Python package is not installed")
        if not distribution.version.startswith(("1.27.", "1.28.")):
            pytest.skip(f"the package is {distribution.version}: telemetry came with 1.29")
        done = self.check(*Path(str(distribution.locate_file("onnxruntime/capi"))).glob("libonnxruntime*"))
        assert (done.returncode, done.stderr) == (0, "")

    def test_nothing_to_check_is_an_error(self, tmp_path: Path) -> None:
        assert self.check().returncode == 2
        done = self.check(tmp_path / "libonnxruntime.pc")
        assert (done.returncode, "there is no library among" in done.stderr) == (1, True)

    def test_file_that_is_no_library_is_an_error(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken.so"
        broken.write_text("no library")
        assert self.check(broken).returncode != 0
        assert self.check(tmp_path / "missing.so").returncode != 0
