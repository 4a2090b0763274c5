"""Weights that the caller supplies at load, and the container of their prepacked forms."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

from zrt._common.arguments import absolute, paths, require_type, text, texts, wrong_type
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import from_buffer, pointer_to, release, sizeof, strings
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.environment.pool_options import PoolOptions
from zrt.errors import ArgumentError, DTypeError, ModelError, ShapeError, UnknownNameError, UnsupportedError
from zrt.loading import initializers
from zrt.loading.external_weights import WeightFiles
from zrt.loading.initializers import SMALLEST_LENT, Initializer
from zrt.loading.model_source import EXTERNAL_DATA_DIR, Source
from zrt.loading.session_options import SessionOptions
from zrt.values import sparse
from zrt.values.type_info import type_name
from zrt.values.value import Value, as_value

# With this entry a session of ONNX Runtime 1.31 or later reads the caller's files for as long as it lives.
FILES_IN_USE = "session.use_external_initializer_file_buffers_directly"

# A message lists at most this many names.
MOST_NAMED = 20

# Before 1.31 ORT removes one of these prefixes from the names that it is given, but not from the model's names.
_REMOVED_PREFIXES = ("./", ".\\")
_ADDED_PREFIX = ".//"


@public
class PrepackedWeights(Owner):
    """Weights in the layouts that kernels compute with, shared by sessions (``OrtPrepackedWeightsContainer``).

    Give it as `SessionOptions.prepacked_weights` to sessions that also get the same `SessionOptions.initializers`:
    the first session packs the weights, the others use them. It holds only weights from `initializers`, for kernels
    on the CPU. Sessions keep it alive; it may serve several models, and is thread-safe.
    """

    __slots__ = ()

    def __init__(self) -> None:
        table = api()
        make = table.CreatePrepackedWeightsContainer
        self._handle = Handle.make(table.ReleasePrepackedWeightsContainer, [], make, "OrtPrepackedWeightsContainer")

    def __repr__(self) -> str:
        return "PrepackedWeights(closed)" if self.closed else "PrepackedWeights()"


@contextmanager
def supplied(
    source: Source, settings: PoolOptions, options: SessionOptions
) -> Iterator[tuple[Source, Sequence[Handle]]]:
    """The model to load with the weights that the options supply, and the handles that the session must keep alive."""
    weights = mapping(options.initializers, "initializers", "arrays")
    files = mapping(options.external_initializer_files, "external_initializer_files", "bytes")
    optional = set(texts(options.optional_initializers, "optional_initializers"))
    trusted = paths(options.trusted_folders, "trusted_folders")
    if not weights and not files and not trusted:
        yield source, ()
        return
    with ExitStack() as stack:
        model: initializers.ModelFile | None = None
        infos: dict[str, Initializer] = {}
        try:
            model = stack.enter_context(initializers.opened(source))
            infos = {info.name: info for info, _ in model.tensors()}
        except (ModelError, UnsupportedError):
            if weights or files:
                raise
            # ORT reads its own format, and says itself what is wrong with a model. It trusts the model's folder alone.
        absent = optional & weights.keys() - infos.keys()
        for name in absent.difference(model.names() if absent and model is not None else ()):
            del weights[name]
        # A model that is rewritten in memory: ORT does not trust the folder that a link to its file leads to.
        changed = [info for info in infos.values() if info.name in weights and _is_written(info)]
        if trusted or (changed and source.path is not None and os.path.islink(source.path)):
            folder = settings.config_entries().get(EXTERNAL_DATA_DIR)
            with WeightFiles(source, folder, trusted) as outside:
                weights |= outside.values(left(infos.values(), weights, files), source.subject)
        if model is None or not (weights or files):
            yield source, ()
            return
        lent, written = _check(weights, infos, model)
        used, below = model.uses() if lent else (set(), set())
        # ORT removes weights that nothing uses, and then refuses others in their place.
        for name in lent.keys() - used:
            del lent[name]
            written.pop(name, None)
        with _in_memory(files, infos, weights, settings) as pins:
            handles = [*pins, *_lend(lent, below, settings)]
            if not written:
                yield source, handles
                return
            # While ORT optimizes, embedded weights take precedence over the caller's: take them out of the model.
            if source.path is not None and not settings.has_config_entry(EXTERNAL_DATA_DIR):
                # External weights still lie beside the model's file, although the model now comes from memory.
                beside = os.path.dirname(os.fsencode(absolute(os.fsdecode(source.path))))
                settings.add_config_entry(EXTERNAL_DATA_DIR, beside)
            with Source(model.with_weights(written)) as rewritten:
                rewritten.subject = source.subject
                yield rewritten, handles


def container_of(options: SessionOptions) -> Handle | None:
    """The handle of the options' container; None where they have none."""
    container = options.prepacked_weights
    if container is None:
        return None
    require_type(container, PrepackedWeights, "prepacked_weights", "PrepackedWeights")
    return container._open()


def mapping(value: Any, subject: str, of: str) -> dict[str, Any]:
    require_type(value, Mapping, subject, f"a dict of {of}")
    for name in value:
        text(name, subject)
    return dict(value)


def _some(names: Collection[str]) -> str:
    """The names for a message, of which a model may have thousands."""
    more = len(names) - MOST_NAMED
    listed = ", ".join(map(repr, islice(names, MOST_NAMED))) or "none"
    return f"{listed} and {more} more" if more > 0 else listed


def _is_written(info: Initializer) -> bool:
    """Whether the caller's weight changes the model: it is too small to be lent, or the model holds its own."""
    return info.nbytes < SMALLEST_LENT or info.location is None


def _check(
    weights: Mapping[str, Any], infos: Mapping[str, Initializer], model: initializers.ModelFile
) -> tuple[dict[str, Value], dict[str, bytes | None]]:
    """The large weights to lend to ORT; and the bytes to write into the model, or None to take a weight out of it."""
    lent: dict[str, Value] = {}
    written: dict[str, bytes | None] = {}
    for name, weight in weights.items():
        subject = f"initializer {name!r}"
        info = infos.get(name)
        if info is None:
            if name in model.names():
                raise UnsupportedError(f"{subject} is not of numbers, and only weights of numbers can be replaced")
            raise UnknownNameError(f"initializers: the model has no weight {name!r}; it has {_some(infos)}")
        if isinstance(weight, sparse.SparseTensor) or sparse.is_scipy(weight):
            weight = sparse.to_dense(weight, info.shape, subject)
        value = as_value(weight, subject)
        if not value.is_tensor or not value.memory.is_host:
            where = f"lies on {value.memory.name}" if value.is_tensor else f"is a {value.kind.name.lower()}"
            raise UnsupportedError(f"{subject} {where}: weights are tensors in the host's memory")
        if value.element_type is not info.element_type:
            wanted, came = type_name(info.element_type), type_name(value.element_type)
            raise DTypeError(f"{subject}: expected {wanted}, got {came}")
        if value.shape != info.shape:
            raise ShapeError(f"{subject}: expected shape {list(info.shape)}, got {list(value.shape)}")
        if info.nbytes < SMALLEST_LENT:
            written[name] = value.numpy().tobytes()
        else:
            # A tensor that borrows the value's memory: ORT refuses tensors whose memory it owns.
            array, kind = value.numpy(), value.element_type
            if kind.packed:
                lent[name] = Value.from_packed(array, kind, value.shape, subject)
            else:
                lent[name] = Value.from_array(array, subject)
            if info.location is None:
                written[name] = None
    return lent, written


def _lend(lent: Mapping[str, Value], below: set[str], settings: PoolOptions) -> list[Handle]:
    """Gives ORT the weights; the session must keep the returned handles alive.

    `below` are the names of subgraphs' own weights.
    """
    table = api()
    handles = [value._open() for value in lent.values()]
    pointers = [handle.pointer for handle in handles]
    # For the optimizer, which reads a copy of them that ORT frees after the load ...
    status.check(table.AddExternalInitializers(settings.pointer, strings(lent), pointers, len(pointers)))
    for name, pointer in zip(lent, pointers, strict=True):
        # ... and for the kernels, which read the caller's memory; a container also needs this call. ORT matches the
        # name in subgraphs too, so for a name that a subgraph also uses the session keeps the copy.
        if name not in below:
            status.check(table.AddInitializer(settings.pointer, name.encode(), pointer))
    return handles


def names_by_path(files: Iterable[str], infos: Iterable[Initializer]) -> dict[str, str]:
    """The names of `SessionOptions.external_initializer_files` by normalized path; the model must name each one."""
    named = {posixpath.normpath(info.location): info.location for info in infos if info.location is not None}
    by_path = {posixpath.normpath(name): name for name in files}
    for path, name in by_path.items():
        if path not in named:
            raise UnknownNameError(
                f"external_initializer_files: the model names no file {name!r}; it names {_some(named.values())}"
            )
    return by_path


def left(infos: Iterable[Initializer], weights: Collection[str], files: Collection[str] = ()) -> list[Initializer]:
    """The external weights that the caller gives neither themselves nor in files in memory."""
    in_memory = {posixpath.normpath(name) for name in files}
    outside = [info for info in infos if info.location is not None and info.name not in weights]
    return [info for info in outside if posixpath.normpath(info.location or "") not in in_memory]


@contextmanager
def _in_memory(
    files: Mapping[str, Any], infos: Mapping[str, Initializer], weights: Mapping[str, Any], settings: PoolOptions
) -> Iterator[Sequence[Handle]]:
    """Gives ORT the files for the duration of the ``with``: it copies from them while the session is made.

    Yields the handles of the files' memory that the session must keep alive because it borrows it.
    """
    if not files:
        yield ()
        return
    subject = "external_initializer_files"
    by_path = names_by_path(files, infos.values())
    outside = left(infos.values(), weights)
    wanted = {posixpath.normpath(info.location or ""): info.location or "" for info in outside}
    missing = [location for path, location in wanted.items() if path not in by_path]
    if missing:
        raise ArgumentError(f"{subject}: {', '.join(map(repr, missing))} is missing; give all of the model's files")
    memory: dict[str, Any] = {}
    try:
        for path, name in by_path.items():
            memory[path] = bytes_of(files[name], f"{subject}[{name!r}]")
        for info in outside:
            name = info.location or ""
            size = sizeof(memory[posixpath.normpath(name)])
            if (info.offset or 0) + info.nbytes > size:
                raise ShapeError(
                    f"{subject}[{name!r}] has {size} bytes; initializer {info.name!r} takes {info.nbytes} "
                    f"from {info.offset}"
                )
        names = [(_ADDED_PREFIX if at.startswith(_REMOVED_PREFIXES) else "") + at for at in wanted.values()]
        buffers = [pointer_to(memory[path], "char") for path in wanted]
        sizes = [sizeof(memory[path]) for path in wanted]
        if names:
            function = api().AddExternalInitializersFromFilesInMemory
            texts = strings(map(os.fsencode, names))
            status.check(function(settings.pointer, texts, buffers, sizes, len(names)))
        if settings.has_config_entry(FILES_IN_USE):
            pins = [Handle.pin(data) for data in memory.values()]
            memory.clear()
            yield pins
        else:
            yield ()
    finally:
        for data in memory.values():
            release(data)


def bytes_of(data: Any, subject: str) -> Any:
    try:
        return from_buffer(data)
    except TypeError:
        raise wrong_type(subject, "bytes or the like", data) from None
    except (ValueError, BufferError) as error:
        raise ArgumentError(f"{subject}: {error}") from error
