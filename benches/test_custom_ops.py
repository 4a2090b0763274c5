"""The cost of a custom operator over the standard one: Add of four floats, in C and in Python."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import zrt
from benches.support import ONE_THREAD, Compare, Entry, Group, c_loop_entry, lane_entry
from tests.custom_ops import support
from tests.custom_ops.support import Add
from tests.support import compiler
from zrt.custom_ops import CFunction, CustomOp

FUNCTIONS = Path(support.__file__).with_name("functions.c")


class InC(CustomOp):
    inputs = (np.float32, np.float32)
    outputs = (np.float32,)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Group:
    library = tmp_path_factory.mktemp("add") / "functions.so"
    subprocess.run([*compiler.command(), "-O2", "-shared", "-fPIC", "-o", library, FUNCTIONS], check=True)
    in_c = InC()
    in_c.function = CFunction(ctypes.CDLL(str(library)).add)
    options = zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain("bench", [in_c, Add()])], **ONE_THREAD)
    x = np.arange(4, dtype=np.float32)

    def lane(op_type: str) -> zrt.Lane:
        text = f"(float[4] x, float[4] y) => (float[4] z) {{ z = {op_type}(x, y) }}"
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21, "bench" : 1]> add {text}')
        lane = zrt.Session(model, options).lane()
        for name in lane.inputs:
            lane.inputs[name][...] = x
        return lane

    def entry(key: str, op_type: str) -> Entry:
        return lane_entry(key, lane(op_type), [x + x])

    return Group(
        "custom operators: Add of 4 floats, one run of a lane",
        [
            entry("standard", "Add"),
            entry("in_c", "bench.InC"),
            entry("in_python", "bench.Add"),
            c_loop_entry("standard_from_c", lane("Add"), [x + x]),
            c_loop_entry("in_c_from_c", lane("bench.InC"), [x + x]),
        ],
    )


@pytest.mark.parametrize("kind", ["standard", "in_c", "in_python", "standard_from_c", "in_c_from_c"])
def test_run(compare: Compare, group: Group, kind: str) -> None:
    compare(group, kind)
