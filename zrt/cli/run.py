"""``zrt run``: runs a model on each provider and describes its outputs."""

from __future__ import annotations

import argparse

import numpy as np

from zrt import providers
from zrt.bench.given import Given
from zrt.cli import common, digits, inputs, outputs
from zrt.cli.digits import Digits, Reading
from zrt.cli.trial import Outcome, Trial, run_on
from zrt.errors import Error, ProviderError
from zrt.providers import ProviderLike

SUMMARY = "Run a model on each available provider and describe what comes out."

FAILED = 1
DEFAULT_THREADS = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt run``."""
    common.add_model(parser)
    inputs.add_inputs(parser)
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="NAME",
        help="an execution provider, such as cuda (may be repeated; default: those of --options, else all usable ones)",
    )
    common.add_threads(parser, DEFAULT_THREADS)
    common.add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt run``."""
    if not arguments.json:
        common.require_terminal()
    options = common.loaded_options(
        arguments.options, arguments.threads, DEFAULT_THREADS, inputs.input_files(arguments)
    )
    chosen = common.chosen_providers(arguments.provider, options)
    given, known = inputs.given_inputs(arguments), None
    if common.named_model(arguments.model) is None and given == Given():
        known = digits.held_back()
        given = Given({digits.INPUT: known.feed}, "digits that it never saw in training")
    model = common.chosen_model(arguments.model)
    outcomes, failures = _run_on_all(chosen, Trial(model, options.session, options.run, given))
    if failures and not any(outcome.results for outcome in outcomes):
        raise failures[0]

    described = {outcome.provider: outcome.to_dict() for outcome in outcomes}
    finite = all(outputs.is_finite(output) for one in described.values() for output in one.get("outputs", {}).values())
    readings = {} if known is None else _readings(known, outcomes)
    if arguments.json:
        document = {"model": str(model), "finite": finite, "providers": described}
        if known is not None:
            document["digits"] = {name: reading.to_dict(known) for name, reading in readings.items()}
        common.print_json(document)
    else:
        from zrt.cli import run_view

        run_view.show(common.model_label(arguments.model), described, known, readings)
    return 0 if finite and not failures else FAILED


def _run_on_all(chosen: list[ProviderLike], trial: Trial) -> tuple[list[Outcome], list[Error]]:
    """Runs on the chosen providers, else on all; an unusable provider is an error only if it was chosen."""
    outcomes: list[Outcome] = []
    failures: list[Error] = []
    for provider in chosen or providers.available_providers():
        name = common.provider_name(provider) if chosen else str(provider)
        unusable = providers.usable(name)
        if unusable is not None:
            outcomes.append(Outcome(name, f"not usable here: {unusable}"))
            if chosen:
                failures.append(ProviderError(f"{name} is not usable here: {unusable}"))
            continue
        try:
            outcomes.append(run_on(provider, trial))
        except Error as error:
            failures.append(error)
            outcomes.append(Outcome(name, str(error)))
    return outcomes, failures


def _readings(known: Digits, outcomes: list[Outcome]) -> dict[str, Reading]:
    """Each provider's predictions, by its name."""
    return {
        outcome.provider: Reading.of(known, result)
        for outcome in outcomes
        for result in outcome.results.values()
        if isinstance(result, np.ndarray)
    }
