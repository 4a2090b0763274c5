"""Runs of `zrt score` that are killed anywhere: after ``--resume`` the results are those of a run that was not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.scoring import models
from tests.support import compiler, processes
from tests.support.times import TIMES

pytest.importorskip("pyarrow", reason="needs the packages of the extra score")

import pyarrow as pa
import pyarrow.parquet as parquet

HERE = Path(__file__).parent
ROWS = 60

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the preloaded library names Linux's calls")

# Of the slow test; 1,000 take some minutes.
INSTANTS = min(100 * TIMES, 1000)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("kills") / "kills.so"
    subprocess.run([*compiler.command(), "-shared", "-fPIC", "-o", library, HERE / "kills.c", "-ldl"], check=True)
    return library


@pytest.fixture
def kill(tmp_path: Path, library: Path):
    (tmp_path / "model.onnx").write_bytes(models.affine())
    x = np.arange(ROWS * 3, dtype=np.float32).reshape(-1, 3)
    rows = [None if number in (7, 33) else row for number, row in enumerate(x.tolist())]
    columns = {
        "x": pa.array(rows, pa.list_(pa.float32())),
        "k": np.arange(ROWS),
        "id": [f"row {n}" for n in range(ROWS)],
    }
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet", row_group_size=25)

    def kill(*arguments: str) -> int:
        """The number of runs that were killed."""
        done = subprocess.run(
            [sys.executable, HERE / "scripts" / "kills.py", tmp_path, *arguments],
            env={**processes.environment(), "LD_PRELOAD": str(library)},
            capture_output=True,
            text=True,
            timeout=3000,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    return kill


@pytest.mark.parametrize("target", ["results", "results.csv"])
def test_kill_at_some_calls(kill, target: str) -> None:
    assert kill(target, "csv", "every:7", "--overwrite") > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "kind", "more"),
    [
        ("results", "parquet", ()),
        ("results", "parquet", ("--overwrite",)),
        ("results.parquet", "parquet", ()),
        ("results.arrow", "arrow", ("--overwrite",)),
        ("results.csv", "csv", ("--overwrite",)),
    ],
)
def test_kill_at_each_call_that_writes(kill, target: str, kind: str, more: tuple[str, ...]) -> None:
    assert kill(target, kind, "every:1", *more) > 50


@pytest.mark.slow
@pytest.mark.parametrize("target", ["results", "results.csv"])
def test_kill_at_random_instants(kill, target: str) -> None:
    assert kill(target, "csv", f"random:{INSTANTS}") > INSTANTS // 4
