"""``zrt inspect``: a model's inputs, outputs, operators, weights and metadata."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zrt.cli import common, options
from zrt.cli.options import option
from zrt.cli.units import plural
from zrt.errors import ModelError, UnsupportedError
from zrt.loading.external_weights import with_zeros
from zrt.loading.fingerprint import fingerprint
from zrt.loading.initializers import ONNX_DOMAIN, Initializer, list_initializers
from zrt.loading.model_contents import contents_of
from zrt.loading.model_source import Source
from zrt.loading.session_options import SessionOptions
from zrt.session.placement import Placement
from zrt.session.session import Session
from zrt.values.model_metadata import NO_VERSION
from zrt.values.type_info import ValueInfo, format_shape, format_type, type_name

# Longer metadata is cut unless ``--full`` is given.
LINES, LETTERS, ENTRIES = 3, 300, 20
# Of a fingerprint; --json has all.
DIGITS = 16
UNKNOWN = "cannot be told: ONNX Runtime's own format"


OPTIONS = (
    options.MODEL,
    option("--placement", "show where inputs and outputs live and which provider runs each node"),
    option("--full", "show long metadata whole"),
    option(
        "--provider", "load the model on this provider, the CPU as the fallback; the best first", "NAME", repeated=True
    ),
)


def run(arguments: argparse.Namespace) -> int:
    path = common.model_path(arguments.model)
    providers = [common.provider_named(name) for name in arguments.provider]
    missing = _missing_weights(path)
    files = sorted({str(weight.location) for weight in missing})
    settings = with_zeros(SessionOptions(record_placement=arguments.placement), missing)
    with Session(path, settings, providers) as session:
        document = describe(path, session) | {"missing_files": files}
        placement = session.placement() if arguments.placement else None
        if placement is not None:
            document["placement"] = placement.to_dict()
        label = common.model_label(arguments.model)
        common.print_result(arguments, document, _show, label, document, session, arguments.full, placement)
    if missing:
        raise common.CommandError(f"model {str(path)!r}: there is no file {', '.join(map(repr, files))} of its weights")
    return 0


def _missing_weights(path: Path) -> list[Initializer]:
    """The weights whose files are missing."""
    try:
        weights = list_initializers(path)
    except (ModelError, UnsupportedError):
        # The load says more, or can read it.
        return []
    return [weight for weight in weights if weight.location and not (path.parent / weight.location).exists()]


def describe(path: Path, session: Session) -> dict[str, Any]:
    """The facts about the session's model as plain data for JSON."""
    metadata = session.metadata
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "inputs": _values(session.inputs),
        "outputs": _values(session.outputs),
        "overridable_initializers": _values(session.initializers),
        "contents": _contents(path),
        "fingerprint": _fingerprint(path),
        "metadata": {
            "producer": metadata.producer_name,
            "graph": metadata.graph_name,
            "domain": metadata.domain,
            "description": metadata.description,
            "graph_description": metadata.graph_description,
            "version": None if metadata.version == NO_VERSION else metadata.version,
            "custom": metadata.custom_metadata_map,
        },
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
            contents = contents_of(source)
    except UnsupportedError:
        return None
    return {
        "opsets": contents.opsets,
        "nodes": contents.operators.total(),
        "operators": dict(contents.operators),
        "weights": contents.weights,
        "parameters": contents.parameters,
        "parameter_bytes": contents.nbytes,
        "outside": dict(contents.outside),
    }


def _fingerprint(path: Path) -> dict[str, str] | None:
    """The digests of the graph, the weights and both; None for ONNX Runtime's own format, or without the weights."""
    try:
        found = fingerprint(path)
    except (ModelError, UnsupportedError):
        return None
    return {"graph": found.graph, "weights": found.weights, "both": str(found)}


def _show(
    page: common.Page, label: str, document: dict[str, Any], session: Session, full: bool, placement: Placement | None
) -> None:
    page.facts(("model", label), ("file", f"{document['bytes']:,} bytes"))
    values = {"input": session.inputs, "output": session.outputs, "initializer": session.initializers}
    ports = []
    for role, infos in values.items():
        for info in infos:
            tensor = info.is_tensor
            described = (type_name(info.element_type), format_shape(info.shape)) if tensor else (format_type(info), "")
            ports.append((role, info.name, *described))
    page.table(("", "name", "type", "shape"), ports, left=4)
    symbols = {name for info in (*session.inputs, *session.outputs) for name in info.symbolic_dimensions}
    texts = {key: str(text) for key, text in document["metadata"].items() if key != "custom" and text not in ("", None)}
    entries = list(document["metadata"]["custom"].items())

    def shown(text: str) -> str:
        """The beginning of a long text, and its length."""
        begin = "\n".join(text[:LETTERS].split("\n")[:LINES])
        return text if full or begin == text else f"{begin} ... ({len(text):,} characters)"

    rows = [("symbolic sizes", ", ".join(sorted(symbols)) or "none"), *_content_rows(document["contents"])]
    if document["fingerprint"] is not None:
        digests = (f"{key} {digest[:DIGITS]}" for key, digest in document["fingerprint"].items())
        rows.append(("fingerprint", ", ".join(digests)))
    rows += [(key.replace("_", " "), shown(text)) for key, text in texts.items()]
    # The nodes of a placement name the providers.
    if not document.get("placement", {}).get("nodes"):
        rows.append(("providers", ", ".join(document["providers"])))
    page.facts(*rows)
    more = 0 if full else max(0, len(entries) - ENTRIES)
    if entries:
        listed = [(shown(key), shown(text)) for key, text in entries[: len(entries) - more]]
        page.table(("custom metadata", ""), listed, left=2)
    if more:
        page.line(f"{more} more entries of metadata")
    if more or any(shown(text) != text for text in (*texts.values(), *(text for pair in entries for text in pair))):
        page.line("long metadata is cut: --full shows all")
    if placement is not None:
        page.table(("", "name", "memory or operator", "provider"), placement.rows(), left=4)
        counts = ", ".join(f"{count} on {name}" for name, count in placement.providers.items())
        idle = ", ".join(name for name in session.providers if name not in placement.providers)
        none = f"; none on {idle}" if counts and idle and not placement.reason else ""
        page.line(f"nodes: {counts or 'none is left to run'}{none}")


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
