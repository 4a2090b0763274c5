"""Reads requests of the Open Inference Protocol: JSON, with binary data after it or without."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import shown
from zrt.errors import Error
from zrt.memory.arrays import MOST_DIMENSIONS
from zrt.serving.request_error import BAD_REQUEST, RequestError
from zrt.serving.signature import DATATYPES, Signature
from zrt.types import ElementType
from zrt.values import symbolic_shapes
from zrt.values.type_info import ValueInfo

Array: TypeAlias = "np.ndarray[Any, Any]"

# The form of the length that stands before each string in binary data.
LENGTH = struct.Struct("<I")

# The most elements of a shape. Its length is checked first: Python multiplies as many digits as it gets.
MOST_ELEMENTS = 2**63 - 1

# The most lists and objects of a request's JSON. Each is small there and large in memory, and Python makes them all
# before any other thread goes on.
MOST_LISTS = 1 << 20

# By the kinds of numpy's types (V: that of bfloat16): the elements that JSON must have, in words and as Python's types.
_EXPECTED: tuple[tuple[str, tuple[str, set[type]]], ...] = (
    ("b", ("true and false", {bool})),
    ("iu", ("whole numbers", {int})),
    ("fV", ("numbers", {int, float, NoneType})),
    ("O", ("strings", {str})),
)


@dataclass(slots=True)
class InferRequest:
    """A request that fits the model."""

    id: str | None
    feeds: dict[str, Array]
    outputs: dict[str, bool]
    """The outputs to return, and whether each one is returned as binary data."""
    timeout: float | None
    """The seconds in which the client wants its answer."""


def parse(body: bytes, json_size: int | None, signature: Signature) -> InferRequest:
    """The request in a body; raises `RequestError` for one that does not fit the protocol or the model.

    `json_size` is the number of bytes of JSON, after which binary data follow; None means that all is JSON, and 0
    that all is the data of the model's only input.
    """
    if json_size == 0:
        return _raw(body, signature)
    if json_size is not None and not 0 < json_size <= len(body):
        raise _bad(f"Inference-Header-Content-Length is {json_size}, the body has {len(body)} bytes")
    text = body if json_size is None else body[:json_size]
    if text.count(b"[") + text.count(b"{") > MOST_LISTS:
        raise _bad(f"the request's JSON has more than {MOST_LISTS} lists and objects: send flat or binary data")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(f"the request's JSON cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise _bad("the request's JSON is no object")
    request_id = document.get("id")
    if request_id is not None and not isinstance(request_id, str):
        raise _bad(f"id: expected a string, got {shown(request_id)}")
    parameters = _parameters(document, "the request")
    if parameters.get("sequence_id"):
        raise _bad("sequence_id: the server has no sequences, each request stands alone")
    binary = memoryview(body)[len(body) if json_size is None else json_size :]
    return InferRequest(
        request_id,
        _feeds(document.get("inputs"), binary, signature),
        _outputs(document.get("outputs"), _flag(parameters, "binary_data_output", "the request"), signature),
        timeout(parameters.get("timeout")),
    )


def timeout(microseconds: Any) -> float | None:
    """The seconds of a timeout in microseconds; None and 0 mean that there is none."""
    if microseconds is None:
        return None
    if isinstance(microseconds, bool) or not isinstance(microseconds, int) or microseconds < 0:
        raise _bad(f"timeout: expected microseconds, got {shown(microseconds)}")
    return min(microseconds, 2**53) / 1e6 or None


def _bad(message: str) -> RequestError:
    return RequestError(BAD_REQUEST, message)


def _feeds(tensors: Any, binary: memoryview, signature: Signature) -> dict[str, Array]:
    if not isinstance(tensors, list):
        raise _bad(f"inputs: expected a list of tensors, got {shown(tensors)}")
    feeds: dict[str, Array] = {}
    begin = 0
    for tensor in tensors:
        name, subject = _named(tensor, signature.inputs, feeds, "input")
        info = signature.inputs[name]
        wanted, shape = DATATYPES[info.element_type], _shape(tensor.get("shape"), info, subject)
        if tensor.get("datatype") != wanted:
            raise _bad(f"{subject}: the model takes {wanted}, got {shown(tensor.get('datatype'))}")
        parameters = _parameters(tensor, subject)
        size = parameters.get("binary_data_size")
        if size is None:
            if "data" not in tensor:
                raise _bad(f"{subject} has neither data nor a binary_data_size")
            feeds[name] = _from_json(tensor["data"], info, shape, subject)
            continue
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(binary) - begin:
            raise _bad(
                f"{subject}: binary_data_size is {shown(size)}, and {len(binary) - begin} bytes of binary data are left"
            )
        feeds[name] = _from_bytes(binary[begin : begin + size], info, shape, subject)
        begin += size
    if begin != len(binary):
        raise _bad(f"{len(binary) - begin} bytes of binary data belong to no input")
    missing = [repr(name) for name in signature.inputs if name not in feeds]
    if missing:
        raise _bad(f"inputs: {', '.join(missing)} is missing")
    return feeds


def _named(tensor: Any, known: Collection[str], seen: Collection[str], kind: str) -> tuple[str, str]:
    """The name of a tensor, which is one of the `known` and not yet `seen`, and its subject for messages."""
    name = tensor.get("name") if isinstance(tensor, dict) else None
    if not isinstance(name, str) or name not in known:
        raise _bad(f"{kind}s: the model has no {kind} {shown(name)}; it has {', '.join(map(repr, known))}")
    subject = f"{kind} {name!r}"
    if name in seen:
        raise _bad(f"{subject} is there twice")
    return name, subject


def _shape(dims: Any, info: ValueInfo, subject: str) -> tuple[int, ...]:
    if not isinstance(dims, list) or not all(type(dim) is int and 0 <= dim < 2**63 for dim in dims):
        raise _bad(f"{subject}: expected a shape, a list of sizes, got {shown(dims)}")
    if len(dims) > MOST_DIMENSIONS:
        raise _bad(f"{subject}: a shape has at most {MOST_DIMENSIONS} sizes, got {len(dims)}")
    shape = tuple(dims)
    if math.prod(shape) > MOST_ELEMENTS:
        raise _bad(f"{subject}: shape {shown(dims)} has more than {MOST_ELEMENTS} elements")
    try:
        symbolic_shapes.check(info, shape, subject)
    except Error as error:
        raise _bad(str(error)) from None
    return shape


def _outputs(wanted: Any, binary: bool, signature: Signature) -> dict[str, bool]:
    if wanted is None or wanted == []:
        return dict.fromkeys(signature.outputs, binary)
    if not isinstance(wanted, list):
        raise _bad(f"outputs: expected a list, got {shown(wanted)}")
    outputs: dict[str, bool] = {}
    for output in wanted:
        name, subject = _named(output, signature.outputs, outputs, "output")
        parameters = _parameters(output, subject)
        if parameters.get("classification"):
            raise _bad(f"{subject}: classification is not supported")
        outputs[name] = _flag(parameters, "binary_data", subject, binary)
    return outputs


def _parameters(holder: Mapping[str, Any], subject: str) -> Mapping[str, Any]:
    parameters = holder.get("parameters")
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise _bad(f"{subject}: expected an object of parameters, got {shown(parameters)}")
    if "shared_memory_region" in parameters:
        raise _bad(f"{subject}: shared memory is not supported")
    return parameters


def _flag(parameters: Mapping[str, Any], name: str, subject: str, default: bool = False) -> bool:
    flag = parameters.get(name, default)
    if not isinstance(flag, bool):
        raise _bad(f"{subject}: {name} is true or false, got {shown(flag)}")
    return flag


def _from_bytes(data: memoryview, info: ValueInfo, shape: tuple[int, ...], subject: str) -> Array:
    if info.element_type is ElementType.STRING:
        return _text_array(_texts(data, math.prod(shape), subject), shape, subject)
    dtype = info.element_type.dtype
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise _bad(
            f"{subject}: shape {list(shape)} of {DATATYPES[info.element_type]} has "
            f"{math.prod(shape) * dtype.itemsize} bytes, got {len(data)}"
        )
    if info.element_type is ElementType.BOOL:
        # Bytes other than 0 and 1 are true.
        return _shaped(np.frombuffer(data, np.uint8) != 0, shape, subject)
    return _shaped(np.frombuffer(data, dtype), shape, subject)


def _texts(data: memoryview, count: int, subject: str) -> list[str]:
    """The `count` strings of binary data: before each one stands its length in four bytes."""
    texts: list[str] = []
    begin = 0
    while begin < len(data):
        if len(texts) == count:
            raise _bad(f"{subject}: the shape has {count} elements, got more")
        start = begin + LENGTH.size
        if start > len(data):
            raise _bad(f"{subject}: the data end within the length of string {len(texts)}")
        begin = start + LENGTH.unpack_from(data, start - LENGTH.size)[0]
        if begin > len(data):
            raise _bad(f"{subject}: the data end within string {len(texts)}")
        try:
            texts.append(str(data[start:begin], "utf-8"))
        except UnicodeDecodeError as error:
            raise _bad(f"{subject}: string {len(texts)} is no UTF-8: {error.reason}") from None
    return texts


def _text_array(texts: list[str], shape: tuple[int, ...], subject: str) -> Array:
    if len(texts) != math.prod(shape):
        raise _bad(f"{subject}: shape {list(shape)} has {math.prod(shape)} elements, got {len(texts)}")
    array = np.empty(len(texts), object)
    array[:] = texts
    return _shaped(array, shape, subject)


def _shaped(array: Array, shape: tuple[int, ...], subject: str) -> Array:
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        # Sizes beside a 0 may be too large for numpy.
        raise _bad(f"{subject}: {error}") from None


def _from_json(data: Any, info: ValueInfo, shape: tuple[int, ...], subject: str) -> Array:
    """Data of JSON, nested as the shape says or flat."""
    wanted, elements = info.element_type, _elements(data, shape, subject)
    words, types = next(expected for kinds, expected in _EXPECTED if wanted.dtype.kind in kinds)
    # Checked here: numpy would make numbers of booleans, and give each number the width of a long string among them.
    strange = set(map(type, elements)) - types
    if strange:
        example = next(each for each in elements if type(each) in strange)
        raise _bad(f"{subject}: expected {words} for {DATATYPES[wanted]}, got {shown(example)}")
    if wanted is ElementType.STRING:
        try:
            "".join(elements).encode()
        except UnicodeEncodeError as error:
            raise _bad(f"{subject}: a string cannot be written as UTF-8: {error.reason}") from None
        return _text_array(elements, shape, subject)
    if len(elements) != math.prod(shape):
        raise _bad(f"{subject}: shape {list(shape)} has {math.prod(shape)} elements, got {len(elements)}")
    if types == {int} and elements:
        limits, low, high = np.iinfo(wanted.dtype), min(elements), max(elements)
        if low < limits.min or high > limits.max:
            raise _bad(f"{subject}: {shown(low if low < limits.min else high)} does not fit {DATATYPES[wanted]}")
    try:
        # As float64 first: numpy has no float16 and bfloat16 of null, which stands for NaN.
        array = np.array(elements, np.float64 if float in types else wanted.dtype)
    except OverflowError as error:
        raise _bad(f"{subject}: {error}") from None
    with np.errstate(over="ignore"):
        return _shaped(array.astype(wanted.dtype, copy=False), shape, subject)


def _elements(data: Any, shape: tuple[int, ...], subject: str) -> list[Any]:
    """The elements of data that are flat or nested as the shape says; numpy takes long for lists that are not."""
    level: list[Any] = data if isinstance(data, list) else [data]
    if list not in map(type, level):
        return level
    fits = len(level) == (shape or (-1,))[0]
    for size in shape[1:]:
        fits = fits and all(type(each) is list and len(each) == size for each in level)
        if not fits:
            break
        level = list(chain.from_iterable(level))
    if not fits or list in map(type, level):
        raise _bad(f"{subject}: the data are not nested as the shape {list(shape)} says")
    return level


def _raw(body: bytes, signature: Signature) -> InferRequest:
    """A request without JSON: the body is the data of the model's only input, and all outputs come as binary data."""
    if len(signature.inputs) != 1:
        raise _bad(f"a request without JSON needs a model of one input; this one has {len(signature.inputs)}")
    [info] = signature.inputs.values()
    subject = f"input {info.name!r}"
    open_sizes = [axis for axis, dim in enumerate(info.shape or ()) if not isinstance(dim, int)]
    if info.shape is None or len(open_sizes) > 1:
        raise _bad(f"{subject}: a request without JSON needs a shape with at most one open size")
    sizes = [dim if isinstance(dim, int) else 1 for dim in info.shape]
    if info.element_type is ElementType.STRING:
        try:
            array = _text_array([str(body, "utf-8")], tuple(sizes), subject)
        except UnicodeDecodeError as error:
            raise _bad(f"{subject} is no UTF-8: {error.reason}") from None
    else:
        row = math.prod(sizes) * info.element_type.dtype.itemsize
        for axis in open_sizes:
            sizes[axis] = len(body) // row if row else 0
        array = _from_bytes(memoryview(body), info, tuple(sizes), subject)
    return InferRequest(None, {info.name: array}, dict.fromkeys(signature.outputs, True), None)
