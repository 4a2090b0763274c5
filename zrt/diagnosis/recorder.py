"""`Recorder`: keeps the last runs of a session, and a capsule of each that failed or was slow."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from zrt._common.arguments import absolute, boolean, duration, integer, path_bytes
from zrt._common.fork_lock import ForkLock
from zrt._common.public import public
from zrt._native import callback_errors, ffi, lib, status
from zrt._native.callback_errors import callback
from zrt._native.cdata import numbers
from zrt._native.handle import Handle, Owner
from zrt.diagnosis.capsules import Capsules
from zrt.errors import ArgumentError, Error
from zrt.types import ElementType
from zrt.values.type_info import type_name

if TYPE_CHECKING:
    from types import TracebackType

    from zrt.session.session import Session

logger: logging.Logger = logging.getLogger("zrt.record")

MOST_RUNS: Final = 1_000_000
# A capsule has so many runs before its own.
BEFORE: Final = 20
NS: Final = 1e9

# The capsules of recorders that write them, by the keys that C has.
_noting: dict[int, Capsules] = {}
_keys = count(1)
# Held while a recorder begins, so that a session has one. A signal handler may begin one meanwhile.
_starting = ForkLock()


@public
@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that a `Recorder` saw."""

    number: int
    """1 for the first run that the recorder saw."""
    began: float
    """On the clock of `time.monotonic`, in seconds."""
    seconds: float
    """Its duration, with the time that it waited."""
    waited: float
    """The seconds of them in which it waited for a budget of CPUs."""
    thread: int
    """The `threading.get_ident` of its thread; that of another thread for a run in the background."""
    failed: bool
    shapes: dict[str, tuple[int, ...]]
    """The shapes of the first four inputs that are tensors, at most six dimensions of each. A name is cut after 47
    bytes."""
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
            run.waited / NS,
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

    __slots__ = ("_capsules", "_forget")

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
        owner = session._open()
        size = integer(keep, "keep", 1, MOST_RUNS)
        if capsules is None and (slower_than, times_median, feeds) != (None, None, False):
            raise ArgumentError("capsules: name their folder: slower_than, times_median and feeds are about them")
        recording = ffi.new("zrt_recording *")
        recording.slowest = 0 if slower_than is None else max(1, int(duration(slower_than, "slower_than") * NS))
        recording.times = 0 if times_median is None else integer(times_median, "times_median", 2)
        boolean(feeds, "feeds")
        self._capsules: Capsules | None = None
        self._forget: Callable[[], Any] | None = None
        if capsules is not None:
            recording.key = next(_keys)
            folder = os.fsdecode(path_bytes(capsules, "capsules"))
            # The program may change its current folder, which may also be gone.
            with suppress(OSError):
                folder = absolute(folder)
            self._capsules = _noting[recording.key] = Capsules.of(session, Path(folder), recording.key, feeds)
            self._forget = finalize(self, _noting.pop, recording.key, None)
        with _starting.now:
            if lib.zrt_record_has(owner.pointer):
                raise ArgumentError("record: this session is recorded already: close its recorder first")
            owner.let_record()
            # The session outlives it: no other one may have its address.
            begin, arguments = lib.zrt_record_begin, (owner.table.pointer, owner.pointer, size, recording)
            self._handle = Handle.make(lib.zrt_record_stop, [owner], begin, "zrt_recorder", *arguments)
        # Prepared calls run by the table of before.
        session._calls = ()

    @property
    def runs(self) -> tuple[RecordedRun, ...]:
        """The last runs, in the order of their ends. A run that ends at this moment may be missing."""
        handle = self._open()
        recorder = handle.pointer
        return _runs(recorder, range(min(int(recorder.size), int(recorder.count))))

    @property
    def count(self) -> int:
        """How many runs it saw."""
        handle = self._open()
        return int(handle.pointer.count)

    @property
    def capsules(self) -> tuple[str, ...]:
        """The paths of the capsules that are there, the oldest first."""
        self._open()
        capsules = self._capsules
        return () if capsules is None else tuple(map(str, capsules.written))

    def close(self) -> None:
        """Ends the recording."""
        if not self.closed and self._forget is not None:
            self._forget()
            # Their allocator keeps the session's memory.
            self._capsules = None
        super().close()

    def __repr__(self) -> str:
        return "Recorder(closed)" if self.closed else f"Recorder({self.count} runs)"


def _runs(recorder: Any, places: Iterable[int]) -> tuple[RecordedRun, ...]:
    """The runs at these places of the ring, in their order."""
    copy = ffi.new("zrt_recorded_run *")
    found = []
    for index in places:
        if lib.zrt_record_read(recorder, index, copy):
            found.append(RecordedRun._read(copy))
    return tuple(sorted(found, key=lambda run: run.number))


def _note(capsules: Capsules, noted: Any) -> None:
    """Writes a capsule of a run that failed or was slow."""
    run = RecordedRun._read(noted.run)
    error = None
    if noted.status:
        address = int(ffi.cast("uintptr_t", noted.status))
        ended = "the run was ended from outside"
        # Smaller numbers are codes of zrt's own.
        is_status = address > lib.ZRT_LAST
        message = status.string(noted.recorder.api.GetErrorMessage(noted.status)) if is_status else ended
        error = callback_errors.without_marks(message)
    if error is not None:
        reason = "it failed"
    else:
        reason = f"it took {run.seconds:.6f} s; the median is about {noted.median / NS:.6f} s"
    before = range(max(run.number - BEFORE, 1), run.number)
    places = {(number - 1) % int(noted.recorder.size) for number in before}
    earlier = [each for each in _runs(noted.recorder, places) if each.number < run.number]
    capsules.write(run, earlier, reason, error, _inputs(noted))


def _inputs(noted: Any) -> Iterator[tuple[str, Any]]:
    """The names of the inputs, each with its ``zrt_description``."""
    if noted.bound:
        for index in range(noted.run.input_count):
            name = ffi.string(noted.run.inputs[index].name)
            # A name of this length may be cut, and be another input's then.
            if len(name) < lib.ZRT_RECORDED_NAME - 1:
                yield name.decode(errors="replace"), noted.bound[index]
        return
    for index in range(noted.input_count):
        with suppress(Error):
            yield status.string(noted.input_names[index]), status.describe(noted.inputs[index])


def _lost(kind: type[BaseException], error: BaseException, trace: TracebackType) -> int:
    """A capsule that cannot be written: the run itself goes on. C interrupts the main thread again."""
    if isinstance(error, KeyboardInterrupt):
        return int(status.INTERRUPTED)
    logger.warning("a capsule is lost: %s", callback_errors.describe(error))
    return 0


@callback(_lost)
def zrt_run_noted(key: int, noted: Any) -> int:
    capsules = _noting.get(key)
    # The recorder may be closed by now.
    if capsules is not None:
        _note(capsules, noted)
    return 0
