"""The report of a study, and its form as plain data for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from zrt.bench.harness import Latency, Series
from zrt.bench.inputs import UserInputs
from zrt.bench.lanes import Together
from zrt.bench.machine import Machine, Versions
from zrt.bench.official_contenders import Official
from zrt.bench.synthetic import FedInput
from zrt.loading.session_options import SessionOptions
from zrt.memory.buffers import BufferPolicy
from zrt.providers import CPU, ProviderLike, parse_all

OFFICIAL = ("version", "load_ns", "first_run_ns", "own_process")


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
    inputs: UserInputs = field(default_factory=UserInputs)
    """Inputs and shapes of inputs; synthetic data replaces missing inputs."""
    paced: bool = False
    """Whether each run finds the caches empty, as in a program that calls the model now and then."""
    self_check: bool = False
    """Whether onnxruntime's `run` is measured twice, over two sessions."""
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
class Row:
    """One contender's figures."""

    key: str
    label: str
    series: Series
    ratio: float
    """The ratio to the C loop: the median of the ratios within each round."""
    latency: Latency


@dataclass(frozen=True, slots=True)
class SetUp:
    """The steps before the first measured run; times in nanoseconds, memory in bytes."""

    library_ns: int
    """Time to find and load ONNX Runtime and create its environment; near zero if that was done before."""
    load_ns: int
    """Time to load the session."""
    first_run_ns: int
    """Time of the session's first run, which plans its memory."""
    lane_ns: int
    """Time to make a lane and run it once."""
    resident_before_load: int
    resident_after_load: int
    resident_after_first_run: int


@dataclass(frozen=True, slots=True)
class Report:
    """The results of `zrt.bench.study`."""

    settings: Settings
    inputs: Mapping[str, FedInput]
    rounds: int
    machine: Machine
    versions: Versions
    set_up: SetUp
    official: Official
    """The onnxruntime package, without its contenders."""
    rows: Sequence[Row]
    """The C loop first."""
    ratios: Mapping[str, float]
    """Further ratios, by name: "lane_to_ort_run_with_iobinding"."""
    python_timer: Latency
    """The readings of the timer for Python calls around no call."""
    c_timer: Latency
    """The readings of the C loop's timer around no run."""
    empty_loop_ns: float
    """The cost of one iteration of the loop that calls Python contenders; their times include it."""
    together: Together | None
    """Several lanes at once, if requested."""
    copies: Sequence[str]
    """The copies that a run of the lane makes, each with its reason."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; times in nanoseconds, memory in bytes."""
        settings = self.settings
        return {
            "model": {"path": str(settings.model), "inputs": {name: asdict(fed) for name, fed in self.inputs.items()}},
            "settings": {
                "provider": settings.named[0][0],
                "threads": settings.options.intra_op_num_threads,
                "options": settings.options._changes(),
                "providers": dict(settings.named),
                "policy": str(settings.policy),
                "paced": settings.paced,
                "warmup": settings.warmup,
                "rounds": self.rounds,
            },
            "machine": asdict(self.machine),
            "versions": asdict(self.versions),
            "set_up": asdict(self.set_up),
            "onnxruntime_package": {name: getattr(self.official, name) for name in OFFICIAL},
            "contenders": {row.key: _row(row) for row in self.rows},
            "ratios": dict(self.ratios),
            "unmeasured": dict(self.official.unmeasured),
            "timer": {
                "python": self.python_timer.summary(),
                "c": self.c_timer.summary(),
                "empty_loop_ns": self.empty_loop_ns,
            },
            "lanes": None if self.together is None else _together(self.together),
            "copies": list(self.copies),
        }


def _row(row: Row) -> dict[str, Any]:
    return {
        "label": row.label,
        "median_ns": row.series.median,
        "ratio_to_c_loop": row.ratio,
        "runs": row.series.runs * len(row.series.means),
        "runs_per_batch": row.series.runs,
        "latency": row.latency.summary(),
    }


def _together(together: Together) -> dict[str, Any]:
    return {
        "count": len(together.latencies),
        "runs_per_second": together.all_per_s,
        "single_runs_per_second": together.single_per_s,
        "scaling": together.all_per_s / together.single_per_s,
        "latency": [latency.summary() for latency in together.latencies],
    }
