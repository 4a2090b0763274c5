"""`python -m benches.budget` measures every contender in a process of its own and prints a row for each."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime", exc_type=ImportError, reason="the official package is the yardstick")
pytest.importorskip("pytest_benchmark", reason="the benches need it")

from benches import budget, real


def image(generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {"image": generator.random((1, 1, 8, 8), np.float32)}


@pytest.mark.slow
def test_tables_have_a_row_for_each_contender(monkeypatch, capsys):
    monkeypatch.setattr(budget, "MODELS", [real.Model(name, "zrt", "models/digits.onnx", image) for name in "ab"])
    monkeypatch.setattr(budget, "CASES", ((("a", "b"), 3), (("a",), 4)))
    budget.main(["--seconds", "0.05", "--rounds", "1", "--callers", "3"])
    lines = capsys.readouterr().out.splitlines()
    columns = [f"{model}: runs a second | p95, ms | longest, ms" for model in "ab"]
    assert lines[0] == f"| 3 callers | {' | '.join(columns)} |"
    rows = [line.split(" | ") for line in lines[2:-1]]
    assert [row[0].removeprefix("| ") for row in rows] == list(budget.CONTENDERS.values())
    # Each caller completes a run at least, in a time that may round to 0.0 ms.
    assert all(float(row[column].replace(",", "")) > 0 for row in rows for column in (1, 4))
