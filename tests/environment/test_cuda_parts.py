"""The driver and the libraries of CUDA: made of C, with the functions that tell their versions."""

import ctypes
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import zrt
from tests.support.compiler import cut_library, shared_library
from tests.support.libc import GLIBC
from zrt.environment import cuda_parts

pytestmark = pytest.mark.skipif(not GLIBC, reason="CUDA is on Linux with glibc")

DRIVER = """
int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
int cuInit(unsigned flags) {{ return flags + {init}; }}
int cuDeviceGetCount(int *count) {{ *count = {gpus}; return 0; }}
int cuGetErrorString(int code, const char **text) {{ *text = code == 803 ? "wrong kernel module" : 0; return 0; }}
"""
LIBRARIES = {
    "libcudart.so.13": "int cudaRuntimeGetVersion(int *version) { *version = 13020; return 0; }",
    "libcudnn.so.9": "int cudnnGetProperty(int kind, int *number) { *number = kind + 9; return 0; }",
    "libcublas.so.13": "int cublasGetProperty(int kind, int *number) { *number = kind + 13; return 0; }",
    "libnvrtc.so.13": "int nvrtcVersion(int *major, int *minor) { *major = 13, *minor = 1; return 0; }",
}
TENSORRT = {
    "libnvinfer.so.10": "int getInferLibVersion(void) { return 101601; }",
    "libnvonnxparser.so.10": "int getNvOnnxParserVersion(void) { return 101602; }",
}


class Machine:
    """A folder with a provider, and folders with the parts that it needs."""

    def __init__(self, root: Path, stubs: Path, look: Callable[[str], Any], variables: pytest.MonkeyPatch) -> None:
        self.root = root
        self.provider = root / "provider.so"
        self._stubs = stubs
        self._look = look
        self._variables = variables
        self.needs("libcuda.so.1", *LIBRARIES)
        self.set("LD_LIBRARY_PATH", root / "loader")
        self.set("CUDA_VISIBLE_DEVICES", None)

    def needs(self, *names: str, flags: Iterable[str] = ()) -> None:
        """Makes a provider that needs these libraries."""
        libraries = (f"-l:{name}" for name in names)
        shared_library(self.provider, "", "-Wl,--no-as-needed", f"-L{self._stubs}", *libraries, *flags)

    def set(self, variable: str, value: object) -> None:
        if value is None:
            self._variables.delenv(variable, raising=False)
        else:
            self._variables.setenv(variable, str(value))

    def driver(self, version: int = 13000, init: int = 0, gpus: int = 1) -> None:
        real = self.root / "loader" / "libcuda.so.580.159.04"
        shared_library(real, DRIVER.format(version=version, init=init, gpus=gpus), "-Wl,-soname,libcuda.so.1")
        link = self.root / "loader" / "libcuda.so.1"
        link.unlink(missing_ok=True)
        link.symlink_to(real)

    def libraries(self, *names: str, folder: str = "loader") -> None:
        for name in names or LIBRARIES:
            shared_library(self.root / folder / name, LIBRARIES[name], f"-Wl,-soname,{name}")

    def tensorrt(self) -> None:
        """A provider that needs CUDA's runtime and TensorRT."""
        self.needs("libcudart.so.13", *TENSORRT)
        self.driver()
        self.libraries("libcudart.so.13")

    def look(self) -> Any:
        """The parts by name, the error and the places, as a process of its own sees them: `site` is on its path."""
        path = filter(None, [str(self.root / "site"), os.environ.get("PYTHONPATH")])
        self.set("PYTHONPATH", os.pathsep.join(path))
        result = json.loads(self._look("cuda_parts.py", self.provider).stdout)
        result["parts"] = {part["name"]: part for part in result["parts"]}
        return result


@pytest.fixture(scope="module")
def stubs(tmp_path_factory) -> Path:
    """Empty libraries with the names of CUDA's, for the linker."""
    folder = tmp_path_factory.mktemp("stubs")
    for name in ("libcuda.so.1", *LIBRARIES, *TENSORRT):
        shared_library(folder / name, "", f"-Wl,-soname,{name}")
    return folder


@pytest.fixture
def machine(tmp_path, stubs, script, monkeypatch) -> Machine:
    return Machine(tmp_path, stubs, script, monkeypatch)


@pytest.fixture
def without_driver() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    pytest.skip("this machine has a driver")


def test_all_parts_have_a_path_and_a_version(machine):
    machine.driver()
    machine.libraries()
    result = machine.look()
    assert result["error"] is None
    assert {name: part["version"] for name, part in result["parts"].items()} == {
        "NVIDIA driver": "CUDA 13.0, release 580.159.04",
        "CUDA runtime": "13.2",
        "cuDNN": "9.10.11",
        "cuBLAS": "13.14.15",
        "NVRTC": "13.1",
    }
    assert {part["path"] for part in result["parts"].values()} == {
        str(machine.root / "loader" / part["file"]) for part in result["parts"].values()
    }
    assert not any(part["problem"] or part["mend"] for part in result["parts"].values())


@pytest.mark.parametrize("folder", ["loader", "site/nvidia/cudnn/lib"])
def test_cut_library_is_named(machine, folder):
    """The system's loader would end the process by SIGBUS."""
    machine.driver()
    machine.libraries(*LIBRARIES.keys() - {"libcudnn.so.9"})
    cut_library(machine.root / folder / "libcudnn.so.9")
    part = machine.look()["parts"]["cuDNN"]
    assert re.fullmatch(r"cannot be loaded: .*/libcudnn\.so\.9: it is cut off: .*", part["problem"])


def test_cut_provider_is_named(machine):
    cut_library(machine.provider)
    assert re.fullmatch(r"provider \(.*\) it is cut off: .*", machine.look()["error"].partition(". ")[0])


def test_odd_entries_of_the_search_path_are_skipped(monkeypatch, tmp_path):
    (tmp_path / "nvidia" / "cudnn").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "nvidia").touch()
    monkeypatch.setattr(sys, "path", [None, b"/", 5, str(tmp_path / "other"), str(tmp_path)])
    assert [*cuda_parts.nvidia_folders()] == [str(tmp_path / "nvidia" / "cudnn" / "lib")]


def test_folder_that_may_not_be_listed_is_skipped(monkeypatch, tmp_path):
    def refused(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "nvidia").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(os, "listdir", refused)
    assert [*cuda_parts.nvidia_folders()] == []


def test_parts_that_the_provider_opens_later_are_made_ready_and_may_be_missing(machine):
    """The official provider of 1.31.1 is not linked to cuDNN, cuFFT and NVRTC; that of 1.27.0 is."""
    machine.provider = machine.root / cuda_parts.PROVIDER
    machine.needs("libcuda.so.1", "libcudart.so.13", "libcublas.so.13")
    machine.driver()
    machine.libraries("libcudart.so.13", "libcublas.so.13")
    machine.libraries("libcudnn.so.9", folder="site/nvidia/cudnn/lib")
    result = machine.look()
    assert result["error"] is None
    assert {name: part["optional"] for name, part in result["parts"].items()} == {
        "NVIDIA driver": False,
        "CUDA runtime": False,
        "cuDNN": True,
        "cuBLAS": False,
        "cuFFT": True,
        "NVRTC": True,
    }
    assert result["parts"]["cuDNN"]["path"] == str(machine.root / "site/nvidia/cudnn/lib/libcudnn.so.9")
    assert result["parts"]["cuFFT"]["problem"] == "missing"
    assert "nvidia-cufft==12.*" in result["parts"]["cuFFT"]["mend"]


@pytest.mark.usefixtures("without_driver")
def test_provider_is_opened_where_only_the_driver_is_made_of_c(machine, script):
    """ONNX Runtime loads its provider, whose first call of CUDA fails."""
    if "CUDAExecutionProvider" not in zrt.available_providers():
        pytest.skip("this library has no CUDA")
    machine.driver()
    says = script("cuda_session.py").stdout
    if says.startswith("lacks"):
        pytest.skip(f"this machine {says}")
    assert says.startswith("FailError: model "), says
    assert "CUDA failure" in says


@pytest.mark.usefixtures("without_driver")
def test_missing_driver_is_named_with_the_version_that_does(machine):
    """Libraries are missing too, and the message is about the driver."""
    result = machine.look()
    assert result["error"] == (
        f"there is no NVIDIA driver: libcuda.so.1 is not in LD_LIBRARY_PATH ({machine.root}/loader), the run paths of "
        f"provider.so and ONNX Runtime ({result['places'][1].partition('(')[2]} or the system's folders. ONNX Runtime "
        "was built for CUDA, and CUDA 13 takes driver 580 or later: install it, or give the container access to the GPU"
    )
    assert result["parts"]["NVIDIA driver"]["problem"] == "missing"
    assert result["parts"]["NVIDIA driver"]["path"] is None


@pytest.mark.parametrize(
    ("settings", "visible", "message"),
    [
        ({"version": 12090}, None, r"the NVIDIA driver is too old: it is for CUDA 12\.9, .*Update it: .*driver 580 or"),
        ({"version": 13010, "init": 100}, None, r"the NVIDIA driver sees no GPU\. nvidia-smi"),
        ({"gpus": 0}, "", r"the NVIDIA driver sees no GPU \(CUDA_VISIBLE_DEVICES is ''\)"),
        ({"init": 34}, None, r"the NVIDIA driver is a stub for linking \(/.*Take its folder out"),
        ({"init": 803}, None, r"does not start: cuInit reports 803 \(wrong kernel module\)\. nvidia-smi"),
        ({"init": 999}, None, r"does not start: cuInit reports 999\. "),
    ],
    ids=["old", "no GPU", "none visible", "stub", "mismatch", "unknown"],
)
def test_driver_that_does_not_serve_is_explained(machine, settings, visible, message):
    machine.driver(**settings)
    machine.libraries()
    machine.set("CUDA_VISIBLE_DEVICES", visible)
    result = machine.look()
    assert re.search(message, result["error"])
    assert result["parts"]["NVIDIA driver"]["path"].endswith("loader/libcuda.so.1")
    assert result["parts"]["cuDNN"]["problem"] is None


def test_newer_driver_serves(machine):
    machine.driver(version=14020)
    machine.libraries()
    assert machine.look()["error"] is None


def test_missing_libraries_are_named_together(machine):
    machine.driver()
    machine.libraries("libcudart.so.13", "libcublas.so.13")
    error = machine.look()["error"]
    assert error.startswith("missing: cuDNN (libcudnn.so.9), NVRTC (libnvrtc.so.13), looked for in LD_LIBRARY_PATH (")
    assert "NVIDIA's Python packages (there are none). To mend it" in error
    assert error.endswith('pip install "nvidia-cudnn-cu13==9.*" "nvidia-cuda-nvrtc==13.*"')


def test_broken_library_is_not_called_missing(machine):
    machine.driver()
    machine.libraries()
    (machine.root / "loader" / "libcudnn.so.9").write_bytes(b"no library")
    result = machine.look()
    assert "cuDNN (libcudnn.so.9) cannot be loaded: " in result["error"]
    assert "file too short" in result["error"] or "invalid ELF header" in result["error"]
    assert "missing" not in result["error"]


def test_library_need_not_tell_its_version(machine):
    machine.driver()
    machine.libraries()
    shared_library(machine.root / "loader" / "libcudnn.so.9", "")
    result = machine.look()
    assert result["error"] is None
    assert result["parts"]["cuDNN"]["version"] is None
    assert result["parts"]["cuDNN"]["problem"] is None


def test_nvidias_python_packages_are_searched_last(machine):
    machine.driver()
    machine.libraries("libcudart.so.13", "libcublas.so.13")
    machine.libraries("libcudart.so.13", "libcudnn.so.9", "libnvrtc.so.13", folder="site/nvidia/cu13/lib")
    result = machine.look()
    assert result["error"] is None
    folders = {name: Path(part["path"]).parent.name for name, part in result["parts"].items()}
    assert folders == {
        "NVIDIA driver": "loader",
        "CUDA runtime": "loader",
        "cuDNN": "lib",
        "cuBLAS": "loader",
        "NVRTC": "lib",
    }
    assert str(machine.root / "site" / "nvidia" / "cu13" / "lib") in result["places"][-1]


def test_run_path_of_the_provider_is_searched(machine):
    machine.driver()
    machine.libraries("libcudart.so.13", "libcublas.so.13", "libnvrtc.so.13")
    machine.libraries("libcudnn.so.9", folder="beside")
    machine.needs("libcuda.so.1", "libcudnn.so.9", flags=["-Wl,-rpath,$ORIGIN/beside"])
    result = machine.look()
    assert result["error"] is None
    assert result["parts"]["cuDNN"]["path"] == str(machine.root / "beside" / "libcudnn.so.9")


def test_missing_tensorrt_is_named(machine):
    machine.tensorrt()
    error = machine.look()["error"]
    parser = "TensorRT's ONNX parser (libnvonnxparser.so.10)"
    assert error.startswith(f"missing: TensorRT (libnvinfer.so.10), {parser}, looked for in LD_LIBRARY_PATH (")
    assert error.endswith('To mend it, for example: pip install "tensorrt-cu13==10.*"')


def test_python_package_of_tensorrt_is_searched(machine):
    """Its folder is not below that of the other packages; the loader finds the TensorRT of the parser by its name."""
    machine.tensorrt()
    folder = machine.root / "site" / "tensorrt_libs"
    for name, source in TENSORRT.items():
        shared_library(folder / name, source, f"-Wl,-soname,{name}")
    parser = folder / "libnvonnxparser.so.10"
    needs = ["-Wl,--no-as-needed", f"-L{folder}", "-l:libnvinfer.so.10"]
    shared_library(parser, TENSORRT[parser.name], f"-Wl,-soname,{parser.name}", *needs)
    result = machine.look()
    assert result["error"] is None
    assert (result["parts"]["TensorRT"]["version"], result["parts"]["TensorRT's ONNX parser"]["version"]) == (
        "10.16.1",
        "10.16.2",
    )
    assert result["parts"]["TensorRT"]["path"] == str(folder / "libnvinfer.so.10")


def test_missing_provider_is_named(machine):
    machine.provider.unlink()
    result = machine.look()
    assert result["error"].startswith("missing: provider (")
    assert "or copy the provider there" in result["error"]


def test_provider_without_cuda_needs_nothing(machine):
    machine.needs()
    assert machine.look() == {"error": None, "parts": {}, "places": machine.look()["places"]}


@pytest.mark.parametrize(
    ("package", "file", "cuda", "wanted"),
    [
        ("nvidia-cublas", "libcublas.so.13", 13, "nvidia-cublas==13.*"),
        ("nvidia-cufft", "libcufft.so.12", 13, "nvidia-cufft==12.*"),
        ("nvidia-cudnn", "libcudnn.so.9", 13, "nvidia-cudnn-cu13==9.*"),
        ("nvidia-cublas", "libcublas.so.12", 12, "nvidia-cublas-cu12==12.*"),
        ("nvidia-cudnn", "libcudnn.so.9", 12, "nvidia-cudnn-cu12==9.*"),
        ("tensorrt", "libnvinfer.so.10", 13, "tensorrt-cu13==10.*"),
        ("tensorrt", "libnvinfer.so.10", 12, "tensorrt-cu12==10.*"),
    ],
)
def test_packages_have_the_names_of_their_cuda(package, file, cuda, wanted):
    assert cuda_parts._requirement(package, file, cuda) == wanted
