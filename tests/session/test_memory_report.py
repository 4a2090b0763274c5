"""`zrt.memory_report` on models whose memory is known to the byte."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.together import in_threads

ONE_THREAD = zrt.SessionOptions(intra_op_num_threads=1)
ROW = 1024 * 4
SQUARE = np.ones((1024, 1024), np.float32)


def rows(count, dtype=np.float32):
    return [np.ones((count, 1024), dtype)]


def product(kind="float", dtype=np.float32):
    """y = exp(x w), with 1024 x 1024 weights."""
    text = f"({kind}[n, 1024] x) => ({kind}[n, 1024] y) {{ a = MatMul(x, w) y = Exp(a) }}"
    return models.parse(text, w=SQUARE.astype(dtype))


def two_rows():
    """y = exp(x) + -x: both terms are in memory at the same time."""
    return models.parse("(float[n, 1024] x) => (float[n, 1024] y) { a = Exp(x) b = Neg(x) y = Add(a, b) }")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(product())
    return path


def test_weights_as_stored_loaded_and_packed():
    report = zrt.memory_report(zrt.SessionSpec(product(), ONE_THREAD), rows(2))
    assert report == zrt.MemoryReport(
        stored_bytes=SQUARE.nbytes,
        outside_bytes=0,
        loaded_bytes=SQUARE.nbytes,
        packed_bytes=SQUARE.nbytes,
        arena_bytes=SQUARE.nbytes + (1 << 20),
        planned_bytes=2 * ROW,
        peak_bytes=2 * ROW,
    )


def test_half_precision_is_loaded_as_single():
    report = zrt.memory_report(zrt.SessionSpec(product("float16", np.float16), ONE_THREAD))
    assert (report.stored_bytes, report.loaded_bytes) == (SQUARE.nbytes // 2, SQUARE.nbytes)


def test_weights_outside_the_model(tmp_path):
    path = models.save_apart(product(), tmp_path / "model.onnx", "model.weights")
    report = zrt.memory_report(zrt.SessionSpec(path, ONE_THREAD))
    assert report.stored_bytes == report.outside_bytes == report.loaded_bytes == report.packed_bytes == SQUARE.nbytes
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.onnx", "model.weights"]


def test_report_of_a_session_from_a_file(saved):
    with zrt.Session(saved, ONE_THREAD) as session:
        expected = zrt.MemoryReport(SQUARE.nbytes, 0, None, SQUARE.nbytes, SQUARE.nbytes)
        assert zrt.memory_report(session) == expected
        saved.unlink()
        assert zrt.memory_report(session).stored_bytes is None


def test_session_from_bytes_does_not_know_what_is_stored():
    report = zrt.memory_report(zrt.Session(product(), ONE_THREAD))
    assert (report.stored_bytes, report.outside_bytes, report.packed_bytes) == (None, None, SQUARE.nbytes)


@pytest.mark.parametrize("count", [1, 3, 100, 1000])
def test_activations_of_each_shape_after_larger_and_smaller_runs(count):
    session = zrt.Session(two_rows(), ONE_THREAD)
    for others in (1, 500):
        session.run(rows(others))
        report = zrt.memory_report(session, rows(count))
        assert (report.planned_bytes, report.peak_bytes) == (2 * count * ROW, 2 * count * ROW)
    assert session.allocator().stats().bytes_in_use == 0


def test_activations_are_rounded_up_to_256_bytes():
    add = models.parse("(float[n] x) => (float[n] y) { a = Exp(x) b = Neg(x) y = Add(a, b) }")
    report = zrt.memory_report(zrt.Session(add, ONE_THREAD), [np.ones(65, np.float32)])
    assert (report.planned_bytes, report.peak_bytes) == (1024, 1024)


def test_without_a_plan_the_peak_is_that_of_the_single_tensors():
    options = zrt.SessionOptions(intra_op_num_threads=1, enable_mem_pattern=False)
    report = zrt.memory_report(zrt.Session(two_rows(), options), rows(10))
    assert (report.planned_bytes, report.peak_bytes) == (0, 20 * ROW)


def test_outputs_that_onnx_runtime_allocates_are_part_of_the_peak():
    report = zrt.memory_report(zrt.Session(models.non_zero(1024), ONE_THREAD), [np.ones(1024, np.float32)])
    assert (report.planned_bytes, report.peak_bytes) == (0, 1024 * 8)


def test_peak_of_the_load_does_not_hide_that_of_a_run():
    """Both operators pack the weight, and one of the forms is dropped: the load takes more than a run does."""
    text = "(float[n, 1024] x) => (float[n, 1024] y) { a = MatMul(x, w) y = MatMul(a, w) }"
    session = zrt.Session(models.parse(text, w=SQUARE), ONE_THREAD)
    assert session.allocator().stats().max_bytes_in_use > SQUARE.nbytes + ROW
    report = zrt.memory_report(session, rows(1))
    assert (report.packed_bytes, report.planned_bytes, report.peak_bytes) == (SQUARE.nbytes, ROW, ROW)


def test_session_without_an_arena_has_no_counters():
    options = zrt.SessionOptions(intra_op_num_threads=1, enable_cpu_mem_arena=False)
    report = zrt.memory_report(zrt.Session(two_rows(), options), rows(1))
    assert report == zrt.MemoryReport(None, None, None, None, None, None, None)


def test_reports_repeat_and_leave_the_session_as_it_was():
    session = zrt.Session(product(), ONE_THREAD)
    [expected] = session.run(rows(4))
    assert len({zrt.memory_report(session, rows(4)) for _ in range(20)}) == 1
    # Each has to exceed the peak that the one before has left, by no more than it needs.
    assert session.allocator().stats().max_bytes_in_use < 64 << 20
    np.testing.assert_array_equal(session.run(rows(4))[0], expected)


def test_arena_gives_back_what_the_report_took():
    session = zrt.Session(two_rows(), ONE_THREAD)
    session.run(rows(1))
    before = session.allocator().stats().total_allocated_bytes
    zrt.memory_report(session, rows(2000))
    assert session.allocator().stats().total_allocated_bytes <= before


def test_activations_in_an_arena_that_cannot_grow_are_not_told():
    environment = zrt.Environment()
    environment.register_allocator(arena=zrt.ArenaConfig(max_mem=1 << 20))
    try:
        options = zrt.SessionOptions(intra_op_num_threads=1, use_env_allocators=True)
        report = zrt.memory_report(zrt.Session(two_rows(), options), rows(100))
    finally:
        environment.unregister_allocator(zrt.MemoryInfo.cpu())
    assert (report.arena_bytes, report.planned_bytes, report.peak_bytes) == (1 << 20, None, None)


def test_failing_run_raises_its_error():
    with pytest.raises(zrt.OrtError, match="indices"):
        zrt.memory_report(zrt.Session(models.gather(), ONE_THREAD), [np.array([7])])


def test_reports_of_several_threads_do_not_disturb_the_sessions():
    sessions = [zrt.Session(two_rows(), ONE_THREAD) for _ in range(4)]
    peaks = [0] * 4

    def report(index):
        peaks[index] = zrt.memory_report(sessions[index], rows(index + 1)).peak_bytes

    in_threads(*(partial(report, index) for index in range(4)))
    assert peaks == [2 * ROW * count for count in (1, 2, 3, 4)]
