from __future__ import annotations

import gc

import pytest

from zrt.bench import timing


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2)])
def test_batch_makes_every_call_with_its_arguments(arguments):
    calls = []
    assert timing.batch(lambda *given: calls.append(given), arguments, 5) > 0
    assert calls == [arguments] * 5


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2)])
def test_times_has_one_number_for_each_call(arguments):
    calls = []
    samples = timing.times(lambda *given: calls.append(given), arguments, 5)
    assert calls == [arguments] * 5
    assert len(samples) == 5
    assert min(samples) > 0


def test_timer_times_make_no_call():
    assert len(timing.timer_times(7)) == 7
    assert timing.empty_loop(1000) > 0


def fail_without_gc() -> None:
    with timing.without_gc():
        assert not gc.isenabled()
        raise ZeroDivisionError


@pytest.mark.parametrize("enabled", [True, False])
def test_gc_is_off_inside_and_restored_afterwards(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ZeroDivisionError):
            fail_without_gc()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
