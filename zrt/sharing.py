"""A model's weights, read into memory once, for any number of sessions."""

from __future__ import annotations

import ctypes
import os
import posixpath
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from zrt import loading, proto
from zrt.arguments import path_bytes
from zrt.buffers import Buffer
from zrt.errors import Error, ModelError
from zrt.values import Value
from zrt.weights import SMALLEST_LENT


def read_weights(model: loading.Model, external_data_dir: str | os.PathLike[str] | None = None) -> dict[str, Value]:
    """A model's large weights by name, in memory of their own: what `SessionOptions.initializers` takes.

    Sessions that are given them hold them once, whatever their number; with one `PrepackedWeights` for all of them
    they also share what the kernels make of them. Left out are weights below 1 KiB, those that a run may override,
    and those that the model spells in a form of protobuf's that is no memory image. Weights outside the model are
    looked for beside its path, or in `external_data_dir`.

    Raises `ModelError` or `ModelNotFoundError`, with the name of the model and of the weight.
    """
    with loading.Source(model) as source, proto.opened(source) as file:
        if external_data_dir is not None:
            folder = os.fsdecode(path_bytes(external_data_dir, "external_data_dir"))
        else:
            folder = os.path.dirname(os.fsdecode(source.path or b""))
        weights: dict[str, Value] = {}
        for info, *_ in file.tensors():
            if info.nbytes < SMALLEST_LENT or info.overridable or info.offset is None:
                continue
            subject = f"initializer {info.name!r}"
            try:
                buffer = Buffer(info.shape, info.element_type)
                _fill(buffer, info, file, folder)
                weights[info.name] = Value.from_buffer(buffer, subject)
            except (Error, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else error
                raise ModelError(f"{source.subject}: {subject}: {reason}") from error
        return weights


def _fill(buffer: Buffer, info: proto.Initializer, file: proto.ModelFile, folder: str) -> None:
    """Reads one weight out of the model or the file beside it."""
    start = info.offset or 0
    memory: Any = buffer.array.reshape(-1).view(np.uint8)
    if info.location is None:
        memory[...] = np.frombuffer(file.read(start, start + info.nbytes), np.uint8)
    else:
        place = posixpath.normpath(info.location)
        if posixpath.isabs(place) or place.split("/")[0] == "..":
            raise ModelError(f"{info.location!r} lies outside the model's folder")
        with open(os.path.join(folder, place), "rb", buffering=0) as outside:
            outside.seek(start)
            done = 0
            while done < info.nbytes:
                read = outside.readinto(memory[done:])
                if not read:
                    raise ModelError(f"{info.location!r} ends {info.nbytes - done} bytes too soon")
                done += read
    if sys.byteorder == "big" and not buffer.element_type.packed:
        buffer.array.byteswap(inplace=True)


def trim_heap() -> None:
    """Gives the system back what loading freed: glibc would keep more of it than the weights take."""
    # No other C library has the function, nor the habit.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
