"""``zrt inspect``: a model's inputs, outputs, operators, weights and metadata."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zrt.cli import common
from zrt.cli.units import plural
from zrt.errors import UnsupportedError
from zrt.loading.initializers import ONNX_DOMAIN
from zrt.loading.model_contents import contents_of
from zrt.loading.model_source import Source
from zrt.loading.session_options import SessionOptions
from zrt.session.placement import Placement
from zrt.session.session import Session
from zrt.values.model_metadata import NO_VERSION, ModelMetadata
from zrt.values.type_info import ValueInfo, format_shape, format_type, type_name

SUMMARY = "Show a model's inputs, outputs, operators, weights and metadata."

# Longer metadata is cut unless ``--full`` is given.
LINES, LETTERS, ENTRIES = 3, 300, 20
UNKNOWN = "cannot be told: ONNX Runtime's own format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt inspect``."""
    common.add_model(parser)
    parser.add_argument(
        "--placement", action="store_true", help="show where inputs and outputs live and which provider runs each node"
    )
    parser.add_argument("--full", action="store_true", help="show long metadata whole")
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
            _show(common.model_label(arguments.model), found, session, arguments.full)
            if placement is not None:
                _show_placement(placement, session.providers)
    return 0


def describe(path: Path, session: Session) -> dict[str, Any]:
    """The facts about the session's model as plain data for JSON."""
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "inputs": _values(session.inputs),
        "outputs": _values(session.outputs),
        "overridable_initializers": _values(session.initializers),
        "contents": _contents(path),
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


def _contents(path: Path) -> dict[str, Any] | None:
    """The operators and weights; None if they cannot be told."""
    try:
        with Source(path) as source:
            found = contents_of(source)
    except UnsupportedError:
        return None
    return {
        "opsets": found.opsets,
        "nodes": found.operators.total(),
        "operators": dict(found.operators),
        "weights": found.weights,
        "parameters": found.parameters,
        "parameter_bytes": found.nbytes,
        "outside": dict(found.outside),
    }


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


def _show(label: str, found: dict[str, Any], session: Session, full: bool) -> None:
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
    rows += _content_rows(found["contents"])
    rows += [
        (word.replace("_", " "), str(text) if full else _cut(str(text)))
        for word, text in metadata.items()
        if word != "custom" and text not in ("", None)
    ]
    # The nodes of a placement name the providers.
    if not found.get("placement", {}).get("nodes"):
        rows += [("providers", ", ".join(found["providers"]))]
    out.print(facts(*rows))
    entries = list(metadata["custom"].items())
    if entries:
        made = table("custom metadata", "", left=2)
        for key, text in entries if full else entries[:ENTRIES]:
            made.add_row(*((key, text) if full else (_cut(key), _cut(text))))
        out.print(made)
        if len(entries) > ENTRIES and not full:
            out.print(f"{len(entries) - ENTRIES} more entries of metadata")
    texts = [str(text) for word, text in metadata.items() if word != "custom"] + [
        text for pair in entries for text in pair
    ]
    if not full and (len(entries) > ENTRIES or any(_cut(text) != text for text in texts)):
        out.print("long metadata is cut: --full shows all")


def _content_rows(contents: dict[str, Any] | None) -> list[tuple[str, str]]:
    if contents is None:
        return [("operators", UNKNOWN)]
    counts = ", ".join(f"{name} {count}" for name, count in contents["operators"].items())
    opsets = ", ".join(f"{domain or ONNX_DOMAIN} {version}" for domain, version in contents["opsets"].items())
    outside = "".join(f", {count:,} of them in {name}" for name, count in contents["outside"].items())
    return [
        ("opsets", opsets),
        ("operators", f"{plural(contents['nodes'], 'node')}: {counts}" if counts else "none"),
        (
            "parameters",
            f"{contents['parameters']:,} in {plural(contents['weights'], 'weight')}, "
            f"{contents['parameter_bytes']:,} bytes{outside}",
        ),
    ]


def _cut(text: str) -> str:
    """The beginning of a long text, and its length."""
    begin = "\n".join(text[:LETTERS].split("\n")[:LINES])
    return text if begin == text else f"{begin} ... ({len(text):,} characters)"


def _show_placement(placement: Placement, providers: Sequence[str]) -> None:
    from zrt.cli.terminal import console, table

    out = console()
    made = table("", "name", "memory or operator", "provider", left=4)
    for row in placement.rows():
        made.add_row(*row)
    out.print(made)
    counts = ", ".join(f"{count} on {name}" for name, count in placement.providers.items())
    idle = ", ".join(name for name in providers if name not in placement.providers)
    none = f"; none on {idle}" if counts and idle and not placement.reason else ""
    out.print(f"nodes: {counts or 'none is left to run'}{none}")
