from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from zrt.bench import harness
from zrt.bench.harness import Contender, Plan, Series


class Fake:
    """A contender whose runs take a given time on a simulated clock."""

    def __init__(self, key: str, nanoseconds: float, log: list[tuple[str, int]] | None = None) -> None:
        self.nanoseconds = nanoseconds
        self.log = log if log is not None else []
        self.contender = Contender(key, key, self.batch, lambda runs: [round(nanoseconds)] * runs)

    def batch(self, runs: int) -> int:
        self.log.append((self.contender.key, runs))
        return round(runs * self.nanoseconds)


def contenders(*nanoseconds: float, log: list[tuple[str, int]] | None = None) -> list[Contender]:
    return [Fake(f"c{index}", each, log).contender for index, each in enumerate(nanoseconds)]


class TestPlan:
    @pytest.mark.parametrize("nanoseconds", [3, 900, 25_000, 5_000_000])
    def test_batch_lasts_about_five_milliseconds(self, nanoseconds):
        runs = harness.fitting_runs(Fake("c", nanoseconds).contender)
        assert 2.5e6 <= runs * nanoseconds <= 10e6

    def test_slow_run_is_a_batch_of_one(self):
        assert harness.fitting_runs(Fake("c", 3e9).contender) == 1

    def test_equal_contenders_have_equal_batches_on_a_busy_machine(self):
        noise = random.Random(0)

        def disturbed(fake: Fake) -> Contender:
            # Another process interrupts a third of the runs.
            return Contender(
                fake.contender.key,
                "",
                lambda runs: fake.batch(runs) + (4_000_000 if noise.random() < 1 / 3 else 0),
                lambda _: [],
            )

        plan = harness.make_plan([disturbed(Fake(f"c{index}", 1000)) for index in range(4)])
        assert max(plan.runs.values()) < 1.1 * min(plan.runs.values())

    def test_plan_for_a_very_slow_model_takes_few_runs(self):
        log: list[tuple[str, int]] = []
        harness.make_plan(contenders(60e9, 60e9, log=log))
        assert len(log) <= 6

    def test_clock_that_stands_still_does_not_hang(self):
        assert harness.fitting_runs(Fake("c", 0.01).contender) > 1000

    def test_fast_models_get_many_rounds_and_slow_ones_fewer(self):
        assert harness.make_plan(contenders(900, 4000)).rounds == harness.ROUNDS
        assert harness.make_plan(contenders(9e7, 1e8)).rounds == 20
        assert harness.make_plan(contenders(900, 3e9)).rounds == harness.FEWEST_ROUNDS

    def test_each_contender_has_its_own_number_of_runs(self):
        plan = harness.make_plan(contenders(1000, 4000))
        assert plan.runs["c0"] == pytest.approx(4 * plan.runs["c1"], rel=0.01)

    @pytest.mark.parametrize("wanted", [1, 7, 100, 101, 5000, 10_000_000])
    def test_given_number_of_runs_is_a_minimum_and_equal_for_all(self, wanted):
        plan = harness.make_plan(contenders(1000, 4000), wanted)
        (runs,) = set(plan.runs.values())
        assert wanted <= plan.rounds * runs < wanted + plan.rounds
        assert plan.rounds <= harness.ROUNDS


class TestMeasure:
    def test_every_contender_has_its_batch_in_every_round(self):
        log: list[tuple[str, int]] = []
        found = harness.measure(contenders(10, 20, log=log), Plan(6, {"c0": 40, "c1": 1}))
        # Some uncounted runs precede a batch of several runs.
        assert sorted(log) == [("c0", 2)] * 6 + [("c0", 40)] * 6 + [("c1", 1)] * 6
        assert found == {"c0": Series(40, (10.0,) * 6), "c1": Series(1, (20.0,) * 6)}

    @pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
    def test_contenders_have_each_place_and_each_predecessor_equally_often(self, count):
        everybody = contenders(*[1.0] * count)
        orders = [[each.key for each in harness.in_turn(everybody, turn)] for turn in range(2 * count)]
        assert all(sorted(order) == sorted(each.key for each in everybody) for order in orders)
        for place in range(count):
            assert set(Counter(order[place] for order in orders).values()) == {2}
        pairs = Counter(pair for order in orders for pair in itertools.pairwise(order))
        assert len(pairs) == count * (count - 1)
        assert set(pairs.values()) == {2}

    def test_progress_reaches_its_total(self):
        told = []
        harness.measure(contenders(1), Plan(3, {"c0": 1}), lambda *step: told.append(step))
        assert told == [("batches", done, 3) for done in range(4)]

    def test_error_of_a_contender_propagates(self):
        def fail(_runs: int) -> int:
            raise RuntimeError("the model failed")

        with pytest.raises(RuntimeError, match="the model failed"):
            harness.measure([Contender("c", "c", fail, lambda _: [])], Plan(1, {"c": 1}))


class TestSeries:
    def test_ratio_is_the_median_over_rounds(self):
        # All of round two was disturbed: both contenders took ten times as long, so their ratio is unchanged.
        assert Series(1, (20.0, 220.0, 20.0)).ratio(Series(1, (10.0, 110.0, 10.0))) == 2.0

    def test_one_disturbed_batch_does_not_change_the_ratio(self):
        assert Series(1, (10.0, 500.0, 10.0)).median == 10.0
