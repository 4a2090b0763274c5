"""The report of a study, and its form as plain data for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zrt.bench.harness import Series
from zrt.bench.lanes import Together
from zrt.bench.latency import Latency
from zrt.bench.machine import Machine, Versions
from zrt.bench.synthetic import FedInput


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
class OfficialSetUp:
    """The same for the onnxruntime package, as far as it was measured."""

    version: str
    load_ns: int
    first_run_ns: int
    own_process: bool
    """Whether it ran in a process of its own, as it does with CUDA."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of `zrt.bench.study`."""

    model: Path
    inputs: Mapping[str, FedInput]
    provider: str
    threads: int
    options: Mapping[str, Any]
    """The options of the session that were set, as plain data."""
    providers: Mapping[str, Mapping[str, str]]
    """The options of each provider, by its full name."""
    policy: str
    warmup: int
    rounds: int
    machine: Machine
    versions: Versions
    set_up: SetUp
    official: OfficialSetUp
    rows: Sequence[Row]
    """The C loop first."""
    ratios: Mapping[str, float]
    """Further ratios, by name: "lane_to_ort_run_with_iobinding"."""
    unmeasured: Mapping[str, str]
    """Why a contender is missing, by its key."""
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
        return {
            "model": {"path": str(self.model), "inputs": {name: asdict(fed) for name, fed in self.inputs.items()}},
            "settings": {
                "provider": self.provider,
                "threads": self.threads,
                "options": dict(self.options),
                "providers": dict(self.providers),
                "policy": self.policy,
                "warmup": self.warmup,
                "rounds": self.rounds,
            },
            "machine": asdict(self.machine),
            "versions": asdict(self.versions),
            "set_up": asdict(self.set_up),
            "onnxruntime_package": asdict(self.official),
            "contenders": {row.key: _row(row) for row in self.rows},
            "ratios": dict(self.ratios),
            "unmeasured": dict(self.unmeasured),
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
