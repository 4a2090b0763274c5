"""Loads a model on one provider and runs it twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from zrt.bench import synthetic
from zrt.bench.synthetic import FedInput
from zrt.cli import outputs
from zrt.cli.common import UsageError
from zrt.errors import ArgumentError, DTypeError, UnknownNameError
from zrt.loading.run_options import RunOptions
from zrt.loading.session_options import SessionOptions
from zrt.providers import ProviderLike, parse
from zrt.session import feeds
from zrt.session.call import Result
from zrt.session.session import Session
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import type_name


@dataclass(frozen=True, slots=True)
class Trial:
    """The model and its inputs."""

    model: Path
    options: SessionOptions
    run: RunOptions | None
    given: Mapping[str, np.ndarray[Any, Any]]
    """Inputs by name; synthetic data replaces missing ones."""
    source: str
    """The origin of the given inputs."""
    shapes: Mapping[str, Shape]
    """Shapes of synthetic inputs."""


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
    """Runs the trial on a provider; `UsageError` for inputs that the model does not have."""
    start = clock()
    with Session(trial.model, replace(trial.options, record_placement=True), [provider]) as session:
        load_ns = clock() - start
        placement = session.placement()
        nodes = None if placement.reason else placement.providers
        fed, inputs = _inputs(session, trial)
        start = clock()
        session.run(fed, options=trial.run)
        first_run_ns = clock() - start
        start = clock()
        results = session.run(fed, options=trial.run)
        second_run_ns = clock() - start
        named = dict(zip(session.output_names, results, strict=True))
    return Outcome(parse(provider)[0], None, load_ns, first_run_ns, second_run_ns, nodes, inputs, named)


def _inputs(session: Session, trial: Trial) -> tuple[dict[str, Any], dict[str, FedInput]]:
    """The feeds, and a description of each."""
    infos = {info.name: info for info in (*session.inputs, *session.initializers)}
    try:
        for name in trial.given:
            if name not in infos:
                names = feeds.names_of(session.inputs)
                raise UnknownNameError(f"--input: the model has no input {name!r}; it has {names}")
        fed: dict[str, Any] = {name: feeds.right_array(infos[name], array) for name, array in trial.given.items()}
        known = {name: array.shape for name, array in fed.items() if name in session.input_names}
        wanted = synthetic.input_shapes(session, {**trial.shapes, **known})
    except (ArgumentError, DTypeError) as error:
        raise UsageError(str(error)) from None
    described = {
        name: FedInput(type_name(infos[name].element_type), array.shape, trial.source) for name, array in fed.items()
    }
    made_up = synthetic.make_all(session, wanted)
    for info in session.inputs:
        if info.name not in fed:
            fed[info.name] = synthetic.as_feed(info, made_up[info.name], wanted[info.name])
            described[info.name] = FedInput(type_name(info.element_type), wanted[info.name])
    return fed, described
