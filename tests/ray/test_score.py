"""``zrt score --ray``: the same results as without a cluster, from both nodes, also where a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="needs the packages of the extra ray")

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as parquet
import ray

from tests.scoring import models
from tests.scoring.stops import failing_after
from tests.support import processes
from tests.support.models import branches, save_apart
from zrt.cli import main
from zrt.errors import ArgumentError, FileError, ModelNotFoundError
from zrt.loading.session_options import SessionOptions
from zrt.ray import connection
from zrt.ray import score as on_ray
from zrt.scoring import parts, sources
from zrt.scoring import score as local
from zrt.scoring.blocks import Chunk
from zrt.scoring.scorer import Scorer
from zrt.scoring.sources import Piece, open_source
from zrt.session.session import Session
from zrt.session.spec import SessionSpec

ROWS = 1000
X = np.random.default_rng(0).random((ROWS, 3), np.float32)
K = np.arange(ROWS)
BAD = {3: None, 500: [1.0], 501: [1.0, None, 2.0], 999: [1.0] * 4}
CSV = ("--input", "x0=x", "--input", "x1=x", "--input", "x2=x")


@pytest.fixture(autouse=True)
def small_chunks(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "CHUNK_ROWS", 100)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(models.affine())
    return path


def table(bad: dict[int, Any] | None = None) -> Any:
    rows = [(bad or {}).get(number, row) for number, row in enumerate(X.tolist())]
    return pa.table({"x": pa.array(rows, pa.list_(pa.float32())), "k": K, "id": [f"row {number}" for number in K]})


def write(kind: str, folder: Path, bad: dict[int, Any] | None = None) -> Path:
    path = folder / f"data.{kind}"
    if kind == "npz":
        np.savez(path, x=X, k=K)
    elif kind == "csv":
        pyarrow.csv.write_csv(pa.table({f"x{index}": X[:, index] for index in range(3)} | {"k": K}), path)
    elif kind == "arrow":
        with pa.ipc.new_file(str(path), table().schema) as writer:
            writer.write_table(table(bad), max_chunksize=300)
    else:
        parquet.write_table(table(bad), path, row_group_size=300)
    return path


def run(*arguments: object, capsys: Any) -> tuple[int, Any]:
    status = main(["score", *map(str, arguments), "--json"])
    out = capsys.readouterr()
    return status, json.loads(out.out) if out.out else out.err


def content(path: Path) -> Any:
    """The bytes of a file of results; of numpy's files, which have times in them, those of the arrays."""
    if path.suffix == ".npz":
        with np.load(path) as found:
            return {name: (found[name].dtype, found[name].shape, found[name].tobytes()) for name in found.files}
    return path.read_bytes()


@pytest.mark.parametrize(
    ("source", "target", "bad", "more"),
    [
        ("parquet", "arrow", BAD, ("--keep", "id")),
        ("arrow", "parquet", BAD, ("--keep", "id", "--skip-bad")),
        ("csv", "npz", {}, CSV),
        ("npz", "csv", {}, ("--batch", 7, "--lanes", 1)),
    ],
)
def test_results_are_the_local_ones(
    cluster: Any,
    model: Path,
    tmp_path: Path,
    source: str,
    target: str,
    bad: dict[int, Any],
    more: tuple[object, ...],
    capsys: Any,
) -> None:
    data = write(source, tmp_path, bad)
    here, there = tmp_path / f"here.{target}", tmp_path / f"there.{target}"
    status, wanted = run(model, data, here, *more, capsys=capsys)
    ray_status, found = run(model, data, there, *more, "--ray", cluster.address, "--actors", 2, capsys=capsys)
    assert ray_status == status == int(bool(bad) and "--skip-bad" not in more), found
    assert {name: found[name] for name in ("rows", "bad_rows", "bad")} == {
        "rows": ROWS,
        "bad_rows": len(bad),
        "bad": wanted["bad"],
    }
    assert content(there) == content(here)


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_batches_have_the_rows_of_a_local_run(
    cluster: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sources, "PIECE_ROWS", 450)
    model, data = tmp_path / "model.onnx", tmp_path / f"data.{kind}"
    model.write_bytes(models.batch_sums())
    if kind == "npy":
        np.save(data, X)
    else:
        data = write("parquet", tmp_path)
    here, there = tmp_path / "here.npy", tmp_path / "there.npy"
    more = ("--batch", 24, "--output-format", "npy")
    assert run(model, data, here, *more, capsys=capsys)[0] == 0
    status, found = run(model, data, there, *more, "--ray", cluster.address, "--actors", 1, capsys=capsys)
    assert status == 0, found
    np.testing.assert_array_equal(np.load(there), np.load(here))


def test_relative_paths(
    cluster: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A folder of files, which the workers look for elsewhere than here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write("parquet", tmp_path / "data")
    more = ("--ray", cluster.address, "--actors", 1)
    for source, target in (
        ("data", "a.arrow"),
        ("data/data.parquet", "b.arrow"),
        ("../" + tmp_path.name + "/data", "c.arrow"),
    ):
        status, found = run("model.onnx", source, target, *more, capsys=capsys)
        assert status == 0, found
        assert read(tmp_path / target)["n"].to_pylist() == [2 * number for number in range(ROWS)]


def test_operators_in_python_are_refused(cluster: Any, model: Path, tmp_path: Path, capsys: Any) -> None:
    data = write("npz", tmp_path)
    more = ("--ray", cluster.address, "--import", "my_ops")
    status, found = run(model, data, tmp_path / "r.npz", *more, capsys=capsys)
    assert status == 2
    assert "--import does not go with --ray" in found


def test_killed_actor_loses_no_row(
    cluster: Any,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    background: Any,
    eventually: Any,
    capsys: Any,
) -> None:
    """An actor is killed while it has a chunk in the middle of the data set: another one scores that chunk again."""
    folder = tmp_path / "seen"
    folder.mkdir()

    class Telling:
        """Tells the node and the process of each chunk, and waits in the middle."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            from zrt.ray.score import ChunkScorer

            self._actor = ChunkScorer(*arguments, **named)

        def __call__(self, batch: Any) -> Any:
            import time

            (chunk,) = on_ray._unpack(batch)
            node = ray.get_runtime_context().get_node_id()
            (folder / f"{chunk.first}-{os.getpid()}-{node}").touch()
            deadline = time.monotonic() + 60
            while chunk.first == 500 and not (folder / "go").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield from self._actor(batch)

    data, here, there = write("parquet", tmp_path), tmp_path / "here.arrow", tmp_path / "there.arrow"
    more = ["--batch", "50", "--json"]  # Two make a chunk.
    assert run(model, data, here, *more, capsys=capsys)[0] == 0
    monkeypatch.setattr(on_ray, "ChunkScorer", Telling)
    job = background(lambda: main(["score", *map(str, (model, data, there)), "--ray", cluster.address, *more]))
    eventually(lambda: list(folder.glob("500-*")) or not job.running)
    assert job.running or job.result() == 0
    (waiting,) = folder.glob("500-*")
    os.kill(int(waiting.name.split("-")[1]), signal.SIGKILL)
    (folder / "go").touch()
    assert job.result(120) == 0
    # Ray tells the death of the actor, and not on standard output.
    assert json.loads(capsys.readouterr().out)["rows"] == ROWS
    assert content(there) == content(here)
    seen = [path.name.split("-") for path in folder.glob("*-*-*")]
    assert {first for first, _, _ in seen} == {str(first) for first in range(0, ROWS, 100)}
    assert len([first for first, _, _ in seen if first == "500"]) == 2
    assert {node for _, _, node in seen} == {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def test_interrupt_leaves_complete_files(
    cluster: Any, model: Path, tmp_path: Path, eventually: Any, capsys: Any
) -> None:
    """Ctrl-C in the middle of a run on the cluster; a local run goes on, and its results are those of one run."""
    count = 200_000
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(1).random((count, 3), np.float32), k=np.arange(count))
    arguments = [str(model), str(tmp_path / "data.npz"), str(tmp_path / "results.npz"), "--json"]
    started = subprocess.Popen(
        [sys.executable, Path(__file__).parent / "scripts" / "score.py", "score", *arguments, "--ray", cluster.address],
        env=processes.environment(),
        text=True,
        stderr=subprocess.PIPE,
        # Python leaves SIGINT ignored where its parent had it so.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    manifest = tmp_path / "results.npz.parts" / parts.MANIFEST
    eventually(lambda: (manifest.exists() and json.loads(manifest.read_text())["done"]) or started.poll() is not None)
    started.send_signal(signal.SIGINT)
    _, complaint = started.communicate(timeout=60)
    assert started.returncode == 130, complaint
    assert "--resume goes on" in complaint
    done = json.loads(manifest.read_text())["done"]
    assert 0 < done < count
    assert run(*arguments[:3], "--resume", capsys=capsys)[0] == 0
    assert run(*arguments[:2], tmp_path / "whole.npz", capsys=capsys)[0] == 0
    assert content(tmp_path / "results.npz") == content(tmp_path / "whole.npz")


def test_threads_of_ray_end_before_the_connection(
    cluster: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Ray ends a process, with status 1, in which one of its threads meets a connection that is shut down."""
    left: list[str] = []

    @contextmanager
    def connected(address: str) -> Iterator[None]:
        before = set(threading.enumerate())
        try:
            yield
        finally:
            left.extend(each.name for each in set(threading.enumerate()) - before)

    def interrupted(self: parts.Parts, result: Any) -> None:
        left.append("".join(each.name for each in threading.enumerate() if "StreamingExecutor" in each.name))
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "connected", connected)
    monkeypatch.setattr(parts.Parts, "add", interrupted)
    count = 200_000
    np.savez(tmp_path / "data.npz", x=np.zeros((count, 3), np.float32), k=np.arange(count))
    status, found = run(model, tmp_path / "data.npz", tmp_path / "results.npz", "--ray", cluster.address, capsys=capsys)
    assert status == 130, found
    # The first name is that of the thread during the run.
    during, *after = left
    assert (during.startswith("StreamingExecutor"), after) == (True, [])


def test_resumes_a_local_run(
    cluster: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    data, here, there = write("parquet", tmp_path), tmp_path / "here.arrow", tmp_path / "there.arrow"
    assert run(model, data, here, capsys=capsys)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(parts, "PART_BYTES", 1)
        patch.setattr(local, "CHUNK_ROWS", 70)
        patch.setattr(parts.Parts, "add", failing_after(parts.Parts.add, 5))
        with pytest.raises(RuntimeError, match="stopped"):
            main(["score", str(model), str(data), str(there), "--json", "--batch", "64"])
    capsys.readouterr()
    assert 0 < json.loads((tmp_path / "there.arrow.parts" / parts.MANIFEST).read_text())["done"] < ROWS
    status, found = run(model, data, there, "--resume", "--ray", cluster.address, capsys=capsys)
    assert status == 0, found
    assert read(there) == read(here)


def read(path: Path) -> Any:
    """The rows of an Arrow file, however they lie in batches."""
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all().combine_chunks()


class TestMistakes:
    def test_data_set_that_the_workers_do_not_see(self, cluster: Any, model: Path, tmp_path: Path) -> None:
        data = write("npz", tmp_path)
        source = open_source(data, "npz")
        data.unlink()
        options, columns = SessionOptions(intra_op_num_threads=1), {"x": ["x"], "k": ["k"]}
        actors, scorer = on_ray.actors_for(model, options, None, 1, 1), Scorer(Session(model, options), 64)
        with pytest.raises(FileError, match=r"npz': there is no such file or folder \(on node '.+' of the cluster"):
            list(on_ray.results(source, data, "npz", columns, 0, actors=actors, scorer=scorer))

    def test_cluster_that_lacks_a_package(
        self, cluster: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        class Broken:
            """An actor of a node without zrt."""

            def __init__(self, *arguments: Any, **named: Any) -> None:
                raise ModuleNotFoundError("No module named 'zrt'")

            def __call__(self, batch: Any) -> Any:
                return batch

        monkeypatch.setattr(on_ray, "ChunkScorer", Broken)
        status, found = run(
            model, write("npz", tmp_path), tmp_path / "results.npz", "--ray", cluster.address, capsys=capsys
        )
        assert status == 1
        assert "the cluster of Ray fails: ModuleNotFoundError: No module named 'zrt'" in found

    def test_model_that_a_worker_cannot_load(self, model: Path) -> None:
        """The actor itself, without a cluster."""
        actor = on_ray.ChunkScorer(SessionSpec(model.with_name("none.onnx")), lanes=1)
        (table,) = actor(on_ray._pack(Chunk(0, 1, {})))
        (failure,) = on_ray._unpack(table)
        with pytest.raises(ModelNotFoundError, match=r"none.onnx.*\(on node '.+' of the cluster\)"):
            raise failure.error

    def test_column_of_another_kind(self, model: Path) -> None:
        actor = on_ray.ChunkScorer(SessionSpec(model), lanes=1)
        (table,) = actor(on_ray._pack(Chunk(0, ROWS, {"x": X, "k": K / 2})))
        (failure,) = on_ray._unpack(table)
        assert str(failure.error) == "column 'k': float64 cannot be fed as int64 to input 'k'"

    def test_data_set_that_changed(self, tmp_path: Path) -> None:
        data = on_ray.Data(write("npz", tmp_path), "npz", ["k"], 0, 100, 50)
        *chunks, failed = on_ray._read(on_ray._pack(Piece(0, 2 * ROWS, "", None)), data)
        assert len(chunks) >= ROWS // 100
        (failure,) = on_ray._unpack(failed)
        assert "has other rows than where the run began" in str(failure.error)

    def test_numbers_of_actors_and_lanes(self, cluster: Any, model: Path) -> None:
        options = SessionOptions()
        assert on_ray.actors_for(model, options, None, None, None)[1:] == (2, 4)
        assert on_ray.actors_for(model, options, None, None, 3)[1:] == (2, 3)
        assert on_ray.actors_for(model, options, None, None, 1)[1:] == (8, 1)
        assert on_ray.actors_for(model, options, None, 1, None)[1:] == (1, 4)
        assert on_ray.actors_for(model, options, None, 20, 20)[1:] == (20, 20)
        with pytest.raises(ArgumentError, match="no node of the cluster has 5 CPUs for the lanes of an actor"):
            on_ray.actors_for(model, options, None, None, 5)

    def test_actors_know_the_folder_of_weights_in_subgraphs(self, tmp_path: Path) -> None:
        model = save_apart(branches(), tmp_path / "model.onnx", "inner.weights")
        spec = on_ray.actors_for(model, SessionOptions(), None, 1, 1).spec
        assert spec.load().run([True])[0].tolist() == [1] * 64

    @pytest.mark.parametrize(
        ("more", "status", "message"),
        [
            (["--ray", "nothing"], 2, "'nothing' is no address of a cluster"),
            (["--ray", "127.0.0.1:1"], 1, "no cluster of Ray at '127.0.0.1:1'"),
            (["--actors", "2"], 2, "--actors goes with --ray"),
        ],
    )
    def test_of_the_command(
        self,
        model: Path,
        tmp_path: Path,
        more: list[str],
        status: int,
        message: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Any,
    ) -> None:
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        found = run(model, write("npz", tmp_path), tmp_path / "results.npz", *more, capsys=capsys)
        assert found[0] == status
        assert message in found[1]
        assert not (tmp_path / "results.npz.parts").exists()


def test_slice_is_pickled_alone() -> None:
    column = pa.array(range(100_000))
    packed = on_ray._pack(column[50_000:50_010])
    assert packed.nbytes < 5000
    assert next(on_ray._unpack(packed)).to_pylist() == list(range(50_000, 50_010))


def test_wide_rows_are_cut_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "CHUNK_BYTES", 160)  # 13 rows
    whole = Chunk(7, ROWS, {"x": X})
    cut = list(on_ray._cut(whole, 0, 4))
    assert [chunk.size for chunk in cut] == [12] * (ROWS // 12) + [ROWS % 12]
    assert cut[1].first == 19
    np.testing.assert_array_equal(np.concatenate([chunk.columns["x"] for chunk in cut]), X)
    # A batch that is larger than that stays whole.
    assert [chunk.size for chunk in on_ray._cut(whole, 0, 400)] == [400, 400, 200]
    resumed = list(on_ray._cut(whole, 7 + 16, 4))
    assert [(chunk.first, chunk.size) for chunk in resumed[:2]] == [(23, 8), (31, 12)]
    np.testing.assert_array_equal(np.concatenate([chunk.columns["x"] for chunk in resumed]), X[16:])
