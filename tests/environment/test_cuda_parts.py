"""The driver and the libraries of CUDA: made of C, with the functions that tell their versions."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zrt
from tests.support import compiler
from zrt.environment import cuda_parts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="CUDA is on Linux")

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

    def __init__(self, root: Path, look: Callable[[str], Any], variables: pytest.MonkeyPatch) -> None:
        self.root = root
        self.provider = root / "provider.so"
        self._look = look
        self._variables = variables
        self.link(self.root / "stubs" / "libcuda.so.1", "")
        for name in LIBRARIES:
            self.link(self.root / "stubs" / name, "")
        needs = ["-Wl,--no-as-needed", f"-L{root / 'stubs'}", *(f"-l:{name}" for name in ("libcuda.so.1", *LIBRARIES))]
        self.link(self.provider, "", *needs)
        self.set("LD_LIBRARY_PATH", root / "loader")
        self.set("CUDA_VISIBLE_DEVICES", None)

    def link(self, target: Path, source: str, *flags: str) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [*compiler.command(), "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{target.name}", *flags]
        done = subprocess.run([*command, "-o", str(target)], input=source, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def set(self, variable: str, value: object) -> None:
        if value is None:
            self._variables.delenv(variable, raising=False)
        else:
            self._variables.setenv(variable, str(value))

    def driver(self, version: int = 13000, init: int = 0, gpus: int = 1) -> None:
        real = self.root / "loader" / "libcuda.so.580.159.04"
        self.link(real, DRIVER.format(version=version, init=init, gpus=gpus), "-Wl,-soname,libcuda.so.1")
        link = self.root / "loader" / "libcuda.so.1"
        link.unlink(missing_ok=True)
        link.symlink_to(real)

    def libraries(self, *names: str, folder: str = "loader") -> None:
        for name in names or LIBRARIES:
            self.link(self.root / folder / name, LIBRARIES[name])

    def tensorrt(self) -> None:
        """A provider that needs CUDA's runtime and TensorRT."""
        for name in TENSORRT:
            self.link(self.root / "stubs" / name, "")
        needs = (f"-l:{name}" for name in ("libcudart.so.13", *TENSORRT))
        self.link(self.provider, "", "-Wl,--no-as-needed", f"-L{self.root / 'stubs'}", *needs)
        self.driver()
        self.libraries("libcudart.so.13")

    def look(self) -> Any:
        """The parts by name, the error and the places, as a process of its own sees them."""
        found = json.loads(self._look("cuda_parts.py", self.provider).stdout)
        found["parts"] = {part["name"]: part for part in found["parts"]}
        return found


@pytest.fixture
def machine(tmp_path, script, monkeypatch) -> Machine:
    return Machine(tmp_path, script, monkeypatch)


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
    found = machine.look()
    assert found["error"] is None
    assert {name: part["version"] for name, part in found["parts"].items()} == {
        "NVIDIA driver": "CUDA 13.0, release 580.159.04",
        "CUDA runtime": "13.2",
        "cuDNN": "9.10.11",
        "cuBLAS": "13.14.15",
        "NVRTC": "13.1",
    }
    assert {part["path"] for part in found["parts"].values()} == {
        str(machine.root / "loader" / part["file"]) for part in found["parts"].values()
    }
    assert not any(part["problem"] or part["mend"] for part in found["parts"].values())


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
    found = machine.look()
    assert found["error"] == (
        f"there is no NVIDIA driver: libcuda.so.1 is not in LD_LIBRARY_PATH ({machine.root}/loader), the run paths of "
        f"provider.so and ONNX Runtime ({found['places'][1].partition('(')[2]} or the system's folders. ONNX Runtime "
        "was built for CUDA, and CUDA 13 takes driver 580 or later: install it, or give the container access to the GPU"
    )
    assert found["parts"]["NVIDIA driver"]["problem"] == "missing"
    assert found["parts"]["NVIDIA driver"]["path"] is None


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
    found = machine.look()
    assert re.search(message, found["error"])
    assert found["parts"]["NVIDIA driver"]["path"].endswith("loader/libcuda.so.1")
    assert found["parts"]["cuDNN"]["problem"] is None


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
    found = machine.look()
    assert "cuDNN (libcudnn.so.9) cannot be loaded: " in found["error"]
    assert "file too short" in found["error"] or "invalid ELF header" in found["error"]
    assert "missing" not in found["error"]


def test_library_need_not_tell_its_version(machine):
    machine.driver()
    machine.libraries()
    machine.link(machine.root / "loader" / "libcudnn.so.9", "")
    found = machine.look()
    assert found["error"] is None
    assert found["parts"]["cuDNN"]["version"] is None
    assert found["parts"]["cuDNN"]["problem"] is None


def test_nvidias_python_packages_are_searched_last(machine):
    machine.driver()
    machine.libraries("libcudart.so.13", "libcublas.so.13")
    machine.libraries("libcudart.so.13", "libcudnn.so.9", "libnvrtc.so.13", folder="site/nvidia/cu13/lib")
    path = filter(None, [str(machine.root / "site"), os.environ.get("PYTHONPATH")])
    machine.set("PYTHONPATH", os.pathsep.join(path))
    found = machine.look()
    assert found["error"] is None
    folders = {name: Path(part["path"]).parent.name for name, part in found["parts"].items()}
    assert folders == {
        "NVIDIA driver": "loader",
        "CUDA runtime": "loader",
        "cuDNN": "lib",
        "cuBLAS": "loader",
        "NVRTC": "lib",
    }
    assert str(machine.root / "site" / "nvidia" / "cu13" / "lib") in found["places"][-1]


def test_run_path_of_the_provider_is_searched(machine):
    machine.driver()
    machine.libraries("libcudart.so.13", "libcublas.so.13", "libnvrtc.so.13")
    machine.libraries("libcudnn.so.9", folder="beside")
    needs = ["-Wl,--no-as-needed", f"-L{machine.root / 'stubs'}", "-l:libcuda.so.1", "-l:libcudnn.so.9"]
    machine.link(machine.provider, "", *needs, "-Wl,-rpath,$ORIGIN/beside")
    found = machine.look()
    assert found["error"] is None
    assert found["parts"]["cuDNN"]["path"] == str(machine.root / "beside" / "libcudnn.so.9")


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
        machine.link(folder / name, source)
    parser = folder / "libnvonnxparser.so.10"
    machine.link(parser, TENSORRT[parser.name], "-Wl,--no-as-needed", f"-L{folder}", "-l:libnvinfer.so.10")
    path = filter(None, [str(machine.root / "site"), os.environ.get("PYTHONPATH")])
    machine.set("PYTHONPATH", os.pathsep.join(path))
    found = machine.look()
    assert found["error"] is None
    assert (found["parts"]["TensorRT"]["version"], found["parts"]["TensorRT's ONNX parser"]["version"]) == (
        "10.16.1",
        "10.16.2",
    )
    assert found["parts"]["TensorRT"]["path"] == str(folder / "libnvinfer.so.10")


def test_missing_provider_is_named(machine):
    machine.provider.unlink()
    found = machine.look()
    assert found["error"].startswith("missing: provider (")
    assert "or copy the provider there" in found["error"]


def test_provider_without_cuda_needs_nothing(machine):
    machine.link(machine.provider, "")
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
