"""`tune`: the options that suit a model on this machine, found by trying."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from time import perf_counter_ns
from typing import Any, Literal, TypeAlias, get_args

from zrt._common.arguments import duration, require_type, shown, wrong_type
from zrt._common.public import public
from zrt.bench.footprint import Setting
from zrt.bench.harness import CONTENDER_S, Progress, ignore_progress
from zrt.bench.inputs import UserInputs, make_inputs
from zrt.diagnosis.candidates import SPINNING, Goal, candidates, with_options, writing_nothing
from zrt.diagnosis.pairs import DiffersError, Feeds, OutOfTimeError, Pairs, Ratios
from zrt.errors import ArgumentError, Error, UnsupportedError
from zrt.loading.options_files import Options
from zrt.loading.session_options import WRITING_NOTHING
from zrt.providers import ProviderLike
from zrt.providers.selection import DevicePolicy
from zrt.session.spec import SessionSpec

# A setting wins that takes less than this part of the other's, and less in so many of the groups of rounds.
CLEARLY, NEARLY_ALL = 0.97, 0.9
# Parts of the feeds: one to choose with, one to confirm, and one for the comparison with the given options.
PARTS = 3
TOO_SHORT = "the time was too short to measure a setting"

Verdict: TypeAlias = Literal[
    "given", "chosen", "no difference", "not clear", "worse", "not confirmed", "results differ", "failed", "not tried"
]


@public
@dataclass(frozen=True, slots=True)
class Trial:
    """A setting that `zrt.tune` considered, beside the best options until then."""

    knob: str
    value: str
    verdict: Verdict
    """"chosen": it is among the tuned options. "not confirmed": it won where settings are chosen, and not on other
    feeds. "given": no setting, but the given options beside themselves, which shows how exact the measurement is."""
    ratio: float | None = None
    """Its time or memory as a part of the other's: the median of groups of rounds."""
    low: float | None = None
    """The lower quartile of the groups."""
    high: float | None = None
    """The upper quartile."""
    paced: float | None = None
    """The ratio of single calls with empty caches, where they were measured."""
    reason: str = ""
    """The reason why it was not measured, or is not chosen though it won."""

    def __str__(self) -> str:
        figures = "" if self.ratio is None else f" {self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value}:{figures} {self.verdict}{f': {self.reason}' if self.reason else ''}"


@public
@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of `zrt.tune`; `str` says it in a few lines."""

    goal: Goal
    options: Options
    """The given options, with the settings that won. `Options.to_toml` writes them for a file."""
    trials: tuple[Trial, ...]
    """All settings that were considered, in the order of their trials."""
    ratio: float = 1.0
    """The time or memory of the tuned options as a part of that of the given ones, on feeds by which nothing was
    chosen; 1 where nothing won."""
    row_ns: dict[int, float] = field(default_factory=dict)
    """The nanoseconds of a row by the rows of a batch, with the tuned options; empty where the model takes one size."""

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        parts = {"goal": self.goal, "ratio": self.ratio, "session": self.options.session.to_dict()}
        return parts | {"trials": [asdict(trial) for trial in self.trials], "row_ns": dict(self.row_ns)}

    def summary(self) -> list[str]:
        """The settings that won, and those that make no difference, in a line each."""
        lines = []
        for verdict in ("no difference", "not tried"):
            settings = [trial.value for trial in self.trials if trial.verdict == verdict]
            lines += [f"{verdict}: {', '.join(settings)}"] if settings else []
        won = [trial.value for trial in self.trials if trial.verdict == "chosen"]
        unmeasured = next((trial.reason for trial in self.trials if trial.verdict == "given"), "")
        if not unmeasured and all(trial.verdict in ("given", "not tried") for trial in self.trials):
            unmeasured = TOO_SHORT
        if unmeasured:
            return [*lines, f"{unmeasured}, so the given options stay as they are"]
        if not won:
            return [*lines, "no setting is clearly better than the given options: they stay as they are"]
        what = "memory" if self.goal == "memory" else "time"
        return [*lines, f"{', '.join(won)}: {self.ratio:.3f} of the {what} of the given options"]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.trials), *self.summary()])


@public
def tune(
    spec: SessionSpec,
    feeds: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    goal: Goal = "latency",
    seconds: float = 60.0,
) -> Tuning:
    """Tries options of a session on this machine, and keeps those that are clearly better for this goal.

    `goal` is the time of a run, the 99th percentile of that time, the time of runs by as many threads as the process
    may use CPUs ("throughput"), or the memory of a process that loads and runs the model.

    Each setting is measured beside the best options until then, in rounds that take turns. One that wins is measured
    again, in other sessions and on other feeds. Last, the tuned options are measured beside those of `spec`, and are
    dropped unless they win clearly. A setting with other results is not taken. Options of `spec` that are not the
    default stay.

    `feeds` are those of one run, or a list of such; the list is divided into parts, so that settings are confirmed on
    feeds by which they were not chosen. Those of one run are used for all; without any they are made up. All ends
    after `seconds` and perhaps a few runs; settings for which there is no time are not tried.

    Raises the errors of `Session` and its `run` if the model does not run as it is.
    """
    require_type(spec, SessionSpec, "spec", "a SessionSpec")
    _listed(spec)
    if goal not in get_args(Goal):
        raise ArgumentError(f"goal: {shown(goal)} is none of {', '.join(get_args(Goal))}")
    duration(seconds, "seconds")
    if feeds is None:
        return tuned(spec, made_up(spec, UserInputs()), goal, seconds)
    given = [feeds] if isinstance(feeds, Mapping) else feeds
    if not isinstance(given, Sequence) or not given or not all(isinstance(each, Mapping) for each in given):
        raise wrong_type("feeds", "a mapping of inputs to arrays, or a list of such", feeds)
    with writing_nothing(spec).load() as session:
        for each in given:
            session.run(each)
    return tuned(spec, given, goal, seconds)


def made_up(spec: SessionSpec, user: UserInputs) -> list[Feeds]:
    """The user's inputs, and others that are made up, for each part. Raises the errors of `make_inputs` and of runs."""
    feeds: list[Feeds] = []
    with writing_nothing(spec).load() as session:
        for seed in range(PARTS):
            made = make_inputs(session.inputs, user, seed=seed)
            feeds.append(made.feeds())
            with made.first_run():
                session.run(feeds[-1])
    return feeds


def tuned(
    spec: SessionSpec, feeds: Sequence[Feeds], goal: Goal, seconds: float, progress: Progress = ignore_progress
) -> Tuning:
    """`tune` of checked arguments."""
    end = perf_counter_ns() + int(seconds * 1e9)
    given, spec = spec.options, writing_nothing(spec)
    settings = candidates(given, goal)
    # Half of the time is for choosing, in which each setting has a partner.
    share = min(CONTENDER_S, seconds / (4 * (len(settings) + 1)))
    pairs = Pairs([feeds[part::PARTS] or feeds for part in range(PARTS)], goal, share, end)
    best, trials, ratio = search(spec, settings, pairs, end, progress)
    row_ns: dict[int, float] = {}
    if goal != "memory":
        with suppress(OutOfTimeError):
            row_ns = pairs.time_per_row(best)
    session = replace(best.options, **{name: getattr(given, name) for name in WRITING_NOTHING})
    return Tuning(goal, Options(session=session, providers=_listed(spec)), tuple(trials), ratio, row_ns)


def _listed(spec: SessionSpec) -> list[ProviderLike] | None:
    """The providers of a recipe as an options file has them."""
    providers = spec.providers
    if isinstance(providers, DevicePolicy):
        raise UnsupportedError("spec: options files have no device policies: name the providers")
    return None if providers is None else [(name, settings) if settings else name for name, settings in providers]


def search(
    spec: SessionSpec,
    settings: Sequence[Setting],
    pairs: Pairs,
    end_ns: int,
    progress: Progress = ignore_progress,
    clock: Callable[[], int] = perf_counter_ns,
) -> tuple[SessionSpec, list[Trial], float]:
    """The recipe with the settings that win one after the other, their trials, and the ratio to the given one."""
    best, start, count = spec, clock(), 0

    def compare(one: SessionSpec, other: SessionSpec, part: int) -> Ratios:
        nonlocal count
        count += 1
        return pairs.compare(one, other, part)

    trials = [Trial("as it is", "beside itself", "given")]
    try:
        # It says how far equal sessions are apart, and how long a comparison takes.
        trials[0] = _with(trials[0], compare(spec, spec, 0), "given")
    except OutOfTimeError:
        trials[0] = replace(trials[0], reason=TOO_SHORT)
    except DiffersError as error:
        trials[0] = replace(trials[0], reason=str(error))
    for index, setting in enumerate(settings):
        progress(setting.how, index, len(settings))
        trial = Trial(setting.name, setting.how, "not tried", reason=trials[0].reason or "there is no time left")
        if setting.name == SPINNING and best.options.intra_op_num_threads == 1:
            trial = replace(trial, verdict="no difference", reason="with one thread none waits")
        # Time to choose, to confirm and to compare with the given options.
        elif not trials[0].reason and clock() + 3 * (clock() - start) // count <= end_ns:
            try:
                candidate = with_options(best, setting.applied(best.options))
            except Error as error:
                trial = replace(trial, verdict="failed", reason=str(error))
            else:
                trial = _tried(trial, partial(compare, candidate, best))
                best = candidate if trial.verdict == "chosen" else best
        trials.append(trial)
    progress("", len(settings), len(settings))
    if best is spec:
        return spec, trials, 1.0
    reason = "there is no time left to compare all chosen settings with the given options"
    with suppress(Error):
        last = compare(best, spec, 2)
        if wins(last):
            return best, trials, statistics.median(last.hot)
        reason = "all chosen settings together are not clearly better than the given options"
    lost = [
        replace(each, verdict="not confirmed", reason=reason) if each.verdict == "chosen" else each for each in trials
    ]
    return spec, lost, 1.0


def _tried(trial: Trial, compare: Callable[[int], Ratios]) -> Trial:
    """The trial with its verdict; `compare` measures the setting on a part of the feeds."""
    try:
        found = compare(0)
        if not wins(found):
            median = statistics.median(found.hot)
            worse = wins(Ratios(tuple(1 / each for each in found.hot)))
            same = CLEARLY <= median <= 1 / CLEARLY
            return _with(trial, found, "worse" if worse else "no difference" if same else "not clear")
        again = compare(1)
    except OutOfTimeError as error:
        return replace(trial, verdict="not tried", reason=str(error))
    except DiffersError as error:
        return replace(trial, verdict="results differ", reason=str(error))
    except Error as error:
        return replace(trial, verdict="failed", reason=str(error))
    if wins(again):
        return _with(trial, again, "chosen")
    reason = f"it was {statistics.median(found.hot):.3f} on the feeds by which settings are chosen"
    if wins(replace(again, paced=())):
        reason = "single calls with empty caches take longer"
    return _with(trial, again, "not confirmed", reason)


def _with(trial: Trial, found: Ratios, verdict: Verdict, reason: str = "") -> Trial:
    low, median, high = statistics.quantiles(found.hot, n=4, method="inclusive")
    paced = statistics.median(found.paced) if found.paced else None
    return replace(trial, verdict=verdict, ratio=median, low=low, high=high, paced=paced, reason=reason)


def wins(found: Ratios) -> bool:
    """Whether a setting is clearly better: in the median, in nearly all groups, and not slower with empty caches."""
    below = sum(each < 1 for each in found.hot)
    slower = bool(found.paced) and statistics.median(found.paced) > 1 / CLEARLY
    return statistics.median(found.hot) < CLEARLY and below >= NEARLY_ALL * len(found.hot) and not slower
