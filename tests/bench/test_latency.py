from __future__ import annotations

import pytest

from zrt.bench import latency, timing
from zrt.bench.harness import Contender
from zrt.bench.latency import Latency


def counting(key: str, asked: dict[str, int]) -> Contender:
    def times(runs: int) -> list[int]:
        asked[key] = asked.get(key, 0) + runs
        return [100] * runs

    return Contender(key, key, lambda runs: 100 * runs, times)


def test_percentiles_are_measured_times():
    found = Latency.of(list(range(1000, 0, -1)))
    assert [found.percentile(percent) for percent in (50, 90, 99, 99.9)] == [500, 900, 990, 999]
    assert found.summary() == {
        "samples": 1000,
        "p50_ns": 500,
        "p90_ns": 900,
        "p99_ns": 990,
        "p99_9_ns": 999,
        "max_ns": 1000,
    }


def test_figures_of_a_single_call_are_equal():
    assert set(Latency.of([7]).summary().values()) == {1, 7}


@pytest.mark.parametrize("runs", [1, 5, 19, 20, 21, 400])
def test_given_number_of_runs_is_a_minimum(runs):
    asked: dict[str, int] = {}
    found = latency.measure([counting("a", asked), counting("b", asked)], {"a": 1.0, "b": 1.0}, runs)
    for key in ("a", "b"):
        assert runs <= asked[key] < runs + latency.CHUNKS
        assert len(found[key].samples) == asked[key]


def test_slow_models_get_fewer_timed_calls():
    asked: dict[str, int] = {}
    latency.measure([counting("fast", asked), counting("slow", asked)], {"fast": 900.0, "slow": 1e9})
    assert asked == {"fast": latency.MOST_SAMPLES, "slow": latency.FEWEST_SAMPLES}


def test_progress_reaches_its_total():
    told = []
    latency.measure([counting("a", {})], {"a": 1.0}, 3, lambda *step: told.append(step))
    assert told == [("single calls", done, 3) for done in range(4)]


def test_timer_cost_is_positive():
    assert latency.timer_cost(timing.timer_times).percentile(50) > 0
