"""`Session`: a model loaded into ONNX Runtime; `infer`: one that is loaded, run once and released."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Unpack, overload

from zrt._common.arguments import absolute, entries, integer, texts
from zrt._common.public import not_made, public
from zrt._native import status
from zrt._native.cdata import address_of, release, strings
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt._native.session_handle import SessionHandle
from zrt.errors import ArgumentError, ModelError, NotCopyableError, UnsupportedError
from zrt.loading import model_source
from zrt.loading.load import load_model, prepare_options, require_current
from zrt.loading.model_source import Model
from zrt.loading.run_options import RunOptions
from zrt.loading.session_options import SessionOptions, cache_by_variable
from zrt.memory.allocators import CPU, Allocator, MemoryInfo
from zrt.providers.default_selection import DefaultSelection, parse
from zrt.session import async_runs
from zrt.session.call import CALLS_SETTLED, Call, Result, end_of, find_call, kept, known, limits, run_feeds
from zrt.session.feeds import Feeds, by_name, need_values, right_array
from zrt.session.outputs import checked_names, general_shapes, resolved
from zrt.values import symbolic_shapes
from zrt.values.type_info import ValueInfo, read_session

if TYPE_CHECKING:
    from concurrent.futures import Future

    from zrt.diagnosis.recorder import Recorder
    from zrt.lanes.lane import Lane
    from zrt.lanes.lane_options import LaneOptions
    from zrt.lanes.lane_shapes import ShapesLike
    from zrt.lanes.state_ports import StateLike
    from zrt.lanes.stateful_lane import StatefulLane
    from zrt.providers.selection import ProvidersLike
    from zrt.session.io_binding import IoBinding
    from zrt.session.placement import Placement
    from zrt.session.prepared_run import PreparedRun
    from zrt.session.profile import Profile
    from zrt.values.model_metadata import ModelMetadata
    from zrt.values.value import Value

# The attributes that the model's types fill.
_TYPES = frozenset(("initializers", "input_names", "inputs", "output_names", "outputs"))

REPLAYS = "this session captures graphs and replays them over the memory of the first run: run it with lanes"


@public
class Session(Owner):
    """A model, loaded and ready to run (``OrtSession``).

    `model` is a path, the model's bytes, or an ``onnx.ModelProto``. ONNX Runtime looks for external weights beside the
    path, or in `external_data_dir`.

    `providers` lists where the model may run, best first: providers (see `zrt.providers`) and devices (`EpDevice`,
    alone or with a dict of options). It may also be a `DevicePolicy`, or a function that takes the devices and the
    model's metadata and returns the devices to use. The CPU execution provider is always added as the last one. With
    `strict` the session raises `ProviderError` if a node would fall back to the CPU although another provider was
    requested; `allow` exempts operators ("Shape", "com.microsoft::FusedMatMul"). An optimized or compiled model whose
    source has changed, or that another ONNX Runtime made, brings a warning, and with `strict` a `ModelError`.

    The types of the model's inputs and outputs are read at their first use. A session is thread-safe. `close` (or the
    end of a ``with``) releases it as soon as its last run and lane end.

    Raises `ModelNotFoundError`, `ModelError` or the exception for ONNX Runtime's own error, with the model's name.
    """

    __slots__ = (
        "_calls",
        "_captures",
        "_distrusted",
        "_metadata",
        "_opsets",
        "_recipe",
        "cache",
        "initializers",
        "input_names",
        "inputs",
        "output_names",
        "outputs",
        "providers",
    )

    _handle: SessionHandle | None
    inputs: tuple[ValueInfo, ...]
    """The inputs that a run must feed, in the model's order."""
    outputs: tuple[ValueInfo, ...]
    """The outputs that a run computes, in the model's order."""
    input_names: tuple[str, ...]
    """The inputs' names, in the model's order."""
    output_names: tuple[str, ...]
    """The outputs' names, in the model's order."""
    initializers: tuple[ValueInfo, ...]
    """Weights that a run may override by feeding them."""
    providers: tuple[str, ...]
    """The full names of the providers that the session may use, best first; with a policy, of those that it uses."""
    cache: str | None
    """The part of the cache (`SessionOptions.cache`) in the load: "hit", "miss", or why it had none; None without."""

    def __init__(
        self,
        model: Model,
        options: SessionOptions | None = None,
        providers: ProvidersLike = None,
        *,
        external_data_dir: str | os.PathLike[str] | None = None,
        strict: bool = False,
        allow: Iterable[str] = (),
    ) -> None:
        self._handle = None
        with model_source.Source(model) as source:
            selection = parse(providers)
            strictness = None
            if strict is not False or allow != ():
                from zrt.providers.node_assignment import Strictness

                strictness = Strictness.of(strict, allow, selection.asked())

            def load(
                source: model_source.Source,
                options: SessionOptions | None,
                external_data_dir: str | os.PathLike[str] | None,
            ) -> SessionHandle:
                settings = prepare_options(options, selection, external_data_dir, shared=strictness is None)
                if strictness is not None:
                    strictness.record(settings)
                with selection.loading(settings) as load_options:
                    handle: SessionHandle = load_model(source, settings, options)
                    if load_options is not settings:
                        handle = handle.holding(load_options)
                if strictness is not None:
                    try:
                        strictness.check(handle, source.subject)
                    except BaseException:
                        # The error's traceback keeps the handle.
                        release(handle.reference)
                        raise
                return handle

            if cache_by_variable() or (isinstance(options, SessionOptions) and options.cache is not None):
                # Deferred: a load without a cache does not wait for it.
                from zrt.session import cached_load

                handle, cache = cached_load.load(model, source, options, external_data_dir, selection, load)
            else:
                handle, cache = load(source, options, external_data_dir), None
            try:
                require_current(handle, source, strictness is not None)
            except BaseException:
                # An error, or a warning that a filter made one: its traceback keeps the handle.
                release(handle.reference)
                raise
            opsets = source.opsets()
        if external_data_dir is not None:
            external_data_dir = absolute(os.fsdecode(external_data_dir))
        recipe = None if source.absolute is None else (source.absolute, options, selection, external_data_dir)
        self._adopt(handle, selection, opsets, recipe, cache)

    @classmethod
    def _owning(cls, handle: SessionHandle, selection: ProvidersLike) -> Session:
        """A session that owns an ``OrtSession``, which another module of zrt loaded on the `selection` providers."""
        session = cls.__new__(cls)
        session._handle = None
        session._adopt(handle, parse(selection))
        return session

    def _adopt(
        self,
        handle: SessionHandle,
        selection: DefaultSelection,
        opsets: Callable[[], dict[str, int]] = dict,
        recipe: Any = None,
        cache: str | None = None,
    ) -> None:
        """Takes ownership of a loaded ``OrtSession``; a model from a file has a `recipe`, the arguments of the load."""
        self.cache = cache
        self._metadata: ModelMetadata | None = None
        self._opsets = opsets
        self._recipe = recipe
        self.providers = selection.all_names(handle)
        self._captures = selection.captures
        # The address of each call and the call, as the builtins of `call` take them, in the order that `kept` gives.
        self._calls: tuple[Any, ...] = ()
        self._distrusted: set[str] = set()
        self._handle = handle

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Reads the model's types at the first use of one of their attributes, whose slots are empty until then."""
            handle = self._handle if name in _TYPES else None
            if handle is not None:
                self.inputs, self.outputs, self.initializers = read_session(handle.pointer)
                self.input_names = tuple([info.name for info in self.inputs])
                self.output_names = tuple([info.name for info in self.outputs])
            # Without a handle, another thread may have read them before it closed the session.
            try:
                return super().__getattribute__(name)
            except AttributeError:
                if name == "_handle" or name in Session.__slots__:
                    raise not_made(self) from None
                raise

    @property
    def metadata(self) -> ModelMetadata:
        """The metadata that the model's author wrote into it."""
        if self._metadata is None:
            handle = self._handle
            # `close` reads it before it drops the handle.
            if handle is not None:
                from zrt.values.model_metadata import read_metadata

                self._metadata = read_metadata(handle.pointer, self._opsets)
        return self._metadata  # type: ignore[return-value]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotCopyableError(
            "each Session stands for one thing in ONNX Runtime: no copy, no pickle; zrt.SessionSpec is its recipe, to "
            "be sent to another process and loaded there"
        )

    def _open(self) -> SessionHandle:
        handle: SessionHandle = super()._open()  # type: ignore[assignment]  # `load` makes them
        handle.check()
        return handle

    def close(self) -> None:
        """Closes the session; its lanes and the runs in progress are not affected."""
        if not self.closed:
            # These stay readable.
            _ = self.metadata, self.inputs
        super().close()
        # Prepared calls keep the OrtSession alive too, and the options may hold weights.
        self._calls = ()
        self._recipe = None

    def run(
        self,
        feeds: Feeds,
        outputs: Sequence[str] | None = None,
        options: RunOptions | None = None,
        timeout: float | None = None,
    ) -> list[Result]:
        """One inference; returns a fresh array for each output.

        `feeds` are arrays by name, or a list in the model's order. Strings are fed as an array of `str`, sequences as
        a list, maps as a dict, sparse tensors as a `SparseTensor` or SciPy's, an absent optional as None. A feed may
        also be a tensor of another library (see `from_dlpack`), or a `Value` of any kind. An array that is strided,
        byte-swapped or misaligned is copied first, as are strings and maps; arrays of ml_dtypes' 4- and 2-bit types
        are packed. An array of another type than the model's raises `DTypeError`. `outputs` names the outputs to
        compute; None means all. `options` (`RunOptions`) tags the run and can terminate it from another thread.

        With a `timeout` in seconds the run ends as soon as the operator is done during which the time passes, and
        raises `TimeoutError`. Ctrl-C in the main thread ends such a run in the same way.

        If the shapes of the feeds determine an output's shape, ORT writes straight into the returned array. Otherwise
        the array is a view of ORT's memory and keeps that alive. Strings are returned as an array of objects,
        sequences as a list, maps as a dict, sparse tensors as a `SparseTensor`, an absent optional as None, packed
        types as a `Value`.
        """
        if options is None and timeout is None:
            answer, end = run_feeds(self._calls, feeds, outputs), 0
        else:
            limit = limits(options, end_of(timeout), self._open())
            end = limit.end
            answer = run_feeds(self._calls, feeds, outputs, address_of(limit.options), end)
        if type(answer) is list:
            return answer
        if answer is not None:
            code, results, call = answer
            if call.settle(code, results):
                return results
            # The calls of other shapes trust the declaration too.
            self._calls = ()
        # No call fits these feeds, or ORT has to allocate more of the outputs: see `Call.settle`.
        self._check_replay(options)
        return Call.run(*self._checked(feeds, outputs), options, end)

    def _check_replay(self, options: RunOptions | None) -> None:
        """Raises if the session captures graphs: a replay would ignore the memory of this run's feeds."""
        if self._captures and not (isinstance(options, RunOptions) and options.gpu_graph_id == -1):
            raise UnsupportedError(f"{REPLAYS}; RunOptions(gpu_graph_id=-1) runs without")

    def _checked(self, feeds: Feeds, outputs: Sequence[str] | None) -> tuple[Call, Any, list[Handle] | None]:
        """A call and its inputs for `Call.run`: converts the feeds or raises a precise error."""
        wanted = checked_names(outputs, self.output_names)
        fed = by_name(feeds, self.inputs, self.initializers)
        if need_values(fed):
            # Deferred: the modules of values take some 3 ms, and most processes run over arrays alone.
            from zrt.session.value_feeds import over_values, value_of

            return over_values(self, fed, [value_of(info, feed) for info, feed in fed], wanted)
        arrays = {info.name: right_array(info, feed) for info, feed in fed}
        shapes = [(info, arrays[info.name].shape) for info, _ in fed]
        return self._general_call(shapes, wanted) or self._call(shapes, wanted), arrays, None

    def run_values(
        self,
        feeds: Mapping[str, Value],
        outputs: Sequence[str] | None = None,
        options: RunOptions | None = None,
        timeout: float | None = None,
    ) -> list[Value | None]:
        """One inference over values of any kind by name; returns a `Value` for each output.

        Nothing is converted, and ORT allocates every output; an absent optional is None. ORT itself checks the names,
        the types and the shapes, and raises its own errors. An input that is not fed is absent. `outputs` may name an
        output twice.
        """
        from zrt.session.value_feeds import prepare

        self._check_replay(options)
        end = end_of(timeout)
        return Call.run(*prepare(self, feeds, outputs), options, end)

    async def run_async(
        self,
        feeds: Feeds,
        outputs: Sequence[str] | None = None,
        options: RunOptions | None = None,
        timeout: float | None = None,
    ) -> list[Result]:
        """`run` for asyncio: the event loop continues during the run.

        Arguments, results and errors are those of `run`. ORT reads the feeds until the run ends. Cancelling the waiting
        task ends the run as soon as the current operator is done. `timeout` counts from the start of the coroutine,
        also while the run waits for a thread. Runs are on a few threads of zrt's, at most one for each CPU that the
        process may use.
        """
        end = end_of(timeout)
        return await async_runs.wait(self._ready(feeds, outputs, options), options, end)

    def submit(
        self,
        feeds: Feeds,
        outputs: Sequence[str] | None = None,
        options: RunOptions | None = None,
        timeout: float | None = None,
    ) -> Future[list[Result]]:
        """`run_async` for threads: starts a run and returns its ``concurrent.futures.Future``.

        Wrong arguments raise here; the future raises the errors of the run. `cancel` cancels the future at once, and
        ends the run as soon as the current operator is done. `timeout` counts from this call. A future may be dropped:
        its run continues to the end. The thread of the run calls the callbacks, so they should be short.
        """
        end = end_of(timeout)
        return async_runs.submit(self._ready(feeds, outputs, options), options, end)

    def submit_values(
        self,
        feeds: Mapping[str, Value],
        outputs: Sequence[str] | None = None,
        options: RunOptions | None = None,
        timeout: float | None = None,
    ) -> Future[list[Value | None]]:
        """`run_values` as a future, as `submit` is for `run`."""
        from zrt.session.value_feeds import ready

        end = end_of(timeout)
        return async_runs.submit(ready(self, feeds, outputs, options), options, end)

    def _ready(self, feeds: Feeds, outputs: Sequence[str] | None, options: RunOptions | None) -> async_runs.Work:
        """A run whose feeds are checked, for another thread."""
        session = self._open()
        if options is not None or self._captures:
            self._check_replay(options)
            RunOptions.opened(options, session)
        call = find_call(self._calls, feeds, outputs)
        # Strings are copied now, so that wrong ones raise here.
        if call is None or call.has_text:
            return partial(Call.run, *self._checked(feeds, outputs))
        # A copy, since the caller may put other arrays into the dict or the list.
        return partial(call.run, dict(feeds) if isinstance(feeds, Mapping) else list(feeds), None)

    def _call(self, inputs: symbolic_shapes.Inputs, wanted: tuple[str, ...] | None) -> Call:
        """The prepared call for these inputs and outputs: that of an earlier run, or a new one."""
        key = wanted, tuple((info.name, shape) for info, shape in inputs)
        call = known(self._calls, key)
        if call is None:
            outputs = resolved(self.outputs, wanted or self.output_names, inputs, self._distrusted)
            call = Call(key, self._open(), inputs, outputs, self.input_names, wanted, self._distrusted)
            self._remember(call)
            self._general_call(inputs, wanted)  # for later runs over strings, which come here only until it exists
        return call

    def _general_call(self, inputs: symbolic_shapes.Inputs, wanted: tuple[str, ...] | None) -> Call | None:
        """The call for all other shapes of these inputs, once `CALLS_SETTLED` have one of their own; else None."""
        settled = sum(not call.general and call.key[0] == wanted for call in self._calls[1::2])
        if settled < CALLS_SETTLED or not symbolic_shapes.agree(inputs):
            return None
        key = wanted, tuple(info.name for info, _ in inputs)
        call = known(self._calls, key)
        outputs = wanted or self.output_names
        if call is None and (shapes := general_shapes(self.outputs, outputs, inputs, self._distrusted)):
            call = Call(key, self._open(), *shapes, self.input_names, wanted, self._distrusted, general=True)
            self._remember(call)
        return call

    def _remember(self, call: Call) -> None:
        """Keeps a call for later runs. A session that captures graphs keeps none: each of its runs is checked."""
        if not self._captures:
            self._calls = kept(call, self._calls)
        handle = self._handle
        if handle is None:
            # Another thread closed the session meanwhile: the call must not keep the OrtSession alive.
            self.close()
        elif call.handle.pointer.api != handle.table.pointer:
            # Another thread began to record meanwhile: the call is of the table of before.
            self._calls = ()

    def prepare(self, feeds: Feeds) -> PreparedRun:
        """A run that borrows these feeds in place: each run reads their current content.

        A feed that would need a copy raises `ArgumentError`, `DTypeError` or, as texts do, `UnsupportedError`.
        """
        from zrt.session.prepared_run import PreparedRun
        from zrt.session.value_feeds import over_values, right_value

        if self._captures:
            raise UnsupportedError(REPLAYS)
        fed = by_name(feeds, self.inputs, self.initializers)
        return PreparedRun(*over_values(self, fed, [right_value(info, feed) for info, feed in fed], None))

    def allocator(self, memory: MemoryInfo = CPU) -> Allocator:
        """The session's allocator for a memory, by default that of the CPU."""
        return Allocator(self, memory)

    @overload
    def lane(
        self, shapes: ShapesLike = None, output_shapes: ShapesLike = None, **options: Unpack[LaneOptions]
    ) -> Lane: ...

    @overload
    def lane(
        self,
        shapes: ShapesLike = None,
        output_shapes: ShapesLike = None,
        *,
        state: StateLike,
        **options: Unpack[LaneOptions],
    ) -> StatefulLane: ...

    def lane(
        self,
        shapes: ShapesLike = None,
        output_shapes: ShapesLike = None,
        *,
        state: StateLike | None = None,
        **options: Unpack[LaneOptions],
    ) -> Lane:
        """A `Lane` of this session, or with `state` a `StatefulLane`; the arguments are those of `Lane`."""
        if state is not None:
            from zrt.lanes.stateful_lane import StatefulLane

            return StatefulLane(self, shapes, output_shapes, state=state, **options)
        from zrt.lanes.lane import Lane

        return Lane(self, shapes, output_shapes, **options)

    def tap(self, names: Sequence[str]) -> Session:
        """Another session of the model, in which intermediate values are outputs too, behind the model's own.

        `names` are those of values in the graph. The model is read from its file once more, with the options of this
        session, but for those about files to write, the cache and bounds of memory. The optimizer does not fuse values
        that are outputs away, so runs may take longer, and results may be rounded differently.

        Raises `UnknownNameError` for a name that the graph does not have, `UnsupportedError` if the model came from
        memory, and `ModelError` if the file has another model by now.
        """
        from zrt.graph.editing import tapped

        recipe = self._recipe
        self._open()
        listed = texts(names, "names", "a list of names", Sequence)
        if recipe is None:
            raise UnsupportedError("tap: this session's model came from memory; zrt.edit(model) adds outputs to it")
        path, *rest = recipe
        session = tapped(path, listed, *rest)
        if (session.inputs, session.outputs[: len(self.outputs)]) != (self.inputs, self.outputs):
            session.close()
            raise ModelError(f"tap: the file {path!r} has another model by now")
        return session

    def record(
        self,
        keep: int = 1000,
        *,
        capsules: str | os.PathLike[str] | None = None,
        slower_than: float | None = None,
        times_median: int | None = None,
        feeds: bool = False,
    ) -> Recorder:
        """Records the runs from now on: a `Recorder` keeps the last `keep` of them.

        With a folder for `capsules`, each run that fails leaves a file there with all that is needed to repeat it
        (`zrt.replay`); so does one that takes longer than `slower_than` seconds, or than `times_median` times the
        median after 100 runs. The feeds are in it only with `feeds`, as they may be private. The newest 16 capsules of
        a recorder stay.

        Raises `ArgumentError` if the session is recorded already.
        """
        from zrt.diagnosis.recorder import Recorder

        return Recorder(self, keep, capsules, slower_than, times_median, feeds)

    def binding(self) -> IoBinding:
        """An empty `IoBinding` of this session."""
        from zrt.session.io_binding import IoBinding

        return IoBinding(self)

    def placement(self) -> Placement:
        """The memory of each input and output, and with `SessionOptions.record_placement` the provider of each node."""
        from zrt.session import placement

        return placement.read(self._open(), self.inputs, self.outputs, self.providers)

    def set_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Sets provider options between runs, for example ``ep.dynamic.workload_type`` to "Default" or "Efficient".

        A provider may raise for an option; the providers inside ONNX Runtime mostly ignore options they do not know.
        """
        handle = self._open()
        pairs = entries(options, "dynamic options")
        if not pairs:
            raise ArgumentError("dynamic options: there are none")
        keys, values = map(strings, zip(*pairs, strict=True))
        status.check(api().SetEpDynamicOptions(handle.pointer, keys, values, len(pairs)))

    def release_captured_graph(self, graph_id: int = 0) -> None:
        """Releases a graph that a run with `RunOptions.gpu_graph_id` captured; the next such run captures it again.

        Raises `UnsupportedError` on the CPU execution provider, which captures no graphs. Other providers ignore an
        unknown `graph_id`.
        """
        handle = self._open()
        integer(graph_id, "graph_id")
        if len(self.providers) == 1:
            raise UnsupportedError(f"no graph is captured on {self.providers[0]}")
        status.check(api().SessionReleaseCapturedGraph(handle.pointer, graph_id))

    def end_profiling(self) -> str:
        """Ends the profiling that `SessionOptions.profile_file_prefix` began; returns the trace's path.

        The path is "" if the session is not profiled. Raises `FileError` if ONNX Runtime could not write the trace.
        """
        from zrt.session import profile

        return profile.end(self._open())

    @property
    def profiling_start_ns(self) -> int:
        """The start of a profiled session's trace in nanoseconds, also after `end_profiling`; else 0.

        The clock is the finest of the C++ library: of GNU's, as in the official library for Linux, `time.time_ns`.
        """
        handle = self._open()
        return int(status.fetch(api().SessionGetProfilingStartTimeNs, "uint64_t", handle.pointer))

    def profile(self, feeds: Feeds, runs: int = 10, warmup: int = 2) -> Profile:
        """A `Profile` of `runs` runs over the same feeds, after `warmup` runs that are not profiled.

        Each run has its own trace, in a temporary folder. The profiler's own cost is in the times between the runs, and
        in the time of each node. Raises `UnsupportedError` if the session is profiled as a whole, and `FileError` if a
        trace cannot be written.
        """
        from zrt.session.profile import of_runs

        return of_runs(self, feeds, runs, warmup)

    def __repr__(self) -> str:
        if self._handle is None:
            return "Session(closed)"
        inputs, outputs = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"Session({inputs} -> {outputs}; {', '.join(self.providers)})"


@public
def infer(
    model: Model,
    feeds: Feeds,
    outputs: Sequence[str] | None = None,
    options: SessionOptions | None = None,
    providers: ProvidersLike = None,
    *,
    external_data_dir: str | os.PathLike[str] | None = None,
    strict: bool = False,
    allow: Iterable[str] = (),
) -> list[Result]:
    """Loads a model, runs it once and releases it: `Session` and `Session.run` in one."""
    with Session(model, options, providers, external_data_dir=external_data_dir, strict=strict, allow=allow) as session:
        return session.run(feeds, outputs)
