"""`kv_cache`: the caches of a decoder, found from the names and shapes of its inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from zrt._common.arguments import boolean, require_type, shown
from zrt._common.public import public
from zrt.errors import ArgumentError, ModelError
from zrt.lanes.state_ports import Role, StatePair, StatePorts
from zrt.session.feeds import names_of, require_names
from zrt.session.session import Session
from zrt.values.type_info import Dim, ValueInfo

# How exporters begin the names of caches, on both sides.
_PAST: Final = re.compile(r"^(past_key_values|past)(?=[._]|$)|(?<=[._])in$")
_PRESENT: Final = re.compile(r"^(present_key_values|present)(?=[._]|$)|(?<=[._])out$")

# Cross-attention: its keys and values are made from the encoder's output once.
_CROSS: Final = re.compile(r"(^|[._])(encoder|cross)([._]|$)")

# Along which a cache grows: behind the heads, before the size of each.
USUAL_AXIS: Final = -2

# The names of a size that counts steps.
_COUNTING: Final = re.compile(r"past|total|seq|len|cache|ctx|context|kv", re.IGNORECASE)

# The inputs that exporters add beside a cache.
ROLES_BY_NAME: Final[Mapping[str, Role]] = {
    "attention_mask": "mask",
    "decoder_attention_mask": "mask",
    "position_ids": "positions",
    "decoder_position_ids": "positions",
    "cache_position": "steps",
    "use_cache_branch": "past",
    "total_sequence_length": "total",
    "seqlens_k": "last",
}


@public
def kv_cache(
    session: Session,
    capacity: int,
    *,
    pairs: Mapping[str, str] | Sequence[StatePair] | None = None,
    axis: int | None = None,
    window: int = 0,
    in_place: bool = False,
    follow: Sequence[str] | Mapping[str, Role] | None = None,
    step: int | str | None = None,
) -> StatePorts:
    """The caches of a decoder as the state of a lane, with memory for `capacity` steps.

    Inputs such as ``past_key_values.0.key`` or ``past_0`` get their value from the outputs ``present.0.key`` or
    ``present_0``. Each grows along the axis whose size differs between the two declarations. Keys and values of
    cross-attention (``past_key_values.0.encoder.key``) are made by the first run, and kept. An input and output of one
    shape, such as the state of a convolution, is carried as it is. Where all have one shape on both sides, as caches
    that are written in place may have, `axis` or `in_place` says that they grow, by default along the last axis but
    one.

    `pairs` gives the pairs where names do not tell: a dict from outputs to inputs, or `StatePair` objects. `axis` is
    that of every pair that grows. At capacity, a run drops the oldest steps, `window` at a time; with 0 it raises
    `CapacityError`. `in_place` is for models that write their output into the memory of the input.

    `follow` names the inputs that the lane writes: by default those of ``attention_mask``, ``position_ids``,
    ``cache_position``, ``use_cache_branch``, ``total_sequence_length`` and ``seqlens_k`` that the model has. A dict
    gives their roles; see `StatePorts` for them and for `step`.

    Raises `ModelError` if no pair is found.
    """
    require_type(session, Session, "session", "a Session")
    session._open()
    boolean(in_place, "in_place")
    if pairs is None:
        described = _named_pairs(session)
        if not described:
            raise ModelError(
                f"kv_cache: the model has no inputs such as past_key_values.0.key with outputs such as present.0.key; "
                f"it has {names_of(session.inputs)}; give pairs"
            )
    else:
        listed = StatePorts(pairs, capacity).each
        plain = {pair.output: pair.input for pair in listed if pair.output and pair.axis is None and not pair.once}
        found = {pair.input: pair for pair in _described(session, plain)}
        described = [_completed(pair, found.get(pair.input)) for pair in listed]
    if (in_place or axis is not None) and all(pair.axis is None or pair.once for pair in described):
        # Caches of the size of the capacity have one shape on both sides: the arguments say that they grow.
        described = [pair if pair.once else replace(pair, axis=USUAL_AXIS) for pair in described]
    state = tuple(_with(pair, axis, in_place) for pair in described)
    return StatePorts(state, capacity, window, _roles(session, follow), step)


def _completed(pair: StatePair, found: StatePair | None) -> StatePair:
    """The caller's pair, with what its names and shapes say."""
    return pair if found is None else replace(pair, axis=found.axis, once=found.once and not pair.in_place)


def _with(pair: StatePair, axis: int | None, in_place: bool) -> StatePair:
    if pair.axis is None or pair.once:
        return pair
    return replace(pair, axis=pair.axis if axis is None else axis, in_place=in_place or pair.in_place)


def _key(name: str, side: re.Pattern[str]) -> str | None:
    """The part of a name that both sides share; None for a name of neither side."""
    key, count = side.subn("", name, count=1)
    return key if count else None


def _named_pairs(session: Session) -> list[StatePair]:
    outputs: dict[str, list[str]] = {}
    for info in session.outputs:
        key = _key(info.name, _PRESENT)
        if key is not None:
            outputs.setdefault(key, []).append(info.name)
    matched, alone = {}, []
    for info in session.inputs:
        key = _key(info.name, _PAST)
        if key is None or not info.is_tensor:
            continue
        names = outputs.get(key, [])
        if len(names) > 1:
            raise ModelError(f"kv_cache: input {info.name!r} may belong to {' or '.join(map(repr, names))}; give pairs")
        if names:
            matched[names[0]] = info.name
        elif _CROSS.search(info.name):
            alone.append(StatePair(None, info.name, once=True))
    return _described(session, matched) + alone


def _described(session: Session, matched: Mapping[str, str]) -> list[StatePair]:
    """The pairs from outputs to inputs, with the axis along which each grows."""
    inputs = {info.name: info for info in session.inputs}
    outputs = {info.name: info for info in session.outputs}
    pairs = []
    require_names(matched, session.outputs, "output", "kv_cache")
    require_names(matched.values(), session.inputs, "input", "kv_cache")
    for output, name in matched.items():
        if _CROSS.search(name):
            pairs.append(StatePair(output, name, once=True))
        else:
            pairs.append(StatePair(output, name, _axis_of(inputs[name], outputs[output])))
    return pairs


def _axis_of(past: ValueInfo, present: ValueInfo) -> int | None:
    """The axis whose size differs; None for a pair of one shape."""
    if past.shape is None:
        raise ModelError(f"kv_cache: input {past.name!r} has no rank; give pairs with an axis")
    after: Sequence[Dim] = present.shape or (None,) * len(past.shape)
    if len(after) != len(past.shape):
        raise ModelError(f"kv_cache: {past.name!r} and {present.name!r} have different ranks; give pairs with an axis")
    axes = [axis for axis, dims in enumerate(zip(past.shape, after, strict=True)) if _grows(*dims)]
    named = [axis for axis in axes if _COUNTING.search(f"{past.shape[axis] or ''} {after[axis] or ''}")]
    usual = len(past.shape) + USUAL_AXIS
    for choice in (axes, named):
        if len(choice) == 1:
            return choice[0]
    if usual in axes:
        return usual
    return axes[-1] if axes else None


def _grows(past: Dim, present: Dim) -> bool:
    return not isinstance(past, int) and (past is None or past != present)


def _roles(session: Session, follow: Sequence[str] | Mapping[str, Role] | None) -> dict[str, Role]:
    if isinstance(follow, Mapping):
        return dict(follow)
    if follow is None:
        return {name: ROLES_BY_NAME[name] for name in session.input_names if name in ROLES_BY_NAME}
    require_type(follow, Sequence, "follow", "names of inputs, or a dict of their roles")
    for name in follow:
        if not isinstance(name, str) or name not in ROLES_BY_NAME:
            known = ", ".join(ROLES_BY_NAME)
            raise ArgumentError(f"follow: {shown(name)} is none of {known}; give a dict with its role")
    return {name: ROLES_BY_NAME[name] for name in follow}
