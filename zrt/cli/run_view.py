"""The text output of ``zrt run``: a table of outputs for each provider, the best classes, the digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from zrt.cli import digits
from zrt.cli.digits import Digits, Reading
from zrt.cli.terminal import console, facts, table
from zrt.cli.units import duration
from zrt.values.type_info import format_shape


def show(model: str, described: Mapping[str, Any], known: Digits | None, readings: Mapping[str, Reading]) -> None:
    """Prints the outcome on each provider, and the digits once."""
    out = console()
    out.print(facts(("model", model)), soft_wrap=True)
    shown = _worth_showing(described)
    for provider, found in shown.items():
        out.print()
        out.print(_heading(provider, found), style="bold")
        if "problem" in found:
            out.print(found["problem"], style="yellow", soft_wrap=True)
        else:
            _show_outputs(out, found)
    if known is not None and readings:
        _show_digits(out, known, {name: reading for name, reading in readings.items() if name in shown})
    for provider in (each for each in described if each not in shown):
        out.print(f"\n{provider} took no node", soft_wrap=True)


def _worth_showing(described: Mapping[str, Any]) -> dict[str, Any]:
    """The outcomes without those of providers that left all nodes to others whose own outcome is there."""
    return {
        provider: found
        for provider, found in described.items()
        if not (_idle(provider, found) and all("nodes" in described.get(name, {}) for name in found["nodes"]))
    }


def _heading(provider: str, found: Mapping[str, Any]) -> str:
    if _idle(provider, found):
        return f"{', '.join(found['nodes'])} ({provider} took no node)"
    return provider


def _idle(provider: str, found: Mapping[str, Any]) -> bool:
    """Whether other providers ran all nodes of the model."""
    return bool(found.get("nodes")) and provider not in found["nodes"]


def _show_outputs(out: Console, found: Mapping[str, Any]) -> None:
    times = ", ".join(
        f"{word} {duration(found[key])}"
        for word, key in (
            ("load", "load_ns"),
            ("first run", "first_run_ns"),
            ("second run", "second_run_ns"),
        )
    )
    fed = [
        ("input", f"{name} {fed['type']}{format_shape(tuple(fed['shape']))}, {fed['source']}")
        for name, fed in found["inputs"].items()
    ]
    counts = found["nodes"] or {}
    if len(counts) == 1:
        # The heading names the provider.
        [nodes] = map(str, counts.values())
    else:
        nodes = ", ".join(f"{count} on {name}" for name, count in counts.items())
    out.print(facts(*fed, *([("nodes", nodes)] if nodes else []), ("time", times)))
    made = table("output", "type", "shape", "min", "max", "mean", "deviation", "NaN", "infinite", left=3)
    for name, output in found["outputs"].items():
        if output["kind"] != "tensor":
            made.add_row(name, output["kind"])
            continue
        numbers = ["" if output[key] is None else f"{output[key]:.6g}" for key in ("min", "max", "mean", "deviation")]
        bad = output["nan"] or output["infinite"]
        made.add_row(
            name,
            output["type"],
            format_shape(tuple(output["shape"])),
            *numbers,
            f"{output['nan']:,}",
            f"{output['infinite']:,}",
            style="red" if bad else "",
        )
    out.print(made)
    for name, output in found["outputs"].items():
        if output.get("top"):
            best = ", ".join(f"{entry['index']} ({entry['value']:.4g})" for entry in output["top"])
            row = ", first row" if output["shape"][0] > 1 else ""
            out.print(f"top {len(output['top'])} of {name}{row}: {best}", soft_wrap=True)


def _show_digits(out: Console, known: Digits, readings: Mapping[str, Reading]) -> None:
    """A few predictions of the first provider, and each provider's number of right ones."""
    first = next(iter(readings.values()))
    shades = digits.PLAIN_SHADES if out.options.ascii_only else digits.SHADES
    pictures = Table.grid(padding=(0, 3))
    chosen = digits.picked(known, first)
    for _ in chosen:
        pictures.add_column(no_wrap=True)
    pictures.add_row(*("\n".join(digits.draw(known.images[index], shades)) for index in chosen))
    pictures.add_row(*(digits.caption(known, first, index) for index in chosen), style="bold")
    out.print()
    out.print(pictures)
    out.print()
    count = len(known.labels)
    for provider, reading in readings.items():
        where = f" on {provider}" if len(readings) > 1 else ""
        out.print(f"{reading.right} of {count} right ({reading.right / count * 100:.1f} %){where}", style="bold")
