import json
from pathlib import Path

import pytest

import zrt
from tests.support import models
from zrt.bench import study
from zrt.bench.report import Settings

OURS = ["c_loop", "lane", "prepared_run", "session_run"]
THEIRS = ["ort_run", "ort_run_with_iobinding"]


@pytest.mark.official
@pytest.mark.parametrize("paced", [False, True])
def test_onnxruntime_in_its_own_process_gives_the_same_report(saved, paced):
    pytest.importorskip("onnxruntime")
    settings = Settings(saved(models.add()), runs=4, paced=paced, self_check=True, own_process=True)
    report = study.measure(settings)
    assert report.official.own_process
    assert report.official.load_ns > 0
    assert [row.key for row in report.rows] == [*OURS, *THEIRS, "ort_run_again"]
    for row in report.rows:
        assert (row.series.runs, len(row.series.means), len(row.latency.samples)) == (1, 4, 4)
        assert (row.latency.samples.tolist() == sorted(row.series.means)) is paced
    assert report.ratios["ort_run_again_to_ort_run"] > 0


@pytest.mark.parametrize(
    "model",
    [
        models.mixed(),
        models.non_zero(),
        models.passing_through(),
        models.scalar_and_empty(),
        models.to_sequence(),
    ],
    ids=["mixed", "data-dependent", "passing-through", "scalar-and-empty", "sequence"],
)
def test_models_of_every_kind_are_measured(saved, model):
    report = study.measure(Settings(saved(model), runs=3))
    assert [row.key for row in report.rows][:4] == OURS
    json.dumps(report.to_dict(), allow_nan=False)


def test_progress_names_every_stage(saved):
    told = []
    study.measure(Settings(saved(models.add()), runs=3, lanes=2), lambda *step: told.append(step))
    assert list(dict.fromkeys(stage for stage, _, _ in told)) == ["loading", "batches", "single calls", "2 lanes"]
    last = {stage: (done, total) for stage, done, total in told}
    assert all(done == total for done, total in last.values())


@pytest.mark.parametrize(("given", "found", "expected"), [(0, 3, 3), (2, 3, 2), (0, 0, None)])
def test_onnxruntime_gets_the_threads_that_zrt_has_chosen(saved, monkeypatch, given, found, expected):
    class AskedError(Exception):
        """In place of a measurement."""

    def ask(model, options, *arguments):
        raise AskedError(options.get("intra_op_num_threads"))

    monkeypatch.setattr("zrt.environment.cpu_budget.pool_threads", lambda: found)
    monkeypatch.setattr("zrt.bench.official_contenders.set_up", ask)
    settings = Settings(saved(models.add()), zrt.SessionOptions(intra_op_num_threads=given))
    with pytest.raises(AskedError) as asked:
        study.measure(settings)
    assert asked.value.args == (expected,)


def test_options_that_are_config_entries_come_to_onnxruntime_as_such(monkeypatch):
    # With a budget each session has config entries of its own.
    monkeypatch.setattr("zrt.environment.cpu_budget.current", lambda: True)
    given = zrt.SessionOptions(intra_op_num_threads=2, intra_op_thread_affinities="1", set_denormal_as_zero=True)
    options = study._official_options(Settings(Path("model.onnx"), given))
    entries = options.pop("config_entries")
    assert options == {"intra_op_num_threads": 2}
    assert (entries["session.intra_op_thread_affinities"], entries["session.set_denormal_as_zero"]) == ("1", "1")
