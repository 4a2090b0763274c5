"""protobuf reads the fields that `protobuf_writer` writes."""

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zrt._common.protobuf_writer import field


@pytest.mark.parametrize("number", [0, 127, 128, 2**31, 2**63 - 1, -1, -(2**63)])
def test_integers(number):
    assert onnx.AttributeProto.FromString(field(3, number)).i == number


@given(st.integers(-(2**63), 2**63 - 1), st.floats(width=32, allow_nan=False), st.text(), st.binary(max_size=300))
def test_every_kind_of_field(whole, real, name, content):
    written = field(3, whole) + field(2, real) + field(1, name) + field(4, content) + field(20, 1)
    read = onnx.AttributeProto.FromString(written)
    assert (read.i, read.f, read.name, read.s, read.type) == (whole, real, name, content, 1)


def test_a_message_in_a_message():
    node = field(1, "x") + field(4, "Neg")
    [read] = onnx.GraphProto.FromString(field(1, node)).node
    assert (list(read.input), read.op_type) == (["x"], "Neg")
