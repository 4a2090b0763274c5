"""`DynamicRuntime`: an LRU cache of lanes by shape."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from zrt._common.arguments import integer, require_type, wrong_type
from zrt._common.public import public, public_in
from zrt._native.busy import claimed, new_flag
from zrt.errors import ArgumentError, ClosedError
from zrt.lanes import lane_shapes, state_layout
from zrt.lanes.audit import LaneAudit
from zrt.lanes.given_memory import refuse_shared_writes, with_shapes
from zrt.lanes.lane import Lane
from zrt.lanes.lane_options import RuntimeLaneOptions, check_names
from zrt.lanes.lane_sessions import SessionsRuntime, shared
from zrt.lanes.lane_shapes import ShapesLike
from zrt.lanes.runtime import Runtime, pick
from zrt.lanes.state_ports import as_ports
from zrt.session.session import Session
from zrt.values.symbolic_shapes import Shape

Spec: TypeAlias = "ShapesLike | tuple[ShapesLike, ShapesLike]"
Key: TypeAlias = "tuple[tuple[Shape, ...], tuple[Shape | None, ...]]"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@public_in("zrt.typing")
@dataclass(slots=True, eq=False)
class Bucket:
    """The lanes for one set of shapes."""

    shapes: dict[str, Shape]
    """The inputs' shapes."""
    output_shapes: dict[str, Shape]
    """The outputs' shapes that the caller gave."""
    runtime: Runtime
    key: Key = field(repr=False)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes; one thread at a time can use each."""
        return self.runtime.lanes


@public_in("zrt.typing")
@dataclass(slots=True)
class Counters:
    """How often a `DynamicRuntime` found a bucket, made one, and evicted one for another."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0


def _alone(
    work: Callable[Concatenate[DynamicRuntime, Parameters], Result],
) -> Callable[Concatenate[DynamicRuntime, Parameters], Result]:
    """A method of an open runtime during which other threads get `BusyError`."""

    @wraps(work)
    def alone(runtime: DynamicRuntime, /, *arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        runtime._check_open()
        return claimed(runtime._busy, "DynamicRuntime", work, runtime, *arguments, **keywords)

    return alone


@public
class DynamicRuntime(SessionsRuntime):
    """Lanes for models whose shapes vary: each set of input shapes (and given output shapes) has its bucket.

    A bucket is made at its first use, with `lanes` lanes, or in advance by `prebuild` and `warm`. There are at most
    `max_buckets`. The least recently used bucket is evicted first; a lane of it that the caller holds stays
    usable. `lane_options` are the keyword arguments of `Session.lane`, without the shapes.

    A call raises `BusyError` while a call of another thread is in progress. The lanes that it returns may run in
    any thread.
    """

    __slots__ = ("_buckets", "_busy", "_options", "_sessions", "_spellings", "counters", "max_buckets")

    counters: Counters
    """Hits, misses and evictions so far."""

    def __init__(
        self, session: Session, lanes: int = 1, *, max_buckets: int = 16, **lane_options: Unpack[RuntimeLaneOptions]
    ) -> None:
        self._build(lambda: shared(session, lanes), {"max_buckets": max_buckets, **lane_options})

    def _build(self, make_sessions: Callable[[], Sequence[Session]], options: Mapping[str, Any]) -> None:
        lane_options = dict(options)
        max_buckets = lane_options.pop("max_buckets", 16)
        for name in ("shapes", "output_shapes"):
            if name in lane_options:
                raise ArgumentError(f"{name}: give shapes to DynamicRuntime.lane, not to the constructor")
        check_names(lane_options, RuntimeLaneOptions, type(self))
        refuse_shared_writes(lane_options, "all lanes of a DynamicRuntime")
        self.max_buckets: int = integer(max_buckets, "max_buckets", 1)
        self.counters = Counters()
        self._sessions: tuple[Session, ...] = tuple(make_sessions())
        self._options = lane_options
        self._buckets: OrderedDict[Key, Bucket] = OrderedDict()
        # The same shapes can be written in several ways: each spelling that was used before maps to its bucket.
        self._spellings: dict[Any, Bucket] = {}
        self._busy = new_flag()

    def lane(self, shapes: ShapesLike, index: int = 0, output_shapes: ShapesLike = None) -> Lane:
        """Lane `index` of the bucket for these shapes, which is made if it is not there.

        For shapes that were used before this is one look-up in a dictionary.
        """
        bucket = claimed(self._busy, "DynamicRuntime", self._bucket, shapes, output_shapes)
        return pick(bucket.runtime.lanes, index)

    def _bucket(self, shapes: ShapesLike, output_shapes: ShapesLike) -> Bucket:
        try:
            spelling = _spelling(shapes), _spelling(output_shapes)
            bucket = self._spellings.get(spelling)
        except TypeError:
            # Lists are not hashable: resolve the shapes each time.
            return self._find(shapes, output_shapes)
        if bucket is not None:
            self._buckets.move_to_end(bucket.key)
            self.counters.hits += 1
            return bucket
        bucket = self._find(shapes, output_shapes)
        if _is_constant(shapes) and _is_constant(output_shapes):
            self._spellings[spelling] = bucket
        return bucket

    def _find(self, shapes: ShapesLike, output_shapes: ShapesLike) -> Bucket:
        """The bucket for shapes in any spelling, made if it is not there."""
        key = self._key(shapes, output_shapes)
        bucket = self._buckets.get(key)
        if bucket is not None:
            self._buckets.move_to_end(key)
            self.counters.hits += 1
            return bucket
        by_name = dict(zip(self._sessions[0].output_names, key[1], strict=True))
        outputs = {name: shape for name, shape in by_name.items() if shape is not None}
        inputs = dict(zip(self._sessions[0].input_names, key[0], strict=True))
        runtime = Runtime.over(self._sessions, shapes=inputs, output_shapes=outputs, **self._options)
        self.counters.misses += 1
        if len(self._buckets) >= self.max_buckets:
            self._forget(next(iter(self._buckets.values())))
            self.counters.evictions += 1
        bucket = self._buckets[key] = Bucket(inputs, outputs, runtime, key)
        return bucket

    def _key(self, shapes: ShapesLike, output_shapes: ShapesLike) -> Key:
        self._check_open()
        session = self._sessions[0]
        shapes = with_shapes(shapes, self._options.get("inputs"), session.inputs, "input")
        state = self._options.get("state")
        if state is not None:
            shapes = state_layout.resolve(session, as_ports(state), shapes, output_shapes).shapes
        inputs = tuple(lane_shapes.input_shapes(session.inputs, shapes))
        outputs = lane_shapes.by_name(output_shapes, session.outputs, "output")
        return inputs, tuple(outputs.get(name) for name in session.output_names)

    def _forget(self, bucket: Bucket) -> None:
        # In this order: after an interrupt no spelling maps to an evicted bucket.
        self._spellings.clear()
        del self._buckets[bucket.key]

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("this DynamicRuntime is closed")

    @_alone
    def prebuild(self, specs: Iterable[Spec]) -> None:
        """Makes the buckets for these shapes now; a spec is input shapes, or a pair of input and output shapes.

        Raises `ArgumentError` and makes no bucket if there are more different shapes than `max_buckets`.
        """
        self._prebuilt(specs)

    def _prebuilt(self, specs: Iterable[Spec]) -> list[Bucket]:
        require_type(specs, Iterable, "specs", "a list of shapes")
        pairs = [_pair(spec) for spec in specs]
        different = {self._key(*pair) for pair in pairs}
        if len(different) > self.max_buckets:
            raise ArgumentError(f"{len(different)} different shapes do not fit into max_buckets={self.max_buckets}")
        for key in different & self._buckets.keys():
            # Mark them as recently used, so that none of them is evicted for another.
            self._buckets.move_to_end(key)
        return [self._find(*pair) for pair in pairs]

    @_alone
    def warm(self, specs: Iterable[Spec], runs: int = 1) -> None:
        """Makes the buckets like `prebuild`, and runs each of their lanes `runs` times."""
        for bucket in self._prebuilt(specs):
            bucket.runtime.prime(runs)

    @_alone
    def prime(self, runs: int = 1) -> None:
        """Runs every lane of every bucket `runs` times."""
        for bucket in self._buckets.values():
            bucket.runtime.prime(runs)

    @_alone
    def audit(self) -> dict[Bucket, tuple[LaneAudit, ...]]:
        """The `Lane.audit` of every lane, by bucket; the least recently used bucket is first."""
        return {bucket: bucket.runtime.audit() for bucket in self._buckets.values()}

    @property
    @_alone
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets, the least recently used first."""
        return tuple(self._buckets.values())

    @_alone
    def remove(self, shapes: ShapesLike, output_shapes: ShapesLike = None) -> bool:
        """Drops the bucket for these shapes; returns whether there was one. Lanes that the caller holds stay usable."""
        bucket = self._buckets.get(self._key(shapes, output_shapes))
        if bucket is not None:
            self._forget(bucket)
        return bucket is not None

    @_alone
    def clear(self) -> None:
        """Drops every bucket. Lanes that the caller holds stay usable."""
        self._drop()

    def _drop(self) -> None:
        self._spellings.clear()
        self._buckets.clear()

    def close(self) -> None:
        """Releases every bucket and the sessions. Lanes that the caller holds stay usable; closing twice is fine."""
        if not self.closed:
            claimed(self._busy, "DynamicRuntime", self._close)

    def _close(self) -> None:
        # In one claim, so that no other thread adds a bucket in between; and before the sessions, since a look-up
        # that hits does not check whether the runtime is open.
        self._drop()
        self._sessions = ()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        try:
            return not self._sessions
        except ClosedError:
            # The constructor did not finish.
            return True

    def __len__(self) -> int:
        return len(self._buckets)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _spelling(shapes: Any) -> tuple[Any, ...]:
    """Shapes as the caller wrote them, as a key; a None in front marks a sequence."""
    if shapes is None:
        return ()
    return tuple(shapes.items()) if isinstance(shapes, Mapping) else (None, *shapes)


def _is_constant(shapes: Any) -> bool:
    """Whether a spelling always means the same shapes: a mutable object's does not."""
    each = shapes.values() if isinstance(shapes, Mapping) else shapes or ()
    return all(isinstance(shape, (tuple, int)) for shape in each)


def _pair(spec: Spec) -> tuple[ShapesLike, ShapesLike]:
    if not isinstance(spec, tuple):
        return spec, None
    if len(spec) != 2:
        raise wrong_type("specs", "shapes or a pair of input and output shapes", spec)
    return spec
