"""Checks of a node against ONNX's schema of its operator: inputs, outputs, attributes."""

from __future__ import annotations

import difflib
from typing import Any

from zrt.errors import ArgumentError, DTypeError, UnknownNameError
from zrt.graph.model_proto import package


def find(op_type: str, domain: str, version: int) -> Any:
    """An operator's schema; None for a domain that is not ONNX's, whose operators only ONNX Runtime knows.

    Raises `UnknownNameError` where ONNX's domain has no such operator at that version.
    """
    defs = package().defs
    if defs.has(op_type, domain=domain, max_inclusive_version=version):
        schema = defs.get_schema(op_type, max_inclusive_version=version, domain=domain)
        if schema.deprecated:
            raise ArgumentError(f"op {op_type!r}: ONNX removed it in opset {schema.since_version}")
        return schema
    names = {schema.name for schema in defs.get_all_schemas() if schema.domain == domain}
    if not names:
        return None
    where = f"domain {domain or 'ai.onnx'!r} at opset {version}"
    close = difflib.get_close_matches(op_type, names, 1, 0.7)
    if op_type in names:
        hint = f"; it comes with opset {defs.get_schema(op_type, domain=domain).since_version}"
    else:
        hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UnknownNameError(f"op {op_type!r}: there is no such operator in {where}{hint}")


def check_inputs(schema: Any, inputs: list[str]) -> None:
    """Checks the number of inputs, and that no required input is left out."""
    count, least, most = len(inputs), schema.min_input, schema.max_input
    if not least <= count <= most:
        raise ArgumentError(f"op {schema.name!r}: it takes {_range(least, most, 'input')}, got {count}")
    single = type(schema.inputs[0].option).Single if schema.inputs else None
    for index, (name, formal) in enumerate(zip(inputs, schema.inputs, strict=False)):
        if not name and formal.option == single:
            raise ArgumentError(f"op {schema.name!r}: input {index} ({formal.name!r}) cannot be left out")


def check_outputs(schema: Any, count: int) -> None:
    if not max(schema.min_output, 1) <= count <= schema.max_output:
        raise ArgumentError(
            f"op {schema.name!r}: it gives {_range(schema.min_output, schema.max_output, 'output')}, not {count}"
        )


def _range(least: int, most: int, noun: str) -> str:
    if most > 1 << 20:
        return f"{least} or more {noun}s"
    counted = str(least) if least == most else f"{least} to {most}"
    return f"{counted} {noun}{'' if most == 1 else 's'}"


def kind_of(schema: Any, name: str) -> int | None:
    """The ``AttributeProto.AttributeType`` that an attribute must have; None without a schema."""
    if schema is None:
        return None
    if name not in schema.attributes:
        known = ", ".join(map(repr, sorted(schema.attributes))) or "none"
        raise UnknownNameError(f"op {schema.name!r}: it has no attribute {name!r}; it has {known}")
    return int(schema.attributes[name].type.value)


def check_required(schema: Any, names: set[str]) -> None:
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in names:
            raise DTypeError(f"op {schema.name!r}: the attribute {name!r} is missing")
