"""The sessions of a runtime: one for all lanes, one for each lane from a model, or those of a caller's factory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from zrt._common.arguments import boolean, integer, wrong_type
from zrt.errors import DTypeError
from zrt.lanes.lane_shapes import share_trials
from zrt.loading import model_source
from zrt.loading.load import prepare_options
from zrt.loading.session_options import SessionOptions
from zrt.providers.default_selection import parse
from zrt.providers.node_assignment import Strictness
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session

Factory: TypeAlias = Callable[[int], Session]


def _count(lanes: int) -> int:
    return integer(lanes, "lanes", 1, 1 << 16)


def shared(session: Session, lanes: int) -> list[Session]:
    """The same session for every lane."""
    if not isinstance(session, Session):
        raise wrong_type("session", "a Session", session)
    session._open()
    return [session] * _count(lanes)


def replicated(
    model: model_source.Model,
    lanes: int,
    options: SessionOptions | None = None,
    providers: ProvidersLike = None,
    share_weights: bool = False,
    external_data_dir: str | os.PathLike[str] | None = None,
    strict: bool = False,
    allow: Iterable[str] = (),
) -> list[Session]:
    """A session for each lane; with `share_weights`, all over one copy of the weights."""
    count = _count(lanes)
    # Parse once, since a generator of providers can be read once, and before loading, so that errors show early.
    parsed = parse(providers)
    strictness = Strictness.of(strict, allow, parsed.asked())
    keywords: dict[str, Any] = {"external_data_dir": external_data_dir, "strict": strict, "allow": strictness.allow}
    if not boolean(share_weights, "share_weights"):
        sessions = [Session(model, options, parsed, **keywords) for _ in range(count)]
        share_trials(sessions)
        return sessions
    from zrt.loading.caller_weights import PrepackedWeights
    from zrt.loading.read_weights import read_weights, trim_heap

    # Check the options before the weights are read, which may take long.
    prepare_options(options, parsed, external_data_dir)
    chosen = options or SessionOptions()
    weights = read_weights(model, external_data_dir, chosen.external_initializer_files)
    shared_options = replace(
        chosen,
        initializers={**weights, **chosen.initializers},
        prepacked_weights=PrepackedWeights() if chosen.prepacked_weights is None else chosen.prepacked_weights,
    )
    sessions = [Session(model, shared_options, parsed, **keywords) for _ in range(count)]
    trim_heap()
    share_trials(sessions)
    return sessions


def made(factory: Factory, lanes: int) -> list[Session]:
    """The session that the caller's factory returns for each lane's index."""
    if not callable(factory):
        raise wrong_type("factory", "a function of a lane's index", factory)
    sessions = [factory(index) for index in range(_count(lanes))]
    for index, session in enumerate(sessions):
        if not isinstance(session, Session):
            raise DTypeError(f"factory: lane {index} got a {type(session).__name__}, not a Session")
    return sessions
