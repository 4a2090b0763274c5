"""Pins a release of ONNX Runtime: writes what the flake knows of it, and shows what is new.

    nix run .#update-pins -- 1.31.0

writes nix/pins/1.31.0.nix. Everything is fetched and every hash computed anew: the source's and the wheels' are taken
as they come, the third-party archives' are those of the release's own deps.txt, which what is fetched has to match.
pip fetches the wheels. A release that is not on the Python index has none; a name of an archive that is not in deps.txt
ends the command.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

SOURCE = "https://github.com/microsoft/onnxruntime/archive/refs/tags/v{version}.tar.gz"
# The Python package of each kind of library, and the platforms of the wheels that fit.
WHEELS = {
    "aarch64-darwin": ("onnxruntime", ["macosx_15_0_arm64"]),
    "aarch64-linux": ("onnxruntime", [f"manylinux_2_{minor}_aarch64" for minor in range(39, 16, -1)]),
    "x86_64-linux": ("onnxruntime", [f"manylinux_2_{minor}_x86_64" for minor in range(39, 16, -1)]),
    "x86_64-linux-cuda": ("onnxruntime-gpu", [f"manylinux_2_{minor}_x86_64" for minor in range(39, 16, -1)]),
}


def fetch(url: str, base: str | None, target: Path) -> None:
    """Downloads `url` to `target`; `base` stands in for the scheme and the host."""
    where = re.sub(r"^https://[^/]+", base.rstrip("/"), url) if base else url
    print(f"fetching {where}", file=sys.stderr)
    try:
        with urllib.request.urlopen(where) as source, target.open("wb") as file:
            while chunk := source.read(1 << 20):
                file.write(chunk)
    except OSError as error:
        raise SystemExit(f"update-pins: {where}: {getattr(error, 'reason', error)}") from None


def digest(path: Path, kind: str) -> str:
    """The file's hash in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def member(archive: tarfile.TarFile, suffix: str) -> str:
    """The text of the archive's file with that path below its one top folder."""
    name = next(name for name in archive.getnames() if name.partition("/")[2] == suffix)
    file = archive.extractfile(name)
    assert file is not None
    return file.read().decode()


def parse_deps(text: str) -> dict[str, tuple[str, str]]:
    """URL and SHA-1 of each name in deps.txt."""
    rows = (line.strip().split(";") for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {name: (url, sha1) for name, url, sha1 in rows}


def entry(indent: str, name: str, **values: str) -> Iterator[str]:
    """The lines of an attribute set."""
    yield f"{indent}{name} = {{"
    for key, value in values.items():
        yield f'{indent}  {key} = "{value}";'
    yield f"{indent}}};"


def of_source(version: str, archives: list[str], base: str | None, folder: Path) -> Iterator[str]:
    """The lines about the source and the third-party archives of a release."""
    url = SOURCE.format(version=version)
    file = folder / "source.tar.gz"
    fetch(url, base, file)
    with tarfile.open(file) as archive:
        deps = parse_deps(member(archive, "cmake/deps.txt"))
        header = member(archive, "include/onnxruntime/core/session/onnxruntime_c_api.h")
        # git writes the commit into what it archives.
        revision = archive.pax_headers["comment"]
    api_version = re.search(r"^#define ORT_API_VERSION (\d+)$", header, re.MULTILINE)
    assert api_version, "the header states no ORT_API_VERSION"
    yield "  # The commit of that version's tag."
    yield f'  revision = "{revision}";'
    yield "  # ORT_API_VERSION in the headers of that version."
    yield f'  apiVersion = "{api_version[1]}";'
    yield from entry("  ", "source", url=url, sha256=digest(file, "sha256"))
    yield "  archives = {"
    for name in sorted(archives):
        if name not in deps:
            raise SystemExit(f"update-pins: {name} is not in deps.txt of {version}: see nix/onnxruntime/archives.nix")
        url, wanted = deps[name]
        file = folder / "archive"
        fetch(url, base, file)
        sha1 = digest(file, "sha1")
        if sha1 != wanted.lower():
            raise SystemExit(f"update-pins: {url} has SHA-1 {sha1}, deps.txt says {wanted}")
        yield from entry("    ", name, url=url, sha1=sha1)
    yield "  };"


def of_wheels(version: str, folder: Path) -> Iterator[str]:
    """The lines about the wheels of a release, as far as the Python index has them."""
    lines: list[str] = []
    for key, (package, platforms) in WHEELS.items():
        target = folder / key
        options = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.12", "--dest", str(target)]
        options += [option for platform in platforms for option in ("--platform", platform)]
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", *options]
        done = subprocess.run([*command, f"{package}=={version}"], capture_output=True, text=True, check=False)
        if done.returncode and "No matching distribution found" not in done.stderr:
            raise SystemExit(f"update-pins: pip cannot fetch {package} {version}:\n{done.stderr}")
        if done.returncode:
            print(f"update-pins: the index has no {package} {version} for {key}", file=sys.stderr)
            continue
        [wheel] = target.iterdir()
        platform = wheel.stem.partition("-cp312-cp312-")[2]
        lines += entry("    ", key, platform=platform, sha256=digest(wheel, "sha256"))
    if lines:
        yield "  wheels = {"
        yield from lines
        yield "  };"


def pinned(version: str, archives: list[str], base: str | None) -> str:
    """The text of the file for a version."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        of_all = [*of_source(version, archives, base, folder), *of_wheels(version, folder)]
    return "\n".join(["{", f'  version = "{version}";', *of_all, "}", ""])


def main() -> int:
    parser = argparse.ArgumentParser("update-pins", description="Pins a release of ONNX Runtime for the flake.")
    parser.add_argument("version", help="such as 1.31.0")
    parser.add_argument("--file", type=Path, help="what is written (nix/pins/VERSION.nix)")
    parser.add_argument("--base", help="takes the place of each URL's scheme and host, such as file:///folder")
    parser.add_argument("--archives", required=True, help="names of third-party archives, with commas between them")
    arguments = parser.parse_args()
    file = arguments.file or Path("nix/pins", f"{arguments.version}.nix")
    if not file.parent.is_dir():
        parser.error(f"there is no folder {file.parent}: start in a checkout, or name a file with --file")
    before = file.read_text("utf-8") if file.exists() else ""
    after = pinned(arguments.version, arguments.archives.split(","), arguments.base)
    names = (f"{file} (before)", f"{file} (after)")
    sys.stdout.writelines(
        difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    )
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        fresh = Path(folder, file.name)
        fresh.write_text(after, "utf-8")
        fresh.replace(file)
    print(f"update-pins: {file} is written; in a flake's checkout, `git add` it", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
