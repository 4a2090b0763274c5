"""The shapes of a lane's inputs and outputs: given, solved from the inputs' shapes, or found by trial runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._native import ort_messages
from zrt.errors import ArgumentError, Error, OrtError, ShapeError, UnknownNameError, UnsupportedError
from zrt.lanes import samples as given_samples
from zrt.lanes.ports import unbindable
from zrt.lanes.samples import Samples, SamplesLike
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

NOT_TRIED = "the model does not declare its shape, and trials=False makes no run that tells it"

ON_DEVICE = "the model does not declare its shape, and no trial run writes data to a device"

MENDS = "samples gives values that the model runs on, output_shapes gives the shape"

UNCHECKED = "trials=False makes a lane that is not checked"

# The number of trial runs, each on other data.
TRIALS = 3

# The results that a session keeps.
RESULTS_KEPT = 256


@dataclass(frozen=True, slots=True)
class PortShape:
    """The shape of one input or output; None where no memory can be bound, for the reason `why`.

    An output whose shape is still to be found has neither.
    """

    shape: Shape | None
    why: str = ""
    declared: bool = False
    """Whether an output has this shape because the model declares it, and not because the caller gave it."""

    @property
    def unknown(self) -> bool:
        """Whether trial runs are to find the shape."""
        return self.shape is None and not self.why


Outputs: TypeAlias = "tuple[PortShape, ...]"
Made: TypeAlias = "dict[str, Shape | ValueKind]"
# The inputs' shapes, the outputs, and the digests of the samples.
TrialKey: TypeAlias = "tuple[tuple[Shape, ...], Outputs, tuple[tuple[str, bytes], ...]]"


@dataclass(frozen=True, slots=True)
class LaneShapes:
    """The shapes of a lane's inputs and outputs, in the session's order."""

    inputs: tuple[PortShape, ...]
    outputs: Outputs
    key: TrialKey | None = None
    """Where a run has yet to show that the shapes are right: the key under which `keep` keeps them."""
    samples: Samples = field(default_factory=dict)
    """The caller's values for the inputs of such a run; others get made-up data."""
    failure: str = ""
    """The error of the trial runs, where it leaves the shapes unchecked."""


def resolve(
    session: Session,
    shapes: ShapesLike,
    output_shapes: ShapesLike,
    *,
    leave: bool | Collection[str] = False,
    on_device: bool = False,
    trials: bool = True,
    samples: SamplesLike = None,
    carried: Collection[str] = (),
) -> LaneShapes:
    """The shape of every input and output of a lane, or the reason why it has none.

    An input's shape is given, or follows from the model's declaration and the given ones; anything else is a
    `ShapeError`, as are inputs that contradict each other. An output's shape is given, or follows from the inputs'
    shapes, or is found by trial runs; `leave` names the outputs that are left to ORT, or is True for all of them.
    Nothing is tried with inputs `on_device`. Without `trials` nothing is tried, and inputs may contradict each other.
    Trial runs read `samples`, which are values for inputs other than the `carried` ones of a state.
    """
    fed = tuple(input_shapes(session, shapes))
    chosen = given_samples.checked(samples, session.inputs, fed, carried)
    if chosen and not trials:
        raise ArgumentError("samples: they are for trial runs, and trials=False makes none")
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
        why = ON_DEVICE if trials else NOT_TRIED
        return LaneShapes(inputs, tuple(PortShape(None, why) if port.unknown else port for port in outputs))
    key = fed, outputs, tuple((name, blake2b(array.tobytes()).digest()) for name, array in chosen.items())
    kept = session._trials.get(key)
    if kept is not None:
        return LaneShapes(inputs, kept)
    found = LaneShapes(inputs, outputs, key, chosen)
    return find_by_trials(session, found) if any(port.unknown for port in outputs) else found


def _port_shape(why: str, shape: Shape | None) -> PortShape:
    return PortShape(None, why) if why else PortShape(shape)


def _declared(session: Session, info: ValueInfo, given: Mapping[str, Shape], sizes: dict[str, int]) -> PortShape:
    """An output's shape as far as the caller and the model's declaration say it."""
    if info.name in session.input_names:
        return PortShape(None, "is an input as well, and ORT returns that input's memory")
    if unbindable(info) or info.name in given:
        return _port_shape(unbindable(info), given.get(info.name))
    shape = symbolic_shapes.solve(info, sizes)
    return PortShape(shape, declared=shape is not None)


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


def find_by_trials(session: Session, asked: LaneShapes) -> LaneShapes:
    """The outputs' shapes after trial runs on the samples and made-up data.

    An output is left to ORT if ORT makes it otherwise than the model declares. An output whose shape is neither given
    nor declared has the shape that is the same in three runs. Raises `ShapeError` if every run fails in the same
    words, these are about shapes, and the data did not choose the branch that fails: then the data are not the cause.
    """
    assert asked.key is not None
    shapes = asked.key[0]
    unknown = any(port.unknown for port in asked.outputs)
    runs: list[Made] = []
    failures: list[OrtError] = []
    failure: Error | None = None
    try:
        runs, failures = _Trials(session, shapes, asked.samples).runs(asked.outputs, TRIALS if unknown else 1)
    except Error as error:
        failure = error
    same = len({str(error) for error in failures}) == 1
    if not runs and same and _blames_shapes(failures[0]):
        raise _cannot_run(session, shapes, failures[0]) from failures[0]
    outputs = tuple(
        _found(info, port, [made[info.name] for made in runs if info.name in made])
        for info, port in zip(session.outputs, asked.outputs, strict=True)
    )
    # Other data may decide an output that only some runs made.
    if failures and (not runs or any(port.unknown for port in outputs)):
        failure = failures[0]
    if failure is None:
        outputs = tuple(PortShape(None, DEPENDS_ON_DATA) if port.unknown else port for port in outputs)
        keep(session, asked.key, outputs)
        return replace(asked, outputs=outputs, key=None)
    why = f"a trial run failed, so its shape is not known; {MENDS}: {failure}"
    outputs = tuple(PortShape(None, why) if port.unknown else port for port in outputs)
    return replace(asked, outputs=outputs, key=None, failure=str(failure))


def _blames_shapes(error: OrtError) -> bool:
    """Whether a failure is about shapes, and not in a branch that the data chose."""
    return ort_messages.ABOUT_SHAPES.matches(error) and not ort_messages.IN_A_BRANCH.matches(error)


def _cannot_run(session: Session, shapes: Sequence[Shape], error: OrtError) -> ShapeError:
    fed = ", ".join(f"{info.name} {list(shape)}" for info, shape in zip(session.inputs, shapes, strict=True))
    disagreements = "".join(f"; {each}" for each in symbolic_shapes.contradictions(session.inputs, shapes))
    return ShapeError(f"shapes: the model does not run with {fed}{disagreements} ({UNCHECKED}): {error}")


def _found(info: ValueInfo, asked: PortShape, made: Sequence[Shape | ValueKind]) -> PortShape:
    """An output's shape after runs that `made` these; `asked` has the given or declared one."""
    if asked.why:
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
    """Runs of a model over the samples, and over made-up data of certain shapes for the other inputs."""

    def __init__(self, session: Session, shapes: Sequence[Shape], samples: Samples) -> None:
        self._session = session
        self._samples = samples
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
                if info.name in self._samples:
                    given_samples.write(array, self._samples[info.name])
                else:
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
