"""The scripts of nix/apps/gpu-proof, on machines without a GPU: nothing that was not carried out counts as passed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import zrt
from tests.support import compiler, processes

FOLDER = Path(__file__).parents[2] / "nix" / "apps" / "gpu-proof"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gpu_proof_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


proof, pack, worker = load("proof"), load("pack"), load("worker")


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=processes.environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def entry(kind: int, architecture: int, payload: bytes) -> bytes:
    """Code for one architecture of GPUs."""
    header = struct.pack("<HHIQ", kind, 0x101, 64, len(payload)).ljust(28, b"\0") + struct.pack("<I", architecture)
    return header.ljust(64, b"\0") + payload


def containers(others: bytes) -> bytes:
    """Two containers of code for 9.0, and of these bytes for other architectures."""
    first = entry(2, 80, others) + entry(2, 90, b"nine" * 4) + entry(1, 120, others)
    second = entry(2, 90, b"tens" * 4)
    return b"".join(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(each)) + each for each in (first, second))


BEFORE, AFTER = containers(b"code" * 4), containers(bytes(16))


def make_library(target: Path) -> Path:
    """A library with the containers `BEFORE`, as CUDA's provider library has some."""
    if sys.platform != "linux":
        pytest.skip("ELF is Linux's format")
    numbers = ",".join(map(str, BEFORE))
    code = f'__attribute__((section(".nv_fatbin"))) const unsigned char code[] = {{{numbers}}};'
    command = [*compiler.command(), "-shared", "-fPIC", "-x", "c", "-", "-o", str(target)]
    subprocess.run(command, input=code, text=True, check=True)
    return target


def test_code_for_other_gpus_is_zeroed(tmp_path: Path) -> None:
    file = make_library(tmp_path / "provider.so")
    content = file.read_bytes()
    assert BEFORE in content
    assert pack.keep_architecture(file, 90) == 32
    assert file.read_bytes() == content.replace(BEFORE, AFTER)
    assert pack.keep_architecture(file, 75) == 0


def test_newest_glibc_of_all_libraries_is_found(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, content in (
        ("one.so", b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBCXX_3.4.30\0"),
        ("folder/two.so.1", b"\0GLIBC_2.4\0GLIBC_PRIVATE\0"),
        ("three.py", b"GLIBC_2.99"),
    ):
        (tmp_path / name).write_bytes(content)
    assert pack.newest_glibc(tmp_path) == "2.34"


class TestReport:
    @pytest.fixture
    def report(self) -> Any:
        return proof.Report(dry=False)

    def test_only_items_that_were_carried_out_pass(self, report: Any) -> None:
        def skip() -> dict[str, Any]:
            raise proof.SkippedError("not here")

        def fail() -> dict[str, Any]:
            raise proof.FailedError("wrong", {"number": 5})

        report.item("good", lambda: {"number": 1})
        report.item("without", lambda: {"number": 1}, "no driver")
        report.item("skipped", skip)
        report.item("wrong", fail)
        report.item("crashed", lambda: {"number": 1 / 0})
        assert [(entry["status"], entry["reason"]) for entry in report.items] == [
            ("passed", ""),
            ("skipped", "no driver"),
            ("skipped", "not here"),
            ("failed", "wrong"),
            ("failed", "ZeroDivisionError: division by zero"),
        ]
        assert [entry["figures"] for entry in report.items] == [{"number": 1}, {}, {}, {"number": 5}, {}]
        assert report.summary() == "1 passed, 2 failed, 2 skipped"

    def test_report_is_written_after_each_item(self, report: Any) -> None:
        written = []
        report.write = lambda: written.append(len(report.items))
        for name in ("first", "second"):
            report.item(name, dict)
        assert written == [1, 2]

    def test_dry_run_passes_nothing(self) -> None:
        report = proof.Report(dry=True)
        report.item("good", lambda: {"number": 1})
        assert report.summary() == "0 passed, 0 failed, 0 skipped, 1 dry"

    def test_reason_with_line_breaks_is_one_row(self, report: Any) -> None:
        report.item("good", lambda: {"number": 1})
        report.item("broken", dict, "first line\n\n  second | line\r\nlast line\n")
        about = {"summary": "", "machine": {}, "library": "", "architecture": 90, "onnxruntime": "", "reason": None}
        assert proof.markdown({**about, "items": report.items}).splitlines()[-2:] == [
            "| good | passed | number 1 |",
            "| broken | skipped | first line second / line last line |",
        ]


@pytest.mark.skipif(sys.platform == "win32", reason="a script that stands for nvidia-smi")
@pytest.mark.parametrize(
    ("status", "gpus"), [(0, ["NVIDIA H100, 580.1"]), (9, None)], ids=["lists a GPU", "prints an error"]
)
def test_gpus_are_those_that_nvidia_smi_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, gpus: list[str] | None
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho NVIDIA H100, 580.1\nexit {status}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert proof.machine().get("gpus") == gpus


class TestTests:
    """The item of the tests marked `gpu`, with a pytest that writes this result."""

    @pytest.fixture
    def outcome(self, tmp_path: Path) -> Callable[..., Any]:
        tests = tmp_path / "source" / "tests" / "room"
        tests.mkdir(parents=True)
        for name, text in (("test_gpu.py", "@pytest.mark.gpu"), ("test_cpu.py", "import scipy")):
            (tests / name).write_text(text)

        def run(*arguments: str, **_: object) -> SimpleNamespace:
            assert arguments[-1] == str(tests / "test_gpu.py")
            assert str(tests / "test_cpu.py") not in arguments
            [file] = [each.partition("=")[2] for each in arguments if each.startswith("--junitxml=")]
            Path(file).write_text(f"<testsuites><testsuite>{''.join(self.cases)}</testsuite></testsuites>")
            return SimpleNamespace(returncode=0, stdout="", stderr="")

        def of(*cases: str) -> Any:
            self.cases = cases
            return proof.gpu_tests(SimpleNamespace(run=run, root=tmp_path))

        return of

    GOOD = '<testcase classname="a" name="good"/>'
    SKIPPED = '<testcase classname="a" name="later"><skipped message="no cupy"/></testcase>'
    BAD = '<testcase classname="a" name="bad"><failure message="1 == 2"/></testcase>'
    BROKEN = '<testcase classname="a" name="broken"><error message="no fixture"/></testcase>'

    def test_skipped_tests_are_listed(self, outcome: Callable[..., Any]) -> None:
        assert outcome(self.GOOD, self.SKIPPED) == {"passed": 1, "failed": {}, "skipped": {"a.later": "no cupy"}}

    @pytest.mark.parametrize(("bad", "message"), [(BAD, "1 == 2"), (BROKEN, "no fixture")], ids=["failure", "error"])
    def test_failures_fail(self, outcome: Callable[..., Any], bad: str, message: str) -> None:
        with pytest.raises(proof.FailedError, match="1 tests failed") as caught:
            outcome(self.GOOD, bad)
        assert list(caught.value.figures["failed"].values()) == [message]

    @pytest.mark.parametrize(("cases", "reason"), [([SKIPPED], "no cupy"), ([], "there are none")], ids=["all", "none"])
    def test_skipped_tests_alone_do_not_pass(self, outcome: Callable[..., Any], cases: list[str], reason: str) -> None:
        with pytest.raises(proof.SkippedError, match=reason):
            outcome(*cases)


class TestStart:
    """The look at zrt before the items, with another package in its place."""

    @pytest.fixture
    def packed(self, tmp_path: Path) -> Callable[[str], Any]:
        def of(script: str) -> Any:
            (tmp_path / "zrt").mkdir()
            (tmp_path / "zrt" / "__init__.py").touch()
            (tmp_path / "zrt" / "__main__.py").write_text(script)
            (tmp_path / "models").mkdir()
            made = proof.Packed.__new__(proof.Packed)
            made.root, made.environment = tmp_path, {"PYTHONPATH": str(tmp_path)}
            return made

        return of

    def test_zrt_that_does_not_start_fails(self, packed: Callable[[str], Any]) -> None:
        report = proof.Report(dry=False)
        info, reason = proof.look(packed('raise ImportError("version `GLIBC_2.43\' not found")'), report)
        assert info == {}
        assert reason == "zrt does not start: ImportError: version `GLIBC_2.43' not found"
        assert [(entry["name"], entry["status"], entry["reason"]) for entry in report.items] == [
            ("zrt info", "failed", reason)
        ]

    @pytest.mark.parametrize(
        ("providers", "reason"),
        [
            ('{"CUDAExecutionProvider": {"reason": null}}', None),
            ('{"CUDAExecutionProvider": {"reason": "no driver"}}', "no driver"),
            ("{}", "this library has no CUDA"),
        ],
        ids=["usable", "without driver", "without CUDA"],
    )
    def test_reason_is_that_of_the_provider(
        self, packed: Callable[[str], Any], providers: str, reason: str | None
    ) -> None:
        report = proof.Report(dry=False)
        assert proof.look(packed(f"print('{{\"providers\": {providers}}}')"), report)[1] == reason
        assert report.items == []


class TestWorkers:
    """A process that measures, in whose place there is another script."""

    @pytest.fixture
    def ask(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
        monkeypatch.setattr(proof, "HERE", tmp_path)
        monkeypatch.setattr(proof, "PATIENCE_S", 2)
        packed = proof.Packed.__new__(proof.Packed)
        packed.root, packed.provider, packed.environment = tmp_path, "cpu", processes.environment()

        def run(script: str) -> int:
            (tmp_path / "worker.py").write_text(f"import sys, time\n{script}")
            with packed.worker("lane", "small") as asked:
                asked(1)
                return int(asked(2))

        return run

    READY = "print('{\"error\": 0}', flush=True)\n"

    def test_answer_is_the_time(self, ask: Callable[[str], int]) -> None:
        assert ask(self.READY + "for line in sys.stdin: print(10 * int(line), flush=True)") == 20

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("time.sleep(60)", "status -9"),
            (READY + "input(); print(1, flush=True); time.sleep(60)", "status -9"),
            (READY + "input(); print(1, flush=True); sys.exit('a fault')", "status 1: a fault"),
            (READY + "sys.stdin.close(); sys.exit('no input')", "status 1: no input"),
            ('print(\'{"reason": "no driver"}\', flush=True)', "lane on small: no driver"),
            ("print('{\"error\": 0.5}', flush=True)", "differ by 0.5"),
        ],
        ids=["hangs", "hangs later", "ends", "ends at once", "refuses", "is wrong"],
    )
    def test_process_that_does_not_answer_fails_the_item(
        self, ask: Callable[[str], int], script: str, reason: str
    ) -> None:
        with pytest.raises(proof.FailedError, match=reason):
            ask(script)


class TestErrors:
    """The largest difference between results and what is wanted."""

    WANTED: ClassVar = {"a": np.array([1.0, -4.0]), "b": np.array([2.0, 2.0])}

    def test_is_relative_to_the_largest_number(self) -> None:
        assert worker.error({"a": [1.0, -3.0], "b": [2.0, 2.0]}, self.WANTED) == 0.25

    @pytest.mark.parametrize("bad", ["a", "b"])
    def test_result_that_is_not_a_number_is_kept(self, bad: str) -> None:
        assert np.isnan(worker.error({**self.WANTED, bad: [1.0, np.nan]}, self.WANTED))

    @pytest.mark.parametrize("bad", [2.0, [2.0], [[2.0, 2.0]]])
    def test_result_of_another_shape_is_refused(self, bad: Any) -> None:
        with pytest.raises(ValueError, match=r"b has shape .*, and \[2\] is wanted"):
            worker.error({**self.WANTED, "b": bad}, self.WANTED)


class Lane:
    """A lane of the model y = 2 x, which does in its runs what `run` does."""

    def __init__(self, run: Callable[[Lane], None]) -> None:
        self.inputs, self.outputs = {"x": np.arange(3.0)}, {"y": np.zeros(3)}
        self.run = lambda: run(self)

    def compute(self) -> None:
        self.outputs["y"][...] = 2 * self.inputs["x"]


class Device(np.ndarray):
    """An array that stands for memory of a device."""


class Pinned(np.ndarray):
    """An array that stands for pinned memory."""


class TestItems:
    """Items of the proof, on other sessions and lanes."""

    @pytest.fixture
    def items(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        monkeypatch.setitem(sys.modules, "worker", worker)
        made = load("items")
        monkeypatch.setattr(made, "load", lambda model: ({"x": np.arange(3.0)}, {"y": 2 * np.arange(3.0)}))
        monkeypatch.setattr(made, "memory_of", lambda kind, provider: SimpleNamespace(memory=kind))
        monkeypatch.setattr(made, "session_of", lambda model, provider: None)
        return made

    @staticmethod
    def fail(lane: Lane) -> None:
        raise ValueError("a run that fails")

    @pytest.mark.parametrize(
        ("in_thread", "error"),
        [(Lane.compute, None), (fail, ValueError), (lambda lane: None, SystemExit)],
        ids=["computes", "fails", "does nothing"],
    )
    def test_two_lanes_pass_where_runs_in_threads_compute(
        self,
        items: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        in_thread: Callable[[Lane], None],
        error: type[BaseException] | None,
    ) -> None:
        def run(lane: Lane) -> None:
            (Lane.compute if threading.current_thread() is threading.main_thread() else in_thread)(lane)

        monkeypatch.setattr(items, "lane_of", lambda *_: Lane(run))
        with pytest.raises(error) if error else contextlib.nullcontext():
            assert items.two_lanes("cpu", "model")["error"] == 0

    def test_graph_passes_where_runs_after_the_release_compute(
        self, items: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        released = []
        session = SimpleNamespace(release_captured_graph=lambda: released.append(True))
        host = SimpleNamespace(run=lambda feeds: [2 * feeds["x"]])
        monkeypatch.setattr(items, "zrt", SimpleNamespace(copy=zrt.copy, Session=lambda path: host))
        monkeypatch.setattr(items, "session_of", lambda *_, **options: session)
        monkeypatch.setattr(items, "lane_of", lambda *_: Lane(Lane.compute))
        assert items.graph("cuda", "model")["error after the release"] == 0
        released.clear()
        monkeypatch.setattr(items, "lane_of", lambda *_: Lane(lambda lane: None if released else Lane.compute(lane)))
        with pytest.raises(SystemExit, match="capture after the release"):
            items.graph("cuda", "model")

    @pytest.mark.parametrize(
        "lost",
        ["host to device", "pinned to device", "device to device", "device to host", "device to pinned", "no copy"],
    )
    def test_copies_pass_where_each_way_copies(
        self, items: ModuleType, monkeypatch: pytest.MonkeyPatch, lost: str
    ) -> None:
        places = {"host": np.ndarray, "device": Device, "pinned": Pinned}
        kinds = {kind: name for name, kind in places.items()}

        def copy(source: Any, destination: Any) -> None:
            if f"{kinds[type(source)]} to {kinds[type(destination)]}" != lost:
                zrt.copy(source, destination)

        def allocate(shape: tuple[int, ...], dtype: Any, memory: str) -> Any:
            return np.zeros(shape, dtype).view(places[memory])

        monkeypatch.setattr(items, "MIB", 4)
        monkeypatch.setattr(items, "session_of", lambda *_: SimpleNamespace(allocator=str))
        monkeypatch.setattr(
            items, "zrt", SimpleNamespace(copy=copy, copy_all=zrt.copy_all, Value=SimpleNamespace(allocate=allocate))
        )
        if lost == "no copy":
            assert len(items.copies("cuda", "model")) == 6
        else:
            with pytest.raises(SystemExit, match=": the results differ"):
                items.copies("cuda", "model")


def test_ratios_are_of_each_round() -> None:
    figures = proof.in_turn(lambda runs: 3000 * runs, lambda runs: 4000 * runs)
    assert figures == {"first_us": 3.0, "second_us": 4.0, "ratio": 0.75, "rounds": proof.ROUNDS}


def test_official_package_runs_in_its_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    duels = []

    def duel(first: Any, way: str, second: Any, other: str, model: str, goal: float | None = None) -> dict[str, Any]:
        duels.append((first.facts["library"], way, second.facts["library"], other))
        return {}

    monkeypatch.setattr(proof, "duel", duel)
    monkeypatch.setattr(proof, "gpu_tests", lambda packed: {})
    built, official = (
        SimpleNamespace(provider="cuda", facts={"library": kind, "models": ["real"]}, data=lambda *_: {}, model=str)
        for kind in ("built", "official")
    )
    for first, second in ((built, official), (official, built)):
        proof.carry_out(first, second, proof.Report(dry=False), None)
        kind = first.facts["library"]
        assert set(duels) == {
            (kind, "lane_graph", kind, "lane_device"),
            (kind, "lane_device", "official", "official_iobinding"),
            (kind, "lane_device_no_wait", "official", "official_iobinding"),
            (kind, "lane_pinned", kind, "lane_host"),
            (kind, "lane_device", kind, "session_run"),
            ("built", "lane_device", "official", "lane_device"),
        }
        duels.clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This zrt, packed as one that was built; its library is the one that zrt finds here."""
    scratch = tmp_path_factory.mktemp("proof")
    folder, built = scratch / "folder", scratch / "built"
    shutil.copytree(Path(zrt.__file__).parent, built / "zrt", ignore=pack.BYTECODE)
    # An installation may be read-only.
    (built / "zrt" / "_native").chmod(0o755)
    make_library(built / "zrt" / "_native" / pack.PROVIDER)
    done = python(FOLDER / "pack.py", folder, "--built", built, "--real")
    assert done.returncode == 0, done.stderr
    return folder


def test_packing_that_fails_can_be_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for _ in range(2):
        done = python(FOLDER / "pack.py", folder, "--wheel", tmp_path / "absent.whl")
        assert done.returncode
        assert "absent.whl" in done.stderr.splitlines()[-1]
    assert not folder.exists()
    assert python(FOLDER / "pack.py", tmp_path, "--wheel", "any.whl").stderr.endswith(f"{tmp_path} exists\n")


class TestPacking:
    """Packing of a small package, without the parts that take long."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder, built = tmp_path / "folder", tmp_path / "built"
        (built / "zrt").mkdir(parents=True)
        monkeypatch.setattr(pack, "models", lambda target, wanted: [])
        monkeypatch.setattr(pack, "write_archive", lambda source, target: target.write_bytes(bytes(1000)))
        monkeypatch.setattr(sys, "argv", ["pack.py", str(folder), "--built", str(built)])
        return folder

    def test_folder_that_is_too_large_is_not_left(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_library(folder.parent / "built" / "zrt" / "libonnxruntime_providers_cuda.so")
        monkeypatch.setattr(pack, "LIMIT", 999)
        with pytest.raises(SystemExit, match="more than 0 MB"):
            pack.main()
        assert not folder.exists()
        monkeypatch.setattr(pack, "LIMIT", 10**6)
        pack.main()
        assert folder.exists()

    def test_library_without_cuda_is_refused(self, folder: Path) -> None:
        with pytest.raises(SystemExit, match=r"built has no libonnxruntime_providers_cuda\.so"):
            pack.main()
        assert not folder.exists()


class TestFolder:
    def prove(self, folder: Path, report: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], Any]:
        done = python(folder / "proof.py", "--report", report, *options)
        assert (report / "report.json").exists(), done.stderr
        return done, json.loads((report / "report.json").read_text())

    def test_without_cuda_everything_is_skipped(self, folder: Path, tmp_path: Path) -> None:
        if zrt.providers.usable("cuda") is None:
            pytest.skip("this machine has CUDA")
        done, found = self.prove(folder, tmp_path)
        assert done.returncode == 3, done.stderr
        assert "nothing was proved: " in done.stderr
        assert {entry["status"] for entry in found["items"]} == {"skipped"}
        assert all(entry["reason"] and not entry["figures"] for entry in found["items"])
        assert found["summary"] == f"0 passed, 0 failed, {len(found['items'])} skipped"
        page = (tmp_path / "report.md").read_text()
        assert page.count("| skipped |") == len(found["items"])
        assert "passed |" not in page

    @pytest.mark.slow
    def test_dry_run_measures_on_the_cpu(self, folder: Path, tmp_path: Path) -> None:
        done, found = self.prove(folder, tmp_path, "--dry")
        assert done.returncode == 0, done.stderr
        states = {entry["name"]: entry["status"] for entry in found["items"]}
        assert set(states.values()) == {"dry", "skipped"}
        assert states["copies"] == states["lane in pinned memory over host memory"] == "dry"
        assert states["two lanes on two streams"] == states["zrt bench, cnn"] == "dry"
        assert states["tests marked gpu"] == states["streams"] == "skipped"
