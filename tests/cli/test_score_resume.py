"""Which runs of ``zrt score`` go on after ``--resume``, which results it replaces, and how it ends at SIGTERM."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scoring import models
from tests.scoring.stops import failing_after
from tests.support import processes
from zrt.cli import main
from zrt.scoring import parts

ROWS = 400


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(models.affine())
    write_data()


def write_data(first: float = 0) -> None:
    x = np.arange(ROWS * 3, dtype=np.float32).reshape(-1, 3)
    x[0, 0] = first
    np.savez("data.npz", x=x, k=np.arange(ROWS))


def arrays(path: str | Path = "out.npz") -> dict[str, Any]:
    with np.load(path) as columns:
        return {name: columns[name].tolist() for name in columns.files}


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[[], None]:
    """A run that an error ends in its middle, with some parts done."""

    def stop() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(parts, "PART_BYTES", 1)
            patch.setattr(parts.Parts, "add", failing_after(parts.Parts.add, 3))
            with pytest.raises(RuntimeError, match="stopped"):
                main(["score", "model.onnx", "data.npz", "out.npz", "--json", "--batch", "8"])
        assert "--resume goes on" in capsys.readouterr().err
        assert not Path("out.npz").exists()

    return stop


RUN = ("score", "model.onnx", "data.npz", "out.npz", "--batch", "8")


@pytest.mark.parametrize(
    ("arguments", "culprit", "model"),
    [
        (("--batch", "9"), "--batch", models.affine),
        (("--threads", "2"), "--options or --threads", models.affine),
        (("--options", "basic.json"), "--options or --threads", models.affine),
        # For other outputs these flags are refused before the runs are compared.
        (("--output-format", "npy"), "--output-format", models.sums),
        (("--skip-bad",), "--skip-bad", models.sums),
    ],
)
def test_resume_refuses_all_that_changes_results(stopped, complaint, arguments, culprit, model):
    Path("model.onnx").write_bytes(model())
    Path("basic.json").write_text('{"session": {"graph_optimization_level": "ENABLE_BASIC"}}')
    stopped()
    before = {path.name: path.read_bytes() for path in Path("out.npz.parts").iterdir()}
    said = complaint(*RUN, *arguments, "--resume", "--json", status=2)
    assert f"differs in {culprit}" in said
    assert {path.name: path.read_bytes() for path in Path("out.npz.parts").iterdir()} == before


@pytest.mark.parametrize("arguments", [("--lanes", "1"), ("--checkpoint", "1m"), ("--options", "silent.json")])
def test_resume_takes_all_that_keeps_results(stopped, zrt, arguments):
    Path("silent.json").write_text('{"session": {"intra_op_num_threads": 1, "log_severity_level": "FATAL"}}')
    stopped()
    zrt(*RUN, *arguments, "--resume", "--json")
    assert arrays()["n"] == [2 * number for number in range(ROWS)]


def test_contents_decide_and_not_the_times_of_files(stopped, zrt, complaint):
    stopped()
    times = os.stat("data.npz")
    write_data(first=1000)
    os.utime("data.npz", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "differs in INPUT" in complaint(*RUN, "--resume", "--json", status=2)
    write_data()
    os.utime("data.npz", (1, 1))
    Path("model.onnx").rename("same.onnx")
    zrt("score", "same.onnx", *RUN[2:], "--resume", "--json")
    assert arrays()["n"] == [2 * number for number in range(ROWS)]


def test_weights_outside_of_the_model_count(stopped, complaint):
    import onnx

    model = onnx.load_from_string(models.affine())
    for weight in model.graph.initializer:
        # Only raw bytes go into a file.
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))
    onnx.save(model, "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    stopped()
    weights = bytearray(Path("weights.bin").read_bytes())
    weights[3] ^= 1
    Path("weights.bin").write_bytes(weights)
    assert "differs in MODEL" in complaint(*RUN, "--resume", "--json", status=2)
    Path("weights.bin").unlink()
    shutil.copy("data.npz", "weights.bin")
    assert "is the same file as the input" in complaint(
        "score", "model.onnx", "data.npz", "weights.bin", "--output-format", "npz", "--overwrite", "--json", status=2
    )


def test_files_of_an_input_folder_count(zrt, complaint):
    pa = pytest.importorskip("pyarrow", reason="needs the packages of the extra score")
    import pyarrow.parquet as parquet

    Path("data").mkdir()
    for index in range(2):
        parquet.write_table(pa.table({"x": [[1.0, 2, 3]] * 5, "k": range(5)}), f"data/{index}.parquet")
    run = ("score", "model.onnx", "data", "out", "--json")
    zrt(*run)
    assert "differs in --keep" in complaint(*run, "--resume", "--keep", "k", status=2)
    parquet.write_table(pa.table({"x": [[1.0, 2, 3]] * 5, "k": range(1, 6)}), "data/1.parquet")
    assert "differs in INPUT" in complaint(*run, "--resume", status=2)


@pytest.mark.parametrize("state", ["nothing", "an empty folder", "a manifest that was being written", "no row"])
def test_resume_starts_where_nothing_is_done(zrt, state):
    work = Path("out.npz.parts")
    if state != "nothing":
        work.mkdir()
    if state == "a manifest that was being written":
        (work / f"_{parts.MANIFEST}.new").write_text('{"reci')
    if state == "no row":
        parts.Manifest({"--batch": 3}).write(work / parts.MANIFEST)
        (work / "part-000000000000-000000000008.npz").write_bytes(b"half")
    zrt(*RUN, "--resume", "--json")
    assert arrays()["n"] == [2 * number for number in range(ROWS)]
    assert not work.exists()


def test_finished_folder_is_done(zrt_json, complaint):
    run = ("score", "model.onnx", "data.npz", "out")
    first = zrt_json(*run)
    times = {path.name: path.stat().st_mtime_ns for path in Path("out").iterdir()}
    again = zrt_json(*run, "--resume")
    assert (again["rows"], again["rows_per_second"]) == (first["rows"], 0)
    assert {path.name: path.stat().st_mtime_ns for path in Path("out").iterdir()} == times
    assert "differs in --batch" in complaint(*run, "--resume", "--batch", "3", "--json", status=2)
    assert "--overwrite replaces them" in complaint(*run, "--json", status=2)


def test_parts_that_no_manifest_names_are_removed(zrt, stopped):
    stopped()
    work = Path("out.npz.parts")
    done = json.loads((work / parts.MANIFEST).read_text())["done"]
    orphan = work / f"part-{done:012d}-{done + 8:012d}.npz"
    np.savez(orphan, n=np.zeros(8, np.int64), y=np.zeros((8, 2), np.float32))
    zrt(*RUN, "--resume", "--json")
    assert arrays()["n"] == [2 * number for number in range(ROWS)]
    assert not work.exists()


class TestOverwrite:
    def test_of_a_file(self, zrt, complaint, monkeypatch):
        Path("out.npz").write_bytes(b"mine")
        for more in ((), ("--resume",)):
            assert "exists: --overwrite replaces it" in complaint(*RUN, *more, "--json", status=2)
            assert Path("out.npz").read_bytes() == b"mine"
            assert not Path("out.npz.parts").exists()
        with monkeypatch.context() as patch:
            patch.setattr(parts.Parts, "add", failing_after(parts.Parts.add, 1))
            with pytest.raises(RuntimeError, match="stopped"):
                main([*RUN, "--overwrite", "--json"])
        assert Path("out.npz").read_bytes() == b"mine"
        zrt(*RUN, "--overwrite", "--resume", "--json")
        assert arrays()["n"] == [2 * number for number in range(ROWS)]

    def test_of_a_folder(self, zrt, complaint, monkeypatch):
        run = ("score", "model.onnx", "data.npz", "out", "--overwrite", "--json")
        with monkeypatch.context() as patch:
            patch.setattr(parts, "PART_BYTES", 1)
            zrt(*run, "--batch", "16")
        old = sorted(Path("out").iterdir())
        assert len(old) > 2
        zrt(*run)
        new = sorted(Path("out").iterdir())
        assert [path.name for path in new] == [parts.MANIFEST, f"part-{0:012d}-{ROWS:012d}.npz"]
        Path("out/mine.txt").touch()
        assert "'mine.txt' is no file of a run" in complaint(*run, status=2)
        assert sorted(Path("out").iterdir()) == sorted([*new, Path("out/mine.txt")])

    @pytest.mark.parametrize("link", [os.symlink, os.link])
    @pytest.mark.parametrize("name", ["model.onnx", "data.npz", "options.json"])
    def test_of_an_input(self, complaint, link, name):
        Path("options.json").write_text("{}")
        link(name, "out.npz")
        before = Path(name).read_bytes()
        said = complaint(*RUN, "--options", "options.json", "--overwrite", "--json", status=2)
        assert "same file as the input" in said or "part of the data set" in said
        assert Path(name).read_bytes() == before

    def test_of_a_file_keeps_its_permissions(self, zrt):
        Path("out.npz").touch()
        Path("out.npz").chmod(0o600)
        zrt(*RUN, "--overwrite")
        assert Path("out.npz").stat().st_size > 0
        assert Path("out.npz").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("name", ["data.npz", "options.json"])
    def test_of_an_input_by_the_optimized_model(self, complaint, name):
        Path("options.json").write_text(json.dumps({"session": {"optimized_model_filepath": name}}))
        before = Path(name).read_bytes()
        assert "optimized_model_filepath" in complaint(*RUN, "--options", "options.json", status=2)
        assert Path(name).read_bytes() == before

    def test_of_the_parts_of_another_run(self, complaint, stopped):
        stopped()
        before = sorted(Path("out.npz.parts").iterdir())
        part = next(path for path in before if path.suffix == ".npz")
        run = ("score", "model.onnx", part, "out.npz", "--overwrite", "--resume", "--json")
        assert "is part of the data set" in complaint(*run, status=2)
        assert sorted(Path("out.npz.parts").iterdir()) == before


def damaged() -> list[Any]:
    """Manifests that no run writes."""
    good = {"recipe": {}, "done": 8, "parts": [], "bad": [], "bad_count": 0, "shapes": {"n": []}, "finished": False}
    changes: list[dict[str, Any]] = [
        *({"done": value} for value in (-1, 1.5, True, "8", None, [])),
        *({"parts": value} for value in ({}, "part", [1], ["../x"], ["/etc/passwd"], ["a\0b"])),
        {"parts": ["part-000000000000-000000000009.npz"]},
        {"parts": ["part-000000000004-000000000008.npz", "part-000000000000-000000000004.npz"]},
        {"parts": ["../part-000000000000-000000000008.npz"]},
        *({"bad": value} for value in (1, [1], [[1]], [["1", "x"]], [[1, 2]])),
        *({"bad_count": value} for value in (-1, None)),
        *({"shapes": value} for value in ([], {"n": 1}, {"n": ["1"]})),
        *({"finished": value} for value in (0, None)),
        *({"recipe": value} for value in ([], None)),
    ]
    missing = [{name: value for name, value in good.items() if name != left_out} for left_out in good]
    texts = [json.dumps(each) for each in ({**good, "more": 1}, *missing, *({**good, **each} for each in changes))]
    return [*texts, "", "{", "[]", "1", "[" * 100_000, '{"a":' * 100_000]


@pytest.mark.parametrize("where", ["out.npz.parts", "out/_zrt.parts", "out"])
@pytest.mark.parametrize("more", ["--resume", "--overwrite"])
def test_damaged_manifests_are_named(complaint, where, more):
    """And the folder to remove: ``--overwrite`` alone does not replace the results of another program."""
    Path(where).mkdir(parents=True)
    target = "out" if where.startswith("out/") or where == "out" else "out.npz"
    manifest = Path(where, parts.MANIFEST)
    for content in (*map(str.encode, damaged()), b"\xff\xfe{"):
        manifest.write_bytes(content)
        complained = complaint("score", "model.onnx", "data.npz", target, more, "--json", status=1)
        assert parts.MANIFEST in complained, content
        assert f"remove '{Path(where).resolve()}'" in complained
        assert manifest.read_bytes() == content


def test_part_that_is_missing_or_damaged_is_named(complaint, stopped):
    stopped()
    part = min(Path("out.npz.parts").glob("part-*"))
    good = part.read_bytes()
    for content in (b"", good[: len(good) // 2], b"PK\x03\x04" + bytes(100)):
        part.write_bytes(content)
        assert "out.npz.parts" in complaint(*RUN, "--resume", "--json", status=1)
    part.unlink()
    assert f"{part.name}' is missing" in complaint(*RUN, "--resume", "--json", status=1)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="Linux has a folder where nobody can write")
@pytest.mark.parametrize("target", ["/proc/out.npz", "/proc/out", "/dev/null"])
def test_places_where_nothing_can_be_written_are_named(complaint, target):
    said = complaint("score", "model.onnx", "data.npz", target, "--output-format", "npz", "--json", status=1)
    assert "cannot be written" in said


def test_two_runs_at_once(complaint):
    running = parts.Parts(Path("out.npz"), "npz", {})
    assert "another run writes to" in complaint(*RUN, "--resume", "--json", status=2)
    running.close()
    assert not Path("out.npz.parts").exists()


def test_run_that_ends_before_its_first_row_has_nothing_to_go_on_after(monkeypatch, capsys):
    monkeypatch.setattr(parts.Parts, "add", failing_after(parts.Parts.add, 0))
    with pytest.raises(RuntimeError, match="stopped"):
        main([*RUN, "--json"])
    words = capsys.readouterr().err
    assert f"0 of {ROWS} rows are done" in words
    assert "--resume" not in words


def test_parts_are_cut_by_time(zrt, monkeypatch):
    written = []
    flush = parts.Parts.flush
    monkeypatch.setattr(parts.Parts, "flush", lambda self, **end: (written.append(self.done), flush(self, **end)))
    zrt(*RUN, "--checkpoint", "0.000001s", "--json")
    assert len(written) > 5
    often = Path("out.npz").read_bytes()
    written.clear()
    zrt(*RUN, "--checkpoint", "1h", "--overwrite", "--json")
    assert len(written) == 1
    # The same bytes, wherever the parts were cut.
    assert Path("out.npz").read_bytes() == often


@pytest.mark.parametrize("text", ["0", "-1", "x", "1d", "", "nan", "inf", "s"])
def test_checkpoints_that_are_none(complaint, text):
    assert "expected a duration such as 10, 10s or 1m" in complaint(*RUN, f"--checkpoint={text}", status=2)


@pytest.mark.parametrize(
    ("number", "status", "target", "work"),
    [(signal.SIGINT, 130, "out", f"out/{parts.WORK}"), (signal.SIGTERM, 143, "out.npz", "out.npz.parts")],
)
def test_signal_leaves_complete_files(number, status, target, work):
    """Although no checkpoint is near; after another run every row is there once, in its order."""
    count = 200_000
    Path("model.onnx").write_bytes(models.affine(1))
    np.savez("data.npz", x=np.ones((count, 3), np.float32), k=np.arange(count))
    command = [sys.executable, "-m", "zrt", "score", "model.onnx", "data.npz", target]
    command += ["--checkpoint", "1h", "--json", "--resume"]
    options: dict[str, Any] = {"env": processes.environment(), "text": True, "stderr": subprocess.PIPE}
    # Python leaves SIGINT ignored where its parent had it so.
    heed = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    started = subprocess.Popen(command, **options, preexec_fn=heed)
    manifest = Path(work, parts.MANIFEST)
    deadline = time.monotonic() + 60
    while not manifest.exists() and started.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.6)
    started.send_signal(number)
    _, complained = started.communicate(timeout=60)
    assert started.returncode == status, complained
    assert "--resume goes on" in complained
    assert 0 < json.loads(manifest.read_text())["done"] < count
    subprocess.run(command, **options, check=True, timeout=120)
    files = sorted(Path("out").glob("part-*")) if target == "out" else ["out.npz"]
    assert [n for file in files for n in arrays(file)["n"]] == [2 * row for row in range(count)]
