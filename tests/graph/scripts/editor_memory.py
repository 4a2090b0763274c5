"""Prints nothing if ten thousand models of the model editor, valid and not, leave no memory behind."""

import gc

import numpy as np

import zrt
from zrt.bench.machine import resident_bytes
from zrt.graph.editor import Assembly

graph = zrt.Graph()
x = graph.input("x", "float32", ("n", 64))
y = graph.op("MatMul", x, graph.initializer("w", np.ones((64, 64), np.float32), borrow=True))
y = graph.op("Transpose", graph.op("Add", y, graph.initializer("b", np.ones(64, np.float32))), perm=[1, 0])
graph.output(y, "float32", (64, "n"))
model = graph._finished()


def assemble(finished):
    assembly = Assembly()
    assembly.values(model.graph.input, False)
    assembly.values(model.graph.input, True)
    for tensor in model.graph.initializer:
        assembly.initializer(tensor, graph._borrowed.get(tensor.name))
    try:
        assembly.initializer(model.graph.initializer[1], None)
    except zrt.Error:
        pass
    else:
        raise AssertionError("a name was taken twice")
    for node in model.graph.node:
        assembly.node(node)
    assembly.values(model.graph.output, True)
    if finished:
        assembly.model({"": 21})


def resident():
    gc.collect()
    return resident_bytes()


for _ in range(500):
    assemble(True)
    assemble(False)
before = resident()
for _ in range(5000):
    assemble(True)
    assemble(False)
grown = resident() - before
assert grown < 2 << 20, grown
