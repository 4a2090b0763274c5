"""Shared libraries of operators."""

import ctypes
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.custom_ops.support import X
from tests.support import models
from tests.support.compiler import cut_library, shared_library
from tests.support.libc import MUSL
from zrt.errors import ArgumentError

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21, "test.library" : 1]> '
    "test (float[n] x) => (float[n] y) { y = test.library.Negate(x) }"
)


def test_library_serves_sessions_and_lanes(compiled: Callable[[str], Path]) -> None:
    path = compiled("library.c")
    options = zrt.SessionOptions(custom_op_libraries=[path])
    for settings in (options, zrt.SessionOptions(custom_op_libraries=[str(path)])):
        with zrt.Session(MODEL, settings) as session:
            lane = session.lane(shapes={"x": 4}, output_shapes={"y": 4})
            assert np.array_equal(session.run([X])[0], -X)
        del session
        gc.collect()
        lane.inputs["x"][...] = 3
        lane.run()
        assert (lane.outputs["y"] == -3).all()


def test_library_in_the_current_folder_is_found_by_its_name(
    compiled: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here.so").write_bytes(compiled("library.c").read_bytes())
    monkeypatch.chdir(tmp_path)
    session = zrt.Session(MODEL, zrt.SessionOptions(custom_op_libraries=["here.so"]))
    assert np.array_equal(session.run([X])[0], -X)


@pytest.mark.skipif(MUSL, reason="musl's loader looks for files alone")
def test_library_is_found_by_its_name_alone(tmp_path: Path) -> None:
    # The system's loader also finds a library that is loaded already.
    name, source = "libzrt_operators_by_name.so", "void *RegisterCustomOps(void *options, void *api) { return 0; }"
    ctypes.CDLL(str(shared_library(tmp_path / "operators.so", source, f"-Wl,-soname,{name}")))
    spec = zrt.SessionSpec(models.add(["n"]), zrt.SessionOptions(custom_op_libraries=[name]))
    for load in (spec.load, pickle.loads(pickle.dumps(spec)).load):
        with load() as session:
            assert session.run({"x": X, "y": X})[0].tolist() == (2 * X).tolist()


def test_libraries_in_options_as_json(compiled: Callable[[str], Path]) -> None:
    options = zrt.SessionOptions(custom_op_libraries=[str(compiled("library.c"))])
    assert zrt.SessionOptions.from_json(options.to_json()) == options


def test_bad_libraries_are_refused(tmp_path: Path, compiled: Callable[[str], Path]) -> None:
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(ArgumentError, match=r"SessionOptions.custom_op_libraries: .*text\.so"):
        zrt.SessionOptions(custom_op_libraries=[text]).handle()
    with pytest.raises(ArgumentError, match=r"custom_op_libraries: .*cut\.so': it is cut off"):
        zrt.SessionOptions(custom_op_libraries=[cut_library(tmp_path / "cut.so")]).handle()
    with pytest.raises(ArgumentError, match="RegisterCustomOps"):
        zrt.SessionOptions(custom_op_libraries=[compiled("functions.c")]).handle()


@pytest.mark.parametrize("write", [zrt.compile, zrt.save_optimized])
def test_library_is_not_replaced_by_a_model(compiled: Callable[[str], Path], tmp_path: Path, write: Any) -> None:
    library = tmp_path / "operators.so"
    library.write_bytes(compiled("library.c").read_bytes())
    with pytest.raises(ArgumentError, match="is the same file as the input"):
        write(MODEL, library, options=zrt.SessionOptions(custom_op_libraries=[library]))
    assert library.read_bytes() == compiled("library.c").read_bytes()
