"""Changes the code in random places and shows the changes that no test notices: mutants.py PART [COUNT] [SEED].

PART is `runs`, `values`, `operators` or `process` (of the C code), `lanes`, `session` or `loading` (of Python).
universalmutator proposes the changes, one line each. Those that cannot be compiled, or that mean the same as before,
are left out. COUNT of the others (100) are made, each in a copy of the project, and tested by the tests of the part. It
runs in a Python with the groups dev and mutation.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("zrt", "tests", "benches", "docs", "nix", "pyproject.toml", "README.md", "CHANGELOG.md", "flake.nix")

# For each part: where its files are, the names of some of them, and its tests.
PARTS = {
    "runs": (
        "zrt/_native/src/*.c",
        "allocated arena bind builtin call handle lane questions state watch",
        "session lanes robustness/test_changing_feeds.py",
    ),
    "values": (
        "zrt/_native/src/*.c",
        "allocation describe dlpack memory text types",
        "values memory interop session custom_ops",
    ),
    "operators": ("zrt/_native/src/*.c", "editor operator", "custom_ops graph"),
    "process": (
        "zrt/_native/src/*.c",
        "bench bridge budget forks library log log_callback record threads",
        "_native/test_bridge.py _native/test_library.py diagnosis/test_recorder.py environment "
        "robustness/test_processes.py",
    ),
    "lanes": ("zrt/lanes/*.py", "", "lanes interop robustness/test_bad_input.py"),
    "session": ("zrt/session/*.py", "", "session lanes robustness/test_bad_input.py"),
    "loading": ("zrt/loading/*.py", "", "loading session robustness/test_bad_input.py"),
}
# A change may leave a test waiting: a trial ends after so many times the seconds that all tests take without a change.
TOO_LONG = 3


class Change(NamedTuple):
    """Another text for a file, whose path is relative to the project."""

    file: Path
    old: str
    new: str


class Meaning(ast.NodeTransformer):
    """Takes out of a module all that has no effect when it runs: texts that stand alone, types, imports for types."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.annotation = ast.Constant("")
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.stmt:
        return ast.Pass() if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


def meaning(text: str) -> str:
    return ast.dump(Meaning().visit(ast.parse(text)))


class Copy:
    """A copy of the project, in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "output"
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        # Code that is wrong may write anywhere in these.
        home = folder / "home"
        home.mkdir()
        own = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(folder)}
        self.environment = os.environ | own

    def takes(self, change: Change) -> bool:
        """Makes a change, or says that it is none."""
        try:
            if meaning(change.new) == meaning(change.old):
                return False
        except SyntaxError:
            return False
        self.write(change.file, change.new)
        return True

    def write(self, file: Path, text: str) -> None:
        place = self.folder / file
        place.write_text(text)
        # Python takes a compiled file for the text's if their sizes and seconds agree.
        for compiled in place.parent.glob(f"__pycache__/{place.stem}.*.pyc"):
            compiled.unlink()

    def undo(self, change: Change) -> None:
        self.write(change.file, change.old)

    def fails(self, tests: list[str], seconds: float | None = None) -> bool:
        """Whether any of the tests fails, or they do not end in time."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
        with self.output.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            return process.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            return True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class NativeCopy(Copy):
    """A copy of the project with the compiled module, of which one C file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        spec = importlib.util.spec_from_file_location("zrt_build", folder / "zrt" / "_native" / "build.py")
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        self.module = folder / "zrt" / "_native" / build.extension_filename()
        self.objects = folder / "objects"
        extension = build.maker(None, [], build.HERE).distutils_extension(str(self.objects), verbose=False)
        folders = [*extension.include_dirs, build.sysconfig.get_path("include")]
        self.compiler = ["gcc", "-c", "-fPIC", *extension.extra_compile_args, *(f"-I{name}" for name in folders)]
        self.compiler += [f"-D{name}={value or ''}" for name, value in extension.define_macros]
        self.libraries = extension.extra_link_args
        for source in map(Path, extension.sources):
            if not self.compiles(source):
                raise RuntimeError(f"gcc does not compile {source.name} without a change")
        self.link()

    def object_of(self, source: Path) -> Path:
        return self.objects / f"{source.stem}.o"

    def compiles(self, source: Path) -> bool:
        command = [*self.compiler, source, "-o", self.object_of(source)]
        return subprocess.run(command, capture_output=True).returncode == 0

    def link(self) -> None:
        # A new file: another process may have mapped the old one.
        self.module.unlink(missing_ok=True)
        command = ["gcc", "-shared", "-o", self.module, *sorted(self.objects.glob("*.o")), *self.libraries]
        subprocess.run(command, check=True)

    def takes(self, change: Change) -> bool:
        before = self.object_of(change.file).read_bytes()
        self.write(change.file, change.new)
        if not self.compiles(self.folder / change.file) or self.object_of(change.file).read_bytes() == before:
            return False
        self.link()
        return True

    def undo(self, change: Change) -> None:
        self.write(change.file, change.old)
        self.compiles(self.folder / change.file)


def proposals(files: list[Path], chance: random.Random) -> list[Change]:
    """Changes of the files in random order: of each file twice as many as it has lines, since most are left out."""
    changes: list[Change] = []
    for file in files:
        old = (ROOT / file).read_text()
        with tempfile.TemporaryDirectory() as folder:
            command = [Path(sys.executable).with_name("mutate"), ROOT / file, "--noCheck", "--mutantDir", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            proposed = sorted(Path(folder).iterdir())
            count = min(2 * old.count("\n"), len(proposed))
            changes += [Change(file, old, path.read_text()) for path in chance.sample(proposed, count)]
    chance.shuffle(changes)
    return changes


def main(part: str, count: int = 100, seed: int = 0) -> int:
    pattern, names, rooms = PARTS[part]
    tests = [f"tests/{room}" for room in rooms.split()]
    wanted = names.split() or [path.stem for path in ROOT.glob(pattern) if path.stem != "__init__"]
    files = [path.relative_to(ROOT) for path in sorted(ROOT.glob(pattern)) if path.stem in wanted]
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(workers) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for index in range(workers):
            folder = Path(scratch, str(index))
            folder.mkdir()
            copies.put((NativeCopy if pattern.endswith(".c") else Copy)(folder))
        first, begin = copies.get(), time.monotonic()
        if first.fails(tests):
            print(first.output.read_text())
            print(f"mutants: the tests of {part} fail without a change", file=sys.stderr)
            return 1
        copies.put(first)
        seconds = TOO_LONG * (time.monotonic() - begin)
        survived: list[bool] = []

        def show(change: Change, killed: bool) -> None:
            survived.append(not killed)
            print(f"{len(survived)}: {change.file}: {'killed' if killed else 'survived'}", flush=True)
            if not killed:
                old, new = change.old.splitlines(), change.new.splitlines()
                print("\n".join(difflib.unified_diff(old, new, n=0, lineterm="")), flush=True)

        def try_it(change: Change) -> None:
            if len(survived) >= count:
                return
            copy = copies.get()
            try:
                if copy.takes(change):
                    show(change, copy.fails(tests, seconds))
            finally:
                copy.undo(change)
                copies.put(copy)

        list(pool.map(try_it, proposals(files, random.Random(seed))))
    print(f"{part}: {len(survived)} changes, {survived.count(False)} killed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
