"""The provider library of plugin.c, compiled once in each test process."""

import functools
import subprocess
import tempfile
from pathlib import Path

import zrt
from tests.support import compiler

HERE = Path(__file__).parent
PROVIDER = "ZrtTestProvider"
_folder: tempfile.TemporaryDirectory[str] | None = None


def compile_to(target: Path, *flags: str) -> Path:
    """Compiles plugin.c into a library; skips the test without a compiler."""
    warnings = ["-Wall", "-Wextra", "-Werror"]
    native = Path(zrt.__file__).parent / "_native"
    include = [f"-I{native}", f"-I{native / 'src'}"]
    command = [*compiler.command(), "-shared", "-fPIC", "-std=gnu11", "-O1", *warnings, *flags, *include]
    done = subprocess.run([*command, str(HERE / "plugin.c"), "-o", str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@functools.cache
def path() -> Path:
    """The compiled library."""
    global _folder
    # Without a compiler every call comes here: each new folder would drop the last one with a warning.
    compiler.command()
    _folder = tempfile.TemporaryDirectory()
    return compile_to(Path(_folder.name) / "libplugin.so")


def devices(library: str) -> tuple[zrt.EpDevice, zrt.EpDevice]:
    """The devices of the library registered as `library`: the one with memory of its own, and the NPU."""
    devices = [device for device in zrt.ep_devices() if device.library == library]
    # ONNX Runtime lists them in any order.
    own, npu = sorted(devices, key=lambda device: device.hardware.type is zrt.HardwareType.NPU)
    return own, npu
