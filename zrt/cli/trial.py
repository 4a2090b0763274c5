"""Loads a model on one provider and runs it twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any

from zrt.bench.given import Given, make_inputs
from zrt.bench.synthetic import FedInput
from zrt.cli import outputs
from zrt.loading.run_options import RunOptions
from zrt.loading.session_options import SessionOptions
from zrt.providers import ProviderLike, parse
from zrt.session.call import Result
from zrt.session.session import Session


@dataclass(frozen=True, slots=True)
class Trial:
    """The model and its inputs."""

    model: Path
    options: SessionOptions
    run: RunOptions | None
    given: Given
    """The given inputs; synthetic data replaces missing ones."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome on one provider."""

    provider: str
    problem: str | None = None
    """The reason why there is no result."""
    load_ns: int = 0
    first_run_ns: int = 0
    second_run_ns: int = 0
    """The time of the second run, without the work that only the first run does."""
    nodes: Mapping[str, int] | None = None
    """The number of nodes that each provider ran; None if ONNX Runtime does not record it for the model."""
    inputs: Mapping[str, FedInput] = field(default_factory=dict)
    results: Mapping[str, Result | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        if self.problem is not None:
            return {"problem": self.problem}
        return {
            "load_ns": self.load_ns,
            "first_run_ns": self.first_run_ns,
            "second_run_ns": self.second_run_ns,
            "nodes": self.nodes,
            "inputs": {name: asdict(fed) for name, fed in self.inputs.items()},
            "outputs": {name: outputs.describe(result) for name, result in self.results.items()},
        }


def run_on(provider: ProviderLike, trial: Trial) -> Outcome:
    """Runs the trial on a provider; `InputError` for inputs that do not fit the model."""
    start = clock()
    with Session(trial.model, replace(trial.options, record_placement=True), [provider]) as session:
        load_ns = clock() - start
        placement = session.placement()
        nodes = None if placement.reason else placement.providers
        made = make_inputs(session, trial.given, session.initializers)
        start = clock()
        session.run(made.feeds, options=trial.run)
        first_run_ns = clock() - start
        start = clock()
        results = session.run(made.feeds, options=trial.run)
        second_run_ns = clock() - start
        named = dict(zip(session.output_names, results, strict=True))
    return Outcome(parse(provider)[0], None, load_ns, first_run_ns, second_run_ns, nodes, made.described, named)
