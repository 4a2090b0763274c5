"""The shapes of a lane's inputs and outputs: given, solved from the inputs' shapes, or found by trial runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt.errors import ArgumentError, Error, ShapeError, UnknownNameError
from zrt.lanes.ports import unbindable
from zrt.loading.run_options import RunOptions
from zrt.memory import arrays
from zrt.memory.buffers import Buffer
from zrt.session.feeds import names_of
from zrt.session.io_binding import IoBinding
from zrt.session.session import Session
from zrt.types import ElementType, LogSeverity
from zrt.values import Value, symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, format_shape

ShapesLike: TypeAlias = "Mapping[str, Any] | Sequence[Any] | None"

DEPENDS_ON_DATA = "its shape depends on the data"

# The results of trial runs that a session keeps.
RESULTS_KEPT = 256

TrialKey: TypeAlias = "tuple[tuple[Shape, ...], tuple[str, ...]]"


@dataclass(frozen=True, slots=True)
class PortShape:
    """The shape of one input or output; None where no memory can be bound, for the reason `why`."""

    shape: Shape | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class LaneShapes:
    """The shapes of a lane's inputs and outputs, in the session's order."""

    inputs: tuple[PortShape, ...]
    outputs: tuple[PortShape, ...]


def resolve(session: Session, shapes: ShapesLike, output_shapes: ShapesLike, *, trials: bool = True) -> LaneShapes:
    """The shape of every input and output of a lane, or the reason why it has none.

    An input's shape is given or fixed by the model; anything else is a `ShapeError`. An output's shape is given, or
    follows from the inputs' shapes, or is found by trial runs; without `trials` it stays unknown.
    """
    fed = input_shapes(session, shapes)
    inputs = [_port_shape(unbindable(info), shape) for info, shape in zip(session.inputs, fed, strict=True)]
    given = by_name(output_shapes, session.outputs, "output")
    sizes = symbolic_shapes.bind(session.inputs, fed)
    outputs = [_declared(session, info, given, sizes) for info in session.outputs]
    unknown = [index for index, port in enumerate(outputs) if port.why == DEPENDS_ON_DATA]
    if trials and unknown and not any(port.why for port in inputs):
        names = tuple(session.output_names[index] for index in unknown)
        found = _find_by_trials(session, tuple(fed), names)
        for index, name in zip(unknown, names, strict=True):
            if name in found:
                outputs[index] = PortShape(found[name])
    return LaneShapes(tuple(inputs), tuple(outputs))


def _port_shape(why: str, shape: Shape | None) -> PortShape:
    return PortShape(None, why) if why else PortShape(shape)


def _declared(session: Session, info: ValueInfo, given: Mapping[str, Shape], sizes: dict[str, int]) -> PortShape:
    """An output's shape as far as the caller and the model's declaration say it."""
    if info.name in session.input_names:
        return PortShape(None, "is an input as well, and ORT returns that input's memory")
    shape = given[info.name] if info.name in given else symbolic_shapes.solve(info, sizes)
    return _port_shape(unbindable(info) or (DEPENDS_ON_DATA if shape is None else ""), shape)


def by_name(given: ShapesLike, infos: Sequence[ValueInfo], role: str) -> dict[str, Shape]:
    """Given shapes by name; a list has one shape for each of `infos`, in order. `role` is "input" or "output"."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        known = {info.name for info in infos}
        for name in given:
            if name not in known:
                raise UnknownNameError(f"shapes: the model has no {role} {shown(name)}; it has {names_of(infos)}")
        named = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, (str, bytes, memoryview)):
        each = list(given)
        if len(each) != len(infos):
            raise ArgumentError(
                f"shapes: the model has {len(infos)} {role}s ({names_of(infos)}), got {len(each)} shapes"
            )
        named = {info.name: shape for info, shape in zip(infos, each, strict=True)}
    else:
        raise wrong_type("shapes", "a dict or a list of shapes", given)
    checked = {}
    for info in infos:
        if info.name in named:
            subject = f"{role} {info.name!r}"
            checked[info.name] = arrays.check_dims(named[info.name], subject)
            symbolic_shapes.check(info, checked[info.name], subject)
    return checked


def input_shapes(session: Session, given: ShapesLike) -> list[Shape]:
    """The shape of each input: given, or fixed by the model; () for an input that is not a tensor."""
    named = by_name(given, session.inputs, "input")
    shapes = []
    for info in session.inputs:
        shape = named.get(info.name, info.static_shape)
        if shape is None and info.is_tensor:
            raise ShapeError(
                f"input {info.name!r}: its shape {format_shape(info.shape)} is open; give shapes={{{info.name!r}: ...}}"
            )
        shapes.append(shape or ())
    return shapes


def share_trials(sessions: Sequence[Session]) -> None:
    """Lets sessions of one model with the same options use each other's trial results."""
    shared: dict[TrialKey, dict[str, Shape]] = {}
    for session in sessions:
        session._trials = shared


def _find_by_trials(session: Session, shapes: tuple[Shape, ...], outputs: tuple[str, ...]) -> dict[str, Shape]:
    """The shapes of those `outputs` that do not depend on the data: kept from an earlier lane, or from trial runs now.

    The session holds the results. Every operation on them is atomic: threads that miss the same result at the same
    time each run the trials, and store equal results. A failure is not kept: its cause may be gone for the next lane,
    as with a lack of memory.
    """
    results = session._trials
    found = results.get((shapes, outputs))
    if found is None:
        binding = IoBinding(session)
        try:
            found = _run_trials(session, binding, shapes, outputs)
        except Error:
            return {}
        if len(results) >= RESULTS_KEPT:
            results.clear()
        results[shapes, outputs] = found
    return found


def _run_trials(
    session: Session, binding: IoBinding, shapes: Sequence[Shape], outputs: Sequence[str]
) -> dict[str, Shape]:
    """The shapes that are the same in three runs on different made-up data; raises the error of a run that fails."""
    generator = np.random.default_rng(0)
    # A trial may fail, so ORT's log is silenced; and it must not capture a graph.
    options = RunOptions(log_severity_level=LogSeverity.FATAL, gpu_graph_id=-1)
    inputs = []
    for info, shape in zip(session.inputs, shapes, strict=True):
        value = Value.from_buffer(Buffer(shape, info.element_type))
        inputs.append((info, value, value.numpy()))
    for name in outputs:
        binding.bind_output(name)
    # A session with a device may copy the data there when it is bound.
    rebinds = len(session.providers) > 1
    seen = []
    for trial in range(3):
        for info, value, array in inputs:
            _fill(array, info.element_type, trial, generator)
            if trial == 0 or rebinds:
                binding.bind_input(info.name, value)
        seen.append(_run_trial(binding, options))
    first, *others = seen
    return {name: shape for name, shape in first.items() if all(other.get(name) == shape for other in others)}


def _run_trial(binding: IoBinding, options: RunOptions) -> dict[str, Shape]:
    """The outputs' shapes in one run."""
    binding.run(options)
    return {name: value.shape for name, value in binding.outputs().items()}


def _fill(array: np.ndarray[Any, Any], element_type: ElementType, trial: int, generator: np.random.Generator) -> None:
    """Data for a trial run: zeros, ones, then noise; integers stay 0 or 1, so that they can be indices."""
    if trial < 2 or element_type.packed:
        array[...] = trial
    elif element_type in (
        ElementType.FLOAT,
        ElementType.DOUBLE,
        ElementType.FLOAT16,
        ElementType.BFLOAT16,
    ):
        array[...] = generator.standard_normal(array.shape).astype(array.dtype)
    else:
        array[...] = generator.integers(0, 2, array.shape).astype(array.dtype)
