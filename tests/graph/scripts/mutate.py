"""Mutates the model in the file of argument 1: each mutated model is used or refused with zrt's errors."""

import random
import sys
from pathlib import Path

import zrt

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
MODEL = Path(sys.argv[1]).read_bytes()


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
