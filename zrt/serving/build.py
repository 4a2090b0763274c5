"""Writes responses of the Open Inference Protocol: JSON, with binary data after it or without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zrt.serving.parse import LENGTH, Array, InferRequest
from zrt.serving.request_error import BAD_REQUEST, RequestError
from zrt.serving.signature import DATATYPES, Signature
from zrt.types import ElementType


class Answer(NamedTuple):
    """The body of a response."""

    body: bytes
    json_size: int | None
    """The bytes of its JSON where binary data follow."""


def build(name: str, version: str, signature: Signature, request: InferRequest, results: Mapping[str, Array]) -> Answer:
    """The answer to a request of a model that gave these results."""
    outputs = []
    blocks: list[bytes] = []
    for output, binary in request.outputs.items():
        array, element_type = results[output], signature.outputs[output].element_type
        tensor: dict[str, Any] = {"name": output, "datatype": DATATYPES[element_type], "shape": list(array.shape)}
        if binary:
            block = _text_bytes(array) if element_type is ElementType.STRING else array.tobytes()
            tensor["parameters"] = {"binary_data_size": len(block)}
            blocks.append(block)
        else:
            tensor["data"] = _to_json(array, element_type, output)
        outputs.append(tensor)
    document: dict[str, Any] = {"model_name": name, "model_version": version}
    if request.id is not None:
        document["id"] = request.id
    document["outputs"] = outputs
    text = json.dumps(document, separators=(",", ":")).encode()
    return Answer(b"".join((text, *blocks)), len(text)) if blocks else Answer(text, None)


def _to_json(array: Array, element_type: ElementType, output: str) -> list[Any]:
    flat = array.reshape(-1)
    if element_type is ElementType.STRING:
        texts: list[str] = flat.tolist()
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise RequestError(
                BAD_REQUEST, f"output {output!r} has strings that are no UTF-8: ask for it as binary data"
            ) from None
        return texts
    if element_type is ElementType.BFLOAT16:
        flat = flat.astype(np.float32)
    numbers: list[Any] = flat.tolist()
    if flat.dtype.kind == "f" and np.isnan(flat).any():
        # JSON has no NaN; clients read null as NaN.
        return [None if number != number else number for number in numbers]
    return numbers


def _text_bytes(array: Array) -> bytes:
    parts: list[bytes] = []
    for text in array.reshape(-1).tolist():
        # A model's own strings need not be UTF-8: zrt returns their bytes as surrogates.
        encoded = text.encode("utf-8", "surrogateescape")
        parts += (LENGTH.pack(len(encoded)), encoded)
    return b"".join(parts)
