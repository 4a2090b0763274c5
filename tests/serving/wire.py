"""Requests and responses of the Open Inference Protocol, written and read apart from zrt.serving."""

import json
import struct
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BYTES": np.dtype(object),
}
# ONNX's own notation for each.
ONNX_NAMES = {
    "BOOL": "bool",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float",
    "FP64": "double",
    "BYTES": "string",
    **{name: name.lower() for name in DTYPES if "INT" in name},
}


def to_bytes(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype != object:
        return array.tobytes()
    encoded = [text.encode() for text in array.reshape(-1)]
    return b"".join(struct.pack("<I", len(text)) + text for text in encoded)


def from_bytes(data: bytes, datatype: str, shape: list[int]) -> np.ndarray[Any, Any]:
    if datatype != "BYTES":
        return np.frombuffer(data, DTYPES[datatype]).reshape(shape)
    fields = []
    while data:
        (size,) = struct.unpack("<I", data[:4])
        fields.append(data[4 : 4 + size].decode())
        data = data[4 + size :]
    array = np.empty(len(fields), object)
    array[:] = fields
    return array.reshape(shape)


def tensor(name: str, datatype: str, array: np.ndarray[Any, Any], binary: bool) -> tuple[dict[str, Any], bytes]:
    """A tensor of a request, and its binary data."""
    described: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
    if binary:
        data = to_bytes(array)
        return {**described, "parameters": {"binary_data_size": len(data)}}, data
    plain = array.astype(np.float64) if datatype == "BF16" else array
    return {**described, "data": plain.reshape(-1).tolist()}, b""


def steps(number: int) -> list[dict[str, Any]]:
    """The inputs of `tests.support.models.LOOP`: 0 doubled that often."""
    return [
        {"name": "n", "datatype": "INT64", "shape": [], "data": [number]},
        {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]},
    ]


def read(body: bytes, json_size: int | None) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a response."""
    document = json.loads(body if json_size is None else body[:json_size])
    binary = b"" if json_size is None else body[json_size:]
    parts = {}
    for output in document["outputs"]:
        datatype, shape = output["datatype"], output["shape"]
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            parts[output["name"]] = np.array(output["data"], DTYPES[datatype]).reshape(shape)
        else:
            parts[output["name"]] = from_bytes(binary[:size], datatype, shape)
            binary = binary[size:]
    assert not binary
    return parts
