"""``zrt tune``: its table, and the file of options that it writes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zrt as package
from tests.support import models
from zrt.diagnosis import tune
from zrt.diagnosis.tune import Trial, Tuning

TRIALS = (
    Trial("as it is", "beside itself", "given", 1.001, 0.99, 1.01, 1.0),
    Trial("threads", "intra_op_num_threads=1", "chosen", 0.8, 0.75, 0.85, 0.9),
    Trial("spinning", "intra_op_allow_spinning=False", "no difference", reason="with one thread none waits"),
    Trial("arena", "memory=bounded", "failed", reason="it has none"),
    Trial("memory pattern", "enable_mem_pattern=False", "not tried", reason="there is no time left"),
)


@pytest.fixture
def model(saved: Callable[..., Path]) -> Path:
    return saved(models.add(["n", 4]))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The searches, each of which finds the same."""
    calls: list[tuple[Any, ...]] = []

    def tuned(spec: package.SessionSpec, *arguments: Any) -> Tuning:
        calls.append((spec, *arguments))
        options = spec.options
        options.intra_op_num_threads = 1
        return Tuning(arguments[1], package.Options(session=options), TRIALS, 0.81, {1: 2e3, 8: 5e2})

    monkeypatch.setattr(tune, "tuned", tuned)
    return calls


@pytest.mark.usefixtures("asked")
def test_table_and_words(zrt, model):
    lines = zrt("tune", model).splitlines()
    assert any(line.split()[-3:] == ["0.800", "0.750-0.850", "0.900"] for line in lines)
    assert "failed: memory=bounded: it has none" in lines
    assert "a row takes least in batches of 8: 0.500 µs" in lines
    assert lines[-3:] == [
        "no difference: intra_op_allow_spinning=False",
        "not tried: enable_mem_pattern=False",
        "intra_op_num_threads=1: 0.810 of the time of the given options",
    ]


def test_json(zrt_json, asked, model):
    document = zrt_json("tune", model, "--goal", "p99", "--seconds", "2m", "--shape", "x=3,4")
    assert (document["goal"], document["ratio"], document["trials"][1]["verdict"]) == ("p99", 0.81, "chosen")
    assert document["session"]["intra_op_num_threads"] == 1
    assert document["row_ns"] == {"1": 2000, "8": 500}
    [(spec, feeds, goal, seconds, _)] = asked
    assert (spec.model, goal, seconds) == (str(model), "p99", 120)
    assert {feed["x"].shape for feed in feeds} == {(3, 4)}
    assert len(feeds) == tune.PARTS


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_output_is_a_file_of_options(zrt, model, options, tmp_path, suffix):
    given = options('[session]\nenable_mem_pattern = false\n[run]\ntag = "kept"\n[[providers]]\nname = "cpu"\n')
    output = tmp_path / f"tuned.{suffix}"
    assert zrt("tune", model, "--options", given, "--output", output).endswith(f"options: {output}\n")
    tuned = package.load_options(output)
    assert (tuned.session.intra_op_num_threads, tuned.session.enable_mem_pattern) == (1, False)
    assert tuned.run is not None
    assert tuned.run.tag == "kept"
    assert tuned.providers == ["cpu"]


def test_output_replaces_no_file_by_mistake(complaint, zrt, asked, model, options, tmp_path):
    given = options("{}", "given.json")
    assert "same file" in complaint("tune", model, "--options", given, "--output", given, "--overwrite", status=2)
    assert "exists: --overwrite" in complaint("tune", model, "--output", given, status=2)
    assert "should end in .json or .toml" in complaint("tune", model, "--output", tmp_path / "options.txt", status=2)
    assert not asked
    zrt("tune", model, "--output", given, "--overwrite")
    assert json.loads(given.read_text())["session"]["intra_op_num_threads"] == 1


def test_output_that_cannot_be_written_takes_no_result_away(monkeypatch, zrt, zrt_json, model, tmp_path):
    folder = tmp_path / "folder"

    def tuned(spec: package.SessionSpec, *_: Any) -> Tuning:
        folder.rmdir()
        return Tuning("latency", package.Options(session=spec.options), TRIALS, 0.81)

    monkeypatch.setattr(tune, "tuned", tuned)
    arguments = ("tune", model, "--output", folder / "tuned.json")
    folder.mkdir()
    assert zrt_json(*arguments, status=1)["ratio"] == 0.81
    folder.mkdir()
    out = zrt(*arguments, status=1)
    assert "0.810 of the time" in out
    assert "options:" not in out


def test_interrupt_writes_nothing(monkeypatch, zrt, model):
    def interrupted(*_: Any) -> Tuning:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "tuned", interrupted)
    assert zrt("tune", model, "--output", model.parent / "tuned.json", status=130) == ""
    assert [path.name for path in model.parent.iterdir()] == ["model.onnx"]


def test_search_of_too_little_time(zrt_json, model):
    document = zrt_json("tune", model, "--seconds", "0.000001")
    assert {trial["verdict"] for trial in document["trials"]} == {"given", "not tried"}


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "1e300"])
def test_wrong_use(complaint, model, seconds):
    assert "--seconds" in complaint("tune", model, "--seconds", seconds, status=2)
    assert "goal" in complaint("tune", model, "--goal", "speed", status=2)
