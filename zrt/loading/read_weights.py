"""A model's weights, read into memory once, for any number of sessions."""

from __future__ import annotations

import ctypes
import os
import posixpath
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from zrt._common.public import public
from zrt._native.cdata import buffer_at
from zrt.loading import initializers
from zrt.loading.caller_weights import bytes_of, mapping, names_by_path
from zrt.loading.external_weights import WeightFiles, buffer_of, naming, read, require
from zrt.loading.initializers import SMALLEST_LENT
from zrt.loading.model_source import Model, Source
from zrt.memory.buffers import Buffer
from zrt.values.value import Value


@public
def read_weights(
    model: Model,
    external_data_dir: str | os.PathLike[str] | None = None,
    external_initializer_files: Mapping[str, Any] | None = None,
    trusted_folders: Sequence[str | os.PathLike[str]] = (),
) -> dict[str, Value]:
    """A model's large weights by name, each in its own buffer, for `SessionOptions.initializers`.

    All sessions that get them share one copy; with one `PrepackedWeights` they also share the prepacked weights. Left
    out are weights below 1 KiB, weights that a run may override, and weights whose protobuf encoding is not a plain
    memory image. External weights are read from `external_initializer_files` (as in `SessionOptions`), otherwise from
    the model's folder or `external_data_dir`, and from `trusted_folders` where a path leads there.

    Raises `ModelError` or `ModelNotFoundError`, which name the model and the weight, and `UnsupportedError` for a model
    in ONNX Runtime's own format.
    """
    subject = "external_initializer_files"
    contents = mapping({} if external_initializer_files is None else external_initializer_files, subject, "bytes")
    with (
        Source(model) as source,
        initializers.opened(source) as file,
        WeightFiles(source, external_data_dir, trusted_folders) as outside,
    ):
        infos = [info for info, _ in file.tensors()]
        files = {path: contents[name] for path, name in names_by_path(contents, infos).items()}
        weights: dict[str, Value] = {}
        for info in infos:
            if info.nbytes < SMALLEST_LENT or info.overridable or info.offset is None:
                continue
            with naming(source.subject, info):
                buffer = _read(info, file, files, outside)
                weights[info.name] = Value.from_buffer(buffer, f"initializer {info.name!r}")
        return weights


def _read(
    info: initializers.Initializer, file: initializers.ModelFile, files: Mapping[str, Any], outside: WeightFiles
) -> Buffer:
    """One weight, read from the model or from its external file."""
    start = info.offset or 0
    if info.location is None:
        data = np.frombuffer(file.read(start, start + info.nbytes), np.uint8)
    elif (place := posixpath.normpath(info.location)) in files:
        whole = np.frombuffer(buffer_at(bytes_of(files[place], info.location)), np.uint8)
        # Before memory is taken for it.
        require(info, len(whole))
        data = whole[start : start + info.nbytes]
    else:
        with outside.open(info.location) as external:
            return read(info, external)
    buffer, memory = buffer_of(info)
    memory[...] = data
    return buffer


def trim_heap() -> None:
    """Returns memory that the load freed to the system: glibc would keep more than the size of the weights."""
    # Other C libraries have no such function and do not keep freed memory.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
