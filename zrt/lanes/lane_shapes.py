"""The shapes that a lane is bound with: given, solved from the inputs', or found by trial runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt.errors import ArgumentError, Error, ShapeError, UnknownNameError
from zrt.lanes.ports import clear
from zrt.loading.session_options import RunOptions
from zrt.memory import arrays
from zrt.session.feeds import names_of
from zrt.session.io_binding import IoBinding
from zrt.session.session import Session
from zrt.types import ElementType, LogSeverity
from zrt.values import Value, symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, format_shape

ShapesLike: TypeAlias = "Mapping[str, Any] | Sequence[Any] | None"


def by_name(given: ShapesLike, infos: Sequence[ValueInfo], what: str) -> dict[str, Shape]:
    """Given shapes by name; a list has one for each, in order."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        known = {info.name for info in infos}
        for name in given:
            if name not in known:
                raise UnknownNameError(f"shapes: the model has no {what} {shown(name)}; it has {names_of(infos)}")
        named = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, (str, bytes, memoryview)):
        each = list(given)
        if len(each) != len(infos):
            raise ArgumentError(
                f"shapes: the model has {len(infos)} {what}s ({names_of(infos)}), got {len(each)} shapes"
            )
        named = {info.name: shape for info, shape in zip(infos, each, strict=True)}
    else:
        raise wrong_type("shapes", "a dict or a list of shapes", given)
    checked = {}
    for info in infos:
        if info.name in named:
            subject = f"{what} {info.name!r}"
            checked[info.name] = arrays.check_dims(named[info.name], subject)
            symbolic_shapes.check(info, checked[info.name], subject)
    return checked


def input_shapes(session: Session, given: ShapesLike) -> list[Shape]:
    """The shape of each input: given, or fixed by the model."""
    named = by_name(given, session.inputs, "input")
    settled = []
    for info in session.inputs:
        shape = named.get(info.name, info.static_shape)
        if shape is None and info.is_tensor:
            raise ShapeError(
                f"input {info.name!r}: its shape {format_shape(info.shape)} is open; give shapes={{{info.name!r}: ...}}"
            )
        # What is no tensor has no shape, and is refused where memory would be made for it.
        settled.append(shape or ())
    return settled


def output_shapes(session: Session, inputs: Sequence[Shape], given: ShapesLike) -> dict[str, Shape]:
    """The shapes of the outputs that are given, or that the inputs' shapes settle."""
    named = by_name(given, session.outputs, "output")
    sizes = symbolic_shapes.bind(session.inputs, inputs)
    for info in session.outputs:
        solved = symbolic_shapes.solve(info, sizes)
        if solved is not None:
            named.setdefault(info.name, solved)
    return named


def _fill(value: Value, trial: int, generator: np.random.Generator) -> None:
    """Data for a trial run: zeros, ones, then noise that stays small enough to be an index."""
    array = value.numpy()
    if trial < 2 or value.element_type.packed:
        array[...] = trial
    elif value.element_type in (
        ElementType.FLOAT,
        ElementType.DOUBLE,
        ElementType.FLOAT16,
        ElementType.BFLOAT16,
    ):
        array[...] = generator.standard_normal(array.shape).astype(array.dtype)
    else:
        array[...] = generator.integers(0, 2, array.shape).astype(array.dtype)


def try_out(
    session: Session, inputs: Sequence[tuple[ValueInfo, Value]], outputs: Sequence[ValueInfo]
) -> dict[str, Shape]:
    """The shapes of the outputs that come out alike in three runs on different data.

    Inputs are filled with made-up data, and with zeros at the end. Nothing is found where a run fails, or where
    the inputs lie on a device.
    """
    if not outputs or not all(value.memory.is_host for _, value in inputs):
        return {}
    generator = np.random.default_rng(0)
    # A trial that fails is no news, and ORT would write it to standard error; and none is worth a captured graph.
    quiet = RunOptions(log_severity_level=LogSeverity.FATAL, gpu_graph_id=-1)
    seen: list[dict[str, Shape]] = []
    binding = IoBinding(session)
    try:
        for info in outputs:
            binding.bind_output(info.name)
        for trial in range(3):
            for info, value in inputs:
                _fill(value, trial, generator)
                binding.bind_input(info.name, value)
            binding.run(quiet)
            seen.append({name: value.shape for name, value in binding.outputs().items()})
    except Error:
        # Made-up data may well be none that the model takes.
        return {}
    finally:
        for _, value in inputs:
            clear(value.numpy())
    first, *others = seen
    return {name: shape for name, shape in first.items() if all(other.get(name) == shape for other in others)}
