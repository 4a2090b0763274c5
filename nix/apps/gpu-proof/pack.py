"""Packs all that the proof on a GPU needs into one folder, which a machine without a network unpacks and runs.

    python nix/apps/gpu-proof/pack.py FOLDER --wheel onnxruntime_gpu-….whl --extra cffi-….whl --extra hypothesis-….whl
    python nix/apps/gpu-proof/pack.py FOLDER --built result/lib/python3.13/site-packages --extra cffi-….whl

With `--wheel` it is about the official library: that wheel, for the Python of the other machine, and this repository's
zrt. With `--built` it is about a zrt with a core of its own and the providers beside its extension. An extra is a wheel
for the other machine, which uses it where it has no such package: the tests need cffi and hypothesis. pytest and its
needs are always packed. The models come from the packages of `benches.real`. The folder holds the scripts and one
archive; then, on the other machine:

    python3 FOLDER/proof.py --report REPORT
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SCRIPTS = ("proof.py", "items.py", "worker.py")
PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "sortedcontainers")
LIMIT = 60 * 10**6
PROVIDER = "libonnxruntime_providers_cuda.so"
REAL = ("voice activity, settled shapes", "type of a file", "OCR: find text")
# A header of a container of GPU code, and the kinds of its entries.
FATBIN = 0xBA55ED50
BYTECODE = shutil.ignore_patterns("__pycache__", "*.pyc")
# Of the tests: those that need the repository, or no GPU.
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "conformance", "docs", "nix", "programs", "typing")


def keep_architecture(file: Path, architecture: int) -> int:
    """Zeroes the code for other GPUs in a library; returns the bytes of code that stay.

    The containers keep their form: the driver chooses an entry by the architecture in its header.
    """
    data = bytearray(file.read_bytes())
    kept = 0
    for start, end in fatbins(data):
        place = start
        while place < end:
            magic, _, header, size = struct.unpack_from("<IHHQ", data, place)
            if magic != FATBIN:
                place += 8
                continue
            entry, last = place + header, place + header + size
            while entry < last:
                length, payload = struct.unpack_from("<IQ", data, entry + 4)
                (compiled,) = struct.unpack_from("<I", data, entry + 28)
                if compiled == architecture:
                    kept += payload
                else:
                    data[entry + length : entry + length + payload] = bytes(payload)
                entry += length + payload
            place = (last + 7) // 8 * 8
    file.write_bytes(data)
    return kept


def fatbins(data: bytearray) -> list[tuple[int, int]]:
    """The sections with GPU code of an ELF library: their beginnings and ends."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<II16xQQ", data, table + size * index) for index in range(count)]
    base = sections[names][2]
    found = []
    for name, _, offset, length in sections:
        if data[base + name : data.index(0, base + name)] == b".nv_fatbin":
            found.append((offset, offset + length))
    return found


def wheel(file: Path, target: Path, wanted: tuple[str, ...] = ("",)) -> None:
    """Unpacks those files of a wheel whose names begin with one of the wanted."""
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.startswith(wanted):
                archive.extract(name, target)


def package(name: str, target: Path) -> None:
    """Copies a package of this Python."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"pack: this Python has no package {name}")
    if found.submodule_search_locations:
        shutil.copytree(found.submodule_search_locations[0], target / name, ignore=BYTECODE)
    else:
        shutil.copy(found.origin, target)


def strip(folder: Path) -> None:
    """Removes the symbols that nothing needs at run time, where the tool is there."""
    if shutil.which("strip"):
        for file in folder.rglob("*.so*"):
            subprocess.run(["strip", "--strip-unneeded", str(file)], check=True)


def newest_glibc(folder: Path) -> str:
    """The glibc that the libraries in a folder ask for: the other machine's must not be older."""
    found = {(0, 0)}
    for file in folder.rglob("*.so*"):
        found |= {(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", file.read_bytes())}
    return ".".join(map(str, max(found)))


def models(target: Path, wanted: Collection[str]) -> list[str]:
    """Writes the models with feeds, and the results on this machine's CPU; returns their names."""
    sys.path.insert(0, str(ROOT))
    import zrt
    from benches import real
    from benches.models import build
    from zrt.bench import synthetic

    chosen: list[tuple[str, bytes, dict[str, np.ndarray]]] = []
    for name, content, shapes in (
        ("digits", (Path(zrt.__file__).parent / "models" / "digits.onnx").read_bytes(), {"image": (1, 1, 8, 8)}),
        ("cnn", build.cnn().SerializeToString(), {"image": (8, 1, 28, 28)}),
    ):
        inputs = zrt.Session(content).inputs
        chosen.append((name, content, synthetic.make_all(inputs, synthetic.input_shapes(inputs, shapes))))
    for model in real.MODELS:
        if model.name in wanted:
            feeds = model.make_feeds(np.random.default_rng(0))
            chosen.append((model.name, model.path.read_bytes(), dict(feeds)))
    names = []
    for name, content, feeds in chosen:
        session = zrt.Session(content)
        results = session.run(feeds)
        stem = "".join(letter if letter.isalnum() else "-" for letter in name)
        (target / f"{stem}.onnx").write_bytes(content)
        arrays = {f"in:{key}": array for key, array in feeds.items()}
        arrays |= {f"out:{info.name}": array for info, array in zip(session.outputs, results, strict=True)}
        np.savez(target / f"{stem}.npz", **arrays)
        names.append(stem)
    return names


def write_archive(source: Path, target: Path) -> None:
    """Packs a folder; owners and times are left out, so that equal folders make equal archives."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(target, "w:xz", preset=6) as archive:
        for path in sorted(source.iterdir()):
            archive.add(path, path.name, filter=plain)


def main() -> None:
    parser = argparse.ArgumentParser(prog="pack.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--wheel", type=Path, help="the official wheel of onnxruntime-gpu")
    kind.add_argument("--built", type=Path, help="the folder with the package zrt that has a core of its own")
    parser.add_argument("--architecture", type=int, default=90, help="the GPU's, as 90 for 9.0 (default: 90)")
    parser.add_argument("--extra", action="append", default=[], type=Path, help="a wheel for the other machine")
    parser.add_argument("--real", nargs="*", default=REAL, help="the names of models of benches.real")
    given = parser.parse_args()
    if given.folder.exists():
        parser.error(f"{given.folder} exists")
    with tempfile.TemporaryDirectory() as scratch:
        content = Path(scratch, "content")
        content.mkdir()
        for name in ("python", "fallback", "models"):
            (content / name).mkdir()
        if given.built:
            shutil.copytree(given.built / "zrt", content / "python" / "zrt", ignore=BYTECODE)
        else:
            shutil.copytree(ROOT / "zrt", content / "python" / "zrt", ignore=BYTECODE)
            wheel(given.wheel, content / "official", ("onnxruntime/__init__", "onnxruntime/capi/"))
            (content / "official" / "onnxruntime" / "capi" / "libonnxruntime_providers_tensorrt.so").unlink(
                missing_ok=True
            )
        providers = list(content.rglob(PROVIDER))
        if not providers:
            raise SystemExit(f"pack: {given.built or given.wheel} has no {PROVIDER}")
        for file in providers:
            file.chmod(0o755)
            strip(file.parent)
            kept = keep_architecture(file, given.architecture)
            if not kept:
                raise SystemExit(f"pack: {file.name} has no code for architecture {given.architecture}")
        for extra in given.extra:
            wheel(extra, content / "fallback" / extra.name.partition("-")[0])
        for name in PYTEST:
            (content / "fallback" / name).mkdir()
            package(name, content / "fallback" / name)
        for name in ("tests", "benches"):
            shutil.copytree(ROOT / name, content / "source" / name, ignore=LEFT_OUT)
        shutil.copy(ROOT / "pyproject.toml", content / "source")
        facts = {"library": "built" if given.built else "official", "architecture": given.architecture}
        facts["models"] = models(content / "models", given.real)
        (content / "facts.json").write_text(json.dumps(facts))
        glibc = newest_glibc(content)
        packed = Path(scratch, "packed")
        packed.mkdir()
        write_archive(content, packed / "files.tar.xz")
        for name in SCRIPTS:
            shutil.copy(HERE / name, packed)
        size = sum(file.stat().st_size for file in packed.iterdir())
        if size > LIMIT:
            raise SystemExit(f"pack: {size / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f} MB")
        # Last: a try that fails leaves no folder, which the next one would refuse.
        shutil.copytree(packed, given.folder)
    print(f"{given.folder}: {size / 1e6:.1f} MB, for glibc {glibc} or later")


if __name__ == "__main__":
    main()
