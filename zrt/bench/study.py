"""`measure`: one model, all contenders, from loading to the last percentile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from time import perf_counter_ns as clock
from typing import Any

from zrt.bench import harness, lanes, machine, official_contenders
from zrt.bench.contenders import YARDSTICK, CLoop, Subject, own_contenders
from zrt.bench.harness import Latency, Progress, Series, ignore_progress
from zrt.bench.inputs import make_inputs
from zrt.bench.official_contenders import RUN, RUN_AGAIN, RUN_WITH_IOBINDING, Official, Place
from zrt.bench.report import Report, Row, Settings, SetUp
from zrt.environment import cpu_budget, environment
from zrt.environment.options import calls_of
from zrt.lanes.audit import PortAudit
from zrt.lanes.lane import Lane
from zrt.lanes.ports import LaneMemory
from zrt.providers import CPU, CUDA
from zrt.session.session import Session
from zrt.values.type_info import ValueInfo

# The keys of contenders that do the same work.
PAIRS = (("lane", RUN_WITH_IOBINDING), ("prepared_run", RUN), ("session_run", RUN), (RUN_AGAIN, RUN))
EMPTY_LOOP_RUNS = 100_000


def measure(settings: Settings, progress: Progress = ignore_progress) -> Report:
    """Measures every contender on the model. Errors of loading or running the model propagate."""
    progress("loading", 0, 1)
    subject, session, lane, set_up = _set_up(settings)
    if settings.options.use_per_session_threads and not settings.options.intra_op_num_threads:
        # onnxruntime gets the number that zrt has chosen; 0 leaves it to ONNX Runtime in both.
        threads = cpu_budget.pool_threads()
        settings = replace(settings, options=replace(settings.options, intra_op_num_threads=threads))
    # The memory of onnxruntime's binding, which borrows it.
    bound = subject.lane(session)
    ours = own_contenders(subject, lane)
    with _official(settings, session, bound) as theirs:
        progress("loading", 1, 1)
        contenders = [*ours, *theirs.contenders]
        harness.warm_up(contenders, settings.warmup)
        make_plan = harness.paced_plan if settings.paced else harness.batch_plan
        plan = make_plan(contenders, settings.runs)
        series = harness.measure(contenders, plan, progress)
        typical = {key: each.median for key, each in series.items()}
        if settings.paced:
            calls = {key: Latency.of(each.means) for key, each in series.items()}
        else:
            calls = harness.measure_calls(contenders, typical, settings.runs, progress)
    together = None
    if settings.lanes > 1:
        progress(f"{settings.lanes} lanes", 0, 1)
        several = [subject.lane(session) for _ in range(settings.lanes)]
        together = lanes.measure(several, typical["lane"], settings.runs)
        progress(f"{settings.lanes} lanes", 1, 1)
    return Report(
        settings=settings,
        inputs={name: subject.inputs.described[name] for name in session.input_names},
        rounds=plan.rounds,
        machine=machine.describe(),
        versions=machine.versions(),
        set_up=set_up,
        official=replace(theirs, contenders=()),
        rows=[
            Row(one.key, one.label, series[one.key], series[one.key].ratio(series[YARDSTICK]), calls[one.key])
            for one in contenders
        ],
        ratios=_ratios(series),
        python_timer=harness.timer_cost(harness.python_contender("", "", lane.run).batch),
        c_timer=harness.timer_cost(CLoop(lane).batch),
        empty_loop_ns=harness.time_empty_loop(EMPTY_LOOP_RUNS) / EMPTY_LOOP_RUNS,
        together=together,
        copies=lane.audit().copies,
    )


def _set_up(settings: Settings) -> tuple[Subject, Session, Lane, SetUp]:
    """Loads the model, runs it and binds a lane; records time and memory of each step."""
    load = partial(Session, settings.model, settings.options, providers=settings.providers)
    start = clock()
    environment.current()
    library_ns = clock() - start
    resident = [machine.resident_bytes()]
    start = clock()
    session = load()
    load_ns = clock() - start
    resident.append(machine.resident_bytes())
    subject = Subject(load, make_inputs(session.inputs, settings.inputs), LaneMemory.buffers(settings.policy))
    feeds = subject.inputs.feeds()
    start = clock()
    with subject.inputs.first_run():
        session.run(feeds)
    first_run_ns = clock() - start
    resident.append(machine.resident_bytes())
    start = clock()
    lane = subject.lane(session)
    lane_ns = clock() - start
    return subject, session, lane, SetUp(library_ns, load_ns, first_run_ns, lane_ns, *resident)


def _ratios(series: Mapping[str, Series]) -> dict[str, float]:
    """The ratios of all contenders to the C loop, and of zrt's to onnxruntime's that do the same work."""
    pairs = [(key, YARDSTICK) for key in series if key != YARDSTICK]
    pairs += [(mine, its) for mine, its in PAIRS if {mine, its} <= series.keys()]
    return {f"{mine}_to_{its}": series[mine].ratio(series[its]) for mine, its in pairs}


def _official(settings: Settings, session: Session, lane: Lane) -> AbstractContextManager[Official]:
    """onnxruntime's contenders over the lane's memory, or over a copy in another process."""
    audit = lane.audit()
    inputs = _places(session.inputs, audit.inputs, lane.inputs)
    outputs = _places(session.outputs, audit.outputs, lane.outputs)
    # The CPU execution provider is last, as in zrt.
    providers = [*(named for named in settings.named if named[0] != CPU.name), (CPU.name, {})]
    options = _official_options(settings)
    keys = (RUN, RUN_WITH_IOBINDING, *((RUN_AGAIN,) if settings.self_check else ()))
    arguments = settings.model, options, providers, inputs, outputs, keys
    apart = CUDA.name in dict(settings.named) if settings.own_process is None else settings.own_process
    if apart:
        return official_contenders.set_up_apart(*arguments)
    return nullcontext(official_contenders.set_up(*arguments))


def _places(infos: Iterable[ValueInfo], ports: Iterable[PortAudit], arrays: Mapping[str, Any]) -> list[Place]:
    return [
        Place(info.name, info.element_type.onnx_code, port.shape or (), None if port.allocates else arrays[info.name])
        for info, port in zip(infos, ports, strict=True)
    ]


def _official_options(settings: Settings) -> dict[str, Any]:
    """The options that were set; zrt's options that ORT takes as config entries are among the config entries."""
    entries = {name for name, function, _ in calls_of(settings.options) if function == "AddSessionConfigEntry"}
    fields = {name: value for name, value in settings.options._changes().items() if name not in entries}
    return {**fields, "config_entries": settings.options.effective_config_entries()}
