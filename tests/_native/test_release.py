"""The platforms of a release: the names and tags of wheels that are built for other machines, and their checks."""

import hashlib
import importlib.util
import json
import os
import re
import runpy
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import pytest

from zrt._native import build

ROOT = Path(__file__).parents[2]
CI = ROOT / ".ci"
# The numbers of processors in the headers of ELF and of Mach-O files, which the check of tags reads.
ELF = {"x86_64": 0x3E, "aarch64": 0xB7}
MACH = {"x86_64": 0x01000007, "arm64": 0x0100000C}

pytestmark = pytest.mark.skipif(
    not (CI.is_dir() and (ROOT / "zrt").is_dir()), reason="no sources of zrt beside the tests"
)


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    """A folder that passes for the headers of CPython 3.14."""
    folder = tmp_path / "python3.14t"
    folder.mkdir()
    (folder / "patchlevel.h").write_text("#define PY_MAJOR_VERSION 3\n#define PY_MINOR_VERSION 14\n")
    return folder


class TestTarget:
    @pytest.fixture
    def tag(self) -> Any:
        pytest.importorskip("hatchling", reason="hatchling is not installed")
        return runpy.run_path(str(ROOT / "zrt" / "_native" / "hatch_build.py"))["tag"]

    @pytest.mark.parametrize("platform", build.TARGETS)
    def test_wheel_has_the_tag_of_its_platform(
        self, platform: str, tag: Any, headers: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ZRT_TARGET", platform)
        if build.abi3():
            assert tag(build) == f"cp311-abi3-{platform}"
            assert build.extension_filename() == "_ort.abi3.so"
        monkeypatch.setenv("ZRT_FREE_THREADED_INCLUDE", str(headers))
        assert tag(build) == f"cp314-cp314t-{platform}"

    @pytest.mark.parametrize(
        ("platform", "system"),
        [
            ("manylinux_2_17_aarch64", "aarch64-linux-gnu"),
            ("musllinux_1_2_x86_64", "x86_64-linux-musl"),
            ("macosx_11_0_arm64", "darwin"),
        ],
    )
    def test_free_threaded_module_has_the_suffix_that_its_python_imports(
        self, platform: str, system: str, headers: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ZRT_TARGET", platform)
        monkeypatch.setenv("ZRT_FREE_THREADED_INCLUDE", str(headers))
        assert build.extension_filename() == f"_ort.cpython-314t-{system}.so"

    def test_unknown_platform_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZRT_TARGET", "win_amd64")
        with pytest.raises(ValueError, match="ZRT_TARGET=win_amd64 is none of manylinux_2_17_x86_64, "):
            build.build()

    def test_missing_compiler_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZRT_TARGET", "manylinux_2_17_aarch64")
        monkeypatch.setitem(sys.modules, "ziglang", None)
        message = "ZRT_TARGET=manylinux_2_17_aarch64 needs the Python package ziglang.*: pip install ziglang"
        with pytest.raises(ModuleNotFoundError, match=message):
            build.build(tmp_path)

    def test_folder_without_headers_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZRT_FREE_THREADED_INCLUDE", str(tmp_path))
        with pytest.raises(FileNotFoundError, match=rf"{tmp_path}: no patchlevel\.h"):
            build.build()

    def test_headers_need_a_platform(self, headers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ZRT_TARGET", raising=False)
        monkeypatch.setenv("ZRT_FREE_THREADED_INCLUDE", str(headers))
        with pytest.raises(ValueError, match="needs ZRT_TARGET"):
            build.build()


@pytest.mark.parametrize("variables", [{}, {"ZRT_FREE_THREADED_INCLUDE": "", "ZRT_NIX": ""}], ids=["refused", "failed"])
def test_release_that_fails_can_be_made_again(tmp_path: Path, variables: dict[str, str]) -> None:
    folder = tmp_path / "a release"
    own = ("ZRT_FREE_THREADED_INCLUDE", "ZRT_NIX")
    environment = {name: value for name, value in os.environ.items() if name not in own} | variables
    done = subprocess.run([CI / "release", folder], env=environment | {"PYTHON": "false"}, capture_output=True)
    assert done.returncode
    assert not folder.exists()


@pytest.mark.parametrize("fails", [False, True])
def test_release_on_a_full_disk_leaves_no_folder(tmp_path: Path, fails: bool) -> None:
    lines = re.findall("^(?:trap|mv) .*$", (CI / "release").read_text("utf-8"), re.MULTILINE)
    # In the place of a move to another disk.
    move = f'mv() {{ cp "$1" "${{@: -1}}"; return {fails:d}; }}'
    script = ["set -eu; scratch=$1/scratch folder=$scratch target=$1/target; mkdir $scratch $target; touch $scratch/a"]
    subprocess.run(["bash", "-c", "\n".join([*script, move, *lines]), "", tmp_path], check=not fails)
    assert [path.name for path in tmp_path.iterdir()] == ([] if fails else ["target"])


@pytest.mark.skipif(sys.platform != "linux", reason="setsid is Linux's")
def test_whole_check_that_ends_early_ends_the_flake_s_commands_too(tmp_path: Path) -> None:
    [trap] = re.findall("^trap .*$", (CI / "run").read_text("utf-8"), re.MULTILINE)
    [within] = re.findall(r"^within\(\) \{.*?^\}$", (CI / "nix").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "nix").write_text(f"{within}\necho started\nwithin 60 sleep 60\n")
    script = f"scratch=$1/scratch\n{trap}\nsetsid bash $1/nix >$1/log & flake=$!\nsleep 1\nexit 1\n"
    # The pipe is open as long as the command lives.
    done = subprocess.run(["bash", "-c", script, "", tmp_path], stderr=subprocess.PIPE, timeout=20, check=False)
    assert done.returncode == 1
    assert (tmp_path / "log").read_text() == "started\n"


class TestHeaders:
    """`.ci/headers` with a header of the tests' own for the official ones."""

    NAMES = ("onnxruntime_c_api.h", "onnxruntime_ep_c_api.h")
    KEYS = ("onnxruntime_session_options_config_keys.h", "onnxruntime_run_options_config_keys.h")

    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        source, folder = tmp_path / "source", tmp_path / ".ci"
        source.mkdir()
        folder.mkdir()
        content = b"#define ORT_API_VERSION 27\n" + b"/* more */\n" * 10_000
        for name in self.NAMES:
            (source / name).write_bytes(content)
        (source / "more").mkdir()
        for name in self.KEYS:
            (source / "more" / name).write_text("keys")
        text = (CI / "headers").read_text("utf-8")
        [official] = re.findall(r'^known="\n(.*?)"$', text, re.DOTALL | re.MULTILINE)
        sums = "".join(f"{hashlib.sha256(content).hexdigest()} {name}\n" for name in self.NAMES)
        script = folder / "headers"
        # The other sources would download the official ones.
        script.write_text(text.replace(official, sums).replace("in variable maven debian", "in variable"), "utf-8")
        return script

    def take(self, script: Path, target: Path, limit: str = "unlimited") -> int:
        command = ["bash", "-c", f'ulimit -f {limit}; exec bash "$@"', "", str(script), str(target)]
        variables = os.environ | {"ZRT_ORT_INCLUDE_DIR": str(script.parents[1] / "source")}
        return subprocess.run(command, env=variables, capture_output=True, check=False).returncode

    def test_headers_are_taken(self, script: Path, tmp_path: Path) -> None:
        target = tmp_path / "a folder"
        assert self.take(script, target) == 0
        assert {path.name for path in target.iterdir()} == {*self.NAMES, *self.KEYS}
        assert (target / self.NAMES[0]).stat().st_size > 100_000

    def test_headers_may_be_there_already(self, script: Path, tmp_path: Path) -> None:
        source = tmp_path / "source"
        for name in self.KEYS:
            (source / "more" / name).rename(source / name)
        assert self.take(script, source) == 0
        assert {path.name for path in source.iterdir() if path.is_file()} == {*self.NAMES, *self.KEYS}

    def test_folder_is_not_searched_for(self, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("CDPATH", ".")
        assert self.take(script, Path("target")) == 0
        assert {path.name for path in (tmp_path / "target").iterdir()} == {*self.NAMES, *self.KEYS}

    def test_full_disk_is_no_success(self, script: Path, tmp_path: Path) -> None:
        assert self.take(script, tmp_path / "target", limit="50") == 1
        assert not [*(tmp_path / "target").iterdir()]


def elf(processor: str) -> bytes:
    return b"\x7fELF" + bytes(14) + struct.pack("<H", ELF[processor])


def mach(processor: str, major: int, minor: int) -> bytes:
    head = struct.pack("<IIIIIIII", 0xFEEDFACF, MACH[processor], 0, 6, 2, 40, 0, 0)
    # Two commands: one that is no version, and LC_BUILD_VERSION.
    commands = struct.pack("<IIII", 0x1B, 16, 0, 0) + struct.pack(
        "<IIIIII", 0x32, 24, 1, major << 16 | minor << 8, 0, 0
    )
    return head + commands


class TestTagsOfWheels:
    """`.ci/tags.py` compares the tag of a wheel with its module."""

    FAULTS: ClassVar[Any] = staticmethod(runpy.run_path(str(CI / "tags.py"))["faults"]) if CI.is_dir() else None

    def faults(self, folder: Path, tag: str, module: bytes, name: str = "_ort.abi3.so", *, inner: str = "") -> str:
        """The faults of a wheel; `inner` is the tag of its WHEEL file, if that is another one."""
        path, info = folder / f"zrt_onnx-1-{tag}.whl", "zrt_onnx-1.dist-info"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"zrt/_native/{name}", module)
            wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {inner or tag}\n")
            wheel.writestr(f"{info}/sboms/zrt-onnx.cdx.json", "{}")
        return "\n".join(self.FAULTS(path))

    @pytest.mark.parametrize(
        ("tag", "module", "name"),
        [
            ("cp311-abi3-manylinux_2_17_x86_64", elf("x86_64"), "_ort.abi3.so"),
            ("cp311-abi3-musllinux_1_2_aarch64", elf("aarch64"), "_ort.abi3.so"),
            ("cp311-abi3-macosx_11_0_arm64", mach("arm64", 11, 0), "_ort.abi3.so"),
            ("cp314-cp314t-macosx_10_15_x86_64", mach("x86_64", 10, 15), "_ort.cpython-314t-darwin.so"),
        ],
    )
    def test_right_wheel_passes(self, tmp_path: Path, tag: str, module: bytes, name: str) -> None:
        assert self.faults(tmp_path, tag, module, name) == ""

    @pytest.mark.parametrize(
        ("tag", "module", "fault"),
        [
            ("cp311-abi3-manylinux_2_17_x86_64", elf("aarch64"), "processor, which is not x86_64"),
            ("cp311-abi3-manylinux_2_17_x86_64", mach("x86_64", 11, 0), "not that of manylinux_2_17_x86_64"),
            ("cp311-abi3-macosx_11_0_arm64", mach("arm64", 14, 0), "the oldest macOS"),
            ("cp312-abi3-manylinux_2_17_x86_64", elf("x86_64"), "the version of Python"),
            ("cp314-cp314t-manylinux_2_17_x86_64", elf("x86_64"), r"the name of the module zrt/_native/_ort.abi3.so"),
        ],
    )
    def test_other_module_is_named(self, tmp_path: Path, tag: str, module: bytes, fault: str) -> None:
        assert fault in self.faults(tmp_path, tag, module)

    def test_other_tag_inside_is_named(self, tmp_path: Path) -> None:
        tag = "cp311-abi3-manylinux_2_17_x86_64"
        assert f"which is not {tag}" in self.faults(tmp_path, tag, elf("x86_64"), inner="cp311-abi3-linux_x86_64")


class TestBills:
    """`.ci/sbom.py` writes bills of materials, and refuses those that the schema does not allow."""

    ENGINES: ClassVar[dict[str, Any]] = {
        "some": {
            "version": "1.27.0",
            "revision": "8f02",
            "archives": {
                "onnx": {
                    "url": "https://github.com/onnx/onnx/archive/refs/tags/v1.21.0.zip",
                    "sha1": "321d4acc807c8e0fb0bbcc0424a143dffde1e846",
                    "license": "Apache-2.0",
                    "patches": ["onnx/onnx.patch"],
                }
            },
            "flags": {"onnxruntime_USE_CUDA": False},
        },
        "prebuilt": {
            "version": "1.32.0",
            "archives": {
                "onnxruntime": {
                    "package": "onnxruntime",
                    "version": "1.32.0",
                    "sha256": "99e1074c4b2197accd5073052a465361be17b89c093b8ffb6e6bd8f986c52df8",
                    "license": "MIT",
                    "patches": [],
                }
            },
            "flags": {},
        },
    }

    def engines(self, folder: Path, data: Any) -> subprocess.CompletedProcess[str]:
        if importlib.util.find_spec("cyclonedx") is None:
            pytest.skip("cyclonedx-python-lib is not installed: pip install --group release")
        return subprocess.run(
            [sys.executable, str(CI / "sbom.py"), "engines", str(folder)],
            input=json.dumps(data),
            env={"SOURCE_DATE_EPOCH": "1580601600"},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_engine_s_bill_has_archives_hashes_licenses_patches_and_flags(self, tmp_path: Path) -> None:
        done = self.engines(tmp_path, self.ENGINES)
        assert done.returncode == 0, done.stderr
        bill = json.loads((tmp_path / "some.cdx.json").read_text("utf-8"))
        [archive] = bill["components"]
        assert (archive["name"], archive["version"]) == ("onnx", "1.21.0")
        assert archive["purl"] == "pkg:github/onnx/onnx@v1.21.0"
        assert archive["hashes"] == [{"alg": "SHA-1", "content": "321d4acc807c8e0fb0bbcc0424a143dffde1e846"}]
        assert archive["licenses"] == [{"license": {"id": "Apache-2.0"}}]
        assert archive["pedigree"]["patches"][0]["diff"]["url"].endswith("/8f02/cmake/patches/onnx/onnx.patch")
        root = bill["metadata"]["component"]
        assert root["properties"] == [{"name": "cmake:onnxruntime_USE_CUDA", "value": "FALSE"}]

    def test_bill_of_the_official_library_names_the_python_package(self, tmp_path: Path) -> None:
        done = self.engines(tmp_path, self.ENGINES)
        assert done.returncode == 0, done.stderr
        bill = json.loads((tmp_path / "prebuilt.cdx.json").read_text("utf-8"))
        [wheel] = bill["components"]
        assert wheel["purl"] == "pkg:pypi/onnxruntime@1.32.0"
        assert wheel["hashes"][0]["content"].startswith("99e1074c")
        assert bill["metadata"]["component"]["version"] == "1.32.0"

    def test_unknown_license_is_refused(self, tmp_path: Path) -> None:
        data = json.loads(json.dumps(self.ENGINES).replace("Apache-2.0", "Appache-2.0"))
        done = self.engines(tmp_path, data)
        assert done.returncode == 1
        assert "'Appache-2.0'" in done.stderr
        assert not [*tmp_path.iterdir()]
