"""The shapes of a lane's inputs and outputs: given, solved from the inputs' shapes, or found by trial runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._native import ort_messages
from zrt.errors import ArgumentError, Error, OrtError, ShapeError, UnsupportedError
from zrt.lanes.ports import require_bindable
from zrt.lanes.samples import Samples, SamplesLike, checked_samples, write_sample
from zrt.loading.run_options import RunOptions
from zrt.memory.buffers import Buffer
from zrt.session.feeds import names_of, require_names, unbindable
from zrt.session.io_binding import IoBinding
from zrt.session.session import Session
from zrt.types import ElementType, LogSeverity, ValueKind, as_shape
from zrt.values import symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, format_shape, phrase
from zrt.values.value import Value

ShapesLike: TypeAlias = "Mapping[str, Any] | Sequence[Any] | None"

DEPENDS_ON_DATA = "its shape depends on the data"

GROWS = "its shape may grow with the state"

NOT_TRIED = "the model does not declare its shape, and trials=False makes no run that tells it"

ON_DEVICE = "the model does not declare its shape, and no trial run writes data to a device"

MENDS = "samples gives values that the model runs on, output_shapes gives the shape"

UNCHECKED = "trials=False makes a lane that is not checked"

# The number of trial runs, each on other data.
TRIALS = 3

# The elements of an input for which a trial run makes noise at a time.
NOISE_AT_ONCE = 1 << 16

# The results that a session keeps.
RESULTS_KEPT = 256


@dataclass(frozen=True, slots=True)
class PortShape:
    """The shape of an output; None where no memory can be bound, for the reason `why`.

    An output whose shape is still to be found has neither.
    """

    shape: Shape | None
    why: str = ""
    declared: bool = False
    """Whether it has this shape because the model declares it, and not because the caller gave it."""

    @property
    def unknown(self) -> bool:
        """Whether trial runs are to find the shape."""
        return self.shape is None and not self.why


Outputs: TypeAlias = "tuple[PortShape, ...]"
TrialOutputs: TypeAlias = "dict[str, Shape | ValueKind]"
# The inputs' shapes, the outputs, and the digests of the samples.
TrialKey: TypeAlias = "tuple[tuple[Shape, ...], Outputs, tuple[tuple[str, bytes], ...]]"


@dataclass(frozen=True, slots=True)
class LaneShapes:
    """The shapes of a lane's inputs and outputs, in the session's order."""

    inputs: tuple[Shape, ...]
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
    leave: Mapping[str, str],
    on_device: bool,
    trials: bool,
    samples: SamplesLike,
    carried: Collection[str],
) -> LaneShapes:
    """The shape of every input and output of a lane; for an output that has none, the reason.

    An input's shape is given, or follows from the model's declaration and the given ones; anything else is a
    `ShapeError`, as are inputs that contradict each other. An output's shape is given, or follows from the inputs'
    shapes, or is found by trial runs; `leave` has the outputs that are left to ORT, with the reasons.
    Nothing is tried with inputs `on_device`. Without `trials` nothing is tried, and inputs may contradict each other.
    Trial runs read `samples`, which are values for inputs other than the `carried` ones of a state.
    """
    for info in session.inputs:
        require_bindable(info, f"input {info.name!r}")
    inputs = tuple(input_shapes(session.inputs, shapes))
    values = checked_samples(samples, session.inputs, inputs, carried)
    if values and not trials:
        raise ArgumentError("samples: they are for trial runs, and trials=False makes none")
    named_outputs = by_name(output_shapes, session.outputs, "output")
    sizes = symbolic_shapes.bind(session.inputs, inputs)
    outputs = tuple(
        PortShape(None, leave[info.name]) if info.name in leave else _declared(session, info, named_outputs, sizes)
        for info in session.outputs
    )
    if trials:
        # Two sizes for one name may broadcast where one of them is 1.
        for contradiction in symbolic_shapes.contradictions(session.inputs, inputs):
            if not contradiction.broadcasts:
                raise ShapeError(f"shapes: {contradiction} ({UNCHECKED})")
    if not trials or on_device:
        why = ON_DEVICE if trials else NOT_TRIED
        return LaneShapes(inputs, tuple(PortShape(None, why) if port.unknown else port for port in outputs))
    key = inputs, outputs, tuple((name, blake2b(array.tobytes()).digest()) for name, array in values.items())
    known = results_of(session).outputs.get(key)
    if known is not None:
        return LaneShapes(inputs, known)
    lane_shapes = LaneShapes(inputs, outputs, key, values)
    return find_by_trials(session, lane_shapes) if any(port.unknown for port in outputs) else lane_shapes


def _declared(session: Session, info: ValueInfo, shapes: Mapping[str, Shape], sizes: dict[str, int]) -> PortShape:
    """An output's shape as far as the caller and the model's declaration say it."""
    if info.name in session.input_names:
        return PortShape(None, "is an input as well, and ORT returns that input's memory")
    if unbindable(info):
        return PortShape(None, unbindable(info))
    if info.name in shapes:
        return PortShape(shapes[info.name])
    shape = symbolic_shapes.solve(info, sizes)
    return PortShape(shape, declared=shape is not None)


def by_name(shapes: ShapesLike, infos: Sequence[ValueInfo], role: str) -> dict[str, Shape]:
    """Given shapes by name; a list has the shapes of the first of `infos`, in order. `role` is "input" or "output"."""
    if shapes is None:
        return {}
    argument = "shapes" if role == "input" else "output_shapes"
    if isinstance(shapes, Mapping):
        require_names(shapes, infos, role, argument)
        named = dict(shapes)
    elif isinstance(shapes, Sequence) and not isinstance(shapes, (str, bytes, memoryview)):
        listed = list(shapes)
        if len(listed) > len(infos):
            raise ArgumentError(
                f"{argument}: the model has {len(infos)} {role}s ({names_of(infos)}), got {len(listed)} shapes"
            )
        named = {info.name: shape for info, shape in zip(infos, listed, strict=False)}
    else:
        raise wrong_type(argument, "a dict or a list of shapes", shapes)
    checked = {}
    for info in infos:
        if info.name in named:
            subject = f"{role} {info.name!r}"
            try:
                checked[info.name] = as_shape(named[info.name], subject)
            except ShapeError:
                if isinstance(named[info.name], (np.ndarray, Buffer, Value)):
                    raise ShapeError(
                        f"{subject}: expected a shape, got {shown(named[info.name])}; "
                        f"memory of yours is given by {role}s={{{info.name!r}: ...}}"
                    ) from None
                raise
            symbolic_shapes.check(info, checked[info.name], subject)
    return checked


def input_shapes(inputs: Sequence[ValueInfo], known_shapes: ShapesLike, open_size: int | None = None) -> list[Shape]:
    """The shape of each input: given, or the declared one with the sizes that it shares with given ones.

    `open_size` stands for every other size. An input that is not a tensor has the shape ().
    """
    named = by_name(known_shapes, inputs, "input")
    shapes = symbolic_shapes.complete(inputs, named, open_size)
    unknown = [info for info, shape in zip(inputs, shapes, strict=True) if shape is None and info.is_tensor]
    if unknown:
        known = [info for info in inputs if info.name in named]
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


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Results of a session's lanes, for lanes to come.

    Every operation on `outputs` is atomic: threads that miss the same result at the same time each make it, and store
    equal ones.
    """

    outputs: dict[TrialKey, Outputs] = field(default_factory=dict)
    """The outputs' shapes that runs have shown to be right."""
    layouts: WeakValueDictionary[Any, Any] = field(default_factory=WeakValueDictionary)
    """The layouts of the states that lanes and states have now; one thread at a time looks one up, or makes it."""


_results: WeakKeyDictionary[Session, Results] = WeakKeyDictionary()


def results_of(session: Session) -> Results:
    """The results that the lanes of a session share."""
    return _results.get(session) or _results.setdefault(session, Results())


def share_results(sessions: Sequence[Session]) -> None:
    """Lets sessions of one model with the same options use each other's results, and carry each other's states."""
    results = Results()
    for session in sessions:
        _results[session] = results


def keep(session: Session, key: TrialKey, outputs: Outputs) -> None:
    """Keeps the shapes that a run has shown to be right.

    A failure is not kept: its cause may be gone for the next lane, as with a lack of memory.
    """
    known = results_of(session).outputs
    if len(known) >= RESULTS_KEPT:
        known.clear()
    known[key] = outputs


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
    unknown = any(port.unknown for port in asked.outputs)
    runs: list[TrialOutputs] = []
    failures: list[OrtError] = []
    failure: Error | None = None
    try:
        runs, failures = _trial_runs(session, asked, TRIALS if unknown else 1)
    except Error as error:
        failure = error
    # A branch that the data chose may fail while others run.
    if (
        not runs
        and len({str(error) for error in failures}) == 1
        and ort_messages.ABOUT_SHAPES.matches(failures[0])
        and not ort_messages.IN_A_BRANCH.matches(failures[0])
    ):
        fed = ", ".join(f"{info.name} {list(shape)}" for info, shape in zip(session.inputs, asked.inputs, strict=True))
        disagreements = "".join(f"; {each}" for each in symbolic_shapes.contradictions(session.inputs, asked.inputs))
        raise ShapeError(
            f"shapes: the model does not run with {fed}{disagreements} ({UNCHECKED}): {failures[0]}"
        ) from failures[0]
    outputs = tuple(
        _shape_of(info, port, [run[info.name] for run in runs if info.name in run])
        for info, port in zip(session.outputs, asked.outputs, strict=True)
    )
    # Other data may decide an output that only some runs made.
    if failures and (not runs or any(port.unknown for port in outputs)):
        failure = failures[0]
    why = f"a trial run failed, so its shape is not known; {MENDS}: {failure}" if failure else DEPENDS_ON_DATA
    outputs = tuple(PortShape(None, why) if port.unknown else port for port in outputs)
    if failure is None:
        keep(session, asked.key, outputs)
    return replace(asked, outputs=outputs, key=None, failure=str(failure or ""))


def _shape_of(info: ValueInfo, asked: PortShape, runs: Sequence[Shape | ValueKind]) -> PortShape:
    """An output's shape after `runs` that had these; `asked` has the given or declared one."""
    if asked.why:
        return asked
    for each in runs:
        if isinstance(each, ValueKind):
            return PortShape(None, f"the model declares a tensor, ORT makes {phrase(each)}")
        if not symbolic_shapes.fits(info, each) or (asked.declared and asked.shape != each):
            return PortShape(None, f"the model declares {format_shape(info.shape)}, ORT makes {list(each)}")
        shape = each
    # Nothing but the runs gives this shape: it counts only if every trial run made the same one.
    return PortShape(shape) if asked.unknown and len(runs) == TRIALS and len(set(runs)) == 1 else asked


def _trial_runs(session: Session, asked: LaneShapes, wanted: int) -> tuple[list[TrialOutputs], list[OrtError]]:
    """Runs on the samples, and on made-up data for the other inputs: the outputs of each run, and the failures.

    Ends when `wanted` runs have succeeded, or when the data has proved to decide whether a run fails. Outputs with a
    shape are bound to memory: so none grows beyond it, as made-up sizes might have it.
    """
    generator = np.random.default_rng(0)
    binding = IoBinding(session)
    inputs = []
    for info, shape in zip(session.inputs, asked.inputs, strict=True):
        value = Value.from_buffer(Buffer(shape, info.element_type))
        inputs.append((info, value, value.numpy()))
    bound = set()
    for info, port in zip(session.outputs, asked.outputs, strict=True):
        if port.shape is None:
            binding.bind_output(info.name)
        else:
            binding.bind_output(info.name, Buffer(port.shape, info.element_type))
            bound.add(info.name)
    # A session with a device may copy the data there when it is bound.
    rebinds = len(session.providers) > 1
    runs: list[TrialOutputs] = []
    failures: list[OrtError] = []
    for trial in range(TRIALS):
        for info, value, array in inputs:
            if info.name in asked.samples:
                write_sample(array, asked.samples[info.name])
            else:
                _fill(array, info.element_type, trial, generator)
            if trial == 0 or rebinds:
                binding.bind_input(info.name, value)
        try:
            runs.append(_outputs_of_trial(binding, bound, wanted))
        except OrtError as error:
            failures.append(error)
        if len(runs) == wanted or (runs and failures):
            break
    return runs, failures


def _outputs_of_trial(binding: IoBinding, bound: set[str], wanted: int) -> TrialOutputs:
    """The outputs of one run. Those that do not fit their memory are left to ORT, and are no longer in `bound`."""
    shapes: TrialOutputs = {}
    while bound or wanted > 1 or not shapes:
        try:
            return shapes | _run_trial(binding)
        except (ShapeError, UnsupportedError) as error:
            words = ort_messages.COMPUTED_OUTPUT_SHAPE.search(error)
            # ORT does not say which output is no dense tensor.
            names = set(bound) if words is None else bound & {words[1]}
            if not names:
                raise
            if words is not None:
                shapes[words[1]] = tuple(int(dim) for dim in words[2].split(",") if dim)
            for name in names:
                bound.remove(name)
                binding.bind_output(name)
    # Nothing else is to be found, and a run with nothing bound may take long over made-up sizes.
    return shapes


def _run_trial(binding: IoBinding) -> TrialOutputs:
    """The shape of each output in one run; the kind of an output that is no tensor."""
    binding.run(quiet())
    values = {name: value for name, value in binding.outputs().items() if value is not None}
    return {name: value.shape if value.is_tensor else value.kind for name, value in values.items()}


def _fill(array: np.ndarray[Any, Any], element_type: ElementType, trial: int, generator: np.random.Generator) -> None:
    """Data for a trial run: zeros, ones, then noise; integers stay 0 or 1, so that they can be indices."""
    if trial < 2 or element_type.packed:
        array[...] = trial
        return
    normal = element_type in (ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16, ElementType.BFLOAT16)
    elements = array.reshape(-1)
    # In parts: the noise is of a larger type than most arrays.
    for start in range(0, elements.size, NOISE_AT_ONCE):
        part = elements[start : start + NOISE_AT_ONCE]
        noise = generator.standard_normal(part.size) if normal else generator.integers(0, 2, part.size)
        part[...] = noise.astype(part.dtype)
