"""A model's weights, read into memory once, for any number of sessions."""

from __future__ import annotations

import ctypes
import os
import posixpath
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from zrt._common.arguments import path_bytes
from zrt._common.public import public
from zrt._native.cdata import buffer_at
from zrt.errors import Error, ModelError
from zrt.loading import initializers, model_source
from zrt.loading.caller_weights import SMALLEST_LENT, bytes_of, mapping, names_by_path
from zrt.memory.buffers import Buffer
from zrt.values import Value


@public
def read_weights(
    model: model_source.Model,
    external_data_dir: str | os.PathLike[str] | None = None,
    external_initializer_files: Mapping[str, Any] | None = None,
) -> dict[str, Value]:
    """A model's large weights by name, each in its own buffer, for `SessionOptions.initializers`.

    All sessions that get them share one copy; with one `PrepackedWeights` they also share the prepacked weights. Left
    out are weights below 1 KiB, weights that a run may override, and weights whose protobuf encoding is not a plain
    memory image. External weights are read from `external_initializer_files` (as in `SessionOptions`), otherwise from
    the model's folder or `external_data_dir`.

    Raises `ModelError` or `ModelNotFoundError`, which name the model and the weight.
    """
    subject = "external_initializer_files"
    contents = mapping({} if external_initializer_files is None else external_initializer_files, subject, "bytes")
    with model_source.Source(model) as source, initializers.opened(source) as file:
        if external_data_dir is not None:
            folder = os.fsdecode(path_bytes(external_data_dir, "external_data_dir"))
        else:
            folder = os.path.dirname(os.fsdecode(source.path or b""))
        infos = [tensor.info for tensor in file.tensors()]
        files = {path: contents[name] for path, name in names_by_path(contents, infos).items()}
        weights: dict[str, Value] = {}
        for info in infos:
            if info.nbytes < SMALLEST_LENT or info.overridable or info.offset is None:
                continue
            subject = f"initializer {info.name!r}"
            try:
                weights[info.name] = Value.from_buffer(_read(info, file, folder, files), subject)
            except (Error, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else error
                raise ModelError(f"{source.subject}: {subject}: {reason}") from error
        return weights


def _read(
    info: initializers.Initializer, file: initializers.ModelFile, folder: str, files: Mapping[str, Any]
) -> Buffer:
    """One weight, read from the model or from its external file."""
    start = info.offset or 0
    if info.location is None:
        buffer, memory = _buffer(info)
        memory[...] = np.frombuffer(file.read(start, start + info.nbytes), np.uint8)
    else:
        place = posixpath.normpath(info.location)
        if place in files:
            data = np.frombuffer(buffer_at(bytes_of(files[place], info.location)), np.uint8)
            # Before memory is taken for it, here and below.
            _require(info, len(data))
            buffer, memory = _buffer(info)
            memory[...] = data[start : start + info.nbytes]
        elif posixpath.isabs(place) or place.split("/")[0] == "..":
            raise ModelError(f"{info.location!r} lies outside the model's folder")
        else:
            path = os.path.join(folder, place)
            state = os.stat(path)
            if not stat.S_ISREG(state.st_mode):
                # The open of a pipe would wait for its writer.
                raise ModelError(f"{info.location!r} is no file")
            _require(info, state.st_size)
            buffer, memory = _buffer(info)
            with open(path, "rb") as external:
                external.seek(start)
                _require(info, start + external.readinto(memory))
    if sys.byteorder == "big" and not buffer.element_type.packed:
        buffer.array.byteswap(inplace=True)
    return buffer


def _buffer(info: initializers.Initializer) -> tuple[Buffer, Any]:
    """A buffer for a weight, and its bytes."""
    buffer = Buffer(info.shape, info.element_type)
    return buffer, buffer.array.reshape(-1).view(np.uint8)


def _require(info: initializers.Initializer, size: int) -> None:
    """Raises if an external file of that size does not hold the weight."""
    missing = (info.offset or 0) + info.nbytes - size
    if missing > 0:
        raise ModelError(f"{info.location!r} ends {missing} bytes too soon")


def trim_heap() -> None:
    """Returns memory that the load freed to the system: glibc would keep more than the size of the weights."""
    # Other C libraries have no such function and do not keep freed memory.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
