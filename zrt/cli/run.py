"""``zrt run``: runs a model on each provider and describes its outputs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any

from zrt import providers
from zrt.bench.inputs import UserInputs, make_inputs
from zrt.cli import common, digits, inputs, options, outputs
from zrt.cli.digits import Reading
from zrt.cli.options import option
from zrt.cli.units import duration
from zrt.environment import environment
from zrt.errors import Error, ProviderError
from zrt.loading.options_files import Options
from zrt.providers import ProviderLike
from zrt.session.session import Session
from zrt.values.type_info import format_shape

OPTIONS = (
    options.MODEL,
    *inputs.OPTIONS,
    option(
        "--provider",
        "an execution provider, such as cuda; default: those of --options, else all usable ones",
        "NAME",
        repeated=True,
    ),
    options.threads(),
    options.OPTIONS,
    options.IMPORT,
)


def run(arguments: argparse.Namespace) -> int:
    settings = common.loaded_options(arguments, inputs.input_files(arguments))
    settings.session.custom_ops = common.imported_domains(arguments.imports)
    requested = common.requested_providers(arguments.provider, settings)
    user, known = inputs.user_inputs(arguments), None
    if common.named_model(arguments.model) is None and user == UserInputs():
        known = digits.held_back()
        user = UserInputs({digits.INPUT: known.feed}, "digits that it never saw in training")
    model = common.model_path(arguments.model)
    # Before the loop over the providers: a wrong variable, such as ZRT_CPUS, is no fault of theirs.
    environment.current()
    outcomes: dict[str, Any] = {}
    readings: dict[str, Reading] = {}
    failures: list[Error] = []
    for provider in requested or providers.available_providers():
        name, _ = providers.parse(provider)
        try:
            unusable = providers.usable(name)
            if unusable is None:
                outcomes[name], results = _run_on(provider, model, settings, user)
                if known is not None:
                    readings[name] = Reading.of(known, results[0])
            elif requested:
                raise ProviderError(f"{name} is not usable here: {unusable}")
            else:
                outcomes[name] = {"problem": f"not usable here: {unusable}"}
        except Error as error:
            failures.append(error)
            outcomes[name] = {"problem": str(error)}
    ran = any("outputs" in outcome for outcome in outcomes.values())
    if failures and not ran:
        raise failures[0]

    finite = all(
        outputs.is_finite(output) for outcome in outcomes.values() for output in outcome.get("outputs", {}).values()
    )
    document = {"model": str(model), "finite": finite, "providers": outcomes}
    if known is not None:
        document["digits"] = {name: reading.to_dict() for name, reading in readings.items()}
    common.print_result(arguments, document, _show, common.model_label(arguments.model), outcomes, readings)
    return 0 if ran and finite and not failures else common.FAILED


def _run_on(
    provider: ProviderLike, model: Path, settings: Options, user: UserInputs
) -> tuple[dict[str, Any], Sequence[Any]]:
    """Runs the model on a provider twice, the second time without the work that only the first run does.

    Returns the outcome as plain data for JSON, and the results.
    """
    start = clock()
    with Session(model, replace(settings.session, record_placement=True), [provider]) as session:
        loaded = clock()
        placement = session.placement()
        fed = make_inputs(session.inputs, user, session.initializers)
        feeds = fed.feeds()
        times = [clock()]
        with fed.first_run():
            session.run(feeds, options=settings.run)
        times.append(clock())
        results = session.run(feeds, options=settings.run)
        times.append(clock())
        described = map(outputs.describe, results)
        outcome = {
            "load_ns": loaded - start,
            "first_run_ns": times[1] - times[0],
            "second_run_ns": times[2] - times[1],
            # ONNX Runtime does not record it for every model.
            "nodes": None if placement.reason else placement.providers,
            "inputs": {name: asdict(each) for name, each in fed.described.items()},
            "outputs": dict(zip(session.output_names, described, strict=True)),
        }
    return outcome, results


def _show(page: common.Page, model: str, outcomes: Mapping[str, Any], readings: Mapping[str, Reading]) -> None:
    """The outcome on each provider, and the digits once."""
    page.facts(("model", model))
    # A provider that left all nodes to others has no outcome of its own, if theirs is there.
    shown = {
        provider: outcome
        for provider, outcome in outcomes.items()
        if not (_idle(provider, outcome) and all("nodes" in outcomes.get(name, {}) for name in outcome["nodes"]))
    }
    for provider, outcome in shown.items():
        idle = f"{', '.join(outcome['nodes'])} ({provider} took no node)" if _idle(provider, outcome) else ""
        page.line("\n", idle or provider, style="bold")
        if "problem" in outcome:
            page.line(outcome["problem"], style="yellow")
        else:
            _show_outputs(page, outcome)
    if readings:
        _show_digits(page, {name: reading for name, reading in readings.items() if name in shown})
    for provider in (each for each in outcomes if each not in shown):
        page.line(f"\n{provider} took no node")


def _idle(provider: str, outcome: Mapping[str, Any]) -> bool:
    """Whether other providers ran all nodes of the model."""
    return bool(outcome.get("nodes")) and provider not in outcome["nodes"]


def _show_outputs(page: common.Page, outcome: Mapping[str, Any]) -> None:
    counts = outcome["nodes"] or {}
    nodes = ", ".join(f"{count} on {name}" for name, count in counts.items())
    if len(counts) == 1:
        # The heading names the provider.
        [nodes] = map(str, counts.values())
    steps = (("load", "load_ns"), ("first run", "first_run_ns"), ("second run", "second_run_ns"))
    page.facts(
        *(
            ("input", f"{name} {fed['type']}{format_shape(tuple(fed['shape']))}, {fed['source']}")
            for name, fed in outcome["inputs"].items()
        ),
        *([("nodes", nodes)] if nodes else []),
        ("time", ", ".join(f"{step} {duration(outcome[key])}" for step, key in steps)),
    )
    page.table(
        ("output", "type", "shape", "min", "max", "mean", "deviation", "NaN", "infinite"),
        [_output_row(name, output) for name, output in outcome["outputs"].items()],
        left=3,
        styles=["" if outputs.is_finite(output) else "red" for output in outcome["outputs"].values()],
    )
    for name, output in outcome["outputs"].items():
        if output.get("top"):
            best = ", ".join(f"{entry['index']} ({entry['value']:.4g})" for entry in output["top"])
            row = ", first row" if output["shape"][0] > 1 else ""
            page.line(f"top {len(output['top'])} of {name}{row}: {best}")


def _output_row(name: str, output: Mapping[str, Any]) -> list[str]:
    if output["kind"] != "tensor":
        return [name, output["kind"]]
    numbers = ["" if output[key] is None else f"{output[key]:.6g}" for key in ("min", "max", "mean", "deviation")]
    bad = [f"{output[key]:,}" for key in ("nan", "infinite")]
    return [name, output["type"], format_shape(tuple(output["shape"])), *numbers, *bad]


def _show_digits(page: common.Page, readings: Mapping[str, Reading]) -> None:
    """A few predictions of the first provider, and each provider's number of right ones."""
    first = next(iter(readings.values()))
    shades = digits.PLAIN_SHADES if page.ascii_only else digits.SHADES
    page.line()
    page.columns(
        [("\n".join(digits.draw(first.known.images[index], shades)), first.caption(index)) for index in first.shown()]
    )
    page.line()
    count = len(first.predicted)
    for provider, reading in readings.items():
        where = f" on {provider}" if len(readings) > 1 else ""
        page.line(f"{reading.right} of {count} right ({reading.right / count * 100:.1f} %){where}", style="bold")
