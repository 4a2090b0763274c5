"""`Session.record` and `zrt.replay`."""

import gc
import json
import logging
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.together import in_threads
from zrt.diagnosis import capsules as module
from zrt.errors import ArgumentError, ClosedError, FailError, FileError, ModelNotFoundError

QUIET = zrt.SessionOptions(log_severity_level="FATAL", intra_op_num_threads=1)
TEXT = "(float[n] x, int64[k] s) => (float[a, b] y) { y = Reshape(x, s) }"
X = np.arange(6, dtype=np.float32)
GOOD, BAD = [X, np.array([2, 3])], [X, np.array([4, 5])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "m.onnx"
    place.write_bytes(models.parsed(TEXT).SerializeToString())
    return place


@pytest.fixture
def session(path: Path) -> zrt.Session:
    return zrt.Session(path, QUIET)


def fail(session: zrt.Session) -> None:
    with pytest.raises(FailError):
        session.run(BAD)


def test_runs_are_recorded_in_order(session: zrt.Session) -> None:
    session.run(GOOD)
    before = time.monotonic()
    with session.record() as recorder:
        session.run(GOOD)
        fail(session)
        session.run_values({"x": zrt.Value.from_array(X[:4]), "s": zrt.Value.from_array(np.array([2, 2]))})
        runs = recorder.runs
    session.run(GOOD)
    assert [run.number for run in runs] == [1, 2, 3]
    assert [run.failed for run in runs] == [False, True, False]
    assert runs[0].shapes == {"x": (6,), "s": (2,)}
    assert runs[0].types == {"x": "float32", "s": "int64"}
    assert runs[2].shapes["x"] == (4,)
    assert {run.thread for run in runs} == {threading.get_ident()}
    assert before <= runs[0].began <= runs[1].began <= time.monotonic()
    assert all(0 < run.seconds < 60 for run in runs)


def test_ring_keeps_the_last(session: zrt.Session) -> None:
    with session.record(5) as recorder:
        for _ in range(12):
            session.run(GOOD)
        assert [run.number for run in recorder.runs] == [8, 9, 10, 11, 12]
        assert recorder.count == 12


def test_lanes_prepared_runs_and_futures_are_seen() -> None:
    digits = zrt.Session(files("zrt.models") / "digits.onnx", QUIET)
    image = np.zeros((1, 1, 8, 8), np.float32)
    with digits.record() as recorder:
        lane = digits.lane({"image": (1, 1, 8, 8)})
        trials = recorder.count
        lane.run()
        digits.prepare([image]).run()
        digits.submit([image]).result()
        assert recorder.count == trials + 3
        last = recorder.runs[-3:]
        assert [run.shapes for run in last] == [{"image": (1, 1, 8, 8)}] * 3
        assert last[2].thread != last[1].thread
    lane.run()
    digits.close()
    lane.run()


def test_inputs_of_bindings_are_recorded_as_they_are_bound(path: Path) -> None:
    session = zrt.Session(path, QUIET)
    with session.record() as recorder:
        binding = session.binding()
        binding.bind_input("s", np.array([2, 2]))
        for size in (4, 6):
            binding.bind_input("x", X[:size])
            binding.bind_output("y")
            with suppress(FailError):
                binding.run()
        binding.clear_inputs()
        binding.bind_input("x", X[:2].reshape(2))
        binding.bind_input("s", np.array([2]))
        with suppress(FailError):
            binding.run()
        four, six, last = recorder.runs
        assert (four.shapes, six.shapes) == ({"s": (2,), "x": (4,)}, {"s": (2,), "x": (6,)})
        assert four.types == {"s": "int64", "x": "float32"}
        assert last.shapes == {"x": (2,), "s": (1,)}
        assert [run.failed for run in (four, six, last)] == [False, True, False]


def test_state_of_a_lane_is_recorded_in_each_run() -> None:
    text = "(float[1] x, float[n] h) => (float[m] hn) { hn = Concat <axis = 0> (h, x) }"
    session = zrt.Session(models.parsed(text), QUIET)
    with session.record() as recorder:
        lane = session.lane(state=zrt.StatePorts([zrt.StatePair("hn", "h", 0)], 8))
        trials = recorder.count
        for _ in range(3):
            lane.run()
        assert [run.shapes["h"] for run in recorder.runs[trials:]] == [(0,), (1,), (2,)]


def test_freed_bindings_leave_no_inputs_to_others() -> None:
    """The address of a binding is taken again by another one."""
    texts = (f"(float[{n}] {name}) => (float[{n}] y) {{ y = Neg({name}) }}" for n, name in enumerate("abcdef", 1))
    sessions = [zrt.Session(models.parsed(text), QUIET) for text in texts]
    recorders = [session.record() for session in sessions]
    for _ in range(20):
        for session, recorder in zip(sessions, recorders, strict=True):
            [info] = session.inputs
            session.lane().run()
            assert recorder.runs[-1].shapes == {info.name: info.shape}


def test_lanes_of_several_threads_are_recorded_with_their_own_inputs() -> None:
    session = zrt.Session(models.parsed("(float[n] x) => (float[n] y) { y = Neg(x) }"), QUIET)
    sizes, together = range(1, 5), threading.Barrier(4)
    seen: dict[int, set[tuple[int, ...]]] = {size: set() for size in sizes}
    with session.record(10000) as recorder:

        def work(size: int) -> None:
            for _ in range(50):
                session.lane({"x": (size,)}).run()
            runs = [run for run in recorder.runs if run.thread == threading.get_ident()]
            seen[size] = {run.shapes["x"] for run in runs}
            together.wait()

        in_threads(*(partial(work, size) for size in sizes))
    assert seen == {size: {(size,)} for size in sizes}


def test_threads_record_at_once(session: zrt.Session, background: Callable[..., Any]) -> None:
    with session.record(64) as recorder:

        def work() -> None:
            for _ in range(200):
                session.run(GOOD)

        jobs = [background(work) for _ in range(4)]
        while any(job.running for job in jobs):
            assert all(run.shapes == {"x": (6,), "s": (2,)} for run in recorder.runs)
        for job in jobs:
            job.result()
        assert recorder.count == 800
        numbers = [run.number for run in recorder.runs]
        assert sorted(set(numbers)) == numbers
        # A thread that stops in the middle of its record may keep a later one from its place.
        assert len(set(numbers) & set(range(737, 801))) > 50


def test_sessions_have_a_recorder_each(path: Path) -> None:
    first, second = zrt.Session(path, QUIET), zrt.Session(path, QUIET)
    with first.record() as one, second.record() as other:
        first.run(GOOD)
        for _ in range(2):
            second.run(GOOD)
        assert (one.count, other.count) == (1, 2)
        with pytest.raises(ArgumentError, match="is recorded already"):
            first.record()
    with first.record() as again:
        first.run(GOOD)
        assert again.count == 1


def test_lane_of_an_earlier_recorder(tmp_path: Path) -> None:
    session = zrt.Session(models.parsed("(float[2] x) => (float[2] y) { y = Neg(x) }"), QUIET)
    first = session.record(10, capsules=tmp_path / "first", slower_than=1e-9)
    lane = session.lane()
    lane.run()
    assert first.capsules
    first.close()
    lane.run()
    assert len(list((tmp_path / "first").iterdir())) == 2
    with session.record(20) as second:
        lane.run()
        session.run([np.zeros(2, np.float32)])
        assert second.count == 2
    del first, second
    gc.collect()
    for _ in range(3):
        with session.record(5) as again:
            lane.run()
            assert again.count == 1


def test_recorders_begin_and_end_while_others_run(path: Path, background: Callable[..., Any]) -> None:
    sessions = [zrt.Session(path, QUIET) for _ in range(3)]
    stop = threading.Event()

    def run(session: zrt.Session) -> None:
        while not stop.is_set():
            session.run(GOOD)

    def record(session: zrt.Session) -> None:
        for size in range(1, 150):
            with session.record(size) as recorder:
                session.run(GOOD)
                assert all(each.shapes == {"x": (6,), "s": (2,)} for each in recorder.runs)
                assert recorder.count >= 1

    running = [background(partial(run, each)) for each in sessions]
    try:
        in_threads(*(partial(record, each) for each in sessions))
    finally:
        stop.set()
    for job in running:
        job.result()


def test_one_of_several_threads_records(session: zrt.Session) -> None:
    recorders: list[zrt.Recorder] = []

    def record() -> None:
        with suppress(ArgumentError):
            recorders.append(session.record())

    in_threads(*[record] * 8)
    (recorder,) = recorders
    session.run(GOOD)
    assert recorder.count == 1


def test_closed_objects(session: zrt.Session) -> None:
    recorder = session.record()
    recorder.close()
    recorder.close()
    recorder = session.record()
    session.close()
    recorder.close()
    with pytest.raises(ClosedError):
        session.record()
    with pytest.raises(ClosedError):
        session.run(GOOD)


def test_closed_while_another_thread_reads(session: zrt.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = session.record()
    for _ in range(3):
        session.run(GOOD)
    read = zrt.RecordedRun._read

    def closing(run: Any) -> zrt.RecordedRun:
        # As another thread could at this moment.
        recorder.close()
        return read(run)

    monkeypatch.setattr(zrt.RecordedRun, "_read", closing)
    assert [run.number for run in recorder.runs] == [1, 2, 3]
    assert recorder.closed


def test_closed_recorder_keeps_no_session(path: Path) -> None:
    session = zrt.Session(path, QUIET)
    recorder = session.record()
    gone = weakref.ref(session._open()), weakref.ref(recorder._open())
    recorder.close()
    session.close()
    gc.collect()
    assert all(each() is None for each in gone)


@pytest.mark.parametrize("closed", [False, True])
def test_session_and_recorder_are_freed(path: Path, tmp_path: Path, closed: bool) -> None:
    session = zrt.Session(path, QUIET)
    recorder = session.record(capsules=tmp_path / "capsules", feeds=True)
    fail(session)
    if closed:
        recorder.close()
    gone = weakref.ref(session), weakref.ref(recorder), weakref.ref(session._open())
    del session, recorder
    gc.collect()
    assert all(each() is None for each in gone)


class TestCapsules:
    def test_failed_run_can_be_replayed(self, session: zrt.Session, path: Path, tmp_path: Path) -> None:
        with session.record(capsules=tmp_path / "capsules", feeds=True) as recorder:
            session.run(GOOD)
            fail(session)
            (capsule,) = recorder.capsules
        found = zrt.replay(capsule)
        assert (found.failed_again, found.made_up, found.differences) == (True, False, ())
        assert found.reason == "it failed"
        assert found.error_then is not None
        assert "cannot be reshaped" in found.error_then
        assert found.error_now == found.error_then or "cannot be reshaped" in (found.error_now or "")
        json.dumps(found.to_dict())
        about, feeds = module.read(capsule)
        assert np.array_equal(feeds["x"], X)
        assert [run["number"] for run in about["before"]] == [1]
        assert about["fingerprint"] == str(zrt.fingerprint(path))

    def test_feeds_are_kept_only_where_asked(self, session: zrt.Session, tmp_path: Path) -> None:
        with session.record(capsules=tmp_path / "capsules") as recorder:
            fail(session)
            _, feeds = module.read(recorder.capsules[0])
            assert not feeds
            assert zrt.replay(recorder.capsules[0]).made_up

    def test_slow_run_leaves_one(self, session: zrt.Session, tmp_path: Path) -> None:
        with session.record(capsules=tmp_path / "capsules", slower_than=1e-9, feeds=True) as recorder:
            session.run(GOOD)
            (capsule,) = recorder.capsules
        found = zrt.replay(capsule)
        assert found.reason.startswith("it took")
        assert (found.error_then, found.error_now, found.failed_again) == (None, None, False)
        assert found.seconds_now is not None

    def test_run_beyond_the_median_leaves_one(self, tmp_path: Path) -> None:
        model = models.parsed("(float[n, n] x) => (float[n, n] y) { a = MatMul(x, x) y = MatMul(a, a) }")
        session = zrt.Session(model, QUIET)
        with session.record(capsules=tmp_path / "capsules", times_median=50) as recorder:
            for _ in range(200):
                session.run([np.zeros((2, 2), np.float32)])
            # On a busy machine a short run may take many times the median.
            quick = len(recorder.capsules)
            session.run([np.zeros((1500, 1500), np.float32)])
            assert len(recorder.capsules) == min(quick + 1, module.MOST)
            assert recorder.capsules[-1].endswith("-201.zrt-capsule")

    def test_newest_stay_and_others_files_too(self, session: zrt.Session, tmp_path: Path) -> None:
        folder = tmp_path / "capsules"
        folder.mkdir()
        (folder / "mine.txt").write_text("kept")
        with session.record(capsules=folder) as recorder:
            for _ in range(module.MOST + 3):
                fail(session)
            assert len(recorder.capsules) == module.MOST
            assert len(list(folder.iterdir())) == module.MOST + 1
            assert recorder.capsules[-1].endswith(f"-{module.MOST + 3}.zrt-capsule")

    def test_sessions_may_share_a_folder(self, path: Path, tmp_path: Path) -> None:
        folder = tmp_path / "capsules"
        sessions = [zrt.Session(path, QUIET) for _ in range(3)]
        recorders = [session.record(capsules=folder) for session in sessions]
        for session in sessions:
            fail(session)
        assert len(list(folder.iterdir())) == 3
        assert len({recorder.capsules for recorder in recorders}) == 3

    @pytest.mark.parametrize("feeds", [False, True])
    def test_run_of_a_lane_can_be_replayed(self, session: zrt.Session, tmp_path: Path, feeds: bool) -> None:
        with session.record(capsules=tmp_path / "capsules", feeds=feeds) as recorder:
            lane = session.lane({"x": (6,), "s": (2,)}, inputs={"s": np.array([2, 3])})
            lane.inputs["x"][...] = X
            lane.inputs["s"][...] = 4, 5
            with pytest.raises(FailError):
                lane.run()
            capsule = recorder.capsules[-1]
        about, kept = module.read(capsule)
        assert about["run"]["shapes"] == {"x": [6], "s": [2]}
        assert {name: array.tolist() for name, array in kept.items()} == (
            {"x": X.tolist(), "s": [4, 5]} if feeds else {}
        )
        found = zrt.replay(capsule)
        assert found.made_up != feeds
        assert found.failed_again or not feeds

    def test_feeds_of_a_binding_are_those_of_its_run(self, session: zrt.Session, tmp_path: Path) -> None:
        with session.record(capsules=tmp_path, slower_than=1e-9, feeds=True) as recorder:
            binding = session.binding()
            for shape in ([2, 3], [3, 2]):
                binding.bind_input("x", X)
                binding.bind_input("s", np.array(shape))
                binding.bind_output("y")
                gc.collect()
                binding.run()
                assert module.read(recorder.capsules[-1])[1]["s"].tolist() == shape
                binding.clear_inputs()

    def test_feeds_of_a_lane_are_those_of_its_first_inputs(self, tmp_path: Path) -> None:
        inputs = ", ".join(f"float[2] {name}" for name in "abcde")
        model = models.parsed(f"({inputs}) => (float[2] y) {{ y = Sum(a, b, c, d, e) }}")
        session = zrt.Session(model, QUIET)
        with session.record(capsules=tmp_path, slower_than=1e-9, feeds=True) as recorder:
            lane = session.lane()
            for place, array in enumerate(lane.inputs.values()):
                array[...] = place
            lane.run()
            capsule = recorder.capsules[-1]
        _, kept = module.read(capsule)
        assert {name: array.tolist() for name, array in kept.items()} == {
            name: [place, place] for place, name in enumerate("abcd")
        }
        found = zrt.replay(capsule, model)
        assert found.made_up
        assert "made up, where the capsule has none" in str(found)

    def test_feeds_of_a_lane_have_no_cut_name(self, tmp_path: Path) -> None:
        short, long = "n" * 46, "n" * 47
        model = models.parsed(f"(float[2] {short}, float[2] {long}) => (float[2] y) {{ y = Sub({short}, {long}) }}")
        session = zrt.Session(model, QUIET)
        with session.record(capsules=tmp_path, slower_than=1e-9, feeds=True) as recorder:
            session.lane().run()
            assert list(module.read(recorder.capsules[-1])[1]) == [short]

    @pytest.mark.parametrize(("keep", "first"), [(1000, 11), (25, 11), (20, 12), (5, 27)])
    def test_capsule_has_the_runs_before(self, session: zrt.Session, tmp_path: Path, keep: int, first: int) -> None:
        with session.record(keep, capsules=tmp_path) as recorder:
            for _ in range(30):
                session.run(GOOD)
            fail(session)
            about, _ = module.read(recorder.capsules[0])
        assert [run["number"] for run in about["before"]] == list(range(first, 31))

    def test_folder_that_cannot_be_written_costs_the_capsule(
        self, session: zrt.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_text("")
        with (
            session.record(capsules=tmp_path / "file" / "no") as recorder,
            caplog.at_level(logging.WARNING, "zrt.record"),
        ):
            fail(session)
            assert recorder.capsules == ()
        assert "a capsule is lost" in caplog.text

    @pytest.mark.usefixtures("interruptible")
    def test_interrupt_while_one_is_written_comes_out(
        self, session: zrt.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module.Capsules, "write", lambda *_: signal.raise_signal(signal.SIGINT))
        with session.record(capsules=tmp_path / "capsules"), pytest.raises(KeyboardInterrupt):
            session.run(BAD)

    @pytest.mark.usefixtures("interruptible")
    def test_error_of_the_log_is_no_interrupt(
        self, session: zrt.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object) -> None:
            raise ValueError

        unraisable: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
        monkeypatch.setattr(module.Capsules, "write", fails)
        monkeypatch.setattr("zrt.diagnosis.recorder.logger.warning", fails)
        with session.record(capsules=tmp_path / "capsules"):
            fail(session)
            time.sleep(0)
        assert {each.exc_type for each in unraisable} == {ValueError}
        unraisable.clear()

    def test_other_model_is_a_difference(self, session: zrt.Session, tmp_path: Path) -> None:
        with session.record(capsules=tmp_path / "capsules", feeds=True) as recorder:
            fail(session)
            (capsule,) = recorder.capsules
        other = models.parsed("(float[n] x, int64[k] s) => (float[n] y, int64[k] t) { y = Neg(x) t = Neg(s) }")
        found = zrt.replay(capsule, other)
        assert not found.failed_again
        assert "fingerprint" in found.differences[-1]

    def test_types_of_ml_dtypes_come_back(self, tmp_path: Path) -> None:
        # The shapes that are recorded are those of four inputs, with at most six sizes.
        names = "abcde"
        inputs = ", ".join(f"bfloat16[n, 2, 1, 1, 1, 1, 1] {name}" for name in names)
        body = " ".join(f"{name}_out = Cast <to = 1> ({name})" for name in names)
        outputs = ", ".join(f"float[n, 2, 1, 1, 1, 1, 1] {name}_out" for name in names)
        path = tmp_path / "b.onnx"
        path.write_bytes(models.parsed(f"({inputs}) => ({outputs}) {{ {body} }}").SerializeToString())
        session = zrt.Session(path, QUIET)
        with session.record(capsules=tmp_path / "c", slower_than=1e-9, feeds=True) as recorder:
            session.run([np.ones((3, 2, 1, 1, 1, 1, 1), ml_dtypes.bfloat16)] * len(names))
            found = zrt.replay(recorder.capsules[0])
        assert (found.error_now, found.made_up) == (None, False)

    def test_feeds_of_another_type_are_the_error_of_the_replay(self, tmp_path: Path) -> None:
        body = "(float[n] y) { y = Cast <to = 1> (x) }"
        one, other = (models.parsed(f"({kind}[n] x) => {body}") for kind in ("float", "bfloat16"))
        with (
            zrt.Session(one, QUIET) as session,
            session.record(capsules=tmp_path, slower_than=1e-9, feeds=True) as recorder,
        ):
            session.run([np.ones(3, np.float32)])
            found = zrt.replay(recorder.capsules[0], other)
        assert found.error_now is not None
        assert "input 'x': expected bfloat16" in found.error_now

    def test_packed_feeds_are_made_up(self, tmp_path: Path) -> None:
        model = models.parsed("(int4[n] x) => (float[n] y) { y = Cast <to = 1> (x) }")
        with zrt.Session(model, QUIET) as session, session.record(capsules=tmp_path, slower_than=1e-9) as recorder:
            session.run([np.ones(3, ml_dtypes.int4)])
            found = zrt.replay(recorder.capsules[0], model)
        assert (found.error_now, found.made_up) == (None, True)

    def test_model_from_memory_is_asked_for(self, tmp_path: Path) -> None:
        model = models.parsed(TEXT)
        with zrt.Session(model, QUIET) as session, session.record(capsules=tmp_path, feeds=True) as recorder:
            fail(session)
            (capsule,) = recorder.capsules
        with pytest.raises(ArgumentError, match="names no model"):
            zrt.replay(capsule)
        assert zrt.replay(capsule, model).failed_again

    def test_model_that_is_gone_is_no_failure_of_the_run(
        self, session: zrt.Session, path: Path, tmp_path: Path
    ) -> None:
        with session.record(capsules=tmp_path / "capsules", feeds=True) as recorder:
            fail(session)
            (capsule,) = recorder.capsules
        moved = path.rename(tmp_path / "moved.onnx")
        with pytest.raises(ModelNotFoundError, match="no such file"):
            zrt.replay(capsule)
        assert zrt.replay(capsule, moved).failed_again

    @pytest.mark.parametrize("content", [b"", b"no zip", b"PK\3\4"])
    def test_other_files_are_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "c").write_bytes(content)
        with pytest.raises(FileError, match="no capsule") as caught:
            zrt.replay(tmp_path / "c")
        # numpy would advise to allow pickles.
        assert "allow_pickle" not in str(caught.value)

    @pytest.mark.parametrize(
        "change",
        [
            {"run": None},
            {"run": {}},
            {"reason": 5},
            {"options": 5},
            {"options": {"no": 1}},
            {"providers": 5},
            {"run": {"shapes": {"x": "ab"}, "seconds": 1}},
            {"run": {"shapes": 5, "seconds": "x"}},
            {"run": {"shapes": {}, "seconds": float("nan")}},
            {"error": {}},
            {"arena_growth": "1"},
        ],
    )
    def test_odd_capsules_are_refused(self, session: zrt.Session, tmp_path: Path, change: dict[str, Any]) -> None:
        with session.record(capsules=tmp_path) as recorder:
            fail(session)
            about, _ = module.read(recorder.capsules[0])
        text = np.frombuffer(json.dumps({**about, **change}).encode(), np.uint8)
        with open(tmp_path / "odd", "wb") as file:
            np.savez(file, about=text)
        with pytest.raises(FileError, match="no capsule"):
            zrt.replay(tmp_path / "odd")

    def test_replay_runs_no_code_and_writes_no_file(self, session: zrt.Session, tmp_path: Path) -> None:
        with session.record(capsules=tmp_path) as recorder:
            fail(session)
            about, _ = module.read(recorder.capsules[0])
        options = {
            "custom_op_libraries": ["/nowhere/evil.so"],
            "optimized_model_filepath": str(tmp_path / "written.onnx"),
            "profile_file_prefix": str(tmp_path / "written"),
            "config_entries": {"session.optimized_model_external_initializers_file_name": "written"},
        }
        text = np.frombuffer(json.dumps({**about, "options": options}).encode(), np.uint8)
        with open(tmp_path / "evil", "wb") as file:
            np.savez(file, about=text)
        found = zrt.replay(tmp_path / "evil")
        assert "evil" not in (found.error_now or "")
        assert not list(tmp_path.glob("written*"))


def test_drop_in_records_by_a_variable(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zrt.onnxruntime as ort

    monkeypatch.setenv("ZRT_RECORD", str(tmp_path / "capsules"))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options)
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail):
        session.run(None, {"x": X, "s": np.array([4, 5])})
    (capsule,) = (tmp_path / "capsules").iterdir()
    found = zrt.replay(capsule)
    assert (found.reason, found.differences) == ("it failed", ())


def test_time_that_a_run_waits_for_its_cpu(script: Callable[..., Any]) -> None:
    script("shared_cpu.py")
