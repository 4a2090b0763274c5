"""`Profile`: a trace of ONNX Runtime's profiler, and tables of the time that each node took."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter_ns as clock
from typing import TYPE_CHECKING, Any, TypeAlias

from zrt._common.arguments import integer, path_bytes
from zrt._common.files import ends_with, reading, replacing, temporary_folder, writing
from zrt._common.public import public
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api, library
from zrt.errors import FileError, TraceError, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import default_allocator, take_string
from zrt.session.feeds import Feeds
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import format_shape

if TYPE_CHECKING:
    from zrt.session.session import Session

SUFFIX = "_kernel_time"
RUN = "model_run"

TypedShape: TypeAlias = "tuple[str, Shape]"

# ORT escapes quotes and backslashes in the names of its JSON since this API version only; _NAME finds the names, and
# _ESCAPED matches those that may be escaped.
ESCAPES_SINCE = 31
_ESCAPED = re.compile(r'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_NAME = re.compile(r'("name" :")(.*?)(","args" : \{(?:"\w+" :|\}))', re.DOTALL)


@public
@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """One span of time in a trace; times are in microseconds from the start of the trace."""

    category: str
    """"Session" (loading, runs), "Node" (an operator of the graph), "Kernel" or "Api" (what a device ran)."""
    name: str
    """A node's name in the graph, or ONNX Runtime's name for the step."""
    start_us: int
    duration_us: int
    process: int
    thread: int
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The other fields of the event, by ONNX Runtime's names."""

    @property
    def operator(self) -> str:
        """The operator's type ("Conv"); "" if the event is no operator."""
        return str(self.arguments.get("op_name", ""))

    @property
    def provider(self) -> str:
        """The full name of the provider that ran it; "" if the trace does not contain it."""
        return str(self.arguments.get("provider", ""))

    @property
    def inputs(self) -> tuple[TypedShape, ...]:
        """A node's inputs, each as ORT's name of the element type and a shape."""
        return _typed_shapes(self.arguments.get("input_type_shape"))

    @property
    def outputs(self) -> tuple[TypedShape, ...]:
        """A node's outputs, each as ORT's name of the element type and a shape."""
        return _typed_shapes(self.arguments.get("output_type_shape"))

    @property
    def end_us(self) -> int:
        """The end of the event."""
        return self.start_us + self.duration_us


@public
@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A row of a table: all calls of one operator type, node or kernel on a provider; times are in microseconds."""

    name: str
    """The node's or the kernel's name; in a table by operator, the operator's type."""
    operator: str
    provider: str
    calls: int
    total_us: int
    """The time of all calls, without that of inner nodes (the body of a Loop has its own rows)."""
    share: float
    """The share of the time of all rows, from 0 to 1."""
    shapes: str | None
    """The inputs, as ``float[1, 16, 8, 8], float[16]``; None if they differ between calls."""

    @property
    def mean_us(self) -> float:
        """The mean time of a call."""
        return self.total_us / self.calls


@public
@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """A trace: all its events, ordered by their start.

    `zrt.Profile.read` reads the files that ONNX Runtime writes (`SessionOptions.profile_file_prefix`,
    `RunOptions.profile_file_prefix`); `Session.profile` profiles runs.
    """

    events: tuple[ProfileEvent, ...]

    def __repr__(self) -> str:
        # The events of a few runs take megabytes.
        return f"Profile({len(self.runs)} runs, {len(self.events)} events)"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Profile:
        """Reads a trace that ONNX Runtime or `write` wrote.

        Raises `FileError` if the file cannot be read, and `TraceError` if it is truncated or no trace. A trace is
        complete once profiling has ended: see `Session.end_profiling`.
        """
        name = os.fsdecode(path_bytes(path, "path"))
        with reading(name, OSError), open(name, encoding="utf-8", errors="replace") as file:
            text = file.read()
        return cls(tuple(sorted(_events(_entries(text, name), name), key=_order)))

    @property
    def nodes(self) -> tuple[ProfileEvent, ...]:
        """The events that are operators of the graph."""
        return tuple(event for event in self.events if event.category == "Node")

    @property
    def kernels(self) -> tuple[ProfileEvent, ...]:
        """The kernels that a device ran; the CPU execution provider has none."""
        return tuple(event for event in self.events if event.category == "Kernel")

    @property
    def runs(self) -> tuple[ProfileEvent, ...]:
        """The runs, each from the start of the call to its end."""
        return tuple(event for event in self.events if event.category == "Session" and event.name == RUN)

    def by_operator(self) -> list[ProfileRow]:
        """The time of each operator type on each provider, the longest first."""
        return _table(self.nodes, lambda node: node.operator)

    def by_node(self) -> list[ProfileRow]:
        """The time of each node of the graph, the longest first."""
        return _table(self.nodes, lambda node: node.name)

    def by_kernel(self) -> list[ProfileRow]:
        """The time of each kernel that a device ran, the longest first; empty for the CPU execution provider."""
        return _table(self.kernels, lambda kernel: kernel.name)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes a Chrome trace, which Perfetto, chrome://tracing and `read` can read.

        An existing file is replaced as a whole. Raises `FileError` if it cannot be written, and `ArgumentError` for a
        name that belongs to a device.
        """
        name = os.fsdecode(path_bytes(path, "path"))
        entries = [
            {
                "cat": event.category,
                "pid": event.process,
                "tid": event.thread,
                "dur": event.duration_us,
                "ts": event.start_us,
                "ph": "X",
                "name": event.name + (SUFFIX if event.category == "Node" else ""),
                "args": dict(event.arguments),
            }
            for event in self.events
        ]
        with (
            replacing(name, subject="trace") as (written,),
            writing(name),
            open(written, "w", encoding="utf-8") as file,
        ):
            json.dump({"traceEvents": entries, "displayTimeUnit": "ms"}, file)


def end(session: Handle) -> str:
    """Ends a session's profiling and returns the trace's path, "" without one; raises if the trace is cut off."""
    allocator = default_allocator()
    path = take_string(allocator, status.make(api().SessionEndProfiling, "char", session.pointer, allocator))
    if path:
        _require_whole(path)
    return path


def _require_whole(path: str) -> None:
    """Raises for a trace that is cut off, as on a full disk."""
    if not ends_with(path, b"]"):
        raise FileError(f"trace {path!r}: ONNX Runtime could not write it, or not all of it")


def of_runs(session: Session, feeds: Feeds, runs: int, warmup: int) -> Profile:
    """The profile of `runs` runs after `warmup` runs without profiling; see `Session.profile`."""
    integer(runs, "runs", 1)
    for _ in range(integer(warmup, "warmup")):
        session.run(feeds)
    events: list[ProfileEvent] = []
    begin = clock()
    with temporary_folder("zrt-profile-") as folder:
        for number in range(runs):
            options = RunOptions(profile_file_prefix=os.path.join(folder, str(number)))
            start_us = (clock() - begin) // 1000
            session.run(feeds, options=options)
            written = options.profile_files()
            if not written and session.profiling_start_ns:
                raise UnsupportedError(
                    "a run left no trace: those of a session that is profiled as a whole "
                    "(SessionOptions.profile_file_prefix) have none of their own until end_profiling"
                )
            if not written:
                raise FileError(f"trace of a run: ONNX Runtime could not write it into the folder {folder!r}")
            _require_whole(written[0])
            # The times of each trace start at 0.
            events += [replace(event, start_us=event.start_us + start_us) for event in Profile.read(written[0]).events]
            # Those of many runs would fill the disk.
            with suppress(OSError):
                os.unlink(written[0])
    return Profile(tuple(sorted(events, key=_order)))


def _table(events: Sequence[ProfileEvent], name: Callable[[ProfileEvent], str]) -> list[ProfileRow]:
    """A row for each name, operator and provider; the longest first."""
    times = own_times(events)
    whole = sum(times) or 1
    groups: dict[Hashable, list[tuple[ProfileEvent, int]]] = {}
    for event, time in zip(events, times, strict=True):
        groups.setdefault((name(event), event.operator, event.provider), []).append((event, time))
    rows = []
    for calls in groups.values():
        first = calls[0][0]
        total = sum(time for _, time in calls)
        shapes = {", ".join(f"{kind}{format_shape(shape)}" for kind, shape in call.inputs) for call, _ in calls}
        rows.append(
            ProfileRow(
                name=name(first),
                operator=first.operator,
                provider=first.provider,
                calls=len(calls),
                total_us=total,
                share=total / whole,
                shapes=shapes.pop() if len(shapes) == 1 else None,
            )
        )
    return sorted(rows, key=lambda row: -row.total_us)


def own_times(nodes: Sequence[ProfileEvent]) -> list[int]:
    """The time of each event without that of inner events of the same thread; events are ordered as in a profile."""
    times = [node.duration_us for node in nodes]
    around: dict[tuple[int, int], list[int]] = {}
    for index, node in enumerate(nodes):
        stack = around.setdefault((node.process, node.thread), [])
        while stack and nodes[stack[-1]].end_us <= node.start_us:
            stack.pop()
        if stack:
            # Times are rounded to microseconds, so the sum of the parts may exceed the whole.
            times[stack[-1]] = max(0, times[stack[-1]] - node.duration_us)
        stack.append(index)
    return times


def _order(event: ProfileEvent) -> tuple[int, int]:
    """The sort key of events: by their start, outer events before inner ones."""
    return event.start_us, -event.duration_us


def _entries(text: str, name: str) -> list[Any]:
    """The trace's events, parsed from JSON."""
    if not text.strip():
        raise TraceError(f"trace {name!r}: it is empty: ONNX Runtime writes it when profiling ends")
    try:
        if not _is_escaped(text):
            text = _NAME.sub(lambda match: f"{match[1]}{json.dumps(match[2])[1:-1]}{match[3]}", text)
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"trace {name!r}: it is cut short, or no trace: {error}") from None
    if isinstance(document, dict):
        document = document.get("traceEvents")
    if not isinstance(document, list):
        raise TraceError(f"trace {name!r}: this JSON is no trace: it holds no list of events")
    return document


def _is_escaped(text: str) -> bool:
    """Whether a trace's names are escaped. A backslash may be one or begin an escape: the library in use decides."""
    names = [match[2] for match in _NAME.finditer(text)]
    if not all(map(_ESCAPED.fullmatch, names)):
        return False
    return not any("\\" in name for name in names) or library().api_version >= ESCAPES_SINCE


def _events(entries: Iterable[Any], name: str) -> Iterable[ProfileEvent]:
    for index, entry in enumerate(entries):
        try:
            # Other tools add entries of other kinds, such as thread names.
            if entry["ph"] != "X":
                continue
            category, label, arguments = str(entry["cat"]), str(entry["name"]), dict(entry["args"])
            start, length, process, thread = (int(entry[key]) for key in ("ts", "dur", "pid", "tid"))
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise TraceError(f"trace {name!r}: event {index} is not one of ONNX Runtime's: {error!r}") from None
        if category == "Node":
            label = label.removesuffix(SUFFIX)
        yield ProfileEvent(category, label, start, length, process, thread, arguments)


def _typed_shapes(entries: Any) -> tuple[TypedShape, ...]:
    """``[{"float": [1, 2]}, ...]`` as pairs; ignores entries of another form."""
    if not isinstance(entries, list):
        return ()
    return tuple(
        (str(kind), tuple(dims))
        for entry in entries
        if isinstance(entry, dict)
        for kind, dims in entry.items()
        if isinstance(dims, list) and all(isinstance(dim, int) for dim in dims)
    )
