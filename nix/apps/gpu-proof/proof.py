"""Proves zrt on a GPU: runs every check there is for one, measures, and writes one report, as JSON and as Markdown.

    python3 FOLDER/proof.py --report REPORT [--against OTHER_FOLDER] [--dry]

FOLDER is made by pack.py. CUDA's libraries and cuDNN are those of this machine: of the system or of NVIDIA's Python
packages. `--against` is a folder with the other kind of library: the provider built from source is then measured
beside the official one, in processes that take turns. `--dry` runs what the CPU can run instead; nothing counts as
passed then.

The report is written anew after each item, so that a proof that is cut off leaves one too. Each item of it is "passed",
"failed", "skipped" (with the reason) or "dry". Exit status: 0 if no item failed and at least one passed, 1 if one
failed, 3 if this machine cannot run CUDA, so that nothing was proved.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NO_GPU = 3
NOT_THERE = 77
BATCH_NS = 5_000_000
ROUNDS = 100
PATIENCE_S = 300
LIMIT = 0.02
SMALL, CNN = "digits", "cnn"
WITH_STATE = "voice-activity--settled-shapes"
MARKER = "pytest.mark.gpu"
# The goals for ratios of medians.
LANE_GOAL, PROVIDER_GOAL = 0.8, 1.02


class SkippedError(Exception):
    """An item was not carried out; the message has the reason."""


class FailedError(Exception):
    """An item was carried out, and something is wrong; the message says what, `figures` has the rest."""

    def __init__(self, message: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


class Packed:
    """An unpacked folder: its files, and the environment of processes that run it."""

    def __init__(self, folder: Path, work: Path, provider: str) -> None:
        with tarfile.open(folder / "files.tar.xz") as archive:
            archive.extractall(work, filter="data")
        self.root = work
        self.provider = provider
        self.facts: dict[str, Any] = json.loads((work / "facts.json").read_text())
        paths = [work / "python", work / "source", HERE]
        # The packages that this machine lacks.
        paths += [
            each for each in sorted((work / "fallback").iterdir()) if importlib.util.find_spec(_provides(each)) is None
        ]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("ZRT_ORT_LIBRARY", "ORT_DYLIB_PATH"):
            self.environment.pop(name, None)
        self.official = work / "official"
        if self.official.exists():
            [library] = self.official.glob("onnxruntime/capi/libonnxruntime.so.*")
            self.environment["ZRT_ORT_LIBRARY"] = str(library)

    def model(self, name: str) -> str:
        return str(self.root / "models" / name)

    def run(
        self, *arguments: object, cwd: str = "models", patience: int = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """This Python with these arguments."""
        command = [sys.executable, "-P", *map(str, arguments)]
        try:
            return subprocess.run(
                command, cwd=self.root / cwd, env=self.environment, capture_output=True, text=True, timeout=patience
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"no end after {patience} s: {' '.join(map(str, arguments))}") from None

    def data(self, *arguments: object) -> Any:
        """The JSON that a command prints."""
        done = self.run(*arguments)
        if done.returncode == NOT_THERE:
            raise SkippedError(done.stderr.strip().splitlines()[-1])
        if done.returncode:
            raise FailedError(f"exit status {done.returncode}: {_tail(done.stderr)}")
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def worker(self, way: str, model: str) -> Iterator[Callable[[int], int]]:
        """A process that runs the model in that way: a function from a number of runs to nanoseconds."""
        environment = dict(self.environment)
        if way.startswith("official"):
            if not self.official.exists():
                raise SkippedError("the folder has no official package")
            environment["PYTHONPATH"] = os.pathsep.join([str(self.official), environment["PYTHONPATH"]])
            environment["LD_LIBRARY_PATH"] = os.pathsep.join([*self.folders(), environment.get("LD_LIBRARY_PATH", "")])
        command = [sys.executable, "-P", str(HERE / "worker.py"), way, self.provider, self.model(model)]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None

            def read() -> Any:
                line = process.stdout.readline()
                if not line:
                    errors.seek(0)
                    raise FailedError(f"{way} on {model} ended with status {process.wait()}: {_tail(errors.read())}")
                return json.loads(line)

            def ask(runs: int) -> int:
                # `read` has the reason if the process has ended.
                with contextlib.suppress(BrokenPipeError):
                    print(runs, file=process.stdin, flush=True)
                return int(read())

            # A call of the driver that hangs must not hold up the other items.
            limit = threading.Timer(PATIENCE_S, process.kill)
            limit.start()
            try:
                reply = read()
                if "reason" in reply:
                    raise FailedError(f"{way} on {model}: {reply['reason']}")
                if not reply["error"] <= LIMIT:
                    raise FailedError(f"{way} on {model}: the results differ by {reply['error']:.2g} of the largest")
                yield ask
            finally:
                limit.cancel()
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()

    def folders(self) -> list[str]:
        """The folders of CUDA's libraries, for processes without zrt, which finds them itself."""
        parts = (self.data("-m", "zrt", "info", "--json")["cuda"] or {"parts": []})["parts"]
        return list(dict.fromkeys(os.path.dirname(part["path"]) for part in parts if part["path"]))


def _provides(folder: Path) -> str:
    """The module that a fallback is for: that of a wheel of cffi is its library."""
    return "_cffi_backend" if folder.name == "cffi" else folder.name


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-6:])[-1500:]


def in_turn(first: Callable[[int], int], second: Callable[[int], int]) -> dict[str, float]:
    """The medians of the times of a run in microseconds, and the median of the ratios of each round."""
    runs = []
    for ask in (first, second):
        count = 1
        while (taken := ask(count)) < BATCH_NS:
            count = max(2 * count, int(count * BATCH_NS / max(taken, 1)))
        runs.append(count)
    times: list[tuple[float, float]] = []
    for turn in range(ROUNDS):
        order = ((0, first), (1, second)) if turn % 2 else ((1, second), (0, first))
        taken = [0.0, 0.0]
        for index, ask in order:
            taken[index] = ask(runs[index]) / runs[index] / 1000
        times.append((taken[0], taken[1]))
    return {
        "first_us": round(statistics.median(one for one, _ in times), 3),
        "second_us": round(statistics.median(two for _, two in times), 3),
        "ratio": round(statistics.median(one / two for one, two in times), 4),
        "rounds": ROUNDS,
    }


def duel(first: Packed, way: str, second: Packed, other: str, model: str, goal: float | None = None) -> dict[str, Any]:
    """Two ways to run a model, in processes that take turns: the first's time over the second's."""
    with first.worker(way, model) as one, second.worker(other, model) as two:
        figures: dict[str, Any] = {"model": model, "first": way, "second": other, **in_turn(one, two)}
    if goal is not None:
        figures |= {"goal": f"at most {goal}", "met": figures["ratio"] <= goal}
    return figures


class Report:
    """The items so far."""

    def __init__(self, dry: bool) -> None:
        self.dry = dry
        # Called after each item.
        self.write: Callable[[], None] = lambda: None
        self.items: list[dict[str, Any]] = []

    def item(self, name: str, call: Callable[[], dict[str, Any]], without: str | None = None) -> None:
        """Carries out an item, and adds it; `without` is the reason why it cannot be."""
        start = time.monotonic()
        entry: dict[str, Any] = {"name": name, "status": "dry" if self.dry else "passed", "reason": "", "figures": {}}
        try:
            if without:
                raise SkippedError(without)
            entry["figures"] = call()
        except SkippedError as reason:
            entry |= {"status": "skipped", "reason": str(reason)}
        except FailedError as reason:
            entry |= {"status": "failed", "reason": str(reason), "figures": reason.figures}
        except Exception as error:
            # One item must not end the others.
            entry |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
        entry["seconds"] = round(time.monotonic() - start, 1)
        self.items.append(entry)
        print(f"{entry['status']:8}{name}{': ' + entry['reason'] if entry['reason'] else ''}", file=sys.stderr)
        self.write()

    def count(self, status: str) -> int:
        return sum(entry["status"] == status for entry in self.items)

    def summary(self) -> str:
        dry = f", {self.count('dry')} dry" if self.dry else ""
        return f"{self.count('passed')} passed, {self.count('failed')} failed, {self.count('skipped')} skipped{dry}"


def look(packed: Packed, report: Report) -> tuple[dict[str, Any], str | None]:
    """The output of `zrt info`, and the reason why the other items cannot be carried out; None if they can."""
    try:
        info = packed.data("-m", "zrt", "info", "--json")
    except FailedError as error:
        reason = f"zrt does not start: {str(error).rpartition(' | ')[2]}"

        def fail() -> dict[str, Any]:
            raise FailedError(reason)

        report.item("zrt info", fail)
        return {}, reason
    state = info["providers"].get("CUDAExecutionProvider", {"reason": "this library has no CUDA"})
    return info, None if report.dry else state["reason"]


def gpu_tests(packed: Packed) -> dict[str, Any]:
    """The tests marked `gpu`. They pass if none fails and one passes at least; the skipped ones are listed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tests.xml")
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=--import-mode=importlib"]
        options += ["-W", "default", "-m", "gpu", f"--junitxml={file}"]
        # Other files may need packages that this machine lacks.
        files = [path for path in sorted(packed.root.rglob("source/tests/**/test_*.py")) if MARKER in path.read_text()]
        options += ["--continue-on-collection-errors", *map(str, files)]
        done = packed.run("-m", "pytest", *options, cwd="source", patience=3 * PATIENCE_S)
        if not file.exists():
            raise FailedError(f"pytest ended with status {done.returncode}: {_tail(done.stdout + done.stderr)}")
        cases = list(ET.parse(file).iter("testcase"))
    figures: dict[str, Any] = {"passed": 0, "failed": {}, "skipped": {}}
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        bad = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        skip = case.find("skipped")
        if bad is not None:
            figures["failed"][name] = bad.get("message", "")[:500]
        elif skip is not None:
            figures["skipped"][name] = skip.get("message", "")[:300]
        else:
            figures["passed"] += 1
    if figures["failed"]:
        raise FailedError(f"{len(figures['failed'])} tests failed", figures)
    if not figures["passed"]:
        raise SkippedError(
            f"all {len(cases)} tests were skipped: {next(iter(figures['skipped'].values()), 'there are none')}"
        )
    return figures


def bench(packed: Packed, model: str) -> dict[str, Any]:
    """`zrt bench`."""
    found = packed.data("-m", "zrt", "bench", packed.model(model) + ".onnx", "--provider", packed.provider, "--json")
    return dict(found)


def machine() -> dict[str, Any]:
    """This machine, as far as its tools tell."""
    found: dict[str, Any] = {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv,noheader"]
        listed = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)
        found["gpus"] = listed.stdout.strip().splitlines()
    return found


def carry_out(packed: Packed, other: Packed | None, report: Report, without: str | None) -> None:
    """All items, in turn; `without` is the reason why CUDA cannot be used."""
    models = packed.facts["models"]
    provider, items = packed.provider, HERE / "items.py"
    built, official = _by_kind(packed, other)

    def single(name: str, model: str) -> Callable[[], dict[str, Any]]:
        return lambda: packed.data(items, name, provider, packed.model(model))

    def ratio(way: str, than: str, model: str, goal: float | None = None) -> Callable[[], dict[str, Any]]:
        beside = official if official and than.startswith("official") else packed
        return lambda: duel(packed, way, beside, than, model, goal)

    captures = "captured graphs are CUDA's" if provider == "cpu" else None
    report.item("tests marked gpu", lambda: gpu_tests(packed), without)
    for model in (SMALL, CNN):
        report.item(f"zrt bench, {model}", lambda model=model: bench(packed, model), without)
    report.item("captured graph: results", single("graph", CNN), without)
    report.item(
        "captured graph: replay over runs on the device", ratio("lane_graph", "lane_device", CNN), without or captures
    )
    for model in (SMALL, CNN):
        name = f"lane on the device over onnxruntime's run_with_iobinding, {model}"
        report.item(name, ratio("lane_device", "official_iobinding", model, LANE_GOAL), without)
        report.item(
            f"the same with synchronize=False, {model}",
            ratio("lane_device_no_wait", "official_iobinding", model, LANE_GOAL),
            without,
        )
    report.item("lane in pinned memory over host memory", ratio("lane_pinned", "lane_host", CNN), without)
    report.item("copies", single("copies", SMALL), without)
    report.item("streams", single("streams", CNN), without)
    report.item("two lanes on two streams", single("two_lanes", CNN), without)
    lacking = None if WITH_STATE in models else f"the folder has no model {WITH_STATE}"
    report.item("state on the device", single("state", WITH_STATE), without or lacking)
    lacking = without or (None if built and official else "takes two folders (--against): one built, one official")
    for model in models:
        if model in (SMALL, CNN):
            continue
        report.item(f"{model} on the device", ratio("lane_device", "session_run", model), without)
        report.item(
            f"provider from source over the official one, {model}",
            lambda model=model: duel(built, "lane_device", official, "lane_device", model, PROVIDER_GOAL),
            lacking,
        )


def _by_kind(*folders: Packed | None) -> tuple[Any, Any]:
    kinds = {each.facts["library"]: each for each in folders if each}
    return kinds.get("built"), kinds.get("official")


def markdown(found: dict[str, Any]) -> str:
    """The report for people."""
    gpus = "; ".join(found["machine"].get("gpus") or ["no GPU that nvidia-smi lists"])
    lines = [
        "# Proof on a GPU",
        "",
        f"{found['summary']}. Machine: {gpus}. Library: {found['library']}, architecture {found['architecture']}, "
        f"ONNX Runtime {found['onnxruntime']}.",
        "",
        *([f"Nothing was proved: {found['reason']}.", ""] if found["reason"] else []),
        "| item | status | figures |",
        "|---|---|---|",
    ]
    for entry in found["items"]:
        figures = entry["figures"]
        if "contenders" in figures or "rows" in figures:
            figures = {"in": "the JSON"}
        shown = "; ".join(f"{key} {_short(value)}" for key, value in figures.items())
        cell = " ".join((entry["reason"] or shown).replace("|", "/").split())
        lines.append(f"| {entry['name']} | {entry['status']} | {cell} |")
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return str(len(value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="proof.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--report", type=Path, required=True, help="the folder for report.json and report.md")
    parser.add_argument("--against", type=Path, help="a folder of pack.py with the other kind of library")
    parser.add_argument("--dry", action="store_true", help="run on the CPU what can run there")
    given = parser.parse_args()
    given.report.mkdir(parents=True, exist_ok=True)
    provider = "cpu" if given.dry else "cuda"
    with tempfile.TemporaryDirectory(prefix="gpu-proof-") as scratch:
        packed = Packed(HERE, Path(scratch, "this"), provider)
        other = Packed(given.against.resolve(), Path(scratch, "other"), provider) if given.against else None
        report = Report(given.dry)
        info, reason = look(packed, report)
        without = reason and "CUDA cannot be used here: " + textwrap.shorten(reason, 80, placeholder=" …")
        about = {
            "reason": reason,
            "machine": machine(),
            "library": packed.facts["library"],
            "architecture": packed.facts["architecture"],
            "onnxruntime": info.get("versions", {}).get("onnxruntime", "not known"),
            "zrt": info,
        }

        def write() -> None:
            found = {"summary": report.summary(), **about, "items": report.items}
            for name, text in (("report.json", json.dumps(found, indent=1)), ("report.md", markdown(found))):
                beside = given.report / f".{name}"
                beside.write_text(text, encoding="utf-8")
                beside.replace(given.report / name)

        report.write = write
        # There may be an item already: that zrt does not start.
        write()
        carry_out(packed, other, report, without)
    if without:
        print(f"gpu-proof: nothing was proved: {reason}", file=sys.stderr)
    print(report.summary())
    if without and not report.count("failed"):
        return NO_GPU
    return 1 if report.count("failed") or not (report.count("passed") or given.dry) else 0


if __name__ == "__main__":
    sys.exit(main())
