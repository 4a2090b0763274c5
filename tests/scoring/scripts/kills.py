"""Kills `zrt score` at each system call that writes, or at random instants, and resumes it.

`LD_PRELOAD` names the library of kills.c. Each run is a child that is forked from this process, which has imported all
that a run needs and has started nothing: a run so takes some hundredths of a second.

Arguments: the folder with the model and the data set, the name of OUTPUT, its format, ``every:N`` for each Nth call or
``random:N`` for N random instants, and further arguments of the command. It prints the number of runs that were killed.
"""

import ctypes
import os
import random
import signal
import sys
import time
from pathlib import Path

import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

import zrt
from zrt.cli import main
from zrt.scoring import arrow, files, parts, recipe, score, sources  # noqa: F401

# These import at their first use the modules of a session.
names = (zrt.Session, zrt.SessionOptions)

folder, name, kind, how, *more = sys.argv[1:]
way, _, count = how.partition(":")
step = int(count) if way == "every" else 1
os.chdir(folder)
# The whole result of a batch or two makes a part.
parts.PART_BYTES = 64
command = ["score", "model.onnx", "data.parquet", name, "--output-format", kind, "--batch", "16", "--keep", "id"]
command += ["--lanes", "2", "--skip-bad", "--json", *more]
arm = ctypes.CDLL(None).kills_arm
arm.argtypes = [ctypes.c_long]


def run(calls: int, seconds: float | None, *arguments: str) -> int:
    """The exit status of a run that ends after that many calls or seconds: -9 where it did."""
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        if seconds is not None:
            # It has its default action: the kernel ends the process.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
        arm(calls)
        status = 1
        try:
            status = main([*command, *arguments])
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return -9 if status == -signal.SIGALRM else status


def content() -> dict[str, bytes]:
    """All that the run left in the place of its results, but for what tells one run from another."""
    path = Path(name)
    where = sorted(path.iterdir()) if path.is_dir() else [path]
    assert {each.name for each in Path().iterdir()} == {*before, name}, list(Path().iterdir())
    if not path.is_dir():
        return {each.name: each.read_bytes() for each in where}
    assert not [each for each in where if each.is_dir()], where
    # Parts may be cut elsewhere.
    rows = pyarrow.dataset.dataset(path, format=kind).to_table()
    # All files that a reader sees are parts that the manifest names.
    named = parts.Manifest.read(path / parts.MANIFEST).parts
    assert {each.name for each in where} == {parts.MANIFEST, *named}, where
    return {"rows": repr(rows.to_pydict()).encode()}


def clear() -> None:
    for each in [name, f"{name}.parts"]:
        for path in sorted(Path().glob(f"{each}/**/*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if Path(each).is_dir():
            Path(each).rmdir()
        Path(each).unlink(missing_ok=True)


def old() -> None:
    """With ``--overwrite`` there are results already."""
    clear()
    if "--overwrite" in more:
        Path("was").touch()
        assert run(-1, None, "--keep", "k") == 0
        Path("was").write_bytes(b"".join(content().values()))


before = {each.name for each in Path().iterdir()} | ({"was"} if "--overwrite" in more else set())
old()
start = time.perf_counter()
assert run(-1, None) == 0
took = time.perf_counter() - start
wanted = content()
chance = random.Random(0)
killed = 0
number = 0
while way == "every" or number < int(count):
    old()
    status = run(number, None) if way == "every" else run(-1, chance.uniform(0, took))
    number += step
    if status == 0 and way == "every":
        break
    if status == -9:
        killed += 1
        if "--overwrite" in more and not Path(f"{name}.parts").exists() and not Path(name, parts.WORK).exists():
            assert b"".join(content().values()) in (Path("was").read_bytes(), *wanted.values())
    # A second kill, while the first one is made good.
    if chance.random() < 0.5:
        run(chance.randrange(40), None, "--resume")
    status = run(-1, None, "--resume")
    # A file tells no more that it is finished once its work folder has gone.
    finished = status == 2 and Path(name).is_file() and not Path(f"{name}.parts").exists()
    assert status == 0 or finished, (number, status)
    assert content() == wanted, (number, content(), wanted)
print(killed)
