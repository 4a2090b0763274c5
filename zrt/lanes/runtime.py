"""`Runtime`: a fixed set of lanes.

It has no scheduler, queue or lock: the caller gives each lane to one thread at a time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, Unpack

from zrt._common.arguments import require_type, shown, wrong_type
from zrt._common.public import public
from zrt.errors import ArgumentError, ClosedError, OutOfRangeError
from zrt.lanes.audit import LaneAudit
from zrt.lanes.given_memory import refuse_shared_writes
from zrt.lanes.lane import Lane
from zrt.lanes.lane_options import ShapedLaneOptions, check_names
from zrt.lanes.lane_sessions import SessionsRuntime, shared
from zrt.session.session import Session


@public
class Runtime(SessionsRuntime):
    """A fixed set of lanes: over one session, over a session for each lane (`replicate`), or over given sessions.

    `lane_options` are the keyword arguments of `Session.lane`, the same for every lane. Lanes over one session share
    its weights and its thread pool. A session for each lane costs memory, and no lane waits for another's threads.
    """

    __slots__ = ("lanes",)

    lanes: tuple[Lane, ...]
    """The lanes; one thread at a time can use each."""

    def __init__(self, session: Session, lanes: int = 1, **lane_options: Unpack[ShapedLaneOptions]) -> None:
        self._build(lambda: shared(session, lanes), lane_options)

    @classmethod
    def over(cls, sessions: Sequence[Session], **lane_options: Unpack[ShapedLaneOptions]) -> Self:
        """A lane over each of these sessions; a session may occur several times."""
        return cls._made_of(lambda: sessions, lane_options)

    def _build(self, make_sessions: Callable[[], Sequence[Session]], options: Mapping[str, Any]) -> None:
        check_names(options, ShapedLaneOptions, type(self))
        sessions = make_sessions()
        require_type(sessions, Sequence, "sessions", "a list of sessions")
        if not sessions:
            raise ArgumentError("sessions: a runtime has at least one lane, and each a session")
        if len(sessions) > 1:
            refuse_shared_writes(options, f"{len(sessions)} lanes")
        self.lanes = tuple(Session.lane(session, **options) for session in sessions)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The session of each lane."""
        return tuple(lane.session for lane in self.lanes)

    def prime(self, runs: int = 1) -> None:
        """Runs every lane `runs` times before serving (`Lane.prime`)."""
        for lane in self.lanes:
            lane.prime(runs)

    def audit(self) -> tuple[LaneAudit, ...]:
        """The `Lane.audit` of every lane."""
        return tuple(lane.audit() for lane in self.lanes)

    def close(self) -> None:
        """Closes the lanes, which release their sessions; closing twice is fine."""
        # A constructor that raised leaves no lanes.
        with suppress(ClosedError):
            for lane in self.lanes:
                lane.close()

    def __getitem__(self, index: int) -> Lane:
        return pick(self.lanes, index)

    def __len__(self) -> int:
        return len(self.lanes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self.lanes)

    def __enter__(self) -> Self:
        if self.lanes[0].closed:
            raise ClosedError("this Runtime is closed")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pick(lanes: Sequence[Lane], index: int) -> Lane:
    """The lane at `index`; raises if there is none."""
    try:
        return lanes[operator.index(index)]
    except TypeError:
        raise wrong_type("lane", "an index", index) from None
    except IndexError:
        raise OutOfRangeError(f"lane {shown(index)}: there are {len(lanes)}, counted from 0") from None
