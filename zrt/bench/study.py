"""`measure`: one model, all contenders, from loading to the last percentile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any

from zrt.bench import harness, lanes, latency, machine, official_contenders, official_worker, timing
from zrt.bench.contenders import YARDSTICK, CLoop, bound_lane, own_contenders
from zrt.bench.given import Given, Inputs, make_inputs
from zrt.bench.harness import Progress, Series, ignore_progress
from zrt.bench.official_contenders import Official, Place
from zrt.bench.report import OfficialSetUp, Report, Row, SetUp
from zrt.environment import environment
from zrt.errors import Error
from zrt.lanes.lane import Lane
from zrt.lanes.ports import LaneMemory
from zrt.loading.session_options import SessionOptions
from zrt.memory.buffers import BufferPolicy
from zrt.providers import CPU, CUDA, ProviderLike, parse_all
from zrt.session.session import Session

# The keys of contenders that do the same work: zrt's and onnxruntime's.
PAIRS = (
    ("lane", official_contenders.RUN_WITH_IOBINDING[0]),
    ("prepared_run", official_contenders.RUN[0]),
    ("session_run", official_contenders.RUN[0]),
)
EMPTY_LOOP_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a measurement."""

    model: Path
    options: SessionOptions = field(default_factory=lambda: SessionOptions(intra_op_num_threads=1))
    """The options of the session, for zrt and for onnxruntime."""
    providers: Sequence[ProviderLike] = (CPU(),)
    """The execution providers, best first; the CPU execution provider is the fallback."""
    lanes: int = 1
    """The number of lanes to measure at the same time; 1 skips that."""
    given: Given = field(default_factory=Given)
    """Inputs and shapes of inputs; synthetic data replaces missing inputs."""
    runs: int | None = None
    """At least this many runs of each contender in batches, and as many timed calls; None fills a few seconds."""
    warmup: int = 10
    """The runs of each contender before anything is timed."""
    policy: BufferPolicy = BufferPolicy.AUTO
    """The lanes' memory."""
    own_process: bool | None = None
    """Whether onnxruntime runs in a process of its own; None: only if CUDA is used."""

    @property
    def named(self) -> list[tuple[str, dict[str, str]]]:
        """The full names of the providers, each with ORT's options."""
        return parse_all(self.providers)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A loaded model with a bound lane."""

    session: Session
    inputs: Inputs
    memory: LaneMemory
    lane: Lane
    set_up: SetUp

    def more_lanes(self, count: int) -> list[Lane]:
        """Further lanes, with the same inputs."""
        return [bound_lane(self.session, self.inputs, self.memory) for _ in range(count)]


def measure(settings: Settings, progress: Progress = ignore_progress) -> Report:
    """Measures every contender on the model. Errors of loading or running the model propagate."""
    progress("loading", 0, 1)
    ready = _set_up(settings)
    session, lane = ready.session, ready.lane
    ours = own_contenders(session, ready.inputs, ready.memory, lane)
    own_process = settings.own_process
    if own_process is None:
        own_process = CUDA.name in dict(settings.named)
    with _official(settings, ready, own_process) as theirs:
        progress("loading", 1, 1)
        contenders = [*ours, *theirs.contenders]
        harness.warm_up(contenders, settings.warmup)
        plan = harness.make_plan(contenders, settings.runs)
        series = harness.measure(contenders, plan, progress)
        typical = {key: found.median for key, found in series.items()}
        calls = latency.measure(contenders, typical, settings.runs, progress)
    together = None
    if settings.lanes > 1:
        progress(f"{settings.lanes} lanes", 0, 1)
        together = lanes.measure(ready.more_lanes(settings.lanes), typical["lane"], settings.runs)
        progress(f"{settings.lanes} lanes", 1, 1)
    yardstick = series[YARDSTICK]
    return Report(
        model=settings.model,
        inputs={name: ready.inputs.described[name] for name in session.input_names},
        provider=settings.named[0][0],
        threads=settings.options.intra_op_num_threads,
        options=_changed(settings.options),
        providers=dict(settings.named),
        policy=str(settings.policy),
        warmup=settings.warmup,
        rounds=plan.rounds,
        machine=machine.describe(),
        versions=machine.versions(),
        set_up=ready.set_up,
        official=OfficialSetUp(theirs.version, theirs.load_ns, theirs.first_run_ns, own_process),
        rows=[
            Row(one.key, one.label, series[one.key], series[one.key].ratio(yardstick), calls[one.key])
            for one in contenders
        ],
        ratios=_ratios(series),
        unmeasured=theirs.unmeasured,
        python_timer=latency.timer_cost(timing.timer_times),
        c_timer=latency.timer_cost(CLoop(lane).timer_times),
        empty_loop_ns=timing.empty_loop(EMPTY_LOOP_RUNS) / EMPTY_LOOP_RUNS,
        together=together,
        copies=lane.audit().copies,
    )


def _set_up(settings: Settings) -> _Ready:
    """Loads the model, runs it and binds a lane; records time and memory of each step."""
    start = clock()
    environment.current()
    library_ns = clock() - start
    resident = [machine.resident_bytes()]
    start = clock()
    session = Session(settings.model, settings.options, providers=settings.providers)
    load_ns = clock() - start
    resident.append(machine.resident_bytes())
    inputs = make_inputs(session, settings.given)
    start = clock()
    session.run(inputs.feeds)
    first_run_ns = clock() - start
    resident.append(machine.resident_bytes())
    memory = LaneMemory.buffers(settings.policy)
    start = clock()
    lane = bound_lane(session, inputs, memory)
    lane_ns = clock() - start
    set_up = SetUp(library_ns, load_ns, first_run_ns, lane_ns, *resident)
    return _Ready(session, inputs, memory, lane, set_up)


def _ratios(series: Mapping[str, Series]) -> dict[str, float]:
    """The ratios of all contenders to the C loop, and of zrt's to onnxruntime's that do the same work."""
    pairs = [(key, YARDSTICK) for key in series if key != YARDSTICK]
    pairs += [(mine, its) for mine, its in PAIRS if its in series]
    return {f"{mine}_to_{its}": series[mine].ratio(series[its]) for mine, its in pairs}


def _official(settings: Settings, ready: _Ready, own_process: bool) -> AbstractContextManager[Official]:
    """onnxruntime's contenders over the lane's memory, or over a copy in another process."""
    session, lane = ready.session, ready.lane
    inputs = [
        Place(info.name, info.element_type.onnx_code, ready.inputs.shapes[info.name], lane.inputs[info.name])
        for info in session.inputs
    ]
    outputs = [
        Place(
            info.name,
            info.element_type.onnx_code,
            port.shape or (),
            None if port.allocates else lane.outputs[info.name],
        )
        for info, port in zip(session.outputs, lane.audit().outputs, strict=True)
    ]
    # The CPU execution provider is last, as in zrt.
    providers = [*(named for named in settings.named if named[0] != CPU.name), (CPU.name, {})]
    options = _official_options(settings.options)
    if own_process:
        return official_worker.set_up(settings.model, options, providers, inputs, outputs)
    return nullcontext(official_contenders.set_up(settings.model, options, providers, inputs, outputs))


def _changed(options: SessionOptions) -> dict[str, Any]:
    """The options that were set, as plain data."""
    unset = SessionOptions().to_dict()
    return {name: value for name, value in options.to_dict().items() if value != unset.get(name)}


def _official_options(options: SessionOptions) -> dict[str, Any]:
    """The options that were set; zrt's options that ORT takes as config entries are among the config entries."""
    fields = {name: value for name, value in _changed(options).items() if not _is_config(name, value)}
    return {**fields, "config_entries": options.effective_config_entries()}


def _is_config(name: str, value: Any) -> bool:
    """Whether an option becomes a config entry."""
    try:
        return bool(SessionOptions.from_dict({name: value}).effective_config_entries())
    except Error:
        # It goes with others only.
        return False
