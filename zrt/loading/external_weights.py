"""The weights that a model has in other files: where these files may lie, and their contents, mapped or read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from io import BufferedReader
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import absolute, path_bytes, paths
from zrt._common.open_within import Identity, PathRefused, identity, open_folder, open_within
from zrt.errors import ArgumentError, Error, ModelError
from zrt.loading.initializers import SMALLEST_LENT, Initializer, opened
from zrt.loading.mapped_file import MappedFile
from zrt.loading.model_source import Source
from zrt.loading.session_options import SessionOptions
from zrt.memory.buffers import Buffer
from zrt.types import GraphOptimizationLevel, nbytes
from zrt.values.value import Value

Path: TypeAlias = "str | bytes | os.PathLike[str]"


class WeightFiles(ExitStack):
    """The files of a model's external weights. They lie in the model's folder, or in one that the caller trusts.

    `folder` is the folder that the model's paths start from, if it is not the model's own. A model that is a link may
    also have its weights in the folder that the link leads to. Use it in a ``with``: it keeps the folders open.

    Raises `ArgumentError` for a trusted folder that is none.
    """

    def __init__(self, source: Source, folder: Path | None = None, trusted: Sequence[Path] = ()) -> None:
        super().__init__()
        more = paths(trusted, "trusted_folders")
        own = source.path if folder is None else None
        start = os.path.dirname(own or b"") if folder is None else path_bytes(folder, "external_data_dir")
        try:
            self._base = os.fsencode(absolute(os.fsdecode(start)))
        except OSError as error:
            raise ModelError(f"{source.subject}: the current folder: {error.strerror}") from None
        self._trusted: set[Identity] = set()
        self._others = " and the trusted folders" if more else ""
        for path in [self._base] + ([os.path.dirname(os.path.realpath(own))] if own else []):
            # Without the folder no path leads to a file.
            with suppress(OSError):
                self._trust(path)
        for path in more:
            try:
                self._trust(path)
            except OSError as error:
                self.close()
                raise ArgumentError(f"trusted_folders: {os.fsdecode(path)!r}: {error.strerror}") from None

    def _trust(self, path: bytes) -> None:
        folder = open_folder(path)
        self.callback(os.close, folder)
        self._trusted.add(identity(folder))

    def open(self, location: str) -> BufferedReader:
        """The file at a location that the model names, open for reading. `ModelError` says where another one leads."""
        try:
            file = open_within(os.path.join(self._base, path_bytes(location, "location")), self._trusted)
        except PathRefused as refused:
            leads = f"file {location!r} leads to {refused.place!r}"
            if refused.reason is not None:
                raise ModelError(f"{leads}: {refused.reason}") from None
            raise ModelError(
                f"{leads}, outside the model's folder {os.fsdecode(self._base)!r}{self._others}: "
                "add a folder that holds it to trusted_folders (for the drop-in: to ZRT_TRUSTED_FOLDERS)"
            ) from None
        return open(file, "rb")

    def values(self, infos: Iterable[Initializer], subject: str) -> dict[str, Value]:
        """The weights by name. Large ones are mapped; those that are small or misaligned in their file are read."""
        by_location: dict[str, list[Initializer]] = {}
        for info in infos:
            by_location.setdefault(info.location or "", []).append(info)
        values: dict[str, Value] = {}
        for location, group in by_location.items():
            with naming(subject, group[0]):
                file = self.open(location)
            with file:
                mapped: MappedFile | None = None
                for info in group:
                    with naming(subject, info):
                        require(info, os.fstat(file.fileno()).st_size)
                        if _can_be_lent(info):
                            mapped = mapped or MappedFile._of(file.fileno(), location)
                            values[info.name] = mapped.tensor(info.element_type, info.shape, info.offset or 0)
                        else:
                            values[info.name] = Value.from_buffer(read(info, file), f"initializer {info.name!r}")
                if mapped is not None:
                    mapped._close_file()
        return values


@contextmanager
def naming(subject: str, info: Initializer) -> Iterator[None]:
    """Raises `ModelError` with the names of the model and of the weight in place of the errors about its content."""
    try:
        yield
    except (Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelError(f"{subject}: initializer {info.name!r}: {reason}") from error


def refusal(source: Source, folder: str | None, weight: str) -> str:
    """The model, and where the file of a weight leads that ONNX Runtime refuses to open."""
    subject = f"{source.subject}: initializer {weight!r}"
    try:
        with opened(source) as model, WeightFiles(source, folder) as files:
            for info, _ in model.tensors():
                if info.name == weight and info.location is not None:
                    with files.open(info.location):
                        return f"{subject}: add the folder of its file {info.location!r} to trusted_folders"
    except (Error, OSError) as error:
        return f"{subject}: {error}"
    return subject


def with_zeros(options: SessionOptions, missing: Sequence[Initializer]) -> SessionOptions:
    """The options of a load in which zeros stand for the `missing` weights."""
    if not missing:
        return options
    # The optimizer would compute with the zeros.
    return replace(
        options,
        initializers={**options.initializers, **{weight.name: _zeros(weight) for weight in missing}},
        graph_optimization_level=GraphOptimizationLevel.DISABLE_ALL,
    )


def _zeros(weight: Initializer) -> np.ndarray[Any, Any] | Value:
    """A tensor of zeros, which takes no memory while nothing reads it."""
    kind = weight.element_type
    if kind.packed:
        return Value.from_packed(np.zeros(nbytes(kind, weight.shape), np.uint8), kind, weight.shape)
    return np.zeros(weight.shape, kind.dtype)


def _can_be_lent(info: Initializer) -> bool:
    size = max(info.element_type.bits // 8, 1)
    return info.nbytes >= SMALLEST_LENT and (info.offset or 0) % size == 0


def read(info: Initializer, file: BufferedReader) -> Buffer:
    """One weight, read from its file."""
    # Before memory is taken for it.
    require(info, os.fstat(file.fileno()).st_size)
    buffer, memory = buffer_of(info)
    start = info.offset or 0
    file.seek(start)
    require(info, start + file.readinto(memory))
    return buffer


def buffer_of(info: Initializer) -> tuple[Buffer, Any]:
    """A buffer for a weight, and its bytes."""
    buffer = Buffer(info.shape, info.element_type)
    return buffer, buffer.array.reshape(-1).view(np.uint8)


def require(info: Initializer, size: int) -> None:
    """Raises if an external file of that size does not hold the weight."""
    missing = (info.offset or 0) + info.nbytes - size
    if missing > 0:
        raise ModelError(f"{info.location!r} ends {missing} bytes too soon")
