"""`DynamicRuntime`: a bucket of lanes for each concrete shape, kept in the order of their use."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from zrt._common.arguments import integer, wrong_type
from zrt._common.public import public
from zrt._native.busy import claimed, new_flag
from zrt._native.handle import Single
from zrt.errors import ArgumentError, ClosedError
from zrt.lanes import lane_sessions, lane_shapes
from zrt.lanes.lane import Lane
from zrt.lanes.lane_options import LaneOptions, check_names
from zrt.lanes.lane_sessions import Factory
from zrt.lanes.lane_shapes import ShapesLike
from zrt.lanes.runtime import Runtime, pick
from zrt.loading import model_source
from zrt.loading.session_options import SessionOptions
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session
from zrt.values.symbolic_shapes import Shape

Spec: TypeAlias = "ShapesLike | tuple[ShapesLike, ShapesLike]"
Key: TypeAlias = "tuple[tuple[Shape, ...], tuple[Shape | None, ...]]"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(slots=True)
class Bucket:
    """The lanes for one set of shapes."""

    shapes: dict[str, Shape]
    """The inputs' shapes."""
    output_shapes: dict[str, Shape]
    """The outputs' shapes that were given."""
    runtime: Runtime
    key: Key = field(repr=False)
    spellings: list[Any] = field(default_factory=list, repr=False)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes; each belongs to one thread at a time."""
        return self.runtime.lanes


@dataclass(slots=True)
class Counters:
    """How often a `DynamicRuntime` found a bucket, made one, and let one go to make room."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0


@public
class DynamicRuntime(Single):
    """Lanes for models whose shapes vary: each set of input shapes (and given output shapes) has its bucket.

    A bucket is made at its first use, with `lanes` lanes, or beforehand by `prebuild` and `warm`. There are at most
    `max_buckets`; the one that was not used for longest goes first, and a lane of it that is still held stays
    usable. `lane_options` are the keyword arguments of `Lane`, without the shapes.

    One thread owns it: a call while another thread's is under way raises `BusyError`. The lanes that it hands out
    may run in any thread.
    """

    __slots__ = (
        "__weakref__",
        "_buckets",
        "_busy",
        "_options",
        "_sessions",
        "_spellings",
        "counters",
        "max_buckets",
    )

    counters: Counters
    """Hits, misses and evictions so far."""

    def __init__(
        self, session: Session, lanes: int = 1, *, max_buckets: int = 16, **lane_options: Unpack[LaneOptions]
    ) -> None:
        self._build(lambda: lane_sessions.shared(session, lanes), max_buckets, lane_options)

    @classmethod
    def replicate(
        cls,
        model: model_source.Model,
        lanes: int = 1,
        options: SessionOptions | None = None,
        providers: ProvidersLike = None,
        *,
        share_weights: bool = False,
        external_data_dir: str | os.PathLike[str] | None = None,
        strict: bool = False,
        allow: Iterable[str] = (),
        max_buckets: int = 16,
        **lane_options: Unpack[LaneOptions],
    ) -> Self:
        """A session of its own for each lane; `share_weights=True` keeps the weights in memory once."""
        return cls._made(
            lambda: lane_sessions.replicated(
                model, lanes, options, providers, share_weights, external_data_dir, strict, allow
            ),
            max_buckets,
            lane_options,
        )

    @classmethod
    def from_factory(
        cls, factory: Factory, lanes: int = 1, *, max_buckets: int = 16, **lane_options: Unpack[LaneOptions]
    ) -> Self:
        """Lanes over the sessions that ``factory(index)`` returns, for each index below `lanes`."""
        return cls._made(lambda: lane_sessions.made(factory, lanes), max_buckets, lane_options)

    @classmethod
    def _made(cls, make_sessions: Callable[[], Sequence[Session]], max_buckets: int, lane_options: LaneOptions) -> Self:
        runtime = cls.__new__(cls)
        runtime._build(make_sessions, max_buckets, lane_options)
        return runtime

    def _build(
        self, make_sessions: Callable[[], Sequence[Session]], max_buckets: int, lane_options: LaneOptions
    ) -> None:
        for name in ("shapes", "output_shapes"):
            if name in lane_options:
                raise ArgumentError(f"{name}: a DynamicRuntime takes shapes when it hands out lanes")
        check_names(lane_options, LaneOptions, type(self))
        self.max_buckets = integer(max_buckets, "max_buckets", 1)
        self.counters = Counters()
        self._sessions: tuple[Session, ...] = tuple(make_sessions())
        self._options = lane_options
        self._buckets: OrderedDict[Key, Bucket] = OrderedDict()
        # The same shapes may be written in several ways; each that was seen leads straight to its bucket.
        self._spellings: dict[Any, Bucket] = {}
        self._busy = new_flag()

    def lane(self, shapes: ShapesLike, index: int = 0, output_shapes: ShapesLike = None) -> Lane:
        """A lane for these shapes: a dictionary's look-up where they were seen before."""
        bucket = claimed(self._busy, "DynamicRuntime", self._bucket, shapes, output_shapes)
        return pick(bucket.runtime.lanes, index)

    def _bucket(self, shapes: ShapesLike, output_shapes: ShapesLike) -> Bucket:
        try:
            spelling = _spelling(shapes), _spelling(output_shapes)
            bucket = self._spellings.get(spelling)
        except TypeError:
            # Spelled with lists, which are no keys: the long way each time.
            return self._find(shapes, output_shapes)
        if bucket is not None:
            self._buckets.move_to_end(bucket.key)
            self.counters.hits += 1
            return bucket
        bucket = self._find(shapes, output_shapes)
        if _lasts(shapes) and _lasts(output_shapes):
            # In this order (here, and where buckets go) an interrupt leaves no spelling of a bucket that is gone.
            bucket.spellings.append(spelling)
            self._spellings[spelling] = bucket
        return bucket

    def _find(self, shapes: ShapesLike, output_shapes: ShapesLike) -> Bucket:
        """The bucket for shapes in any spelling, made where there is none."""
        key = self._key(shapes, output_shapes)
        bucket = self._buckets.get(key)
        if bucket is not None:
            self._buckets.move_to_end(key)
            self.counters.hits += 1
            return bucket
        given = dict(zip(self._sessions[0].output_names, key[1], strict=True))
        outputs = {name: shape for name, shape in given.items() if shape is not None}
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
        inputs = tuple(lane_shapes.input_shapes(session, shapes))
        outputs = lane_shapes.by_name(output_shapes, session.outputs, "output")
        return inputs, tuple(outputs.get(name) for name in session.output_names)

    def _forget(self, bucket: Bucket) -> None:
        for spelling in bucket.spellings:
            self._spellings.pop(spelling, None)
        del self._buckets[bucket.key]

    def _owned(
        self, work: Callable[Parameters, Result], *arguments: Parameters.args, **keywords: Parameters.kwargs
    ) -> Result:
        """`work` with other threads kept out."""

        def while_open() -> Result:
            self._check_open()
            return work(*arguments, **keywords)

        return claimed(self._busy, "DynamicRuntime", while_open)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("this DynamicRuntime is closed")

    def prebuild(self, specs: Iterable[Spec]) -> None:
        """Makes the buckets for these shapes now; a spec is input shapes, or a pair of input and output shapes.

        More different shapes than `max_buckets` are an `ArgumentError`, and then nothing is made.
        """
        self._owned(self._prebuild, specs)

    def _prebuild(self, specs: Iterable[Spec]) -> list[Bucket]:
        if not isinstance(specs, Iterable):
            raise wrong_type("specs", "a list of shapes", specs)
        pairs = [_pair(spec) for spec in specs]
        different = {self._key(*pair) for pair in pairs}
        if len(different) > self.max_buckets:
            raise ArgumentError(f"{len(different)} different shapes do not fit into max_buckets={self.max_buckets}")
        for key in different & self._buckets.keys():
            # In use from now on, so that none of them goes to make room for another.
            self._buckets.move_to_end(key)
        return [self._find(*pair) for pair in pairs]

    def warm(self, specs: Iterable[Spec], runs: int = 1) -> None:
        """`prebuild`, and `runs` runs of every lane of these buckets."""
        self._owned(self._warm, specs, runs)

    def _warm(self, specs: Iterable[Spec], runs: int) -> None:
        for bucket in self._prebuild(specs):
            bucket.runtime.prime(runs)

    def prime(self, runs: int = 1) -> None:
        """Runs every lane of every bucket `runs` times."""
        self._owned(self._prime, runs)

    def _prime(self, runs: int) -> None:
        for bucket in self._buckets.values():
            bucket.runtime.prime(runs)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets, the one that goes next first."""
        return self._owned(tuple[Bucket, ...], self._buckets.values())

    def remove(self, shapes: ShapesLike, output_shapes: ShapesLike = None) -> bool:
        """Lets the bucket for these shapes go; whether there was one. Lanes that are held stay usable."""
        return self._owned(self._remove, shapes, output_shapes)

    def _remove(self, shapes: ShapesLike, output_shapes: ShapesLike) -> bool:
        bucket = self._buckets.get(self._key(shapes, output_shapes))
        if bucket is None:
            return False
        self._forget(bucket)
        return True

    def clear(self) -> None:
        """Lets every bucket go. Lanes that are held stay usable."""
        self._owned(self._clear)

    def _clear(self) -> None:
        self._spellings.clear()
        self._buckets.clear()

    def close(self) -> None:
        """Lets every bucket and the sessions go; lanes that are held stay usable, and closing twice is fine."""
        if not self.closed:
            claimed(self._busy, "DynamicRuntime", self._close)

    def _close(self) -> None:
        # In one claim, so that no other thread's bucket comes between; before the sessions go, since a look-up that
        # finds its bucket asks for nothing else.
        self._clear()
        self._sessions = ()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._sessions

    def __len__(self) -> int:
        return len(self._buckets)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _spelling(shapes: Any) -> tuple[Any, ...]:
    """Shapes as they were written, as a key; a sequence is told from a dict by the None in front."""
    if shapes is None:
        return ()
    return tuple(shapes.items()) if isinstance(shapes, Mapping) else (None, *shapes)


def _lasts(shapes: Any) -> bool:
    """Whether a spelling means the same shapes for ever: that of an object that may change does not."""
    each = shapes.values() if isinstance(shapes, Mapping) else shapes or ()
    return all(isinstance(shape, (tuple, int)) for shape in each)


def _pair(spec: Spec) -> tuple[ShapesLike, ShapesLike]:
    if not isinstance(spec, tuple):
        return spec, None
    if len(spec) != 2:
        raise wrong_type("specs", "shapes or a pair of input and output shapes", spec)
    return spec
