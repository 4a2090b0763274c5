"""The metadata of an ``onnx.ModelProto``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from zrt._common.arguments import integer, text, wrong_type
from zrt.values.model_metadata import NO_VERSION, ModelMetadata, with_opsets


def read(model: Any, opsets: Mapping[str, int]) -> ModelMetadata:
    """A model's metadata, as `Session.metadata` has it."""
    return with_opsets(
        partial(dict, opsets),
        model.producer_name,
        model.graph.name,
        model.domain,
        model.doc_string,
        model.graph.doc_string,
        model.model_version if model.HasField("model_version") else NO_VERSION,
        {entry.key: entry.value for entry in model.metadata_props},
    )


def write(
    model: Any,
    producer_name: str | None,
    domain: str | None,
    description: str | None,
    graph_description: str | None,
    version: int | None,
    custom_metadata_map: Mapping[str, str] | None,
) -> None:
    """Sets the fields that are not None."""
    for subject, target, field, value in (
        ("producer_name", model, "producer_name", producer_name),
        ("domain", model, "domain", domain),
        ("description", model, "doc_string", description),
        ("graph_description", model.graph, "doc_string", graph_description),
    ):
        if value is not None:
            setattr(target, field, text(value, subject).decode())
    if version is not None:
        model.model_version = integer(version, "version", 0, NO_VERSION)
    if custom_metadata_map is not None:
        if not isinstance(custom_metadata_map, Mapping):
            raise wrong_type("custom_metadata_map", "a dict of strings", custom_metadata_map)
        entries = {
            text(key, "custom_metadata_map").decode(): text(entry, f"custom_metadata_map[{key!r}]").decode()
            for key, entry in custom_metadata_map.items()
        }
        del model.metadata_props[:]
        for key, entry in entries.items():
            model.metadata_props.add(key=key, value=entry)
