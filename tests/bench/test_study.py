from __future__ import annotations

import json
import sys

import pytest

from tests.support import models
from zrt import BufferPolicy, SessionOptions
from zrt.bench import study
from zrt.bench.given import Given
from zrt.bench.study import Settings
from zrt.errors import ModelNotFoundError

OURS = ["c_loop", "lane", "prepared_run", "session_run"]
THEIRS = ["ort_run", "ort_run_with_iobinding"]


@pytest.mark.official
def test_every_contender_is_measured_against_the_c_loop(saved):
    pytest.importorskip("onnxruntime")
    report = study.measure(Settings(saved(models.add()), runs=20))
    assert [row.key for row in report.rows] == OURS + THEIRS
    assert report.rows[0].ratio == 1.0
    for row in report.rows:
        assert row.series.median > 0
        assert row.series.runs * len(row.series.means) >= 20
        assert len(row.latency.samples) >= 20
    assert not report.unmeasured
    assert not report.official.own_process


@pytest.mark.official
def test_onnxruntime_in_its_own_process_gives_the_same_report(saved):
    pytest.importorskip("onnxruntime")
    report = study.measure(Settings(saved(models.add()), runs=5, own_process=True))
    assert [row.key for row in report.rows] == OURS + THEIRS
    assert report.official.own_process
    assert report.official.load_ns > 0


def test_missing_onnxruntime_leaves_zrts_contenders(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    report = study.measure(Settings(saved(models.add()), runs=5))
    assert [row.key for row in report.rows] == OURS
    assert list(report.unmeasured) == THEIRS
    assert report.official.version == ""
    assert all(name.endswith("_to_c_loop") for name in report.ratios)


@pytest.mark.parametrize(
    "model",
    [models.mixed(), models.non_zero(), models.passing_through(), models.scalar_and_empty(), models.to_sequence()],
    ids=["mixed", "data-dependent", "passing-through", "scalar-and-empty", "sequence"],
)
def test_models_of_every_kind_are_measured(saved, model):
    report = study.measure(Settings(saved(model), runs=3))
    assert [row.key for row in report.rows][:4] == OURS
    json.dumps(report.to_dict(), allow_nan=False)


def test_settings_reach_the_lane(saved):
    settings = Settings(
        saved(models.double()),
        SessionOptions(intra_op_num_threads=2),
        runs=3,
        given=Given(shapes={"x": (8, 4)}),
        policy=BufferPolicy(alignment=4096),
        lanes=2,
    )
    report = study.measure(settings)
    assert {name: str(fed) for name, fed in report.inputs.items()} == {"x": "float32[8, 4]"}
    assert (report.policy, report.threads) == ("alignment=4096", 2)
    assert report.together is not None
    assert len(report.together.latencies) == 2


def test_progress_names_every_stage(saved):
    told = []
    study.measure(Settings(saved(models.add()), runs=3, lanes=2), lambda *step: told.append(step))
    assert list(dict.fromkeys(stage for stage, _, _ in told)) == ["loading", "batches", "single calls", "2 lanes"]
    last = {stage: (done, total) for stage, done, total in told}
    assert all(done == total for done, total in last.values())


def test_missing_model_raises_its_own_error(tmp_path):
    with pytest.raises(ModelNotFoundError):
        study.measure(Settings(tmp_path / "nope.onnx"))
