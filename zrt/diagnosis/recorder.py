"""`Recorder`: keeps the last runs of a session, and a capsule of each that failed or was slow."""

from __future__ import annotations

import _thread
import logging
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zrt._common.arguments import boolean, integer, path_bytes, shown
from zrt._common.public import not_made, public
from zrt._native import callback_errors, ffi, lib, status
from zrt._native.callback_errors import callback
from zrt._native.cdata import NULL, numbers
from zrt._native.forks import SessionHandle
from zrt._native.handle import Handle, Owner
from zrt.diagnosis.capsules import Capsules
from zrt.errors import AllocationError, ArgumentError
from zrt.types import ElementType
from zrt.values.type_info import type_name

if TYPE_CHECKING:
    from types import TracebackType

    from zrt.session.session import Session

logger: logging.Logger = logging.getLogger("zrt.record")

MOST_RUNS: Final = 1_000_000
# Smaller numbers in the place of a status are codes of zrt's own.
CODES: Final = 4096
NS: Final = 1e9


@public
@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that a `Recorder` saw."""

    number: int
    """1 for the first run that the recorder saw."""
    began: float
    """On the clock of `time.monotonic`, in seconds."""
    seconds: float
    """Its duration, with the time that it waited for a budget of CPUs."""
    thread: int
    """The `threading.get_ident` of its thread; that of another thread for a run in the background."""
    failed: bool
    shapes: dict[str, tuple[int, ...]]
    """The shapes of the first four inputs that are tensors, at most six dimensions of each; none of a lane or binding,
    whose shapes stay. A name is cut after 47 bytes."""
    types: dict[str, str]
    """Their element types."""

    @classmethod
    def _read(cls, run: Any) -> RecordedRun:
        inputs = [run.inputs[index] for index in range(run.input_count) if run.inputs[index].type]
        named = {ffi.string(each.name).decode("utf-8", "replace"): each for each in inputs}
        return cls(
            int(run.number),
            run.begun / NS,
            run.took / NS,
            int(run.thread),
            bool(run.failed),
            {name: numbers(each.dims, min(each.rank, lib.ZRT_RECORDED_DIMS)) for name, each in named.items()},
            {name: type_name(ElementType(each.type)) for name, each in named.items()},
        )


@public
class Recorder(Owner):
    """Records the runs of a session from now on; `Session.record` makes it. `close`, or the end of a ``with``, ends it.

    It sees the runs of the session, and those of the lanes, prepared runs and bindings that are made while it records.
    """

    __slots__ = ("_before", "_capsules", "_recorded", "_session")

    def __init__(
        self,
        session: Session,
        keep: int,
        capsules: str | os.PathLike[str] | None,
        slower_than: float | None,
        times_median: int | None,
        feeds: bool,
    ) -> None:
        """Users call `Session.record`."""
        self._handle = None
        try:
            before = session._open()
        except AttributeError:
            raise not_made(self) from None
        count = integer(keep, "keep", 1, MOST_RUNS)
        if capsules is None and (slower_than, times_median, feeds) != (None, None, False):
            raise ArgumentError("capsules: name their folder: slower_than, times_median and feeds are about them")
        slowest = 0 if slower_than is None else _nanoseconds(slower_than)
        times = 0 if times_median is None else integer(times_median, "times_median", 2)
        boolean(feeds, "feeds")
        if before.is_recorded:
            raise ArgumentError("record: this session is recorded already: close its recorder first")
        keeper = None
        parents = []
        if capsules is not None:
            folder = Path(os.fsdecode(path_bytes(capsules, "capsules")))
            keeper = _Keeper(Capsules.of(session, folder, feeds))
            parents = [Handle.pin(keeper)]
        handle = Handle.block("zrt_recorder", parents, lib.zrt_record_end)
        recorder = handle.pointer
        recorder.api, recorder.session = before.table.pointer, before.pointer
        recorder.python = NULL if keeper is None else keeper.python
        recorder.slowest, recorder.times, recorder.size = slowest, times, count
        recorded = before.recorded(handle)
        if lib.zrt_record_begin(recorder):
            raise AllocationError(f"no memory for the records of {count} runs")
        if keeper is not None:
            keeper.recorder = recorder
        self._capsules = keeper
        self._session = session
        self._before: SessionHandle | None = before
        self._recorded: SessionHandle | None = recorded
        self._handle = handle
        session._handle = recorded
        # Prepared calls have the table of before.
        session._calls = ()

    @property
    def runs(self) -> tuple[RecordedRun, ...]:
        """The last runs, in the order of their ends. A run that ends at this moment may be missing."""
        return _runs(self._open().pointer)

    @property
    def count(self) -> int:
        """How many runs it saw."""
        return int(self._open().pointer.count)

    @property
    def capsules(self) -> tuple[str, ...]:
        """The paths of the capsules that are there, the oldest first."""
        self._open()
        return () if self._capsules is None else tuple(map(str, self._capsules.capsules.written))

    def close(self) -> None:
        """Ends the recording. Lanes that were made while it recorded stay recorded, unseen."""
        if not self.closed and self._session._handle is self._recorded:
            self._session._handle = self._before
            self._session._calls = ()
        # They keep the OrtSession alive.
        self._before = self._recorded = None
        super().close()

    def __repr__(self) -> str:
        return "Recorder(closed)" if self.closed else f"Recorder({self.count} runs)"


def _runs(recorder: Any) -> tuple[RecordedRun, ...]:
    copy = ffi.new("zrt_recorded_run *")
    found = []
    for index in range(min(int(recorder.size), int(recorder.count))):
        if lib.zrt_record_read(recorder, index, copy):
            found.append(RecordedRun._read(copy))
    return tuple(sorted(found, key=lambda run: run.number))


class _Keeper:
    """The part of a recorder that C calls: it outlives the recorder for as long as a lane needs it."""

    def __init__(self, capsules: Capsules) -> None:
        self.capsules = capsules
        self.recorder: Any = None
        self.python = ffi.new_handle(self)

    def note(self, noted: Any) -> None:
        """Writes a capsule of a run that failed or was slow."""
        run = RecordedRun._read(noted.run)
        error = None
        if noted.status:
            address = int(ffi.cast("uintptr_t", noted.status))
            ended = "the run was ended from outside"
            message = status.string(self.recorder.api.GetErrorMessage(noted.status)) if address >= CODES else ended
            error = callback_errors.without_marks(message)
        if error is not None:
            reason = "it failed"
        else:
            reason = f"it took {run.seconds:.6f} s; the median is about {noted.median / NS:.6f} s"
        earlier = [each for each in _runs(self.recorder) if each.number != run.number]
        values = [(status.string(noted.input_names[index]), noted.inputs[index]) for index in range(noted.input_count)]
        self.capsules.write(run, earlier, reason, error, values)


def _nanoseconds(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise ArgumentError(f"slower_than: expected seconds above 0, got {shown(seconds)}")
    return max(1, int(min(seconds * NS, 2**62)))


def _lost(kind: type[BaseException], error: BaseException, trace: TracebackType) -> None:
    """A capsule that cannot be written: the run itself goes on. An interrupt is that of the main thread."""
    if isinstance(error, KeyboardInterrupt):
        _thread.interrupt_main()
        return
    logger.warning("a capsule is lost: %s", callback_errors.describe(error))


@callback(_lost)
def zrt_run_noted(python: Any, noted: Any) -> int:
    ffi.from_handle(python).note(noted)
    return 0
