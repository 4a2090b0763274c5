"""Models that are broken at random: an error of zrt's, never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto

import zrt
from zrt.errors import ModelError

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")

SCRIPT = """
import random
import sys
import zrt

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
MODEL = bytes.fromhex({model!r})

def attempt(work):
    try:
        work()
    except zrt.Error:
        pass

def use(data):
    graph = zrt.Graph.from_onnx(data)
    attempt(graph.check)
    attempt(lambda: graph.session(QUIET))
    attempt(lambda: graph.session(QUIET, engine="onnx"))
    repr(graph), graph.metadata, graph.inputs, graph.outputs

def edit(data):
    opened = zrt.edit(data, QUIET)
    if opened.outputs:
        opened.output(opened.op("Identity", opened.outputs[0], outputs="again"))
    opened.finalize()

dice = random.Random(7)
for _ in range(400):
    data = bytearray(MODEL)
    for _ in range(dice.randint(1, 5)):
        at = dice.randrange(len(data))
        data[at : at + 1] = bytes(dice.randrange(256) for _ in range(dice.choice([0, 1, 1, 1, 2])))
    for work in (use, edit):
        attempt(lambda: work(bytes(data)))
"""


@pytest.mark.parametrize("which", ["three layers", "branching"])
def test_broken_models(which: str, three_layers: Any, branching: Any, python: Any) -> None:
    graph = three_layers(sizes=(4, 3, 3, 3)) if which == "three layers" else branching()
    python(SCRIPT.format(model=graph.to_bytes().hex()))


def test_names_that_c_would_cut_short(three_layers: Any) -> None:
    model = three_layers().to_onnx()
    model.graph.node[0].name = "a\0b"
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "h\0h"
    engine = zrt.Graph.from_onnx(model).engine
    assert engine.name == "onnx"
    assert any("NUL" in reason for reason in engine.reasons)


def test_a_name_that_is_no_text(three_layers: Any) -> None:
    data = three_layers().to_bytes().replace(b"logits", b"log\xff\xfes")
    with pytest.raises(ModelError, match="not UTF-8"):
        zrt.Graph.from_onnx(data)


def test_weights_that_are_not_as_many_as_they_say(three_layers: Any) -> None:
    for empty in (TensorProto(data_type=1, dims=[32]), TensorProto(data_type=1, dims=[32], raw_data=b"1234")):
        model = three_layers().to_onnx()
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "b0")
        empty.name = tensor.name
        tensor.CopyFrom(empty)
        graph = zrt.Graph.from_onnx(model)
        with pytest.raises(zrt.Error, match="b0"):
            graph.session(QUIET)
        with pytest.raises(ModelError):
            graph.check()
