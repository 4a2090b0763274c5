import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zrt.cli import main
from zrt.cli.common import shipped


@pytest.fixture(autouse=True)
def _no_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZRT_MODEL", raising=False)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes a model to a file."""

    def save(model: bytes, name: str = "model.onnx") -> Path:
        path = tmp_path / name
        path.write_bytes(model)
        return path

    return save


@pytest.fixture
def digits(saved: Callable[..., Path]) -> Path:
    """The shipped classifier as a file of the user's."""
    return saved(shipped("digits.onnx").read_bytes(), "digits.onnx")


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of options."""

    def write(document: str, name: str = "options.toml") -> Path:
        path = tmp_path / name
        path.write_text(document, "utf-8")
        return path

    return write


@pytest.fixture
def zrt(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the command and gives its standard output; its exit status must be `status`."""

    def run(*arguments: object, status: int = 0) -> str:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == status, err
        return out

    return run


@pytest.fixture
def zrt_json(zrt: Callable[..., str]) -> Callable[..., Any]:
    """The same with ``--json``: the document."""
    return lambda *arguments, status=0: json.loads(zrt(*arguments, "--json", status=status))


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the command, which must fail with `status` and print nothing but its complaint, which is given."""

    def run(*arguments: object, status: int) -> str:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (code, out) == (status, ""), err
        assert "Traceback" not in err
        return err

    return run


@pytest.fixture
def plots() -> None:
    """Skips tests of pictures where the package that draws them is missing."""
    pytest.importorskip("matplotlib")


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a package look as if it were not installed."""
    return lambda package: monkeypatch.setitem(sys.modules, package, None)


@pytest.fixture
def score(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Runs ``zrt score``: its exit status, and its document or complaint."""

    def run(*arguments: object) -> tuple[int, Any]:
        status = main(["score", *map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        return status, json.loads(out) if out else err

    return run


@pytest.fixture
def scored(score: Callable[..., tuple[int, Any]], saved: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Writes rows to a file, unless they are there, and scores them with a model; those of a CSV file are its lines.

    It returns the exit status, the report, and the columns of the results as lists.
    """
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    def run(
        model: bytes,
        rows: Any,
        *arguments: object,
        source: str = "data.parquet",
        target: str = "r.parquet",
        row_group_size: int | None = None,
    ) -> tuple[int, Any, dict[str, list[Any]]]:
        data, results = tmp_path / source, tmp_path / target
        if data.suffix == ".npz":
            np.savez(data, **rows)
        elif data.suffix == ".csv" and rows is not None:
            data.write_text("\n".join(rows))
        elif data.suffix == ".arrow":
            with pa.ipc.new_file(str(data), pa.table(rows).schema) as writer:
                writer.write_table(pa.table(rows))
        elif rows is not None:
            pa.parquet.write_table(pa.table(rows), data, row_group_size)
        status, report = score(saved(model), data, results, *arguments)
        if not results.exists():
            return status, report, {}
        found = pa.dataset.dataset(results, format=results.suffix[1:] or "parquet")
        return status, report, found.to_table().to_pydict()

    return run
