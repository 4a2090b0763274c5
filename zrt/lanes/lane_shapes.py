"""The shapes of a lane's inputs and outputs: given, solved from the inputs' shapes, or found by trial runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._native import ort_messages
from zrt.errors import ArgumentError, Error, OrtError, ShapeError, UnknownNameError, UnsupportedError
from zrt.lanes.ports import unbindable
from zrt.loading.run_options import RunOptions
from zrt.memory import arrays
from zrt.memory.buffers import Buffer
from zrt.session.feeds import names_of
from zrt.session.io_binding import IoBinding
from zrt.session.session import Session
from zrt.types import ElementType, LogSeverity, ValueKind
from zrt.values import Value, symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, format_shape, phrase

ShapesLike: TypeAlias = "Mapping[str, Any] | Sequence[Any] | None"

DEPENDS_ON_DATA = "its shape depends on the data"

UNCHECKED = "trials=False makes a lane that is not checked"

# The number of trial runs, each on other data.
TRIALS = 3

# The results that a session keeps.
RESULTS_KEPT = 256


@dataclass(frozen=True, slots=True)
class PortShape:
    """The shape of one input or output; None where no memory can be bound, for the reason `why`."""

    shape: Shape | None
    why: str = ""
    declared: bool = False
    """Whether an output has this shape because the model declares it, and not because the caller gave it."""


Outputs: TypeAlias = "tuple[PortShape, ...]"
Made: TypeAlias = "dict[str, Shape | ValueKind]"
TrialKey: TypeAlias = "tuple[tuple[Shape, ...], Outputs]"


@dataclass(frozen=True, slots=True)
class LaneShapes:
    """The shapes of a lane's inputs and outputs, in the session's order."""

    inputs: tuple[PortShape, ...]
    outputs: Outputs
    key: TrialKey | None = None
    """Where a run has yet to show that the shapes are right: the key under which `keep` keeps them."""


def resolve(
    session: Session,
    shapes: ShapesLike,
    output_shapes: ShapesLike,
    *,
    leave: bool | Collection[str] = False,
    on_device: bool = False,
    trials: bool = True,
) -> LaneShapes:
    """The shape of every input and output of a lane, or the reason why it has none.

    An input's shape is given, or follows from the model's declaration and the given ones; anything else is a
    `ShapeError`, as are inputs that contradict each other. An output's shape is given, or follows from the inputs'
    shapes, or is found by trial runs; `leave` names the outputs that are left to ORT, or is True for all of them.
    Nothing is tried with inputs `on_device`. Without `trials` nothing is tried, and inputs may contradict each other.
    """
    fed = tuple(input_shapes(session, shapes))
    inputs = tuple(_port_shape(unbindable(info), shape) for info, shape in zip(session.inputs, fed, strict=True))
    given = by_name(output_shapes, session.outputs, "output")
    sizes = symbolic_shapes.bind(session.inputs, fed)
    left = session.output_names if leave is True else leave or ()
    outputs = tuple(
        PortShape(None, "left to ORT") if info.name in left else _declared(session, info, given, sizes)
        for info in session.outputs
    )
    if trials:
        _require_agreement(session, fed)
    if not trials or on_device or any(port.why for port in inputs):
        return LaneShapes(inputs, outputs)
    key = fed, outputs
    kept = session._trials.get(key)
    if kept is None and any(port.why == DEPENDS_ON_DATA for port in outputs):
        kept = find_by_trials(session, key)
    return LaneShapes(inputs, outputs, key) if kept is None else LaneShapes(inputs, kept)


def _port_shape(why: str, shape: Shape | None) -> PortShape:
    return PortShape(None, why) if why else PortShape(shape)


def _declared(session: Session, info: ValueInfo, given: Mapping[str, Shape], sizes: dict[str, int]) -> PortShape:
    """An output's shape as far as the caller and the model's declaration say it."""
    if info.name in session.input_names:
        return PortShape(None, "is an input as well, and ORT returns that input's memory")
    if unbindable(info) or info.name in given:
        return _port_shape(unbindable(info), given.get(info.name))
    shape = symbolic_shapes.solve(info, sizes)
    return PortShape(None, DEPENDS_ON_DATA) if shape is None else PortShape(shape, declared=True)


def _require_agreement(session: Session, shapes: Sequence[Shape]) -> None:
    """Raises if two inputs give one size different values that do not broadcast."""
    for contradiction in symbolic_shapes.contradictions(session.inputs, shapes):
        if not contradiction.broadcasts:
            raise ShapeError(f"shapes: {contradiction} ({UNCHECKED})")


def by_name(given: ShapesLike, infos: Sequence[ValueInfo], role: str) -> dict[str, Shape]:
    """Given shapes by name; a list has the shapes of the first of `infos`, in order. `role` is "input" or "output"."""
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
        if len(each) > len(infos):
            raise ArgumentError(
                f"shapes: the model has {len(infos)} {role}s ({names_of(infos)}), got {len(each)} shapes"
            )
        named = {info.name: shape for info, shape in zip(infos, each, strict=False)}
    else:
        raise wrong_type("shapes", "a dict or a list of shapes", given)
    checked = {}
    for info in infos:
        if info.name in named:
            subject = f"{role} {info.name!r}"
            checked[info.name] = arrays.check_dims(named[info.name], subject)
            symbolic_shapes.check(info, checked[info.name], subject)
    return checked


def input_shapes(session: Session, given: ShapesLike, open_size: int | None = None) -> list[Shape]:
    """The shape of each input: given, or the declared one with the sizes that it shares with given ones.

    `open_size` stands for every other size. An input that is not a tensor has the shape ().
    """
    named = by_name(given, session.inputs, "input")
    shapes = symbolic_shapes.complete(session.inputs, named, open_size)
    unknown = [info for info, shape in zip(session.inputs, shapes, strict=True) if shape is None and info.is_tensor]
    if unknown:
        known = [info for info in session.inputs if info.name in named]
        sizes = symbolic_shapes.bind(known, [named[info.name] for info in known])
        wanted = ", ".join(f"{info.name!r}: ..." for info in unknown)
        raise ShapeError(f"{'; '.join(_openness(info, sizes) for info in unknown)}; give shapes={{{wanted}}}")
    return [shape or () for shape in shapes]


def _openness(info: ValueInfo, sizes: Mapping[str, int]) -> str:
    """A sentence about the sizes that stay open in an input's shape."""
    if info.shape is None:
        return f"input {info.name!r}: its rank is open"
    unknown = dict.fromkeys(dim or "?" for dim in info.shape if not isinstance(dim, int) and dim not in sizes)
    return f"input {info.name!r}: its shape {format_shape(info.shape)} is open in {', '.join(unknown)}"


def share_trials(sessions: Sequence[Session]) -> None:
    """Lets sessions of one model with the same options use each other's results, and carry each other's states."""
    shared: dict[TrialKey, Outputs] = {}
    layouts: WeakValueDictionary[Any, Any] = WeakValueDictionary()
    for session in sessions:
        session._trials = shared
        session._layouts = layouts


def keep(session: Session, key: TrialKey, outputs: Outputs) -> None:
    """Keeps the shapes that a run has shown to be right, for lanes to come.

    The session holds the results. Every operation on them is atomic: threads that miss the same result at the same
    time each run the trials, and store equal results. A failure is not kept: its cause may be gone for the next lane,
    as with a lack of memory.
    """
    if len(session._trials) >= RESULTS_KEPT:
        session._trials.clear()
    session._trials[key] = outputs


@cache
def quiet() -> RunOptions:
    """The options of runs on made-up data: they may fail, so ORT's log is silenced; and they must capture no graph."""
    return RunOptions(log_severity_level=LogSeverity.FATAL, gpu_graph_id=-1)


def find_by_trials(session: Session, key: TrialKey) -> Outputs:
    """The outputs' shapes after trial runs on made-up data.

    An output is left to ORT if ORT makes it otherwise than the model declares. An output whose shape is neither given
    nor declared has the shape that is the same in three runs. Raises `ShapeError` if every run fails in the same
    words, these are about shapes, and the data did not choose the branch that fails: then the data are not the cause.
    """
    shapes, asked = key
    unknown = any(port.why == DEPENDS_ON_DATA for port in asked)
    try:
        runs, failures = _Trials(session, shapes).runs(asked, TRIALS if unknown else 1)
    except Error:
        return asked
    same = len({str(error) for error in failures}) == 1
    if not runs and same and _blames_shapes(failures[0]):
        raise _cannot_run(session, shapes, failures[0]) from failures[0]
    outputs = tuple(
        _found(info, port, [made[info.name] for made in runs if info.name in made])
        for info, port in zip(session.outputs, asked, strict=True)
    )
    # Other data may decide an output that only some runs made.
    undecided = failures and any(port.why == DEPENDS_ON_DATA for port in outputs)
    if runs and not undecided:
        keep(session, key, outputs)
    return outputs


def _blames_shapes(error: OrtError) -> bool:
    """Whether a failure is about shapes, and not in a branch that the data chose."""
    return ort_messages.ABOUT_SHAPES.matches(error) and not ort_messages.IN_A_BRANCH.matches(error)


def _cannot_run(session: Session, shapes: Sequence[Shape], error: OrtError) -> ShapeError:
    fed = ", ".join(f"{info.name} {list(shape)}" for info, shape in zip(session.inputs, shapes, strict=True))
    disagreements = "".join(f"; {each}" for each in symbolic_shapes.contradictions(session.inputs, shapes))
    return ShapeError(f"shapes: the model does not run with {fed}{disagreements} ({UNCHECKED}): {error}")


def _found(info: ValueInfo, asked: PortShape, made: Sequence[Shape | ValueKind]) -> PortShape:
    """An output's shape after runs that `made` these; `asked` has the given or declared one."""
    if asked.shape is None and asked.why != DEPENDS_ON_DATA:
        return asked
    shapes = []
    for each in made:
        if isinstance(each, ValueKind):
            return PortShape(None, f"the model declares a tensor, ORT makes {phrase(each)}")
        if not symbolic_shapes.fits(info, each) or (asked.declared and asked.shape != each):
            return PortShape(None, f"the model declares {format_shape(info.shape)}, ORT makes {list(each)}")
        shapes.append(each)
    # A shape that only the runs tell is a guess: it takes all of them.
    return PortShape(shapes[0]) if asked.shape is None and len(shapes) == TRIALS and len(set(shapes)) == 1 else asked


class _Trials:
    """Runs of a model over made-up data of certain shapes."""

    def __init__(self, session: Session, shapes: Sequence[Shape]) -> None:
        self._session = session
        self._binding = IoBinding(session)
        self._inputs = []
        for info, shape in zip(session.inputs, shapes, strict=True):
            value = Value.from_buffer(Buffer(shape, info.element_type))
            self._inputs.append((info, value, value.numpy()))

    def runs(self, outputs: Sequence[PortShape], wanted: int) -> tuple[list[Made], list[OrtError]]:
        """Runs on different data: the outputs of each, and the failures.

        Ends when `wanted` runs have succeeded, or when the data has proved to decide whether a run fails. Outputs with
        a shape are bound to memory: so none grows beyond it, as made-up sizes might have it.
        """
        generator = np.random.default_rng(0)
        bound = set()
        for info, port in zip(self._session.outputs, outputs, strict=True):
            if port.shape is None:
                self._binding.bind_output(info.name)
            else:
                self._binding.bind_output(info.name, Buffer(port.shape, info.element_type))
                bound.add(info.name)
        # A session with a device may copy the data there when it is bound.
        rebinds = len(self._session.providers) > 1
        runs: list[Made] = []
        failures: list[OrtError] = []
        for trial in range(TRIALS):
            for info, value, array in self._inputs:
                _fill(array, info.element_type, trial, generator)
                if trial == 0 or rebinds:
                    self._binding.bind_input(info.name, value)
            try:
                runs.append(self._run(bound, wanted))
            except OrtError as error:
                failures.append(error)
            if len(runs) == wanted or (runs and failures):
                break
        return runs, failures

    def _run(self, bound: set[str], wanted: int) -> Made:
        """The outputs of one run. Outputs that do not fit their memory are left to ORT."""
        made: Made = {}
        while bound or wanted > 1 or not made:
            try:
                return made | _run_trial(self._binding)
            except (ShapeError, UnsupportedError) as error:
                found = ort_messages.COMPUTED_OUTPUT_SHAPE.search(error)
                # ORT does not say which output is no dense tensor.
                names = set(bound) if found is None else bound & {found[1]}
                if not names:
                    raise
                if found is not None:
                    made[found[1]] = tuple(int(dim) for dim in found[2].split(",") if dim)
                for name in names:
                    bound.remove(name)
                    self._binding.bind_output(name)
        # Nothing else is to be found, and a run with nothing bound may take long over made-up sizes.
        return made


def _run_trial(binding: IoBinding) -> Made:
    """The shape of each output in one run; the kind of an output that is no tensor."""
    binding.run(quiet())
    made = {name: value for name, value in binding.outputs().items() if value is not None}
    return {name: value.shape if value.is_tensor else value.kind for name, value in made.items()}


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
