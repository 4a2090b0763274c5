"""`diff`: two ways to run a model, compared value by value."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from zrt._common.arguments import integer, require_type, shown, wrong_type
from zrt._common.public import public
from zrt.bench.inputs import Inputs, UserInputs, make_inputs
from zrt.diagnosis import optimizer
from zrt.diagnosis.candidates import writing_nothing
from zrt.diagnosis.differences import ATOL, RTOL, Difference, compare
from zrt.diagnosis.other_library import OtherLibrarySide
from zrt.diagnosis.sides import REFERENCE, Arrays, ReferenceSide, SessionSide, Side
from zrt.errors import ArgumentError, Error, UnknownNameError, UnsupportedError
from zrt.session.spec import SessionSpec
from zrt.values.type_info import ValueInfo

# The values that are outputs of one session at the same time.
GROUP = 64


@public
@dataclass(frozen=True, slots=True)
class Diff:
    """The result of `zrt.diff`; `str` says it in a few lines."""

    outputs: tuple[Difference, ...]
    """The model's outputs, of sessions as they are."""
    values: tuple[Difference, ...]
    """All values of the main graph that both sides have, in the graph's order; the optimizer may fuse none of them."""
    fused: str = ""
    """Where the outputs differ and no value does: the first node whose value, as an output, ends that. A fusion of the
    optimizer's with that node makes the difference."""
    optimizers: tuple[str, ...] = ()
    """Steps of ONNX Runtime's optimizer, by its names, that make the difference: without them the outputs agree, or the
    first value, where the outputs agree with them."""
    optimizers_of: str = ""
    """The side whose steps these are, ``"a"`` or ``"b"``."""
    failed: str = ""
    """The side that fails, and why, if one does and the other runs."""

    @property
    def equal(self) -> bool:
        """Whether both sides run, and all outputs and values are within the tolerance."""
        return not self.failed and all(each.within for each in (*self.outputs, *self.values))

    @property
    def first(self) -> Difference | None:
        """The first value in the graph's order that is not within the tolerance."""
        return next((each for each in self.values if not each.within), None)

    def worst(self, count: int = 10) -> list[Difference]:
        """The values that are farthest apart, at most `count`."""
        integer(count, "count")
        return sorted((each for each in self.values if each.largest), key=lambda each: -each.largest)[:count]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        first = self.first
        return asdict(self) | {"equal": self.equal, "first": None if first is None else first.name}

    def __str__(self) -> str:
        if self.failed:
            return self.failed
        if self.equal:
            return f"equal within the tolerance: {len(self.outputs)} outputs, {len(self.values)} values"
        lines = [f"output {each}" for each in self.outputs if not each.within]
        agree = "the outputs agree"
        if self.first is not None:
            agree = agree if lines else f"{self.first.name!r} agrees"
            lines.append(f"the first value that differs is {self.first}")
        if self.fused:
            lines.append(f"no value differs by itself: the optimizer fuses {self.fused} with others")
        if self.optimizers:
            lines.append(f"without {', '.join(self.optimizers)} in {self.optimizers_of}, {agree}")
        return "\n".join(lines)


@public
def diff(
    a: SessionSpec | Literal["reference"],
    b: SessionSpec | Literal["reference"],
    feeds: Mapping[str, Any] | None = None,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
    library: str | os.PathLike[str] | None = None,
) -> Diff:
    """Runs a model in two ways on the same feeds, and finds the first value of its graph that differs.

    A side is a `SessionSpec`, with options, providers and a model of its own, or ``"reference"``: the other side's
    model by the evaluator of the onnx package. Models that differ are compared by the names that both have. Elements
    are within the tolerance if they are at most ``atol + rtol * abs(b)`` apart. Each side gets the same feeds, floats
    in the type of its own inputs; without any they are made up for both models, the same each time. With `library`, the
    file of another ONNX Runtime, `b` runs there, in a process of its own.

    First the outputs are compared, then all values, each as an output, so that nodes are not fused. Where the outputs
    differ and no value does, sessions with ever fewer such outputs find the fusion that makes the difference.

    Raises `ArgumentError`, `DTypeError` and `ShapeError` for feeds that do not fit a model, the error of `a` if both
    sides fail, `UnsupportedError` for outputs that are no tensors, `ModelError` for a graph whose types cannot be
    inferred, and `LibraryError` for a library that cannot be used.
    """
    require_tolerances(rtol, atol)
    require_type(feeds, Mapping | None, "feeds", "a mapping of inputs to arrays")
    with ExitStack() as sides:
        left, right, first = _opened(a, b, library, sides)
        for name in feeds or ():
            if name not in left.inputs and name not in right.inputs:
                known = ", ".join(map(repr, sorted(left.inputs.keys() | right.inputs.keys())))
                raise UnknownNameError(f"feeds: the model has no input {shown(name)}; it has {known}")
        if feeds is None:
            feeds = made_inputs((a, b), UserInputs()).feeds()
        for side in (left, right):
            side.take(feeds)
        return _compared(left, right, first.nodes, rtol, atol)


def made_inputs(sides: Sequence[SessionSpec | str], user: UserInputs) -> Inputs:
    """The user's inputs, and made-up ones in place of missing ones, for the models of both sides.

    An input that both have is as the first model declares it, and sizes of one name are one size. A model that does not
    load has no inputs, unless no other one loads either: then its error is raised. Raises `ArgumentError` and
    `DTypeError` for inputs that do not fit.
    """
    specs = [side for side in sides if isinstance(side, SessionSpec)]
    infos: dict[str, ValueInfo] = {}
    failures: list[Error] = []
    for spec in specs:
        if infos and spec.model == specs[0].model:
            continue
        try:
            with writing_nothing(spec).load() as session:
                infos = {info.name: info for info in session.inputs} | infos
        except Error as error:
            failures.append(error)
    if len(failures) == len(specs):
        raise failures[0]
    return make_inputs(tuple(infos.values()), user)


def _opened(a: Any, b: Any, library: Any, sides: ExitStack) -> tuple[Side, Side, SessionSide]:
    """Both sides, and one of them that is a session's in this library."""
    for name, side in (("a", a), ("b", b)):
        if not isinstance(side, SessionSpec) and not (isinstance(side, str) and side == REFERENCE):
            raise wrong_type(name, "a SessionSpec or 'reference'", side)
    if not isinstance(a, SessionSpec) and not isinstance(b, SessionSpec):
        raise ArgumentError("a and b are both 'reference': one of them is a SessionSpec")
    if library is not None and not isinstance(b, SessionSpec):
        raise ArgumentError("library: b runs there, and is no SessionSpec")
    first = SessionSide(a if isinstance(a, SessionSpec) else b)
    left = first if isinstance(a, SessionSpec) else ReferenceSide(first)
    if library is not None:
        return left, sides.enter_context(closing(OtherLibrarySide(b, library))), first
    return left, SessionSide(b) if isinstance(b, SessionSpec) else ReferenceSide(first), first


def require_tolerances(rtol: Any, atol: Any) -> None:
    """Raises for tolerances that are no finite numbers of at least 0."""
    for name, number in (("rtol", rtol), ("atol", atol)):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < math.inf:
            raise ArgumentError(f"{name}: expected a finite number of at least 0, got {shown(number)}")


def _compared(left: Side, right: Side, nodes: Mapping[str, str], rtol: float, atol: float) -> Diff:
    try:
        mine = left.run(left.outputs)
    except UnsupportedError:
        raise
    except Error as error:
        with suppress(Error):
            right.run(right.outputs)
            return Diff((), (), failed=f"a fails, and b runs: {error}")
        raise
    try:
        its = right.run(right.outputs)
    except UnsupportedError:
        raise
    except Error as error:
        return Diff((), (), failed=f"b fails, and a runs: {error}")

    def differences(left: Arrays, right: Arrays) -> list[Difference]:
        both = [name for name in left if name in right]
        return [compare(name, nodes.get(name, "the model"), left[name], right[name], rtol, atol) for name in both]

    def agree(left: Arrays, right: Arrays) -> bool:
        return all(each.within for each in differences(left, right))

    outputs = differences(mine, its)
    apart = not all(each.within for each in outputs)
    for name in sorted(mine.keys() ^ its.keys()):
        reason = f"only {'a' if name in mine else 'b'} has this output"
        outputs.append(Difference(name, nodes.get(name, "the model"), False, math.inf, math.inf, reason=reason))
    names = [name for name in nodes if name in right.nodes and name in left.nodes]
    values: list[Difference] = []
    for start in range(0, len(names), GROUP):
        group = names[start : start + GROUP]
        values += differences(left.run(group), right.run(group))
    differing = [each.name for each in values if not each.within][:1]
    fused = ""
    if names and apart and not differing:

        def agree_with(count: int) -> bool:
            return agree(*(side.run(side.outputs, names[:count]) for side in (left, right)))

        if agree_with(len(names)):
            # The last of the fewest values, from the first on, with which as outputs the sides agree.
            fused = nodes[names[bisect_left(range(1, len(names)), True, key=agree_with)]]

    def look(side: Side) -> Arrays:
        return side.run(side.outputs if apart else differing)

    compared = Diff(tuple(outputs), tuple(values), fused)
    if not apart and not differing:
        return compared
    found = (mine, its) if apart else (look(left), look(right))
    return replace(compared, **_blamed((left, right), found, look, agree))


def _blamed(
    sides: tuple[Side, Side],
    found: tuple[Arrays, Arrays],
    look: Callable[[Side], Arrays],
    agree: Callable[[Arrays, Arrays], bool],
) -> dict[str, Any]:
    """The fields of a `Diff` for the steps of an optimizer without which `look` finds arrays that agree."""
    for place, side in enumerate(sides):
        # In another process there is no log to read the steps from.
        if not isinstance(side, SessionSide) or isinstance(side, OtherLibrarySide):
            continue

        def agrees(spec: SessionSpec, place: int = place, side: SessionSide = side) -> bool:
            changed = copy(side)
            changed.spec = spec
            arrays = look(changed)
            return agree(found[0], arrays) if place else agree(arrays, found[1])

        steps = optimizer.guilty(side.spec, agrees)
        if steps:
            return {"optimizers": steps, "optimizers_of": "ab"[place]}
    return {}
