"""`zrt.tune`: the search on a simulated machine, whose clock only comparisons advance, and comparisons as they are."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt.bench import child, footprint, harness
from zrt.bench.footprint import Setting
from zrt.diagnosis import candidates, pairs, tune
from zrt.diagnosis.pairs import DiffersError, OutOfTimeError, Pairs, Ratios
from zrt.errors import ModelError

QUIET = zrt.SessionOptions(log_severity_level="FATAL")
SPEC = zrt.SessionSpec(models.add(["n", 4]), QUIET)
SECOND = 10**9
SETTINGS = (
    Setting("threads", "intra_op_num_threads=1", {"intra_op_num_threads": 1}),
    Setting("memory pattern", "enable_mem_pattern=False", {"enable_mem_pattern": False}),
    Setting("prepacking", "packing=1", entries={"session.disable_prepacking": "1"}),
)
PATTERN = "enable_mem_pattern=False"


class Machine:
    """Comparisons take a second each; a setting's time is a factor for each part of the feeds, beside some noise."""

    def __init__(self, factors: dict[str, Any], noise: float = 0.02, seed: int = 0, paced: float | None = None) -> None:
        self.now = 0
        self.factors = factors
        self.noise = noise
        self.random = random.Random(seed)
        self.paced = paced
        self.parts: list[int] = []

    def _factor(self, spec: zrt.SessionSpec, part: int) -> float:
        time, options = 1.0, spec.options
        for setting in SETTINGS:
            if setting.applied(options) == options:
                factor = self.factors.get(setting.how, 1.0)
                if isinstance(factor, Exception):
                    raise factor
                time *= factor if isinstance(factor, float) else factor[part]
        return time

    def compare(self, one: zrt.SessionSpec, other: zrt.SessionSpec, part: int) -> Ratios:
        self.now += SECOND
        self.parts.append(part)
        ratio = self._factor(one, part) / self._factor(other, part)
        hot = tuple(ratio * self.random.lognormvariate(0, self.noise) for _ in range(20))
        return Ratios(hot, () if self.paced is None else (self.paced,) * 20)

    def search(self, seconds: float = 60) -> tuple[zrt.SessionSpec, dict[str, tune.Trial], float]:
        best, trials, ratio = tune.search(SPEC, SETTINGS, self, int(seconds * SECOND), clock=lambda: self.now)
        assert [trial.value for trial in trials] == ["beside itself", *(setting.how for setting in SETTINGS)]
        return best, {trial.value: trial for trial in trials}, ratio


def verdicts(trials: dict[str, tune.Trial]) -> list[str]:
    return [trial.verdict for trial in list(trials.values())[1:]]


class TestSearch:
    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
    def test_noise_changes_nothing(self, noise: float, seed: int) -> None:
        best, trials, ratio = Machine({}, noise, seed).search()
        assert (best, ratio) == (SPEC, 1.0)
        assert "chosen" not in verdicts(trials)

    def test_what_makes_no_difference_is_said(self) -> None:
        _, trials, _ = Machine({PATTERN: 1.2}).search()
        assert verdicts(trials) == ["no difference", "worse", "no difference"]
        tuning = tune.Tuning("latency", zrt.Options(), tuple(trials.values()))
        lines = str(tuning).splitlines()
        assert lines[-2] == "no difference: intra_op_num_threads=1, packing=1"
        assert lines[-1] == "no setting is clearly better than the given options: they stay as they are"

    def test_faster_setting_is_chosen(self) -> None:
        best, trials, ratio = Machine({PATTERN: 0.8}).search()
        assert best == candidates.with_options(SPEC, SETTINGS[1].applied(SPEC.options))
        assert verdicts(trials) == ["no difference", "chosen", "no difference"]
        assert ratio == pytest.approx(0.8, rel=0.02)
        trial = trials[PATTERN]
        assert (trial.low or 0) < (trial.ratio or 0) < (trial.high or 0)

    def test_settings_that_win_add_up(self) -> None:
        best, trials, ratio = Machine(dict.fromkeys((PATTERN, "packing=1"), 0.8)).search()
        assert verdicts(trials) == ["no difference", "chosen", "chosen"]
        assert ratio == pytest.approx(0.64, rel=0.03)
        assert best.options.config_entries == {"session.disable_prepacking": "1"}
        assert not best.options.enable_mem_pattern

    def test_setting_must_win_on_feeds_on_which_it_was_not_chosen(self) -> None:
        machine = Machine({PATTERN: (0.8, 1.1, 1.0)})
        best, trials, _ = machine.search()
        assert (best, verdicts(trials)[1]) == (SPEC, "not confirmed")
        # The measurement that confirms is the one to show.
        assert trials[PATTERN].ratio == pytest.approx(1.1, rel=0.03)
        assert float(trials[PATTERN].reason.split()[2]) == pytest.approx(0.8, rel=0.03)
        assert machine.parts == [0, 0, 0, 1, 0]

    def test_tuned_options_must_win_beside_the_given_ones(self) -> None:
        best, trials, ratio = Machine({PATTERN: (0.8, 0.8, 1.0), "packing=1": (0.9, 0.9, 1.0)}).search()
        assert (best, ratio) == (SPEC, 1.0)
        assert verdicts(trials) == ["no difference", "not confirmed", "not confirmed"]
        assert "together" in trials[PATTERN].reason

    def test_setting_with_slower_paced_calls_is_left_alone(self) -> None:
        best, trials, _ = Machine({PATTERN: 0.8}, paced=1.1).search()
        assert (best, verdicts(trials)[1], trials[PATTERN].paced) == (SPEC, "not clear", 1.1)

    def test_paced_calls_must_not_be_slower_on_other_feeds_either(self) -> None:
        machine = Machine({PATTERN: 0.8})
        compare = machine.compare

        def slower_later(one: zrt.SessionSpec, other: zrt.SessionSpec, part: int) -> Ratios:
            return Ratios(compare(one, other, part).hot, (1.1,) if part else ())

        machine.compare = slower_later  # type: ignore[method-assign]
        best, trials, _ = machine.search()
        assert (best, verdicts(trials)[1], trials[PATTERN].paced) == (SPEC, "not confirmed", 1.1)
        assert trials[PATTERN].reason == "single calls with empty caches take longer"

    @pytest.mark.parametrize(
        ("error", "verdict"),
        [
            (ModelError("it cannot be loaded"), "failed"),
            (DiffersError("the results differ"), "results differ"),
            (OutOfTimeError("the time is over"), "not tried"),
        ],
    )
    def test_setting_that_cannot_be_measured_is_left_alone(self, error: Exception, verdict: str) -> None:
        best, trials, _ = Machine({PATTERN: error, "packing=1": 0.8}).search()
        assert verdicts(trials) == ["no difference", verdict, "chosen"]
        assert trials[PATTERN].reason == str(error)
        assert best.options.enable_mem_pattern

    def test_settings_that_contradict_others_fail(self) -> None:
        spec = zrt.SessionSpec(models.add(), zrt.SessionOptions(memory_limit="1GiB"))
        settings = [Setting("arena", "no", {"enable_cpu_mem_arena": False})]
        _, trials, _ = tune.search(spec, settings, Machine({}), 60 * SECOND, clock=lambda: 0)
        assert trials[1].verdict == "failed"
        assert trials[1].reason.startswith("memory_limit: ")

    def test_model_that_does_not_run_as_it_is_raises(self) -> None:
        machine = Machine({})
        machine.compare = lambda *_: (_ for _ in ()).throw(ModelError("no"))  # type: ignore[method-assign]
        with pytest.raises(ModelError):
            machine.search()

    @pytest.mark.parametrize("seconds", range(1, 12))
    def test_time_is_kept(self, seconds: int) -> None:
        machine = Machine(dict.fromkeys((setting.how for setting in SETTINGS), 0.8))
        _, trials, _ = machine.search(seconds)
        assert machine.now <= seconds * SECOND
        count = verdicts(trials).count("not tried")
        assert verdicts(trials) == ["chosen"] * (3 - count) + ["not tried"] * count
        assert count == min(3, max(0, (9 - seconds) // 2))

    def test_results_that_differ_from_run_to_run_end_the_search(self) -> None:
        machine = Machine({})

        def compare(*_: object) -> Ratios:
            raise DiffersError("the results differ: 'y'")

        machine.compare = compare  # type: ignore[method-assign]
        best, trials, _ = machine.search()
        assert (best, verdicts(trials)) == (SPEC, ["not tried"] * 3)
        assert {trial.reason for trial in trials.values()} == {"the results differ: 'y'"}
        [*_, last] = tune.Tuning("latency", zrt.Options(), tuple(trials.values())).summary()
        assert last == "the results differ: 'y', so the given options stay as they are"

    def test_spinning_of_one_thread_is_not_measured(self) -> None:
        spec = zrt.SessionSpec(models.add(), zrt.SessionOptions(intra_op_num_threads=1))
        machine = Machine({})
        settings = [Setting(candidates.SPINNING, "off", {"intra_op_allow_spinning": False})]
        _, trials, _ = tune.search(spec, settings, machine, 60 * SECOND, clock=lambda: 0)
        assert (trials[1].verdict, machine.parts) == ("no difference", [0])


class TestRule:
    @pytest.mark.parametrize(
        ("hot", "paced", "won"),
        [
            ([0.9] * 10, [], True),
            ([0.98] * 10, [], False),
            ([0.9] * 9 + [1.1], [], True),
            ([0.9] * 8 + [1.1] * 2, [], False),
            ([0.9] * 10, [1.0], True),
            ([0.9] * 10, [1.04], False),
        ],
    )
    def test_clear_win(self, hot: list[float], paced: list[float], won: bool) -> None:
        assert tune.wins(Ratios(tuple(hot), tuple(paced))) is won


class TestCandidates:
    @pytest.mark.parametrize("goal", ["latency", "p99", "throughput", "memory"])
    def test_every_candidate_changes_the_default_options(self, goal: candidates.Goal) -> None:
        default = zrt.SessionOptions()
        settings = candidates.candidates(default, goal)
        specs = {candidates.with_options(SPEC, setting.applied(default)) for setting in settings}
        assert len(specs) == len(settings) >= 9
        assert zrt.SessionSpec(SPEC.model) not in specs
        assert (candidates.SPINNING in {setting.name for setting in settings}) == (goal != "memory")

    def test_options_that_are_set_stay(self) -> None:
        given = zrt.SessionOptions(
            intra_op_num_threads=1, memory="bounded", config_entries={"session.disable_prepacking": "0"}
        )
        knobs = [setting.name for setting in candidates.candidates(given, "latency")]
        assert knobs == ["spinning", "memory pattern", "allocator of weights", *["optimization"] * 3]

    @pytest.mark.parametrize(("cpus", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
    def test_threads_up_to_the_cpus(self, monkeypatch: pytest.MonkeyPatch, cpus: int, counts: list[int]) -> None:
        monkeypatch.setattr(candidates, "cpus", lambda: cpus)
        settings = candidates.candidates(zrt.SessionOptions(), "latency")
        threads = [setting.options["intra_op_num_threads"] for setting in settings if setting.name == "threads"]
        assert threads == counts


class TestGroups:
    @pytest.mark.parametrize(("rounds", "groups"), [(1, 1), (5, 5), (9, 9), (10, 5), (57, 5), (59, 5)])
    def test_rounds_are_in_groups(self, rounds: int, groups: int) -> None:
        assert pairs.in_groups([0.5] * rounds) == (0.5,) * groups

    def test_interrupted_rounds_count_little(self) -> None:
        assert pairs.in_groups([0.9, 0.9, 7.0, 0.9, 0.01] * 5) == (0.9,) * 5


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that last microseconds: ratios that mean nothing."""
    monkeypatch.setattr(harness, "BATCH_NS", 500_000)
    monkeypatch.setattr(harness, "LOOK_NS", 10_000)
    monkeypatch.setattr(harness, "ALL_LOOKS_NS", 10_000)
    monkeypatch.setattr(tune, "CONTENDER_S", 0.0)
    monkeypatch.setattr(pairs, "PACED_ROUNDS", 1)
    monkeypatch.setattr(pairs, "CALLS_OF_P99", 3)


def fed(rows: int = 1) -> dict[str, np.ndarray]:
    return {name: np.ones((rows, 4), np.float32) for name in "xy"}


FAR = 1 << 62


@pytest.mark.usefixtures("quick")
class TestPairs:
    @pytest.mark.parametrize("goal", ["latency", "p99", "throughput"])
    @pytest.mark.parametrize("feeds", [[fed()], [fed(), fed(3)]])
    def test_times(self, goal: candidates.Goal, feeds: Sequence[Any]) -> None:
        found = Pairs([feeds] * 3, goal, 0.0, FAR).compare(SPEC, SPEC, 1)
        assert len(found.hot) == 2 * pairs.GROUPS
        assert all(each > 0 for each in (*found.hot, *found.paced))
        assert bool(found.paced) == (goal != "throughput")

    def test_each_recipe_is_loaded_later_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        other = zrt.SessionSpec(SPEC.model, zrt.SessionOptions(enable_mem_pattern=False))
        loaded: list[zrt.SessionSpec] = []
        load = zrt.SessionSpec.load

        def spy(spec: zrt.SessionSpec) -> zrt.Session:
            loaded.append(spec)
            return load(spec)

        monkeypatch.setattr(zrt.SessionSpec, "load", spy)
        Pairs([[fed()]] * 3, "latency", 0.0, FAR).compare(other, SPEC, 0)
        assert loaded == [other, SPEC, SPEC, other, other, SPEC]

    def test_memory_of_processes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        other = zrt.SessionSpec(SPEC.model, zrt.SessionOptions(enable_mem_pattern=False))
        asked: list[zrt.SessionSpec] = []

        def in_child(function: Callable[..., int], spec: zrt.SessionSpec, feeds: Any) -> int:
            assert function is footprint.resident_bytes
            assert feeds == [part]
            asked.append(spec)
            return 300 if spec == other else 400

        part = fed()
        monkeypatch.setattr(child, "call", in_child)
        found = Pairs([[part]] * 3, "memory", 0.0, FAR).compare(other, SPEC, 0)
        assert found == Ratios((0.75,) * pairs.PROCESSES)
        assert asked.count(SPEC) == asked.count(other) == pairs.PROCESSES

    def test_feeds_of_memory_are_sent_to_other_processes(self) -> None:
        feeds = {name: memoryview(array) for name, array in fed().items()}
        with pytest.raises(zrt.errors.UnsupportedError, match="arrays only: "):
            Pairs([[feeds]] * 3, "memory", 0.0, FAR).compare(SPEC, SPEC, 0)

    def test_memory_of_this_process(self) -> None:
        assert footprint.resident_bytes(SPEC, [fed(), fed(2)]) > 1 << 20

    def test_results_that_differ_are_refused(self) -> None:
        text = '(float[4] x) => (float[4] y) {{ y = Gelu <approximate = "{}"> (x) }}'
        spec, other = (zrt.SessionSpec(models.parse(text.format(each)), QUIET) for each in ("none", "tanh"))
        near, feeds = ({"x": np.full(4, x, np.float32)} for x in (0, -3))
        compared = Pairs([[near], [near, feeds], [near]], "latency", 0.0, FAR)
        compared.compare(other, spec, 0)
        with pytest.raises(DiffersError, match="'y' of the model: at most"):
            compared.compare(other, spec, 1)

    def test_no_comparison_goes_on_after_the_end(self) -> None:
        with pytest.raises(OutOfTimeError):
            Pairs([[fed()]] * 3, "latency", 0.0, 0).compare(SPEC, SPEC, 0)

    def test_sequences_are_compared(self) -> None:
        spec = zrt.SessionSpec(models.to_sequence(), QUIET)
        with spec.load() as session:
            feeds = {info.name: np.ones([2 for _ in info.shape or ()], np.float32) for info in session.inputs}
        assert Pairs([[feeds]] * 3, "latency", 0.0, FAR).compare(spec, spec, 0).hot

    def test_maps_are_compared_and_others_refused(self) -> None:
        arrays = list(pairs._arrays("y", [{"a": 0.5, "b": 2.0}, np.ones(2), "text"]))
        assert [each.tolist() for each in arrays] == [["a", "b"], [0.5, 2.0], [1.0, 1.0], "text"]
        with pytest.raises(zrt.errors.UnsupportedError, match="output 'y': results of type object"):
            list(pairs._arrays("y", [object()]))

    def test_time_per_row(self) -> None:
        open_ended = Pairs([[fed()]] * 3, "latency", 0.0, FAR)
        rows = open_ended.time_per_row(SPEC)
        assert tuple(rows) == pairs.SIZES
        assert all(each > 0 for each in rows.values())
        fixed = {name: np.ones(4, np.float32) for name in "xy"}
        assert Pairs([[fixed]] * 3, "latency", 0.0, FAR).time_per_row(zrt.SessionSpec(models.add(), QUIET)) == {}

    def test_sizes_that_the_model_does_not_run_are_left_out(self, capfd: pytest.CaptureFixture[str]) -> None:
        model = models.parse("(float[n] x) => (float[a, b] y) <int64[2] s = {4, -1}> { a = Reshape(x, s) y = Exp(a) }")
        feeds = {"x": np.ones(4, np.float32)}
        rows = Pairs([[feeds]] * 3, "latency", 0.0, FAR).time_per_row(zrt.SessionSpec(model))
        assert list(rows) == [4, 8, 16, 32, 64]
        # ONNX Runtime logs failed runs.
        assert capfd.readouterr().err == ""

    def test_sizes_without_memory_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def resize(array: np.ndarray[Any, Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
            if shape[0] > 8:
                raise MemoryError
            return np.zeros(shape, array.dtype)

        monkeypatch.setattr(np, "resize", resize)
        assert list(Pairs([[fed()]] * 3, "latency", 0.0, FAR).time_per_row(SPEC)) == [1, 2, 4, 8]


@pytest.mark.usefixtures("quick")
class TestTune:
    def test_result_is_options_that_load(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(tune, "wins", lambda found: True)
        given = zrt.SessionOptions(
            log_severity_level="FATAL",
            profile_file_prefix=tmp_path / "profile",
            optimized_model_filepath=tmp_path / "optimized.onnx",
            cache=tmp_path / "cache",
        )
        spec = zrt.SessionSpec(models.add(["n", 4]), given, ["cpu"])
        found = zrt.tune(spec, [fed(), fed(2)])
        assert {trial.verdict for trial in found.trials[1:]} <= {"chosen", "no difference"}
        session = found.options.session
        assert (session.enable_mem_pattern, session.graph_optimization_level.name) == (False, "DISABLE_ALL")
        assert session.profile_file_prefix == str(tmp_path / "profile")
        assert session.cache == str(tmp_path / "cache")
        # No candidate wrote them.
        assert not list(tmp_path.iterdir())
        assert zrt.Options.from_json(found.options.to_json()) == found.options
        assert found.options.providers == ["CPUExecutionProvider"]
        assert found.to_dict()["session"] == session.to_dict()

    def test_feeds_are_made_up(self) -> None:
        found = zrt.tune(SPEC, seconds=1e-6)
        assert {trial.verdict for trial in found.trials} == {"given", "not tried"}
        assert (found.ratio, found.row_ns, found.options.session) == (1.0, {}, SPEC.options)
        assert found.summary()[-1].startswith("the time was too short to measure a setting")

    def test_parts_of_feeds_that_are_made_up_differ(self) -> None:
        first, *others = tune.made_up(SPEC, tune.UserInputs())
        assert len(others) == tune.PARTS - 1
        assert all((each["x"] != first["x"]).any() for each in others)

    @pytest.mark.parametrize(("count", "parts"), [(1, [1, 1, 1]), (2, [1, 1, 2]), (7, [3, 2, 2])])
    def test_feeds_are_divided(self, monkeypatch: pytest.MonkeyPatch, count: int, parts: list[int]) -> None:
        taken: list[Any] = []

        class Spy(Pairs):
            def __init__(self, *arguments: Any) -> None:
                taken.extend(arguments[0])
                super().__init__(*arguments)

        monkeypatch.setattr(tune, "Pairs", Spy)
        zrt.tune(SPEC, [fed(rows + 1) for rows in range(count)], seconds=1e-6)
        assert [len(part) for part in taken] == parts
