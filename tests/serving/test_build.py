"""Responses are written as the protocol says."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving import wire
from tests.serving.test_parse import TYPES, tensor_info, tensors
from zrt.serving.build import build
from zrt.serving.parse import InferRequest
from zrt.serving.request_error import RequestError
from zrt.serving.signature import Signature


def response(outputs: dict[str, tuple[str, Any, bool]], given_id: str | None = None) -> tuple[bytes, int | None]:
    """The response with outputs by name: the datatype, the array, and whether it is binary."""
    of = Signature({}, {name: tensor_info(name, TYPES[kind], None) for name, (kind, *_) in outputs.items()}, True, True)
    request = InferRequest(given_id, {}, {name: binary for name, (*_, binary) in outputs.items()}, None)
    return build("m", "7", of, request, {name: array for name, (_, array, _) in outputs.items()})


@given(st.lists(st.tuples(tensors(), st.booleans()), min_size=1, max_size=3))
def test_every_tensor_can_be_read_back(sent: list[Any]) -> None:
    outputs = {f"o{index}": (kind, array, binary) for index, ((kind, array), binary) in enumerate(sent)}
    body, size = response(outputs)
    got = wire.read(body, size)
    assert list(got) == list(outputs)
    for name, (_, array, _) in outputs.items():
        assert (got[name].shape, got[name].dtype) == (array.shape, array.dtype)
        assert got[name].tolist() == array.tolist()


def test_response_names_model_version_and_id() -> None:
    body, size = response({"y": ("FP32", np.ones(2, np.float32), False)}, "a1")
    assert size is None
    assert json.loads(body) == {
        "model_name": "m",
        "model_version": "7",
        "id": "a1",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "data": [1.0, 1.0]}],
    }
    assert "id" not in json.loads(response({"y": ("FP32", np.ones(2, np.float32), False)})[0])


def test_nan_is_null_in_json_and_itself_in_binary_data() -> None:
    array = np.array([np.nan, 1], np.float32)
    body, _ = response({"y": ("FP32", array, False)})
    assert json.loads(body)["outputs"][0]["data"] == [None, 1.0]
    assert np.array_equal(wire.read(*response({"y": ("FP32", array, True)}))["y"], array, equal_nan=True)


def test_strings_that_are_no_utf8_need_binary_data() -> None:
    array = np.array([b"\xff".decode("utf-8", "surrogateescape")], object)
    body, size = response({"y": ("BYTES", array, True)})
    assert body[size:] == b"\1\0\0\0\xff"
    with pytest.raises(RequestError, match=r"'y'.*binary data"):
        response({"y": ("BYTES", array, False)})


def test_strided_results_are_written_in_order() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3).T
    assert wire.read(*response({"y": ("INT64", array, True)}))["y"].tolist() == array.tolist()
    assert wire.read(*response({"y": ("INT64", array, False)}))["y"].tolist() == array.tolist()
