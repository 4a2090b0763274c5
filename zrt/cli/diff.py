"""``zrt diff``: two ways to run a model, compared value by value."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zrt.cli import common, inputs, options, pictures
from zrt.cli.options import UsageError, count, option
from zrt.cli.units import plural
from zrt.diagnosis.differences import ATOL, RTOL
from zrt.loading.options_files import Options
from zrt.session.spec import SessionSpec
from zrt.types import GraphOptimizationLevel

# The command alone needs the onnx package, which takes long to import.
if TYPE_CHECKING:
    from zrt.bench.inputs import Inputs
    from zrt.diagnosis.diff import Diff

WORST = 10

_SIDE = (
    "a way to run it: default; reference, the evaluator of the onnx package; or settings with commas between, such as "
    "level=disable_all, provider=cuda, threads=4, options=FILE, model=FILE and session.KEY=VALUE"
)
# The settings of a side that are options of its session: the field, and how its text is read.
_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "threads": ("intra_op_num_threads", int),
    "level": ("graph_optimization_level", lambda text: GraphOptimizationLevel[text.upper()]),
}

OPTIONS = (
    options.MODEL_FILE,
    option("a", _SIDE, "A"),
    option("b", "the same for the other side", "B"),
    *inputs.OPTIONS,
    *options.other_library("run B in"),
    option("--rtol", "the tolerance as a part of B's value", "NUMBER", float, default=RTOL),
    option("--atol", "the tolerance that is added to it", "NUMBER", float, default=ATOL),
    option("--worst", "how many values to show, those that are farthest apart", "N", count(0), default=WORST),
    *pictures.OPTIONS,
)


def run(arguments: argparse.Namespace) -> int:
    from zrt.diagnosis.diff import diff, made_inputs, require_tolerances

    require_tolerances(arguments.rtol, arguments.atol)
    drawn = pictures.wanted(arguments)
    a, b = (_side(text, arguments.model) for text in (arguments.a, arguments.b))
    if a == b == "reference":
        raise UsageError("A and B are both reference: one of them is a session")
    if b == "reference" and (arguments.library, arguments.python) != (None, None):
        raise UsageError("--library and --python are for B, which is reference")
    library = common.other_library(arguments)
    for picture in drawn:
        read = [*inputs.input_files(arguments), *_files_of(arguments.a, a), *_files_of(arguments.b, b)]
        common.require_target(picture, read, arguments.overwrite, "--plot")
    made = made_inputs((a, b), inputs.user_inputs(arguments))
    with made.first_run():
        found = diff(a, b, made.feeds(), rtol=arguments.rtol, atol=arguments.atol, library=library)
    if drawn and found.values:
        from zrt.cli import diff_plot

        diff_plot.draw(found, f"{arguments.model.name}: {arguments.a} and {arguments.b}", drawn)
    document = found.to_dict() | {"inputs": {name: asdict(fed) for name, fed in made.described.items()}}
    common.print_result(arguments, _finite(document), _show, found, made, arguments.worst, drawn)
    return 0 if found.equal else common.FAILED


def _files_of(text: str, side: SessionSpec | Literal["reference"]) -> list[Path]:
    """The files that a side reads."""
    if not isinstance(side, SessionSpec):
        return []
    parts = (part.partition("=") for part in text.split(","))
    options = [Path(value) for key, _, value in parts if key == "options"]
    return common.files_of(Path(str(side.model)), Options(session=side.options), *options)


def _finite(document: Any) -> Any:
    """Data for JSON, which has no infinite numbers: null in their place."""
    if isinstance(document, dict):
        return {key: _finite(value) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [_finite(value) for value in document]
    return None if document == float("inf") else document


def _side(text: str, model: Path) -> SessionSpec | Literal["reference"]:
    """A way to run a model, in words."""
    if text == "reference":
        return "reference"
    settings = common.options_in(None, 1)
    providers: list[str] = []
    parts = [] if text == "default" else text.split(",")
    # The other settings change those of the file.
    for part in sorted(parts, key=lambda part: not part.startswith("options=")):
        key, _, value = part.partition("=")
        if not value:
            raise UsageError(f"{part!r}: expected default, reference or settings such as level=disable_all")
        if key == "options":
            settings = common.options_in(Path(value), 1)
        elif key == "model":
            model = Path(value)
        elif key == "provider":
            providers.append(common.provider_named(value))
        elif key in _FIELDS:
            name, parse = _FIELDS[key]
            try:
                setattr(settings.session, name, parse(value))
            except (ValueError, KeyError) as error:
                raise UsageError(f"{part!r}: {value!r} is no {key}") from error
        elif "." in key:
            settings.session.config_entries = {**settings.session.config_entries, key: value}
        else:
            raise UsageError(f"{part!r}: there are model, level, provider, threads, options and keys with a dot")
    return SessionSpec(model, settings.session, common.requested_providers(providers, settings))


def _show(page: common.Page, found: Diff, made: Inputs, worst: int, drawn: list[Path]) -> None:
    page.line(str(found))
    shown = found.worst(worst)
    if shown:
        rows = []
        for each in shown:
            ulps = "" if each.ulps is None else f"{each.ulps:,}"
            rows.append((each.name, each.node, each.reason or f"{each.largest:.3g}", f"{each.mean:.3g}", ulps))
        styles = ["" if each.within else "bold red" for each in shown]
        page.line(f"the {plural(len(shown), 'value')} that are farthest apart:" if len(shown) > 1 else "")
        page.table(("value", "node", "largest", "mean", "last places"), rows, left=2, styles=styles)
    for name, fed in made.described.items():
        page.line(f"input {name}: {fed}, {fed.source}")
    for picture in drawn if found.values else ():
        page.line(f"picture: {picture}")
