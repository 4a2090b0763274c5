"""Rewrites nix/pins.nix for another release of ONNX Runtime, and shows the difference.

    nix run .#update-pins -- 1.28.0

Everything is fetched and every hash computed anew: the source's and the prebuilt libraries' are taken as they
come, the third-party archives' are those of the release's own deps.txt, which what is fetched has to match.
"""

import argparse
import difflib
import hashlib
import re
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

ENTRY = re.compile(r'^( *)([\w-]+) = \{\n *url = "([^"]+)";\n *(sha1|sha256) = "([0-9a-f]+)";\n *\};\n', re.MULTILINE)


def fetch(url: str, base: str | None, target: Path) -> None:
    """Downloads `url` to `target`; `base` stands in for the scheme and the host."""
    where = re.sub(r"^https://[^/]+", base.rstrip("/"), url) if base else url
    print(f"fetching {where}", file=sys.stderr)
    with urllib.request.urlopen(where) as source, target.open("wb") as file:
        while chunk := source.read(1 << 20):
            file.write(chunk)


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


def updated(text: str, version: str, base: str | None) -> str:
    """The text of pins.nix for another version."""
    old = re.search(r'^ *version = "([^"]+)";', text, re.MULTILINE)[1]
    deps: dict[str, tuple[str, str]] = {}
    facts = {"version": version}

    def entry(found: re.Match[str]) -> str:
        indent, name, url, kind, _ = found.groups()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "file"
            if kind == "sha1":
                if name not in deps:
                    raise SystemExit(
                        f"update-pins: {name} is not in deps.txt of {version}: see nix/onnxruntime/mirror.nix"
                    )
                url, wanted = deps[name]
            else:
                url = url.replace(old, version)
                wanted = None
            fetch(url, base, file)
            value = digest(file, kind)
            if wanted not in (None, value):
                raise SystemExit(f"update-pins: {url} has SHA-1 {value}, deps.txt says {wanted}")
            if name == "source":
                with tarfile.open(file) as archive:
                    deps.update(parse_deps(member(archive, "cmake/deps.txt")))
                    header = member(archive, "include/onnxruntime/core/session/onnxruntime_c_api.h")
                    facts["apiVersion"] = re.search(r"^#define ORT_API_VERSION (\d+)$", header, re.MULTILINE)[1]
                    # git writes the commit into what it archives.
                    facts["revision"] = archive.pax_headers["comment"]
        body = f'{indent}{name} = {{\n{indent}  url = "{url}";\n{indent}  {kind} = "{value}";\n{indent}}};\n'
        return body

    # The source stands first in the file, and the archives need what it says.
    text = ENTRY.sub(entry, text)
    for name, value in facts.items():
        text, count = re.subn(rf'^( *{name} = )"[^"]*";', rf'\g<1>"{value}";', text, count=1, flags=re.MULTILINE)
        assert count == 1, name
    return text


def main() -> int:
    parser = argparse.ArgumentParser("update-pins", description="Rewrites nix/pins.nix for another ONNX Runtime.")
    parser.add_argument("version", help="such as 1.28.0")
    parser.add_argument("--base", help="takes the place of each URL's scheme and host, such as file:///folder")
    parser.add_argument("--file", type=Path, default=Path("nix/pins.nix"), help="what is rewritten (nix/pins.nix)")
    arguments = parser.parse_args()
    before = arguments.file.read_text("utf-8")
    after = updated(before, arguments.version, arguments.base)
    names = (f"{arguments.file} (before)", f"{arguments.file} (after)")
    sys.stdout.writelines(
        difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    )
    arguments.file.write_text(after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
