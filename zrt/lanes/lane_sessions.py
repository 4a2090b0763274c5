"""The sessions of a runtime: one for all lanes, one for each lane from a model, or those of a caller's factory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeAlias, Unpack

from zrt._common.arguments import boolean, integer, require_type, wrong_type
from zrt._native.handle import Single
from zrt.errors import DTypeError
from zrt.lanes.lane_options import RuntimeOptions
from zrt.lanes.lane_shapes import share_results
from zrt.loading.caller_weights import PrepackedWeights, mapping
from zrt.loading.load import prepare_options
from zrt.loading.model_source import EXTERNAL_DATA_DIR, Model
from zrt.loading.read_weights import read_weights, trim_heap
from zrt.loading.session_options import SessionOptions
from zrt.providers.default_selection import parse
from zrt.providers.node_assignment import Strictness
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session

Factory: TypeAlias = Callable[[int], Session]


class SessionsRuntime(Single):
    """Base of the runtimes: the ways in which one comes to its sessions."""

    __slots__ = ("__weakref__",)

    def _build(self, make_sessions: Callable[[], Sequence[Session]], options: Mapping[str, Any]) -> None:
        """Checks the options, makes the sessions, which may take long, and then everything else."""
        raise NotImplementedError

    @classmethod
    def _made_of(cls, make_sessions: Callable[[], Sequence[Session]], options: Mapping[str, Any]) -> Self:
        runtime = cls.__new__(cls)
        runtime._build(make_sessions, options)
        return runtime

    @classmethod
    def replicate(
        cls,
        model: Model,
        lanes: int = 1,
        options: SessionOptions | None = None,
        providers: ProvidersLike = None,
        *,
        share_weights: bool = False,
        external_data_dir: str | os.PathLike[str] | None = None,
        strict: bool = False,
        allow: Iterable[str] = (),
        **runtime_options: Unpack[RuntimeOptions],
    ) -> Self:
        """A session of its own for each lane; with `share_weights` the weights are in memory once.

        Weights are shared on the CPU execution provider only. `runtime_options` are the constructor's keywords.
        """

        def make_sessions() -> list[Session]:
            count = _count(lanes)
            # Parse once, since a generator can be read once, and before loading, so that errors show early.
            parsed = parse(providers)
            allowed = Strictness.of(strict, allow, parsed.asked()).allow
            shared_options = options
            if boolean(share_weights, "share_weights"):
                # Check the options before the weights are read, which may take long.
                prepare_options(options, parsed, external_data_dir)
                own = options or SessionOptions()
                given = mapping(own.initializers, "initializers", "arrays")
                folder = own.config_entries.get(EXTERNAL_DATA_DIR) if external_data_dir is None else external_data_dir
                weights = read_weights(model, folder, own.external_initializer_files, own.trusted_folders)
                shared_options = replace(
                    own,
                    initializers={**weights, **given},
                    prepacked_weights=PrepackedWeights() if own.prepacked_weights is None else own.prepacked_weights,
                )
            sessions = [
                Session(
                    model, shared_options, parsed, external_data_dir=external_data_dir, strict=strict, allow=allowed
                )
                for _ in range(count)
            ]
            if share_weights:
                trim_heap()
            share_results(sessions)
            return sessions

        return cls._made_of(make_sessions, runtime_options)

    @classmethod
    def from_factory(cls, factory: Factory, lanes: int = 1, **runtime_options: Unpack[RuntimeOptions]) -> Self:
        """Lanes over the sessions that ``factory(index)`` returns, for each index below `lanes`."""

        def make_sessions() -> list[Session]:
            if not callable(factory):
                raise wrong_type("factory", "a function of a lane's index", factory)
            sessions = [factory(index) for index in range(_count(lanes))]
            for index, session in enumerate(sessions):
                if not isinstance(session, Session):
                    raise DTypeError(f"factory: lane {index} got a {type(session).__name__}, not a Session")
            return sessions

        return cls._made_of(make_sessions, runtime_options)


def _count(lanes: int) -> int:
    return integer(lanes, "lanes", 1, 1 << 16)


def shared(session: Session, lanes: int) -> list[Session]:
    """The same session for every lane."""
    require_type(session, Session, "session", "a Session")
    session._open()
    return [session] * _count(lanes)
