"""Capsules, and the feeds, the differences and the growth of the arena in the results of `zrt.replay`."""

import threading
from pathlib import Path

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt.diagnosis import capsules

QUIET = zrt.SessionOptions(log_severity_level="FATAL", intra_op_num_threads=1)
MODEL = models.parsed("(float[n] x) => (float[n] y) { a = Exp(x) b = Cos(a) y = Exp(b) }")
SMALL, LARGE = np.zeros(4, np.float32), np.zeros(1 << 20, np.float32)
EACH = 1e-9
"""So many seconds: each run is slower, and leaves a capsule."""


@pytest.fixture
def session() -> zrt.Session:
    session = zrt.Session(MODEL, QUIET)
    session.run([SMALL])
    return session


def test_growth_of_the_arena_is_in_the_capsule_of_the_run(session: zrt.Session, tmp_path: Path) -> None:
    with session.record(capsules=tmp_path, slower_than=EACH) as recorder:
        # ONNX Runtime plans the memory of a shape in its first run, and allocates by the plan in the second.
        for array in (SMALL, LARGE, LARGE, LARGE):
            session.run([array])
        first, second, _, last = (zrt.replay(capsule, MODEL) for capsule in recorder.capsules)
    assert (first.arena_growth, last.arena_growth) == (0, 0)
    assert second.arena_growth is not None
    assert second.arena_growth >= LARGE.nbytes
    assert f"then the arena had grown by {second.arena_growth} bytes\n" in str(second)


def test_growth_of_a_run_whose_capsule_was_lost_is_in_the_next(session: zrt.Session, tmp_path: Path) -> None:
    folder = tmp_path / "capsules"
    folder.write_text("no folder")
    with session.record(capsules=folder, slower_than=EACH) as recorder:
        for _ in range(3):
            session.run([LARGE])
        assert recorder.capsules == ()
        folder.unlink()
        session.run([LARGE])
        growth = zrt.replay(recorder.capsules[0], MODEL).arena_growth
    assert growth is not None
    assert growth >= LARGE.nbytes


def test_arena_that_shrank_is_said_to_have_shrunk(session: zrt.Session, tmp_path: Path) -> None:
    for _ in range(2):
        session.run([LARGE])
    with session.record(capsules=tmp_path, slower_than=EACH) as recorder:
        session.run([LARGE], options=zrt.RunOptions(config_entries={"memory.enable_memory_arena_shrinkage": "cpu:0"}))
        found = zrt.replay(recorder.capsules[-1], MODEL)
    assert found.arena_growth is not None
    assert found.arena_growth <= -LARGE.nbytes
    assert f"then the arena had shrunk by {-found.arena_growth} bytes\n" in str(found)


def test_options_that_are_no_data_are_a_difference(tmp_path: Path) -> None:
    """A capsule has the others."""
    (tmp_path / "folder").mkdir()
    path = tmp_path / "m.onnx"
    path.write_bytes(MODEL.SerializeToString())
    options = zrt.SessionOptions(
        memory_limit="1MiB",
        thread_factory=lambda work: threading.Thread(target=work),
        trusted_folders=[tmp_path / "folder"],
        config_entries={"ep.share_ep_contexts": "0"},
        log_severity_level="FATAL",
    )
    session = zrt.Session(path, options)
    with session.record(capsules=tmp_path / "capsules") as recorder:
        with pytest.raises(zrt.errors.MemoryLimitError):
            session.run([np.ones(1 << 20, np.float32)])
        found = zrt.replay(recorder.capsules[0])
    assert found.failed_again
    assert found.differences == (
        "thread_factory was given then, which the capsule does not have",
        "trusted_folders: left out, so copy the weights into the model's folder",
        "config_entries['ep.share_ep_contexts']: left out",
    )


def test_feeds_whose_names_numpy_could_take_for_each_other(tmp_path: Path) -> None:
    proto = models.parsed("(float[2] x, float[2] z) => (float[2] y) { y = Sub(x, z) }")
    proto.graph.input[1].name = proto.graph.node[0].input[1] = "x.npy"
    session = zrt.Session(proto, QUIET)
    with session.record(capsules=tmp_path, slower_than=EACH, feeds=True) as recorder:
        session.run({"x": np.ones(2, np.float32), "x.npy": np.zeros(2, np.float32)})
        _, feeds = capsules.read(recorder.capsules[0])
    assert {name: array.tolist() for name, array in feeds.items()} == {"x": [1, 1], "x.npy": [0, 0]}


def test_model_from_memory_has_no_options(session: zrt.Session, tmp_path: Path) -> None:
    with session.record(capsules=tmp_path, slower_than=EACH) as recorder:
        session.run([SMALL])
        found = zrt.replay(recorder.capsules[0], MODEL)
    assert found.differences == ("the model came from memory then: the capsule has no options",)


@pytest.mark.azure
def test_options_of_providers_are_a_difference(tmp_path: Path) -> None:
    """A capsule has the names of the providers alone."""
    path = tmp_path / "m.onnx"
    path.write_bytes(MODEL.SerializeToString())
    session = zrt.Session(path, QUIET, [("azure", {"a": "b"}), "cpu"])
    with session.record(capsules=tmp_path / "capsules", slower_than=EACH) as recorder:
        session.run([SMALL])
        found = zrt.replay(recorder.capsules[0])
    name = "AzureExecutionProvider"
    assert found.differences == (f"{name} had options then, which the capsule does not have",)


@pytest.mark.parametrize("feeds", [False, True])
def test_initializers_that_were_fed_are_fed_again(tmp_path: Path, feeds: bool) -> None:
    model = models.parsed("(float[n] x, int64[k] s) => (float[m] y) <int64[1] s = {6}> { y = Reshape(x, s) }")
    session = zrt.Session(model, QUIET)
    with session.record(capsules=tmp_path, feeds=feeds) as recorder:
        with pytest.raises(zrt.errors.FailError):
            session.run({"x": np.zeros(6, np.float32), "s": np.array([5])})
        found = zrt.replay(recorder.capsules[0], model)
    assert found.failed_again


def test_feeds_of_more_dimensions_than_a_record_has_are_made_up(tmp_path: Path) -> None:
    kind = "float[n, 1, 1, 1, 1, 1, n, k, 2]"
    model = models.parsed(f"({kind} x) => ({kind} y) {{ y = Neg(x) }}")
    session = zrt.Session(model, QUIET)
    with session.record(capsules=tmp_path, slower_than=EACH) as recorder:
        session.run([np.zeros((3, 1, 1, 1, 1, 1, 3, 4, 2), np.float32)])
        found = zrt.replay(recorder.capsules[0], model)
    assert (found.error_now, found.made_up) == (None, True)


def test_capsules_stay_in_the_folder_of_the_time_when_the_recording_began(
    session: zrt.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with session.record(capsules="capsules", slower_than=EACH) as recorder:
        monkeypatch.chdir("other")
        session.run([SMALL])
        assert [Path(each).parent for each in recorder.capsules] == [tmp_path / "capsules"]


def test_run_that_a_shape_failed_fails_again(tmp_path: Path) -> None:
    model = models.parsed("(float[2, 3] x) => (float[2, 3] y) { y = Neg(x) }")
    session = zrt.Session(model, QUIET)
    values = {"x": zrt.Value.from_array(np.zeros((2, 4), np.float32))}
    with session.record(capsules=tmp_path) as recorder:
        with pytest.raises(zrt.errors.InvalidArgumentError):
            session.run_values(values)
        found = zrt.replay(recorder.capsules[0], model)
    assert found.failed_again
    assert "'x'" in str(found.error_now)


def test_feeds_that_cannot_be_made_up_are_no_failure_of_the_run(tmp_path: Path) -> None:
    model = models.parsed("(seq(float[n]) x, int64 at) => (float[n] y) { y = SequenceAt(x, at) }")
    session = zrt.Session(model, QUIET)
    with session.record(capsules=tmp_path, feeds=True) as recorder:
        with pytest.raises(zrt.errors.InvalidArgumentError):
            session.run({"x": [np.zeros(2, np.float32)], "at": np.array(5)})
        with pytest.raises(zrt.errors.UnsupportedError, match="'x' is a sequence"):
            zrt.replay(recorder.capsules[0], model)


def test_file_that_changed_after_the_recording_began_has_no_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MODEL.SerializeToString())
    session = zrt.Session(path, QUIET)
    with session.record(capsules=tmp_path / "capsules", slower_than=EACH) as recorder:
        other = models.parsed("(float[n] x) => (float[n] y) { y = Neg(x) }")
        path.write_bytes(other.SerializeToString())
        session.run([SMALL])
        found = zrt.replay(recorder.capsules[0])
    assert found.differences == ("the capsule has no fingerprint of the model, which may be another one now",)
