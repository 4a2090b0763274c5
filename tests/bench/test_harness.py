import gc
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from zrt.bench import caches, harness
from zrt.bench.harness import Contender, Latency, Plan, Series, python_contender


class Machine:
    """A simulated machine, whose clock only the contenders' runs and the emptying of the caches advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        self.log: list[tuple[str, int]] = []
        """Each batch: the contender's key and its runs."""
        self.warm: str | None = None
        """The contender whose data is in the caches."""
        self.is_interrupted: Callable[[], bool] = lambda: False
        monkeypatch.setattr(harness, "clock", lambda: self.now)
        monkeypatch.setattr(caches, "empty", self.empty_caches)

    def empty_caches(self) -> None:
        self.warm = None
        self.now += 2_000_000

    def contender(self, key: str, nanoseconds: float, cold_ns: int = 0) -> Contender:
        """Its runs take that long; the first one after another contender's takes `cold_ns` longer."""

        def batch(runs: int) -> int:
            took = round(runs * nanoseconds) + (cold_ns if self.warm != key else 0)
            self.log.append((key, runs))
            self.warm = key
            self.now += took + (4_000_000 if self.is_interrupted() else 0)
            return took

        return Contender(key, key, batch)

    def contenders(self, *nanoseconds: float) -> list[Contender]:
        return [self.contender(f"c{index}", each) for index, each in enumerate(nanoseconds)]

    def counts(self) -> Counter[tuple[str, int]]:
        return Counter(self.log)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


class TestSelfCheck:
    """A contender beside itself: the harness must favour neither, whatever a batch begins with."""

    @pytest.mark.parametrize("nanoseconds", [3, 950, 25_000, 7_000_000, 30_000_000])
    @pytest.mark.parametrize("make_plan", [harness.batch_plan, harness.paced_plan])
    def test_equal_contenders_have_a_ratio_of_one(self, machine, make_plan, nanoseconds):
        contenders = [
            machine.contender("one", nanoseconds, cold_ns=900_000),
            machine.contender("fast", nanoseconds / 3),
            machine.contender("other", nanoseconds, cold_ns=900_000),
        ]
        harness.warm_up(contenders, 10)
        assert machine.counts() == {("one", 10): 1, ("fast", 10): 1, ("other", 10): 1}
        plan = make_plan(contenders)
        machine.log.clear()
        series = harness.measure(contenders, plan)
        assert series["other"].ratio(series["one"]) == 1
        counts = machine.counts()
        for runs in {runs for key, runs in counts if key == "one"}:
            assert counts["one", runs] == counts["other", runs] >= plan.rounds

    def test_cold_first_run_of_a_batch_does_not_decide(self, machine):
        contenders = [machine.contender("cold", 1000, cold_ns=500_000), machine.contender("other", 1000)]
        series = harness.measure(contenders, harness.batch_plan(contenders))
        assert series["cold"].ratio(series["other"]) == 1

    def test_paced_run_is_cold(self, machine):
        contenders = [machine.contender("cold", 1000, cold_ns=500), machine.contender("other", 1000)]
        series = harness.measure(contenders, harness.paced_plan(contenders, 7))
        assert set(series["cold"].means) == {1500}
        assert len(series["cold"].means) == 7
        assert series["cold"].ratio(series["other"]) == 1.5

    @pytest.mark.parametrize(("most", "rounds"), [(0, 10), (30_000, 16), (1e9, 40)])
    def test_time_ends_the_rounds_after_the_fewest(self, machine, most, rounds):
        contenders = machine.contenders(1000, 1000)
        series = harness.measure(contenders, Plan(40, dict.fromkeys(("c0", "c1"), 1)), most_ns=most)
        assert {len(each.means) for each in series.values()} == {rounds}

    def test_clock_counts_the_calls_of_a_python_contender(self, machine):
        def call(*_: object) -> None:
            machine.now += 250

        contenders = [python_contender(str(count), "", call, *range(count)) for count in range(3)]
        series = harness.measure(contenders, Plan(4, dict.fromkeys("012", 80)))
        assert series == dict.fromkeys("012", Series(80, (250.0,) * 4))


class TestPlan:
    @pytest.mark.parametrize("nanoseconds", [3, 900, 25_000, 5_000_000, 3e9])
    def test_batch_lasts_at_least_twenty_milliseconds(self, machine, nanoseconds):
        (runs,) = harness.batch_plan(machine.contenders(nanoseconds)).runs.values()
        assert 20e6 <= runs * nanoseconds < 20e6 + nanoseconds + 20e6 / runs

    def test_equal_contenders_have_equal_batches_on_a_busy_machine(self, machine):
        noise = random.Random(0)
        # Another process interrupts a third of the batches.
        machine.is_interrupted = lambda: noise.random() < 1 / 3
        plan = harness.batch_plan(machine.contenders(1000, 1000, 1000, 1000))
        assert len(set(plan.runs.values())) == 1

    def test_plan_for_a_very_slow_model_takes_few_runs(self, machine):
        harness.batch_plan(machine.contenders(60e9, 60e9))
        assert len(machine.log) <= 6

    def test_clock_that_stands_still_does_not_hang(self, machine):
        assert harness.fitting_runs(machine.contender("c", 0.01), 1_000_000) > 1000

    def test_fast_models_get_many_rounds_and_slow_ones_fewer(self, machine):
        assert harness.batch_plan(machine.contenders(900, 4000)).rounds >= 99
        assert harness.batch_plan(machine.contenders(9e7, 1e8)).rounds == 20
        assert harness.batch_plan(machine.contenders(900, 3e9)).rounds == harness.FEWEST_ROUNDS
        assert harness.batch_plan(machine.contenders(900), seconds=0, fewest=3).rounds == 3

    def test_each_contender_has_its_own_number_of_runs(self, machine):
        plan = harness.batch_plan(machine.contenders(1000, 4000))
        assert plan.runs["c0"] == pytest.approx(4 * plan.runs["c1"], rel=0.01)

    @pytest.mark.parametrize("wanted", [1, 7, 100, 101, 5000, 10_000_000])
    def test_given_number_of_runs_is_a_minimum_and_equal_for_all(self, machine, wanted):
        plan = harness.batch_plan(machine.contenders(1000, 4000), wanted)
        (runs,) = set(plan.runs.values())
        assert wanted <= plan.rounds * runs < wanted + plan.rounds

    def test_paced_rounds_fill_the_time_within_limits(self, machine):
        assert harness.paced_plan(machine.contenders(900)).rounds == harness.MOST_PACED
        assert harness.paced_plan(machine.contenders(18e6, 18e6)).rounds == 200
        assert harness.paced_plan(machine.contenders(3e9)).rounds == harness.FEWEST_PACED
        assert harness.paced_plan(machine.contenders(900), 12).rounds == 12


class TestMeasure:
    def test_every_contender_has_its_batch_in_every_round(self, machine):
        series = harness.measure(machine.contenders(10, 20), Plan(6, {"c0": 40, "c1": 1}))
        # Some uncounted runs precede a batch of several runs.
        assert machine.counts() == {("c0", 2): 6, ("c0", 40): 6, ("c1", 1): 6}
        assert series == {"c0": Series(40, (10.0,) * 6), "c1": Series(1, (20.0,) * 6)}

    @pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
    @pytest.mark.parametrize("cold", [False, True])
    def test_contenders_have_each_place_and_each_predecessor_equally_often(self, machine, count, cold):
        contenders = machine.contenders(*[1.0] * count)
        plan = Plan(2 * count, dict.fromkeys((each.key for each in contenders), 1), cold)
        harness.measure(contenders, plan)
        keys = [key for key, _ in machine.log]
        orders = [keys[start : start + count] for start in range(0, len(keys), count)]
        assert all(sorted(order) == sorted(each.key for each in contenders) for order in orders)
        for place in range(count):
            assert set(Counter(order[place] for order in orders).values()) == {2}
        pairs = Counter(pair for order in orders for pair in itertools.pairwise(order))
        assert len(pairs) == count * (count - 1)
        assert set(pairs.values()) == {2}

    def test_error_of_a_contender_propagates(self):
        def fail(_runs: int) -> int:
            raise RuntimeError("the model failed")

        with pytest.raises(RuntimeError, match="the model failed"):
            harness.measure([Contender("c", "c", fail)], Plan(1, {"c": 1}))

    def test_gc_is_off_in_a_batch_and_restored_after_an_error(self):
        def fail(_runs: int) -> int:
            assert not gc.isenabled()
            raise ZeroDivisionError

        enabled = gc.isenabled()
        try:
            for switch in (gc.disable, gc.enable):
                switch()
                before = gc.isenabled()
                with pytest.raises(ZeroDivisionError):
                    harness.measure([Contender("c", "c", fail)], Plan(1, {"c": 1}))
                assert gc.isenabled() is before
        finally:
            (gc.enable if enabled else gc.disable)()

    @pytest.mark.parametrize(
        ("measure", "stage"),
        [
            (lambda contenders, tell: harness.measure(contenders, Plan(3, {"c0": 1}), tell), "batches"),
            (lambda contenders, tell: harness.measure(contenders, Plan(3, {"c0": 1}, cold=True), tell), "paced calls"),
            (lambda contenders, tell: harness.measure_calls(contenders, {"c0": 1.0}, 3, tell), "single calls"),
        ],
    )
    def test_progress_reaches_its_total(self, machine, measure, stage):
        steps: list[Sequence[object]] = []
        measure(machine.contenders(1), lambda *step: steps.append(step))
        assert steps == [(stage, done, 3) for done in range(4)]


class TestCalls:
    @pytest.mark.parametrize("runs", [1, 5, 19, 20, 21, 400])
    def test_given_number_of_runs_is_a_minimum(self, machine, runs):
        latencies = harness.measure_calls(machine.contenders(100, 200), {"c0": 1.0, "c1": 1.0}, runs)
        for key, nanoseconds in (("c0", 100), ("c1", 200)):
            assert runs <= machine.counts()[key, 1] < runs + harness.CHUNKS
            assert latencies[key].samples.tolist() == [nanoseconds] * machine.counts()[key, 1]

    def test_slow_models_get_fewer_timed_calls(self, machine):
        harness.measure_calls(machine.contenders(1, 1), {"c0": 90.0, "c1": 1e9})
        assert machine.counts() == {("c0", 1): harness.MOST_CALLS, ("c1", 1): harness.FEWEST_CALLS}

    @pytest.mark.parametrize("arguments", [(), (1,), (1, 2)])
    def test_calls_have_their_arguments(self, arguments):
        calls = []
        contender = python_contender("c", "c", lambda *each: calls.append(each), *arguments)
        assert contender.batch(5) > 0
        assert all(took > 0 for took in contender.times(3))
        assert contender.cold_time() > 0
        assert calls == [arguments] * 9

    def test_timers_make_no_call(self):
        calls = []
        cost = harness.timer_cost(python_contender("c", "c", calls.append, 1).batch)
        assert cost.percentile(50) > 0
        assert harness.time_empty_loop(1000) > 0
        assert not calls


class TestFigures:
    def test_ratio_is_the_median_over_rounds(self):
        # All of round two was disturbed: both contenders took ten times as long, so their ratio is unchanged.
        assert Series(1, (20.0, 220.0, 20.0)).ratio(Series(1, (10.0, 110.0, 10.0))) == 2.0

    def test_one_disturbed_batch_does_not_change_the_ratio(self):
        assert Series(1, (10.0, 500.0, 10.0)).median == 10.0

    def test_percentiles_are_measured_times(self):
        latency = Latency.of(list(range(1000, 0, -1)))
        assert latency.summary() == {
            "samples": 1000,
            "p50_ns": 500,
            "p90_ns": 900,
            "p99_ns": 990,
            "p99_9_ns": 999,
            "max_ns": 1000,
        }
        assert set(Latency.of([7]).summary().values()) == {1, 7}


class TestCaches:
    def test_size_is_that_of_the_largest_cache(self, monkeypatch, tmp_path):
        for index, size in enumerate(("32K", "32K", "1024K", "36864K")):
            (tmp_path / f"index{index}").mkdir()
            (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
        monkeypatch.setattr(caches, "CACHES", tmp_path)
        assert caches.last_level_size() == 36 << 20

    def test_unknown_size_is_a_large_one(self, monkeypatch, tmp_path):
        monkeypatch.setattr(caches, "CACHES", tmp_path / "none")
        assert caches.last_level_size() == caches.UNKNOWN_SIZE
