"""Gathers an interpreter, its packages and every library they need into one folder with relative run paths.

    collect.py --python FILE --site-packages FOLDER --loader FILE --libraries FOLDER BUNDLE

The bundle gets libexec/python3, lib/pythonX.Y with the packages, and in lib/ the loader and each shared library once.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

# The host's: they belong to its kernel driver.
DRIVER = ("libcuda.so", "libnvidia-")
# These load their own parts by name, which no list of needed libraries shows.
FAMILIES = ("libcudnn", "libnvrtc", "libcublas", "libnvJitLink")
# Libraries of other folders that a family loads by name: cuDNN compiles some of its kernels at run time.
LOADED = {"libcudnn": "libnvrtc.so.*"}


def is_elf(path: Path) -> bool:
    """Whether it is a program or a shared library."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def patchelf(*arguments: str) -> str:
    """The output of patchelf; empty for a file without a dynamic section."""
    return subprocess.run(["patchelf", *arguments], capture_output=True, text=True, check=False).stdout.strip()


class Bundle:
    """The folder that is being filled."""

    def __init__(self, root: Path, libraries: Path) -> None:
        self.root = root
        self.lib = root / "lib"
        self.libraries = libraries
        self.lib.mkdir(parents=True, exist_ok=True)

    def copy(self, source: Path, target: Path) -> None:
        """Copies one file; a binary gets a relative run path, and what it needs comes along."""
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
        if not is_elf(target) or source.suffix in {".a", ".o"}:
            return
        for name in patchelf("--print-needed", str(source)).split():
            self.need(name, source)
        if patchelf("--print-needed", str(target)):
            patchelf("--set-rpath", "$ORIGIN/" + os.path.relpath(self.lib, target.parent), str(target))

    def need(self, name: str, by: Path) -> None:
        """Brings the library of that name, found as the loader would find it for `by`."""
        if name.startswith(DRIVER) or (self.lib / name).exists():
            return
        for folder in self.places(by):
            if (folder / name).is_file():
                self.library(folder / name)
                return
        raise SystemExit(f"collect: {by} needs {name}, which is not in its run path")

    def places(self, by: Path) -> list[Path]:
        """The folders where the loader looks for a library that `by` needs."""
        origin = by.resolve().parent
        run_path = [
            Path(place.replace("$ORIGIN", str(origin)))
            for place in patchelf("--print-rpath", str(by)).split(":")
            if place
        ]
        return [*run_path, origin, self.libraries]

    def library(self, source: Path) -> None:
        """Puts one library into lib/, with the rest of its family and what that loads by name."""
        self.copy(source, self.lib / source.name)
        for family in FAMILIES:
            if source.name.startswith(family):
                self.loaded(source.parent, f"{family}*.so.*")
        for family, pattern in LOADED.items():
            if source.name.startswith(family):
                for folder in self.places(source):
                    self.loaded(folder, pattern)

    def loaded(self, folder: Path, pattern: str) -> None:
        """Puts libraries that are loaded by name into lib/, each once: under the name that it has for the loader."""
        for file in sorted(folder.glob(pattern)):
            # NVRTC's other builds have the same size: nothing loads them unless a program is linked to them.
            known = ".alt." in file.name or (self.lib / file.name).exists()
            if not known and file.name == patchelf("--print-soname", str(file)):
                self.library(file)

    def tree(self, source: Path, target: Path, leave_out: tuple[str, ...] = ()) -> None:
        """Copies a folder, links followed."""
        for folder, names, files in os.walk(source, followlinks=True):
            names[:] = sorted(name for name in names if name not in {"__pycache__", *leave_out})
            for name in sorted(files):
                path = Path(folder) / name
                if path.exists() and path.suffix != ".pyc":
                    self.copy(path, target / path.relative_to(source))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=Path, required=True, help="the interpreter")
    parser.add_argument("--site-packages", type=Path, required=True, help="the packages to carry")
    parser.add_argument("--loader", type=Path, required=True, help="libc's dynamic loader")
    parser.add_argument("--libraries", type=Path, required=True, help="libc's folder")
    parser.add_argument("bundle", type=Path)
    arguments = parser.parse_args()

    bundle = Bundle(arguments.bundle, arguments.libraries)
    python = arguments.python.resolve()
    version = arguments.site_packages.parent.name
    bundle.copy(python, arguments.bundle / "libexec" / "python3")
    shutil.copyfile(arguments.loader, bundle.lib / "ld.so")
    (bundle.lib / "ld.so").chmod(0o755)
    # The interpreter's own packages, its tests and what only compiles against it stay behind.
    left_out = ("site-packages", "dist-packages", "test", "idlelib", "ensurepip", f"config-{sys.version_info.major}")
    bundle.tree(arguments.python.parent.parent / "lib" / version, bundle.lib / version, left_out)
    # Beside the standard library, which is always on the path; site-packages is not with every build of Python.
    bundle.tree(arguments.site_packages, bundle.lib / version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
