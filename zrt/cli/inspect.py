"""``zrt inspect``: a model's inputs, outputs, overridable initializers and metadata."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zrt.cli import common
from zrt.loading.session_options import SessionOptions
from zrt.session.placement import Placement
from zrt.session.session import Session
from zrt.values.model_metadata import NO_VERSION, ModelMetadata
from zrt.values.type_info import ValueInfo, format_shape, format_type, type_name

SUMMARY = "Show a model's inputs, outputs, overridable initializers and metadata."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt inspect``."""
    common.add_model(parser)
    parser.add_argument(
        "--placement", action="store_true", help="show where inputs and outputs live and which provider runs each node"
    )
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="NAME",
        help="load the model on this provider, the CPU as the fallback (may be repeated, best first)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt inspect``."""
    if not arguments.json:
        common.require_terminal()
    path = common.chosen_model(arguments.model)
    chosen = [common.provider_named(name) for name in arguments.provider]
    with Session(path, SessionOptions(record_placement=arguments.placement), chosen) as session:
        found = describe(path, session)
        placement = session.placement() if arguments.placement else None
        if placement is not None:
            found["placement"] = placement.to_dict()
        if arguments.json:
            common.print_json(found)
        else:
            _show(common.model_label(arguments.model), found, session)
            if placement is not None:
                _show_placement(placement)
    return 0


def describe(path: Path, session: Session) -> dict[str, Any]:
    """The facts about the session's model as plain data for JSON."""
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "inputs": _values(session.inputs),
        "outputs": _values(session.outputs),
        "overridable_initializers": _values(session.initializers),
        "metadata": _metadata(session.metadata),
        "providers": list(session.providers),
    }


def _values(infos: Iterable[ValueInfo]) -> list[dict[str, Any]]:
    return [
        {
            "name": info.name,
            "kind": info.kind.name.lower(),
            "type": type_name(info.element_type) if info.is_tensor else None,
            "shape": None if info.shape is None else list(info.shape),
            "symbolic_dimensions": list(info.symbolic_dimensions),
        }
        for info in infos
    ]


def _metadata(metadata: ModelMetadata) -> dict[str, Any]:
    return {
        "producer": metadata.producer_name,
        "graph": metadata.graph_name,
        "domain": metadata.domain,
        "description": metadata.description,
        "graph_description": metadata.graph_description,
        "version": None if metadata.version == NO_VERSION else metadata.version,
        "custom": metadata.custom_metadata_map,
    }


def _show(label: str, found: dict[str, Any], session: Session) -> None:
    from zrt.cli.terminal import console, facts, table

    out = console()
    out.print(facts(("model", label), ("file", f"{found['bytes']:,} bytes")), soft_wrap=True)
    made = table("", "name", "type", "shape", left=4)
    for word, infos in (
        ("input", session.inputs),
        ("output", session.outputs),
        ("initializer", session.initializers),
    ):
        for info in infos:
            kind = type_name(info.element_type) if info.is_tensor else format_type(info)
            made.add_row(word, info.name, kind, format_shape(info.shape) if info.is_tensor else "")
    out.print(made)
    symbols = {name for info in (*session.inputs, *session.outputs) for name in info.symbolic_dimensions}
    metadata = found["metadata"]
    rows = [("symbolic sizes", ", ".join(sorted(symbols)) or "none")]
    rows += [
        (word.replace("_", " "), str(text))
        for word, text in metadata.items()
        if word != "custom" and text not in ("", None)
    ]
    rows += [("providers", ", ".join(found["providers"]))]
    out.print(facts(*rows))
    if metadata["custom"]:
        made = table("custom metadata", "", left=2)
        for key, text in metadata["custom"].items():
            made.add_row(key, text)
        out.print(made)


def _show_placement(placement: Placement) -> None:
    from zrt.cli.terminal import console, table

    out = console()
    made = table("", "name", "memory or operator", "provider", left=4)
    for row in placement.rows():
        made.add_row(*row)
    out.print(made)
    counts = ", ".join(f"{count} on {name}" for name, count in placement.providers.items())
    out.print(f"nodes: {counts or 'none is left to run'}")
