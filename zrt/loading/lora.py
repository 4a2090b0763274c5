"""LoRA adapters: small weights that replace a model's own in single runs."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from zrt._common.arguments import integer, path_bytes, require_type, text, wrong_type
from zrt._common.files import replacing, writing
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import NULL, from_buffer
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt._native.ort_messages import LORA_TYPE
from zrt.errors import ArgumentError, Error, ModelError, ShapeError, UnsupportedError
from zrt.loading.mapped_file import MappedFile
from zrt.memory import arrays
from zrt.memory.allocators import Allocator
from zrt.types import ElementType, ValueKind, nbytes
from zrt.values.type_info import ValueInfo

# The file is a flatbuffer with this identifier and version: a table of three numbers and a list of parameters.
IDENTIFIER = b"TORT"
FORMAT_VERSION = 1
# Its offsets are signed 32-bit numbers.
LARGEST = 2**31 - 1


@public
class LoraAdapter(Owner):
    """An adapter, loaded and ready for any number of runs (``OrtLoraAdapter``).

    `adapter` is the path of an ``.onnx_adapter`` file, which is mapped (`MappedFile` says what must not happen
    to it), or its bytes, which are copied. With the `allocator` of a device, its parameters are copied to the device.

    Runs take it as ``RunOptions(adapters=[...])``: its parameters are fed in place of the model's own values, so the
    model must have optional inputs of those names (`Session.initializers`). The object may serve runs of several
    sessions at the same time, and run options keep it alive.

    Raises `ModelNotFoundError`, `ModelError`, or ONNX Runtime's own error where it is not an adapter.
    """

    __slots__ = ("adapter_version", "model_version", "parameters")

    parameters: tuple[ValueInfo, ...]
    """The names, types and shapes of its parameters."""
    adapter_version: int
    """The version that its author gave it."""
    model_version: int
    """The version of the model, as its author gave it."""

    def __init__(self, adapter: str | os.PathLike[str] | bytes | bytearray, allocator: Allocator | None = None) -> None:
        self._handle = None
        parents: list[Handle] = []
        place: Any = NULL
        if allocator is not None:
            require_type(allocator, Allocator, "allocator", "an Allocator")
            parents.append(allocator._open())
            if allocator.memory.is_host:
                raise ArgumentError("allocator: it is one of the host, and an adapter takes one of a device only")
            place = parents[0].pointer
        table = api()
        if isinstance(adapter, (bytes, bytearray)):
            subject = "adapter in memory"
            content: Any = bytes(adapter)
            create = table.CreateLoraAdapterFromArray
            model: tuple[Any, ...] = (from_buffer(content), len(content))
        elif isinstance(adapter, (str, os.PathLike)):
            subject = f"adapter {os.fspath(adapter)!r}"
            content = MappedFile(adapter).array()
            create, model = table.CreateLoraAdapter, (path_bytes(adapter, "adapter"),)
        else:
            raise wrong_type("adapter", "a path or bytes", adapter)
        try:
            handle = Handle.make(table.ReleaseLoraAdapter, parents, create, "OrtLoraAdapter", *model, place)
        except Error as error:
            refused = LORA_TYPE.search(error)
            if refused is not None and int(refused["type"]) in set(ElementType):
                raise _unsupported(subject, refused["name"], ElementType(int(refused["type"]))) from error
            raise status.about(subject, error) from error
        # ORT has verified the bytes, but has no function that reports the parameters.
        self.adapter_version, self.model_version, read = _read(content, subject)
        self.parameters = tuple(info for info, _ in read)
        self._handle = handle

    def __repr__(self) -> str:
        return f"LoraAdapter({', '.join(map(str, self.parameters))}{'; closed' if self.closed else ''})"


def read_lora_adapter(data: bytes) -> tuple[int, int, dict[str, np.ndarray[Any, Any]]]:
    """The version of an adapter's content, that of its model, and views of its parameters by name."""
    subject = "adapter in memory"
    # ONNX Runtime verifies the format.
    LoraAdapter(data).close()
    adapter_version, model_version, read = _read(data, subject)
    parameters = {}
    for info, place in read:
        shape = tuple(int(dim) for dim in info.shape or () if dim is not None)
        size = nbytes(info.element_type, shape)
        if size > len(data) - place:
            raise ModelError(f"{subject}: parameter {info.name!r} is cut off")
        content = np.frombuffer(data, np.uint8, size, place)
        try:
            parameters[info.name] = content.view(info.element_type.dtype).reshape(shape)
        except ValueError as error:
            # A size of 0 beside one that is too large, or a packed type.
            raise ModelError(f"{subject}: parameter {info.name!r} cannot be an array: {error}") from error
    return adapter_version, model_version, parameters


def _read(data: Any, subject: str) -> tuple[int, int, list[tuple[ValueInfo, int]]]:
    """The adapter's version, its model's, and its parameters with the places of their content."""

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(form, data, at)[0])

    def fields(at: int, count: int) -> list[int]:
        """The place of each field of the table at `at`; 0 for a field that it does not have."""
        ends = at - number("<i", at)
        places = [number("<H", ends + 4 + 2 * i) if 4 + 2 * i < number("<H", ends) else 0 for i in range(count)]
        return [at + place if place else 0 for place in places]

    def follow(at: int) -> int:
        return at + number("<I", at)

    try:
        _, adapter_version, model_version, entries = fields(follow(0), 4)
        parameters = []
        start = follow(entries)
        for index in range(number("<I", start)):
            name, dims, kind, content = fields(follow(start + 4 + 4 * index), 4)
            at, size = follow(name) + 4, number("<I", follow(name))
            word = bytes(data[at : at + size]).decode(errors="replace")
            shape = struct.unpack_from(f"<{number('<I', follow(dims))}q", data, follow(dims) + 4)
            element_type = ElementType(number("<i", kind))
            if not element_type.bits:
                # ORT would read C++ strings, with pointers from the file.
                raise _unsupported(subject, word, element_type)
            info = ValueInfo(word, ValueKind.TENSOR, element_type, shape)
            parameters.append((info, follow(content) + 4))
        versions = [number("<i", at) if at else 0 for at in (adapter_version, model_version)]
        return versions[0], versions[1], parameters
    except (struct.error, ValueError) as error:
        raise ModelError(f"{subject} cannot be read: {error}") from error


def _unsupported(subject: str, name: str, element_type: ElementType) -> UnsupportedError:
    return UnsupportedError(f"{subject}: parameter {name!r} is of type {element_type.name}, which no adapter may have")


@public
def save_lora_adapter(
    path: str | os.PathLike[str],
    parameters: Mapping[str, np.ndarray[Any, Any]],
    *,
    adapter_version: int = 1,
    model_version: int = 1,
) -> None:
    """Writes an ``.onnx_adapter`` file of these arrays, by the names of the model's inputs that they stand for.

    The versions are information for readers only. ONNX Runtime takes no scalars, no strings, no packed types, and since
    1.30 no bools. An existing file is replaced atomically: adapters that were loaded from it keep the old one. Raises
    `FileError` where the system refuses to write.
    """
    name = path_bytes(path, "path")
    versions = [integer(adapter_version, "adapter_version"), integer(model_version, "model_version")]
    require_type(parameters, Mapping, "parameters", "a dict of arrays")
    data = _write([_parameter(key, array) for key, array in parameters.items()], versions)
    with replacing(os.fsdecode(name)) as (written,), writing(os.fsdecode(name)), open(written, "wb") as file:
        file.write(data)


def _parameter(name: Any, array: Any) -> tuple[bytes, tuple[int, ...], ElementType, bytes]:
    subject = f"parameter {name!r}"
    word = text(name, "parameters")
    require_type(array, np.ndarray, subject, "a numpy array")
    array = arrays.plain(array, subject)
    kind = arrays.element_type_of(array, subject)
    if not kind.bits or kind.packed or kind.refused or kind > ElementType.FLOAT8E5M2FNUZ:
        raise UnsupportedError(f"{subject}: an adapter cannot hold {kind.name}")
    if not array.ndim:
        raise ShapeError(f"{subject}: an adapter holds no scalars, give it a shape")
    return word, array.shape, kind, arrays.native(array).tobytes()


def _write(parameters: list[tuple[bytes, tuple[int, ...], ElementType, bytes]], versions: list[int]) -> bytes:
    """The flatbuffer, written front to back; each offset counts from its own place."""
    out = bytearray()

    def aligned(content: bytes, count: int, refers: int, alignment: int = 8) -> None:
        """Appends a vector with its content at a multiple of `alignment`, and stores the offset to it at `refers`."""
        out.extend(bytes(-(len(out) + 4) % alignment))
        struct.pack_into("<I", out, refers, len(out) - refers)
        out.extend(struct.pack("<I", count) + content)

    # The vtable of both kinds of table: its own size, the table's size, and the places of four fields of four bytes.
    fields = struct.pack("<6H", 12, 20, 4, 8, 12, 16)
    out += struct.pack("<I4s", 20, IDENTIFIER) + fields
    out += struct.pack("<iiiiI", 12, FORMAT_VERSION, *versions, 0)
    entries = len(out)
    aligned(bytes(4 * len(parameters)), len(parameters), entries - 4, 4)
    first = len(out) - 4 * len(parameters)
    for index, (name, shape, kind, content) in enumerate(parameters):
        out += bytes(-len(out) % 4)
        start = len(out) + len(fields)
        struct.pack_into("<I", out, first + 4 * index, start - (first + 4 * index))
        out += fields + struct.pack("<iIIiI", len(fields), 0, 0, int(kind), 0)
        aligned(name + b"\0", len(name), start + 4, 4)
        aligned(struct.pack(f"<{len(shape)}q", *shape), len(shape), start + 8)
        if len(out) + len(content) > LARGEST - 16:
            raise ArgumentError(f"parameters: an adapter has at most {LARGEST} bytes")
        aligned(content, len(content), start + 16)
    return bytes(out)
