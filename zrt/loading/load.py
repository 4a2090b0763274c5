"""The load of a model: its ``OrtSessionOptions``, its weights, its ``OrtSession``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any

from zrt._common.arguments import path_bytes, require_type
from zrt._common.config_keys import SessionConfigKey
from zrt._native import ffi, lib, ort_messages, status
from zrt._native.callback_errors import Load
from zrt._native.cdata import release, sizeof
from zrt._native.handle import Handle
from zrt._native.library import api, library, load_api
from zrt._native.session_handle import SessionHandle
from zrt.environment import cpu_budget
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import (
    AllocationError,
    ArgumentError,
    CallbackError,
    Error,
    ModelError,
    ModelNotFoundError,
    NotImplementedByOrtError,
)
from zrt.loading.model_source import EXTERNAL_DATA_DIR, Source
from zrt.loading.session_options import LoadCancellation, SessionOptions
from zrt.memory.allocators import default_allocator, take_string
from zrt.providers.default_selection import DefaultSelection, parse
from zrt.types import ExecutionMode, GraphOptimizationLevel, LogSeverity

if TYPE_CHECKING:
    from zrt.providers.selection import ProvidersLike

# With this entry a session reads a model in ORT's own format from the caller's bytes for as long as it lives.
BYTES_IN_USE = SessionConfigKey.USE_ORT_MODEL_BYTES_DIRECTLY

# Loads share options only where these fields have their defaults: other values do more in a load than to set a value.
_OWN_WORK = attrgetter("logger", "optimized_model_filepath", "profile_file_prefix")
_containers = attrgetter(*(item.name for item in fields(SessionOptions) if item.default is MISSING))
_weights = attrgetter("initializers", "external_initializer_files", "optional_initializers", "trusted_folders")
_NAMES = [item.name for item in fields(SessionOptions) if item.default is not MISSING]
_values = attrgetter(*_NAMES)

# Values of these types do not change; the switch that cancels loads is one for all options that share it.
_CONSTANT = (bool, int, str, NoneType, ExecutionMode, GraphOptimizationLevel, LogSeverity, LoadCancellation)

_DEFAULT = SessionOptions()

# The key of the metadata that says where an optimized or compiled model comes from.
ORIGIN = "zrt.origin"


def prepare_options(
    options: SessionOptions | None,
    providers: ProvidersLike,
    external_data_dir: str | os.PathLike[str] | None = None,
    *,
    shared: bool = False,
) -> PoolOptions:
    """The ``OrtSessionOptions`` of a load. The caller does not change options that may be `shared` with other loads."""
    require_type(options, SessionOptions | None, "options", "SessionOptions")
    settings = options or _DEFAULT
    # First: an environment with a budget of CPUs changes the defaults.
    environment = current()
    selection = parse(providers)
    wish = _wish(settings, selection)
    if wish is None and shared and external_data_dir is None and not selection.changes_options:
        handle = shared_options(settings)
        if handle is not None:
            return handle
    handle = settings.handle()
    handle.wish = wish
    if not settings.use_per_session_threads:
        handle.pools, pools = environment.pools, environment.threading
        if pools is None:
            raise ArgumentError(
                "use_per_session_threads=False: the environment of this process has no thread pools; make it with "
                "zrt.Environment(threading=zrt.ThreadingOptions()) before the first session"
            )
        handle.threads = pools.intra_op_num_threads or cpu_budget.pool_threads()
    handle = selection.apply(handle)
    handle.bound = handle.bound or not selection.is_cpu
    if external_data_dir is not None:
        folder = path_bytes(external_data_dir, "external_data_dir")
        if not os.path.isdir(folder):
            raise ModelNotFoundError(f"external_data_dir {os.fsdecode(folder)!r}: there is no such folder")
        handle.add_config_entry(EXTERNAL_DATA_DIR, folder)
    return handle


def _wish(options: SessionOptions, selection: DefaultSelection) -> Any:
    """The bounds of the session's memory, see `session_arena`; None for a session without."""
    environment = current()
    bounds = (options.memory, options.memory_limit, environment.memory, environment.memory_limit)
    if all(bound is None for bound in bounds):
        return None
    # Deferred: the modules about values take milliseconds of a first session.
    from zrt.loading.session_arena import wish_of

    options._check()
    return wish_of(options, selection.by_policy)


def shared_options(options: SessionOptions) -> PoolOptions | None:
    """The options that loads with the same plain settings share, as they take time to make; None for other settings."""
    if options.use_per_session_threads is not True or any(value is not None for value in _OWN_WORK(options)):
        return None
    if any(map(_is_filled, _containers(options))):
        return None
    values = _values(options)
    if any(type(value) not in _CONSTANT for value in values):
        return None
    switch = options.load_cancellation
    if isinstance(switch, LoadCancellation) and switch.closed:
        return None
    return _shared(cpu_budget.pool_threads(), *values)


@lru_cache(maxsize=8, typed=True)
def _shared(threads: int, *values: Any) -> PoolOptions:
    """The options with these values; `threads` is the size of the pools that leave it open."""
    return SessionOptions(**dict(zip(_NAMES, values, strict=True))).handle()


# A handle from before a fork counts as inherited, and so would every session that the child makes with it.
os.register_at_fork(after_in_child=_shared.cache_clear)


def data_of(source: Source, options: PoolOptions) -> Any:
    """The bytes to load a model from; None where ONNX Runtime reads the path itself."""
    return source.read() if source.path is None or options.has_config_entry(EXTERNAL_DATA_DIR) else None


def load_error(source: Source, options: PoolOptions, error: Error) -> Error:
    """The exception for a model that ONNX Runtime did not load."""
    refused = ort_messages.WEIGHTS_ELSEWHERE.search(error)
    if refused is not None:
        # Deferred, as in `load_model`.
        from zrt.loading.external_weights import refusal

        folder = options.config_entries().get(EXTERNAL_DATA_DIR)
        return status.about(refusal(source, folder, refused["weight"]), error)
    if ort_messages.NEWER_MODEL.matches(error):
        return ModelError(
            f"{source.subject} is written in a newer form than this library reads ({error}): "
            "set the model's ir_version to what the library supports"
        )
    operators = library().required_operators
    if operators is not None and isinstance(error, NotImplementedByOrtError):
        remedy = (
            f"This ONNX Runtime was built with the kernels of the operators in {operators} alone: add those of this "
            "model, which `zrt compile MODEL LIST --required-operators` lists where all kernels are"
        )
        return status.about(source.subject, error, remedy)
    return status.about(source.subject, error)


def create_session(
    source: Source, options: PoolOptions, container: Handle | None = None, lent: Sequence[Handle] = ()
) -> SessionHandle:
    """An ``OrtSession`` of the model, which keeps alive the container and the weights that it was `lent`."""
    environment = current().pointer
    shared = () if container is None else (container.pointer,)
    data = data_of(source, options)
    if data is None:
        function = api().CreateSessionWithPrepackedWeightsContainer if shared else load_api().CreateSession
        model: tuple[Any, ...] = (source.path,)
    else:
        function = (
            api().CreateSessionFromArrayWithPrepackedWeightsContainer if shared else load_api().CreateSessionFromArray
        )
        model = data, sizeof(data)
    # The session keeps its options alive: they hold custom operators, for example.
    parents = [options, *([] if container is None else [container]), *lent]
    if data is not None and options.has_config_entry(BYTES_IN_USE):
        source.lent = True
        parents.append(Handle.pin(data))
    arguments = (environment, *model, options.pointer, *shared)
    try:
        if not options.kept:
            # A load calls Python for operators alone, and the options keep the objects of those that they have.
            return make_session(options, source.subject, parents, (), function, *arguments)
        with Load() as load:
            return make_session(options, source.subject, parents, (load.kept,), function, *arguments)
    except Error as error:
        source.lent = False
        settle_threads(options, source.subject)
        source.check_readable()
        if isinstance(error, CallbackError):
            # Its direct cause is the exception that the caller's own code raised.
            raise
        raise load_error(source, options, error) from error


def settle_threads(options: PoolOptions, subject: str) -> None:
    """Ends the making of a session's threads, also after a failed load; raises what their factory raised."""
    if options.crew is not None:
        options.crew.settle(subject)


def make_session(
    options: PoolOptions,
    subject: str,
    parents: Sequence[Handle],
    kept: tuple[object, ...],
    function: Any,
    *arguments: Any,
) -> SessionHandle:
    """A new ``OrtSession`` from a function of the table; it keeps `parents`, its threads' owners and `kept` alive."""
    if options.crew is not None:
        parents = [*parents, options.crew.block]
    if options.pools is not None:
        # After a fork, this handle reports that the threads are missing.
        parents = [*parents, options.pools]
    listed = (options.threads > 1 or options.bound) and cpu_budget.current() is not None
    end = ffi.addressof(lib, "zrt_budget_release") if listed else load_api().ReleaseSession
    session = None
    try:
        if options.wish is None:
            session = SessionHandle.make(end, parents, function, "OrtSession", *arguments, kept=kept)
        else:
            # Deferred, as in `_wish`.
            from zrt.loading import session_arena

            with session_arena.arena_for(options) as arena:
                session = SessionHandle.make(end, [*parents, arena], function, "OrtSession", *arguments, kept=kept)
            session_arena.check_load(arena, options.wish)
            if options.wish.bounded:
                session.arena = arena
        if listed and lib.zrt_budget_enter(session.pointer, max(options.threads, 1), options.bound):
            raise AllocationError("no memory for a session's places in the budget of CPUs")
        settle_threads(options, subject)
    except BaseException:
        if session is not None:
            # The load itself succeeded: release the session now, even if the error's traceback keeps the handle.
            release(session.reference)
        raise
    return session


def load_model(
    source: Source,
    settings: PoolOptions,
    options: SessionOptions | None = None,
    create: Callable[..., Any] = create_session,
) -> Any:
    """Loads a model, with the weights that its options supply, through `create`; returns what `create` returns."""
    if options is None:
        return create(source, settings)
    with writing_optimized(source, settings, options):
        # The fields for weights count that have another value than their default, right or wrong.
        if options.prepacked_weights is None and not any(map(_is_filled, _weights(options))):
            return create(source, settings)
        # Deferred: the reader of models takes 7 ms of a first session.
        from zrt.loading import caller_weights

        container = caller_weights.container_of(options)
        with caller_weights.supplied(source, settings, options) as (model, lent):
            return create(model, settings, container, lent)


def require_current(session: Handle, source: Source, strict: bool) -> None:
    """Warns of a model that should be made again, by the origin that it carries; with `strict` raises `ModelError`."""
    value = ffi.new("char **")
    status.check(lib.zrt_metadata(api(), session.pointer, ORIGIN.encode(), value))
    if not value[0]:
        return
    origin = take_string(default_allocator(), value[0])
    # Deferred, as in `load_model`.
    from zrt.loading.origin import why_stale

    reason = why_stale(origin, source.absolute)
    if reason is not None:
        message = f"{source.subject} is stale: {reason}; make it again from its source"
        if strict:
            raise ModelError(message)
        warnings.warn(message, stacklevel=3)


@contextmanager
def writing_optimized(source: Source, settings: PoolOptions, options: SessionOptions) -> Iterator[None]:
    """Lets a load write the optimized model, if it does, and its weights beside their places, and moves them there.

    Raises `ArgumentError` if one of these files is one that the load reads, and `FileError` if it cannot be written.
    """
    if not options.optimized_model_filepath:
        yield
        return
    # Deferred, as in `load_model`.
    from zrt._common.files import plain_name, replacing
    from zrt.loading.model_contents import model_files, optimized_weights

    subject = "optimized_model_filepath"
    # The file that a link leads to is replaced, and the link stays.
    path = os.path.realpath(os.fsdecode(path_bytes(options.optimized_model_filepath, subject)))
    entries = settings.config_entries()
    weights = [plain_name(name, path, f"the weights of {subject}") for name in optimized_weights(path, entries)]
    read = [*model_files(source, entries), *options._libraries()]
    with replacing(path, *weights, subject=subject, inputs=read) as (written, *_):
        status.check(api().SetOptimizedModelFilePath(settings.pointer, os.fsencode(written)))
        try:
            yield
        except Error as error:
            if written not in str(error):
                raise
            # ONNX Runtime names the place beside it.
            raise status.about(f"{subject} {path!r}", error) from error
        finally:
            status.check(api().SetOptimizedModelFilePath(settings.pointer, b""))


def _is_filled(container: Any) -> bool:
    """Whether a field has another value than its default, an empty dict or list; an array has no truth of its own."""
    return type(container) not in (dict, list) or bool(container)
