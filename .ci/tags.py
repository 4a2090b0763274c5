"""Fails where a wheel of the folder has another tag than its module: python .ci/tags.py FOLDER."""

from __future__ import annotations

import re
import struct
import sys
import zipfile
from pathlib import Path

# The machine that the head of a module names, by the processor of a tag: in ELF, and in Mach-O.
ELF = {"x86_64": 0x3E, "aarch64": 0xB7}
MACH = {"x86_64": 0x01000007, "arm64": 0x0100000C}
LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION = 0x24, 0x32


def macos(module: bytes) -> tuple[int, int]:
    """The oldest macOS that the module is for."""
    count, place = struct.unpack_from("<I", module, 16)[0], 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", module, place)
        if command in (LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION):
            version = struct.unpack_from("<I", module, place + (8 if command == LC_VERSION_MIN_MACOSX else 12))[0]
            return version >> 16, version >> 8 & 0xFF
        place += size
    raise ValueError("no oldest macOS in the module")


def faults(wheel: Path) -> list[str]:
    """The differences between the wheel's name, its WHEEL file and its module."""
    python, abi, platform = wheel.stem.split("-")[2:]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [place] = [name for name in names if name.endswith(".so")]
        module = archive.read(place)
        [lines] = [archive.read(name).decode().splitlines() for name in names if name.endswith(".dist-info/WHEEL")]
    suffix = ".abi3" if abi == "abi3" else rf"\.cpython-{abi.removeprefix('cp')}-[a-z0-9_-]+"
    oldest = re.fullmatch(r"macosx_(\d+)_(\d+)_(\w+)", platform)
    processor = oldest[3] if oldest else platform.split("_", 3)[3]
    magic, place_of, machines = (b"\xcf\xfa\xed\xfe", "<4xI", MACH) if oldest else (b"\x7fELF", "<18xH", ELF)
    checks = {
        f"the name of the module {place}": re.fullmatch(rf"zrt/_native/_ort{suffix}\.so", place),
        f"WHEEL's tag, which is not {python}-{abi}-{platform}": f"Tag: {python}-{abi}-{platform}" in lines,
        "the version of Python": python == ("cp311" if abi == "abi3" else abi.removesuffix("t")),
        f"the module's format, which is not that of {platform}": module.startswith(magic),
        f"the module's processor, which is not {processor}": struct.unpack_from(place_of, module)
        == (machines.get(processor),),
        "the oldest macOS": not oldest or macos(module) == (int(oldest[1]), int(oldest[2])),
        "its SBOM": any(".dist-info/sboms/" in name for name in names),
    }
    return [f"{wheel.name}: {what}" for what, right in checks.items() if not right]


if __name__ == "__main__":
    wheels = sorted(Path(sys.argv[1]).glob("*.whl"))
    wrong = [fault for wheel in wheels for fault in faults(wheel)]
    sys.exit("\n".join(wrong) or None if wheels else f"no wheels in {sys.argv[1]}")
