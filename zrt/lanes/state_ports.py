"""`StatePorts`: which outputs of a run are inputs of the next one, as a caller describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from zrt._common.arguments import boolean, integer, require_type, shown, wrong_type
from zrt._common.public import public
from zrt.errors import ArgumentError

Role: TypeAlias = Literal["mask", "positions", "steps", "past", "total", "last"]

ROLES: Final[tuple[str, ...]] = get_args(Role)

# The fields hold plain numbers: a subclass of int may override comparison.
_put = object.__setattr__


def _name(value: object, subject: str) -> None:
    require_type(value, str, subject, "the name of an input or output")


@public
@dataclass(frozen=True, slots=True)
class StatePair:
    """An output whose value is an input of the next run.

    Without `axis` both have one shape. With it, the output is the input and the steps of the run behind it, along that
    axis of the input. `in_place` is for models that write their output into the memory of the input, such as those of
    ``GroupQueryAttention``: both lie on one buffer, which is as long as the capacity. `once` is for a value that the
    first run makes and later runs read, such as the keys of cross-attention; with an `output` of None the caller writes
    it.
    """

    output: str | None
    input: str
    axis: int | None = None
    in_place: bool = False
    once: bool = False

    def __post_init__(self) -> None:
        _name(self.input, "state: input")
        if self.output is not None:
            _name(self.output, "state: output")
        elif not self.once:
            raise ArgumentError(f"state {self.input!r}: only a value that is made once can do without an output")
        if self.axis is not None:
            _put(self, "axis", integer(self.axis, f"state {self.input!r}: axis", -64, 63))
        ways = [boolean(getattr(self, name), f"state {self.input!r}: {name}") for name in ("once", "in_place")]
        if all(ways):
            raise ArgumentError(f"state {self.input!r}: it is made once, or written in place")


@public
@dataclass(frozen=True, slots=True)
class StatePorts:
    """The outputs of a session that are inputs of the next run; `Session.lane` takes it as `state`.

    `pairs` are `StatePair` objects, or a dict from outputs to inputs for pairs of one shape. `capacity` is the most
    steps of pairs that grow; a run beyond it raises `CapacityError`, or drops the oldest steps, `window` at a time.

    `follow` names the inputs that the lane writes before each run, with their roles:

    - ``"mask"``: 1 for each step so far and each step of the run. A state has its own, in which 0 hides a step.
    - ``"positions"``: the position of each step of the run, in each row. Steps that the mask hides do not count.
    - ``"steps"``: the number of each step of the run, from 0 on.
    - ``"past"``: whether there are earlier steps.
    - ``"total"``: the number of steps with those of the run; ``"last"``: one less.

    `step` is the number of steps that a run adds, or the input whose second dimension says it; by default that of
    ``input_ids`` and its like, else 1. `initial` has arrays for states to begin with, by input, in place of zeros.
    """

    pairs: tuple[StatePair, ...] | Mapping[str, str] | Sequence[StatePair]
    capacity: int | None = None
    window: int = 0
    follow: Mapping[str, Role] = field(default_factory=dict)
    step: int | str | None = None
    initial: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        _put(self, "pairs", _pairs(self.pairs))
        if self.capacity is not None:
            _put(self, "capacity", integer(self.capacity, "capacity", 1))
        _put(self, "window", integer(self.window, "window", 0))
        if self.window and self.window > (self.capacity or 0):
            raise ArgumentError(f"window: {self.window} steps do not fit into the capacity, {self.capacity}")
        for subject, mapping in (("follow", self.follow), ("initial", self.initial)):
            require_type(mapping, Mapping, subject, "a dict by input")
            _put(self, subject, dict(mapping))
        for name, role in self.follow.items():
            _name(name, "follow")
            if not isinstance(role, str) or role not in ROLES:
                raise ArgumentError(f"follow {name!r}: {shown(role)} is none of {', '.join(ROLES)}")
        if isinstance(self.step, int):
            _put(self, "step", integer(self.step, "step", 1))
        elif self.step is not None:
            _name(self.step, "step")
        grows = [pair for pair in self.each if pair.axis is not None]
        if (grows or self.follow) and self.capacity is None:
            subject = f"state {grows[0].input!r}" if grows else f"follow {next(iter(self.follow))!r}"
            raise ArgumentError(f"{subject}: give the capacity, in steps")

    @property
    def each(self) -> tuple[StatePair, ...]:
        """The pairs."""
        assert isinstance(self.pairs, tuple)
        return self.pairs


def _pairs(description: Any) -> tuple[StatePair, ...]:
    if isinstance(description, Mapping):
        pairs = tuple(StatePair(output, name) for output, name in description.items())
    elif isinstance(description, Sequence) and not isinstance(description, (str, bytes, memoryview)):
        pairs = tuple(description)
    else:
        raise wrong_type("state", "a dict from outputs to inputs, or StatePorts", description)
    for pair in pairs:
        require_type(pair, StatePair, "state", "StatePair objects")
    if not pairs:
        raise ArgumentError("state: it has no pair of an output and an input")
    for role in ("input", "output"):
        names = [name for pair in pairs if (name := getattr(pair, role)) is not None]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(f"state: {role} {name!r} is in two pairs")
    return pairs


StateLike: TypeAlias = "StatePorts | Mapping[str, str] | Sequence[StatePair]"


def as_ports(state: StateLike) -> StatePorts:
    """The description in any form."""
    return state if isinstance(state, StatePorts) else StatePorts(state)
