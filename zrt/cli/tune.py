"""``zrt tune``: the options that suit a model on this machine."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from zrt._common import installation
from zrt._common.files import replacing, writing
from zrt.cli import common, inputs, options
from zrt.cli.options import option
from zrt.cli.units import Unit, duration
from zrt.diagnosis.candidates import Goal
from zrt.session.spec import SessionSpec

# The command alone needs the measuring, which takes long to import.
if TYPE_CHECKING:
    from zrt.diagnosis.tune import Trial, Tuning

SECONDS = "60"
STYLES = {"chosen": "bold", "failed": "yellow", "results differ": "yellow"}


OPTIONS = (
    *inputs.MEASURED,
    option(
        "--goal",
        "the time of a run, its 99th percentile, the time of runs by a thread for each CPU, or the memory of a process",
        default="latency",
        choices=get_args(Goal),
    ),
    option("--seconds", "the time for all measurements, such as 30, 90s or 5m", "N", options.seconds, default=SECONDS),
    option("--output", "write the options to this .json or .toml file", "FILE", options.file_with(".json", ".toml")),
    options.OVERWRITE,
)


def run(arguments: argparse.Namespace) -> int:
    from zrt.diagnosis.tune import made_up, tuned

    output, files = arguments.output, inputs.input_files(arguments)
    model = common.model_path(arguments.model)
    settings = common.loaded_options(arguments, files)
    read = common.files_of(model, settings, arguments.options, *files)
    if output is not None:
        # Fail before the measurement, not after it.
        common.require_target(output, read, arguments.overwrite, "--output")
        if output.suffix.lower() == ".toml":
            installation.require("tomli_w", "toml", "writing TOML")
    providers = common.requested_providers(arguments.provider, settings)
    spec = SessionSpec(model, settings.session, providers)
    with common.terminable():
        feeds = made_up(spec, inputs.user_inputs(arguments))
        with common.progress(quiet=arguments.json) as progress:
            found = tuned(spec, feeds, arguments.goal, arguments.seconds, progress)
        written = None
        try:
            if output is not None:
                # A file of options says more than a recipe.
                best = replace(found.options, run=settings.run, providers=providers)
                text = best.to_json() if output.suffix.lower() == ".json" else best.to_toml()
                places = replacing(str(output), subject="--output", inputs=read)
                with places as (path,), writing(output, "--output"):
                    Path(path).write_text(text, "utf-8")
                written = output
        finally:
            # The measurement took long, and a file that cannot be written does not take it away.
            common.print_result(arguments, found.to_dict(), _show, found, written)
    return 0


def _show(page: common.Page, found: Tuning, output: Path | None) -> None:
    page.table(
        ("knob", "setting", "verdict", "ratio", "quartiles", "paced"),
        [(trial.knob, trial.value, trial.verdict, *_figures(trial)) for trial in found.trials],
        left=3,
        styles=[STYLES.get(trial.verdict, "") for trial in found.trials],
    )
    for trial in found.trials:
        if trial.reason and trial.verdict in ("failed", "results differ", "not confirmed"):
            page.line(f"{trial.verdict}: {trial.value}: {trial.reason}", style="yellow")
    if found.row_ns:
        best = min(found.row_ns, key=lambda size: found.row_ns[size])
        unit = Unit.fitting(found.row_ns[best])
        page.table(
            ("rows of a batch", f"{unit.name} a row"), [(str(n), unit.format(t)) for n, t in found.row_ns.items()]
        )
        page.line(f"a row takes least in batches of {best}: {duration(found.row_ns[best])}")
    for line in found.summary():
        page.line(line)
    if output is not None:
        page.line(f"options: {output}")


def _figures(trial: Trial) -> tuple[str, str, str]:
    paced = "" if trial.paced is None else f"{trial.paced:.3f}"
    if trial.ratio is None:
        return "", "", paced
    return f"{trial.ratio:.3f}", f"{trial.low:.3f}-{trial.high:.3f}", paced
