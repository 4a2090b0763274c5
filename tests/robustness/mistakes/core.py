"""Sessions, values, buffers, bindings, lanes, runtimes, copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import zrt
from tests import models
from tests.robustness.vocabulary import (
    A_FACT,
    A_RESULT,
    INSIDE,
    NOTHING,
    QUIET,
    Bad,
    Kind,
    Single,
    Take,
    World,
    closed,
    f32,
    feeding,
    huge_array,
    terminated,
)
from zrt.errors import (
    AllocationError,
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    InvalidGraphError,
    InvalidProtobufError,
    ModelError,
    ModelNotFoundError,
    OutOfRangeError,
    ProviderError,
    ShapeError,
    TerminatedError,
    UnknownNameError,
    UnsupportedError,
)

# Things that can be taken: for each, its bad ones.

ARRAY = [
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4)), DTypeError, "float32", "float64"),
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), np.int32), DTypeError, "float32", "int32"),
    # Of these ORT can make no tensor over an array's memory, whatever the model wants.
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), np.complex64), Error),
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), object), Error),
    (Kind.WRONG_DTYPE, lambda w: np.full((2, 4), "a"), Error, "string"),
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), "M8[s]"), DTypeError, "datetime64"),
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), [("f", "f4")]), DTypeError, "dtype"),
    (Kind.WRONG_DTYPE, lambda w: zrt.Value.from_array(np.zeros((2, 4))), DTypeError, "float32", "float64"),
    (Kind.WRONG_DTYPE, lambda w: zrt.Buffer((2, 4), np.float64), DTypeError, "float32", "float64"),
    (Kind.WRONG_RANK, lambda w: f32(2), ShapeError, "[n, 4]", "[2]"),
    (Kind.WRONG_RANK, lambda w: f32(2, 4, 1), ShapeError, "[n, 4]", "[2, 4, 1]"),
    (Kind.WRONG_RANK, lambda w: f32(), ShapeError, "[n, 4]", "[]"),
    (Kind.WRONG_RANK, lambda w: zrt.Value.from_array(f32(2)), ShapeError, "[n, 4]", "[2]"),
    (Kind.WRONG_SHAPE, lambda w: f32(2, 5), ShapeError, "[n, 4]", "[2, 5]"),
    (Kind.WRONG_SHAPE, lambda w: f32(2, 0), ShapeError, "[n, 4]", "[2, 0]"),
    (Kind.WRONG_SHAPE, lambda w: zrt.Buffer((2, 5), np.float32), ShapeError, "[n, 4]", "[2, 5]"),
    (Kind.CLOSED, lambda w: closed(w.value()), ClosedError, "Value is closed"),
    (Kind.CLOSED, lambda w: closed(w.buffer()), ClosedError, "Buffer is closed"),
    (Kind.WRONG_TYPE, lambda w: "a", DTypeError, "str"),
    (Kind.WRONG_TYPE, lambda w: object(), DTypeError),
    (Kind.WRONG_TYPE, lambda w: {"x": 1}, DTypeError),
]

FEEDS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.feeds, "q": w.array}, UnknownNameError, "'q'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.feeds, 5: w.array}, UnknownNameError, "5", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.feeds, "x\0": w.array}, UnknownNameError, "'x\\x00'"),
    Bad(Kind.MISSING_INPUT, lambda w: {"x": w.array}, ArgumentError, "'y'", "missing"),
    Bad(Kind.MISSING_INPUT, lambda w: {}, ArgumentError, "'x', 'y'", "missing"),
    Bad(Kind.MISSING_INPUT, lambda w: [w.array], ArgumentError, "2 inputs", "got 1"),
    Bad(Kind.WRONG_VALUE, lambda w: [w.array] * 3, ArgumentError, "2 inputs", "got 3"),
    *(feeding(*each) for each in ARRAY),
    feeding(Kind.WRONG_TYPE, lambda w: None, DTypeError),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "feeds", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "feeds", "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: "xy", DTypeError, "feeds", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: w.array, DTypeError, "feeds", "ndarray"),
    Bad(Kind.WRONG_TYPE, lambda w: {"x", "y"}, DTypeError, "feeds", "set"),
]

COPIED_FEEDS = [
    *FEEDS,
    feeding(Kind.WRONG_DTYPE, lambda w: [["a", "b"]], DTypeError, "float32"),
    feeding(Kind.WRONG_RANK, lambda w: [[1.0], [2.0, 3.0]], DTypeError),
    feeding(Kind.HUGE, lambda w: huge_array(), AllocationError, "float32"),
]

BORROWED_FEEDS = [
    *FEEDS,
    feeding(Kind.WRONG_TYPE, lambda w: [[0.0] * 4], DTypeError, "list"),
    feeding(Kind.WRONG_VALUE, lambda w: f32(4, 2).T, ArgumentError, "contiguous"),
    feeding(Kind.WRONG_VALUE, lambda w: np.zeros((2, 4), ">f4"), ArgumentError, "byte order"),
    feeding(Kind.HUGE, lambda w: huge_array(), ArgumentError, "contiguous"),
]

BOUND_INPUT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ("q", w.array), UnknownNameError, "'q'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("z", w.array), UnknownNameError, "'z'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("x\0", w.array), UnknownNameError, "'x\\x00'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("", w.array), UnknownNameError, "''"),
    Bad(Kind.UNKNOWN_NAME, lambda w: (5, w.array), UnknownNameError, "5"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ([], w.array), UnknownNameError, "[]"),
    *(
        Bad(bad.kind, lambda w, bad=bad: ("x", bad.make(w)["x"]), bad.error, *bad.words)
        for bad in BORROWED_FEEDS
        if "input 'x'" in bad.words
    ),
]

READ_ONLY = np.frombuffer(bytes(32), np.float32).reshape(2, 4)

BOUND_OUTPUT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ("q", w.array), UnknownNameError, "'q'", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ("x", None), UnknownNameError, "'x'", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ([], None), UnknownNameError, "[]"),
    *(
        Bad(kind, lambda w, make=make: ("z", make(w)), error, "output 'z'", *words)
        for kind, make, error, *words in ARRAY
    ),
    Bad(Kind.HUGE, lambda w: ("z", huge_array()), ArgumentError, "output 'z'"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", READ_ONLY), ArgumentError, "output 'z'", "read-only"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", zrt.Value.from_array(READ_ONLY)), ArgumentError, "output 'z'", "read-only"),
    Bad(Kind.WRONG_VALUE, lambda w: ("z", zrt.MemoryInfo("\ud800")), ArgumentError, "\\ud800"),
]

OUTPUT_NAMES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ["q"], UnknownNameError, "outputs", "'q'", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ["z", 5], UnknownNameError, "outputs", "5", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: [[]], UnknownNameError, "outputs", "[]", "'z'"),
    Bad(Kind.WRONG_VALUE, lambda w: [], ArgumentError, "outputs"),
    Bad(Kind.WRONG_VALUE, lambda w: ["z", "z"], ArgumentError, "outputs", "'z'"),
    Bad(Kind.WRONG_TYPE, lambda w: "z", DTypeError, "outputs", "'z'"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "outputs", "5"),
]

RUN_OPTIONS = [
    Bad(Kind.CLOSED, lambda w: closed(zrt.RunOptions()), ClosedError, "RunOptions is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "options", "RunOptions", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(), DTypeError, "options", "SessionOptions"),
    Bad(Kind.WRONG_VALUE, lambda w: terminated(), TerminatedError),
]


def sized(kind: Kind, shape: Any, error: type[Error], *words: str) -> Bad:
    """Shapes that are right but for that of `x`."""
    return Bad(kind, lambda w: {**w.shapes, "x": shape}, error, "input 'x'", *words)


SHAPES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.shapes, "q": (1,)}, UnknownNameError, "'q'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.shapes, "z": (2, 4)}, UnknownNameError, "'z'", "'x', 'y'"),
    Bad(Kind.MISSING_INPUT, lambda w: {"x": (2, 4)}, ShapeError, "input 'y'", "[n, 4]"),
    Bad(Kind.MISSING_INPUT, lambda w: None, ShapeError, "input 'x'", "[n, 4]"),
    Bad(Kind.MISSING_INPUT, lambda w: [(2, 4)], ArgumentError, "2 inputs", "got 1"),
    sized(Kind.WRONG_RANK, (2,), ShapeError, "[n, 4]", "[2]"),
    sized(Kind.WRONG_RANK, (2, 4, 1), ShapeError, "[n, 4]", "[2, 4, 1]"),
    sized(Kind.WRONG_RANK, 2, ShapeError, "[n, 4]", "[2]"),
    sized(Kind.WRONG_RANK, (), ShapeError, "[n, 4]", "[]"),
    sized(Kind.WRONG_SHAPE, (2, 5), ShapeError, "[n, 4]", "[2, 5]"),
    sized(Kind.NEGATIVE, (-1, 4), ShapeError, "-1"),
    sized(Kind.NEGATIVE, (-(2**70), 4), ShapeError, str(-(2**70))),
    sized(Kind.HUGE, (2**63, 4), ShapeError, str(2**63)),
    sized(Kind.HUGE, (2**70, 4), ShapeError, str(2**70)),
    sized(Kind.HUGE, (2**62, 4), AllocationError, str(2**66)),
    # Sixteen times what a process can address, so that no machine has it.
    sized(Kind.HUGE, (2**48, 4), AllocationError, str(2**52)),
    sized(Kind.WRONG_TYPE, (1.5, 4), ShapeError, "1.5"),
    sized(Kind.WRONG_TYPE, ("a", 4), ShapeError, "'a'"),
    sized(Kind.WRONG_TYPE, (True, 4), ShapeError, "True"),
    sized(Kind.WRONG_TYPE, None, ShapeError, "None"),
    sized(Kind.WRONG_TYPE, "ab", ShapeError, "'a'"),
    sized(Kind.WRONG_TYPE, 1.5, ShapeError, "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "shapes", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "xy", DTypeError, "shapes", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: w.array, DTypeError, "shapes", "ndarray"),
]

# Where nothing is made for the shapes, any that may be is right.
SOUGHT_SHAPES = [bad for bad in SHAPES if bad.error is not AllocationError]

OUTPUT_SHAPES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"q": (2, 4)}, UnknownNameError, "'q'", "'z'"),
    Bad(Kind.WRONG_RANK, lambda w: {"z": (2,)}, ShapeError, "output 'z'", "[n, 4]", "[2]"),
    Bad(Kind.WRONG_SHAPE, lambda w: {"z": (2, 5)}, ShapeError, "output 'z'", "[n, 4]", "[2, 5]"),
    Bad(Kind.NEGATIVE, lambda w: {"z": (-1, 4)}, ShapeError, "output 'z'", "-1"),
    Bad(Kind.HUGE, lambda w: {"z": (2**63, 4)}, ShapeError, "output 'z'", str(2**63)),
    Bad(Kind.HUGE, lambda w: {"z": (2**62, 4)}, AllocationError, "output 'z'"),
    Bad(Kind.WRONG_TYPE, lambda w: {"z": (1.5, 4)}, ShapeError, "output 'z'", "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "shapes", "int"),
]
SOUGHT_OUTPUT_SHAPES = [bad for bad in OUTPUT_SHAPES if bad.error is not AllocationError]

PRELOADED = np.ones((1024, 4), np.float32)


def newer(w: World) -> onnx.ModelProto:
    model = onnx.load_model_from_string(w.model)
    model.ir_version = 99
    return model


def with_operator(w: World, name: str) -> bytes:
    model = onnx.load_model_from_string(w.model)
    model.graph.node[0].op_type = name
    return bytes(model.SerializeToString())


def without(path: Path, name: str) -> Path:
    path.with_name(name).unlink()
    return path


MODEL = [
    Bad(Kind.CORRUPT, lambda w: w.file("bad.onnx", b"no model" * 99), InvalidProtobufError, "bad.onnx"),
    Bad(Kind.CORRUPT, lambda w: b"no model" * 99, InvalidProtobufError, "model in memory"),
    Bad(Kind.CORRUPT, lambda w: bytearray(99), InvalidProtobufError, "model in memory"),
    Bad(Kind.CORRUPT, lambda w: w.model[: len(w.model) // 2], InvalidProtobufError, "model in memory"),
    Bad(Kind.CORRUPT, lambda w: w.file("half.onnx", w.model[: len(w.model) // 2]), InvalidProtobufError, "half.onnx"),
    Bad(Kind.CORRUPT, lambda w: with_operator(w, "Nope"), InvalidGraphError, "model in memory", "Nope"),
    Bad(Kind.CORRUPT, lambda w: with_operator(w, "Not"), InvalidGraphError, "model in memory", "Not"),
    Bad(Kind.EMPTY, lambda w: w.file("empty.onnx", b""), ModelError, "empty.onnx", "is empty"),
    Bad(Kind.EMPTY, lambda w: b"", ModelError, "is empty"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, ModelError, "is a directory"),
    Bad(Kind.DIRECTORY, lambda w: str(w.folder), ModelError, "is a directory"),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no.onnx", ModelNotFoundError, "no.onnx", "no such file"),
    Bad(Kind.MISSING_FILE, lambda w: "no/such/folder.onnx", ModelNotFoundError, "folder.onnx", "no such file"),
    Bad(Kind.MISSING_FILE, lambda w: without(w.outside(99), "outside.weights"), Error, "outside"),
    Bad(Kind.TRUNCATED, lambda w: w.outside(16383), Error, "outside.onnx"),
    Bad(Kind.TRUNCATED, lambda w: w.outside(0), Error, "outside.onnx"),
    Bad(Kind.WRONG_VALUE, newer, ModelError, "ModelProto", "99", "ir_version"),
    Bad(Kind.WRONG_VALUE, lambda w: "no\0", ArgumentError, "model", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "\ud800", ArgumentError, "model"),
    Bad(Kind.WRONG_VALUE, lambda w: "a" * 5000, ModelError, "aaa"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "model", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "model", "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: [w.model], DTypeError, "model", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: w.array, DTypeError, "model", "ndarray"),
]

# The onnx package reads these first and has words of its own.
SHARED_MODEL = [
    Bad(bad.kind, bad.make, ModelError if bad.error is InvalidProtobufError else bad.error)
    if bad.kind in (Kind.CORRUPT, Kind.TRUNCATED) or bad.error is Error
    else bad
    for bad in MODEL
]


def option(field: str, value: Any, error: type[Error], *words: str) -> Bad:
    return Bad(Kind.WRONG_VALUE, lambda w: zrt.SessionOptions(**{field: value}), error, field, *words)


SESSION_OPTIONS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "options", "SessionOptions", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: {"intra_op_num_threads": 1}, DTypeError, "options", "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.RunOptions(), DTypeError, "options", "RunOptions"),
    option("graph_optimization_level", 5, ArgumentError, "5", "ENABLE_ALL"),
    option("graph_optimization_level", "fastest", ArgumentError, "'fastest'"),
    option("graph_optimization_level", True, ArgumentError, "True"),
    option("graph_optimization_level", [], ArgumentError, "[]"),
    option("execution_mode", 2, ArgumentError, "2", "PARALLEL"),
    *(
        option(field, value, error, str(value))
        for field in ("intra_op_num_threads", "inter_op_num_threads")
        for value, error in ((-1, ArgumentError), (2**31, ArgumentError), (1.5, DTypeError), (True, DTypeError))
    ),
    *(
        option(field, 1, DTypeError, "True or False", "1")
        for field in (
            "enable_mem_pattern",
            "enable_cpu_mem_arena",
            "intra_op_allow_spinning",
            "inter_op_allow_spinning",
            "use_deterministic_compute",
            "record_placement",
        )
    ),
    *(
        option(field, *each)
        for field in ("free_dimension_overrides", "free_dimension_overrides_by_denotation")
        for each in (
            (5, DTypeError, "int"),
            ({5: 1}, DTypeError, "5"),
            ({"n": "1"}, DTypeError, "'n'"),
            ({"n": -1}, ArgumentError, "'n'", "-1"),
            ({"n": 2**63}, ArgumentError, "'n'", str(2**63)),
            ({"n\0": 1}, ArgumentError, "NUL"),
        )
    ),
    option("logid", 5, DTypeError, "int"),
    option("logid", "a\0", ArgumentError, "NUL"),
    option("logid", "\ud800", ArgumentError, "UTF-8"),
    option("log_severity_level", 5, ArgumentError, "FATAL"),
    option("log_verbosity_level", -1, ArgumentError, "-1"),
    option("profile_file_prefix", 5, DTypeError, "int"),
    option("profile_file_prefix", "a\0", ArgumentError, "NUL"),
    option("optimized_model_filepath", 5, DTypeError, "int"),
    option("optimized_model_filepath", "a\0", ArgumentError, "NUL"),
    option("config_entries", 5, DTypeError, "int"),
    option("config_entries", {"a": 5}, DTypeError, "'a'", "5"),
    option("config_entries", {5: "a"}, DTypeError, "5"),
    option("config_entries", {"a\0": "b"}, ArgumentError, "NUL"),
    option("config_entries", {"": "b"}, ArgumentError),
    option("config_entries", {"a" * 2000: "b"}, ArgumentError),
]

PROVIDERS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ["nope"], ProviderError, "'nope'", "CPUExecutionProvider"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ["CPU\0"], ProviderError, "CPUExecutionProvider"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ["\ud800"], ProviderError, "CPUExecutionProvider"),
    Bad(Kind.WRONG_VALUE, lambda w: ["CPU", "cpu"], ArgumentError, "'CPUExecutionProvider'", "twice"),
    Bad(Kind.WRONG_VALUE, lambda w: [("CPU", {"a": "b"})], ProviderError, "CPUExecutionProvider", "a"),
    Bad(Kind.WRONG_VALUE, lambda w: [zrt.providers.CPU(extra={"a": "b"})], ProviderError, "CPUExecutionProvider", "a"),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.providers.CPU(extra=5)], DTypeError, "CPUExecutionProvider", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.providers.CPU(extra={5: "b"})], DTypeError, "CPUExecutionProvider", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "providers", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: "CPU", DTypeError, "providers", "'CPU'"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], DTypeError, "providers", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [("CPU",)], DTypeError, "providers", "('CPU',)"),
    Bad(Kind.WRONG_TYPE, lambda w: [("CPU", 5)], DTypeError, "'CPU'", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: [("CPU", {5: "a"})], DTypeError, "'CPU'", "5"),
]

EXTERNAL_DATA_DIR = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "none", ModelNotFoundError, "external_data_dir", "none"),
    Bad(Kind.MISSING_FILE, lambda w: w.file("file", b"x"), ModelNotFoundError, "external_data_dir", "file"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "external_data_dir", "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "external_data_dir", "int"),
]

SESSION = [
    Bad(Kind.CLOSED, lambda w: closed(zrt.Session(w.model, QUIET)), ClosedError, "Session is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "session", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: w.model, DTypeError, "session", "bytes"),
    Bad(Kind.WRONG_TYPE, lambda w: w.value(), DTypeError, "session", "Value"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "session", "NoneType"),
]

SESSIONS = [
    *(Bad(bad.kind, lambda w, bad=bad: [w.session, bad.make(w)], bad.error, *bad.words) for bad in SESSION),
    Bad(Kind.WRONG_VALUE, lambda w: [], ArgumentError, "sessions"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "sessions", "int"),
]

FACTORY = [
    Bad(Kind.CLOSED, lambda w: lambda index: closed(zrt.Session(w.model, QUIET)), ClosedError, "Session is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "factory", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: lambda index: w.model, DTypeError, "factory", "lane 0", "bytes"),
]

LANES = [
    Bad(Kind.WRONG_VALUE, lambda w: 0, ArgumentError, "lanes", "0"),
    Bad(Kind.WRONG_VALUE, lambda w: -1, ArgumentError, "lanes", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: 2**62, ArgumentError, "lanes", str(2**62)),
    Bad(Kind.WRONG_TYPE, lambda w: "2", DTypeError, "lanes", "'2'"),
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, DTypeError, "lanes", "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: True, DTypeError, "lanes", "True"),
]

MAX_BUCKETS = [
    Bad(Kind.WRONG_VALUE, lambda w: 0, ArgumentError, "max_buckets", "0"),
    Bad(Kind.WRONG_TYPE, lambda w: "2", DTypeError, "max_buckets", "'2'"),
]

RUNS = [
    Bad(Kind.WRONG_VALUE, lambda w: -1, ArgumentError, "runs", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: 2**70, ArgumentError, "runs", str(2**70)),
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, DTypeError, "runs", "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "runs", "None"),
]

INDEX = [
    Bad(Kind.WRONG_VALUE, lambda w: 9, OutOfRangeError, "lane 9"),
    Bad(Kind.WRONG_VALUE, lambda w: -9, OutOfRangeError, "lane -9"),
    Bad(Kind.WRONG_TYPE, lambda w: "a", DTypeError, "lane", "'a'"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "lane", "None"),
]

MEMORY = [
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo("Nope"), ArgumentError, "'Nope'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo(""), ArgumentError, "''"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo("Cpu\0"), ArgumentError, "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo("\ud800"), ArgumentError, "\\ud800"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo("Cpu", 2**40), ArgumentError, str(2**40)),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.MemoryInfo(5), DTypeError, "5"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.MemoryInfo("Cpu", "0"), DTypeError, "'0'"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "int"),
]

LANE_MEMORY = [
    *(Bad(bad.kind, lambda w, bad=bad: zrt.LaneMemory.allocated(bad.make(w)), bad.error, *bad.words) for bad in MEMORY),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.LaneMemory("nope"), ArgumentError, "'nope'"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.LaneMemory.buffers(5), DTypeError, "BufferPolicy", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "LaneMemory", "int"),
]

INPUT_MEMORY = [*LANE_MEMORY, Bad(Kind.WRONG_VALUE, lambda w: zrt.LaneMemory.left(), ArgumentError, "inputs")]

OUTPUT_MEMORY = [
    *LANE_MEMORY,
    *(Bad(bad.kind, lambda w, bad=bad: zrt.LaneMemory.left(bad.make(w)), bad.error, *bad.words) for bad in MEMORY),
]

FLAG = [
    Bad(Kind.WRONG_TYPE, lambda w: 1, DTypeError, "True or False", "1"),
    Bad(Kind.WRONG_TYPE, lambda w: "yes", DTypeError, "True or False", "'yes'"),
]

DIMS = [
    Bad(Kind.NEGATIVE, lambda w: (-1,), ShapeError, "-1"),
    Bad(Kind.HUGE, lambda w: (2**63,), ShapeError, str(2**63)),
    Bad(Kind.HUGE, lambda w: (2**62,), AllocationError),
    Bad(Kind.HUGE, lambda w: (2**48, 2**48), AllocationError),
    Bad(Kind.HUGE, lambda w: (2**50,), AllocationError),
    Bad(Kind.WRONG_RANK, lambda w: (1,) * 65, ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: (1.5,), ShapeError, "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", ShapeError, "a"),
    Bad(Kind.WRONG_TYPE, lambda w: None, ShapeError, "None"),
]

DTYPE = [
    Bad(Kind.WRONG_DTYPE, lambda w: "nope", DTypeError, "'nope'"),
    Bad(Kind.WRONG_DTYPE, lambda w: None, DTypeError, "None"),
    Bad(Kind.WRONG_DTYPE, lambda w: 5, DTypeError, "5"),
    Bad(Kind.WRONG_DTYPE, lambda w: "M8[s]", DTypeError, "datetime64"),
]

TENSOR_DTYPE = [
    *DTYPE,
    Bad(Kind.WRONG_DTYPE, lambda w: np.complex64, Error, "COMPLEX64"),
    Bad(Kind.WRONG_DTYPE, lambda w: object, Error, "STRING"),
]

ALLOCATOR = [
    Bad(Kind.CLOSED, lambda w: closed(w.session.allocator()), ClosedError, "Allocator is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "llocator", "int"),
]

PAIR = [
    *(
        Bad(kind, lambda w, make=make: (make(w), w.array), error, "copy 0", *words)
        for kind, make, error, *words in (
            (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4)), DTypeError, "float64", "float32"),
            (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), object), UnsupportedError, "strings"),
            (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), "M8[s]"), DTypeError, "datetime64"),
            (Kind.WRONG_RANK, lambda w: f32(2), ShapeError, "[2]", "[2, 4]"),
            (Kind.WRONG_SHAPE, lambda w: f32(2, 5), ShapeError, "[2, 5]", "[2, 4]"),
            (Kind.HUGE, lambda w: huge_array(), ShapeError, "[2, 4]"),
            (Kind.CLOSED, lambda w: closed(w.value()), ClosedError, "Value is closed"),
            (Kind.CLOSED, lambda w: closed(w.buffer()), ClosedError, "Buffer is closed"),
            (Kind.WRONG_TYPE, lambda w: 5, DTypeError, "int"),
            (Kind.WRONG_TYPE, lambda w: [[0.0] * 4] * 2, DTypeError, "list"),
        )
    ),
    Bad(Kind.CLOSED, lambda w: (w.array, closed(w.value())), ClosedError, "copy 0", "Value is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: (w.array, None), DTypeError, "copy 0", "NoneType"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.array, READ_ONLY), ArgumentError, "copy 0", "read-only"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.array, zrt.Value.from_array(READ_ONLY)), ArgumentError, "copy 0", "read-only"),
]

NAME_OF_PORT = [
    Bad(Kind.UNKNOWN_NAME, lambda w: "q", UnknownNameError, "'q'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: 9, UnknownNameError, "9"),
    Bad(Kind.UNKNOWN_NAME, lambda w: -1, UnknownNameError, "-1"),
    Bad(Kind.UNKNOWN_NAME, lambda w: [], UnknownNameError, "[]"),
    Bad(Kind.UNKNOWN_NAME, lambda w: None, UnknownNameError, "None"),
]

POLICY = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "policy", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "auto", DTypeError, "policy", "str"),
]

# What each public call takes: its name, the thing, the bad ones, and the call with one of them.


def loading(call: str, do: Callable[..., object]) -> list[Take]:
    """A call that loads a model: ``do(model, options, providers, external_data_dir=...)``."""
    return [
        (call, "model", MODEL, lambda w, bad: do(bad, QUIET)),
        (call, "options", SESSION_OPTIONS, lambda w, bad: do(w.model, bad)),
        (call, "providers", PROVIDERS, lambda w, bad: do(w.model, QUIET, bad)),
        (call, "external_data_dir", EXTERNAL_DATA_DIR, lambda w, bad: do(w.model, QUIET, external_data_dir=bad)),
    ]


def laned(call: str, do: Callable[..., object]) -> list[Take]:
    """A call that makes lanes: ``do(world, **lane_arguments)``."""
    return [
        (call, "inputs", INPUT_MEMORY, lambda w, bad: do(w, inputs=bad)),
        (call, "outputs", OUTPUT_MEMORY, lambda w, bad: do(w, outputs=bad)),
        (call, "rebind_inputs", FLAG, lambda w, bad: do(w, rebind_inputs=bad)),
        (call, "synchronize", FLAG, lambda w, bad: do(w, synchronize=bad)),
    ]


def shaped(call: str, do: Callable[..., object]) -> list[Take]:
    """The same, where the call takes shapes too."""
    return [
        (call, "shapes", SHAPES, lambda w, bad: do(w, shapes=bad)),
        (call, "output_shapes", OUTPUT_SHAPES, lambda w, bad: do(w, shapes=w.shapes, output_shapes=bad)),
        *laned(call, lambda w, **arguments: do(w, shapes=w.shapes, **arguments)),
    ]


def infer(model: Any, options: Any, providers: Any = None, **arguments: Any) -> object:
    feeds = {"x": f32(1024, 4), "y": f32(1024, 4)} if isinstance(model, bytes) else {"x": f32(1024, 4)}
    return zrt.infer(model, feeds, None, options, providers, **arguments)


def replicate(kind: Any, **more: Any) -> Callable[..., object]:
    def call(model: Any, options: Any, providers: Any = None, **arguments: Any) -> object:
        return kind.replicate(model, 2, options, providers, **more, **arguments)

    return call


SHAPES_OF_LANES = {"shapes": {"x": (2, 4), "y": (2, 4)}}

TAKES: list[Take] = [
    *loading("Session.__init__", zrt.Session),
    ("Session.run", "feeds", COPIED_FEEDS, lambda w, bad: w.session.run(bad)),
    ("Session.run", "feeds of a subset", COPIED_FEEDS, lambda w, bad: w.session.run(bad, ["z"])),
    ("Session.run", "outputs", OUTPUT_NAMES, lambda w, bad: w.session.run(w.feeds, bad)),
    ("Session.run", "options", RUN_OPTIONS, lambda w, bad: w.session.run(w.feeds, options=bad)),
    ("Session.prepare", "feeds", BORROWED_FEEDS, lambda w, bad: w.session.prepare(bad)),
    ("Session.allocator", "memory", MEMORY, lambda w, bad: w.session.allocator(bad)),
    *shaped("Session.lane", lambda w, **arguments: w.session.lane(**arguments)),
    *loading("infer", infer),
    ("infer", "feeds", COPIED_FEEDS, lambda w, bad: zrt.infer(w.model, bad, None, QUIET)),
    ("infer", "outputs", OUTPUT_NAMES, lambda w, bad: zrt.infer(w.model, w.feeds, bad, QUIET)),
    ("PreparedRun.run", "options", RUN_OPTIONS, lambda w, bad: w.prepared.run(bad)),
    ("IoBinding.__init__", "session", SESSION, lambda w, bad: zrt.IoBinding(bad)),
    ("IoBinding.bind_input", "name and feed", BOUND_INPUT, lambda w, bad: w.binding.bind_input(*bad)),
    ("IoBinding.bind_output", "name and place", BOUND_OUTPUT, lambda w, bad: w.binding.bind_output(*bad)),
    ("IoBinding.bind_output", "memory", MEMORY[:-1], lambda w, bad: w.binding.bind_output("z", bad)),
    ("IoBinding.run", "options", RUN_OPTIONS, lambda w, bad: w.binding.run(bad)),
    ("Lane.__init__", "session", SESSION, lambda w, bad: zrt.Lane(bad, w.shapes)),
    *shaped("Lane.__init__", lambda w, **arguments: zrt.Lane(w.session, **arguments)),
    ("Lane.run_with", "options", RUN_OPTIONS, lambda w, bad: w.lane.run_with(bad)),
    ("Lane.prime", "runs", RUNS, lambda w, bad: w.lane.prime(bad)),
    ("Lane.run_with_allocator_stats", "allocator", ALLOCATOR, lambda w, bad: w.lane.run_with_allocator_stats(bad)),
    ("Lane.inputs", "name", NAME_OF_PORT, lambda w, bad: w.lane.inputs[bad]),
    ("Lane.outputs", "name", NAME_OF_PORT, lambda w, bad: w.lane.outputs[bad]),
    ("Runtime.__init__", "session", SESSION, lambda w, bad: zrt.Runtime(bad, shapes=w.shapes)),
    ("Runtime.__init__", "lanes", LANES, lambda w, bad: zrt.Runtime(w.session, bad, shapes=w.shapes)),
    *shaped("Runtime.__init__", lambda w, **arguments: zrt.Runtime(w.session, **arguments)),
    *loading("Runtime.replicate", replicate(zrt.Runtime, **SHAPES_OF_LANES)),
    ("Runtime.replicate", "model to share", SHARED_MODEL,
     lambda w, bad: zrt.Runtime.replicate(bad, 2, QUIET, share_weights=True, shapes=w.shapes)),
    ("Runtime.replicate", "lanes", LANES, lambda w, bad: zrt.Runtime.replicate(w.model, bad, QUIET, shapes=w.shapes)),
    ("Runtime.replicate", "share_weights", FLAG,
     lambda w, bad: zrt.Runtime.replicate(w.model, 1, QUIET, share_weights=bad, shapes=w.shapes)),
    ("Runtime.from_factory", "factory", FACTORY, lambda w, bad: zrt.Runtime.from_factory(bad, shapes=w.shapes)),
    ("Runtime.from_factory", "lanes", LANES,
     lambda w, bad: zrt.Runtime.from_factory(lambda index: w.session, bad, shapes=w.shapes)),
    ("Runtime.over", "sessions", SESSIONS, lambda w, bad: zrt.Runtime.over(bad, shapes=w.shapes)),
    *shaped("Runtime.over", lambda w, **arguments: zrt.Runtime.over([w.session], **arguments)),
    ("Runtime.prime", "runs", RUNS, lambda w, bad: w.runtime.prime(bad)),
    ("Runtime.__getitem__", "index", INDEX, lambda w, bad: w.runtime[bad]),
    ("DynamicRuntime.__init__", "session", SESSION, lambda w, bad: zrt.DynamicRuntime(bad)),
    ("DynamicRuntime.__init__", "lanes", LANES, lambda w, bad: zrt.DynamicRuntime(w.session, bad)),
    ("DynamicRuntime.__init__", "max_buckets", MAX_BUCKETS,
     lambda w, bad: zrt.DynamicRuntime(w.session, max_buckets=bad)),
    *laned("DynamicRuntime.__init__", lambda w, **arguments: zrt.DynamicRuntime(w.session, **arguments).lane(w.shapes)),
    *loading("DynamicRuntime.replicate", replicate(zrt.DynamicRuntime)),
    ("DynamicRuntime.replicate", "model to share", SHARED_MODEL,
     lambda w, bad: zrt.DynamicRuntime.replicate(bad, 2, QUIET, share_weights=True)),
    ("DynamicRuntime.replicate", "lanes", LANES, lambda w, bad: zrt.DynamicRuntime.replicate(w.model, bad, QUIET)),
    ("DynamicRuntime.replicate", "max_buckets", MAX_BUCKETS,
     lambda w, bad: zrt.DynamicRuntime.replicate(w.model, 1, QUIET, max_buckets=bad)),
    ("DynamicRuntime.from_factory", "factory", FACTORY,
     lambda w, bad: zrt.DynamicRuntime.from_factory(bad).lane(w.shapes)),
    ("DynamicRuntime.from_factory", "lanes", LANES,
     lambda w, bad: zrt.DynamicRuntime.from_factory(lambda index: w.session, bad)),
    ("DynamicRuntime.from_factory", "max_buckets", MAX_BUCKETS,
     lambda w, bad: zrt.DynamicRuntime.from_factory(lambda index: w.session, max_buckets=bad)),
    ("DynamicRuntime.lane", "shapes", SHAPES, lambda w, bad: w.dynamic.lane(bad)),
    ("DynamicRuntime.lane", "output_shapes", OUTPUT_SHAPES, lambda w, bad: w.dynamic.lane(w.shapes, 0, bad)),
    ("DynamicRuntime.lane", "index", INDEX, lambda w, bad: w.dynamic.lane(w.shapes, bad)),
    ("DynamicRuntime.prebuild", "shapes", SHAPES, lambda w, bad: w.dynamic.prebuild([bad])),
    ("DynamicRuntime.prebuild", "output_shapes", OUTPUT_SHAPES, lambda w, bad: w.dynamic.prebuild([(w.shapes, bad)])),
    ("DynamicRuntime.warm", "shapes", SHAPES, lambda w, bad: w.dynamic.warm([bad])),
    ("DynamicRuntime.warm", "output_shapes", OUTPUT_SHAPES, lambda w, bad: w.dynamic.warm([(w.shapes, bad)])),
    ("DynamicRuntime.warm", "runs", RUNS, lambda w, bad: w.dynamic.warm([w.shapes], bad)),
    ("DynamicRuntime.prime", "runs", RUNS, lambda w, bad: (w.dynamic.lane(w.shapes), w.dynamic.prime(bad))),
    ("DynamicRuntime.remove", "shapes", SOUGHT_SHAPES, lambda w, bad: w.dynamic.remove(bad)),
    ("DynamicRuntime.remove", "output_shapes", SOUGHT_OUTPUT_SHAPES, lambda w, bad: w.dynamic.remove(w.shapes, bad)),
    ("Buffer.__init__", "shape", DIMS, lambda w, bad: zrt.Buffer(bad, np.float32)),
    ("Buffer.__init__", "dtype", TENSOR_DTYPE, lambda w, bad: zrt.Buffer((1,), bad)),
    ("Buffer.__init__", "policy", POLICY, lambda w, bad: zrt.Buffer((1,), np.float32, bad)),
    ("Value.allocate", "shape", [bad for bad in DIMS if bad.kind != Kind.WRONG_RANK],
     lambda w, bad: zrt.Value.allocate(bad, np.float32)),
    ("Value.allocate", "dtype", TENSOR_DTYPE[:-1], lambda w, bad: zrt.Value.allocate((1,), bad)),
    ("Value.allocate", "allocator", ALLOCATOR, lambda w, bad: zrt.Value.allocate((1,), np.float32, bad)),
    ("Value.from_packed", "shape", [bad for bad in DIMS if bad.kind in (Kind.NEGATIVE, Kind.WRONG_TYPE)],
     lambda w, bad: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, bad)),
    ("Value.from_packed", "element_type", DTYPE,
     lambda w, bad: zrt.Value.from_packed(np.zeros(1, np.uint8), bad, (2,))),
    ("Allocator.__init__", "session", SESSION, lambda w, bad: zrt.Allocator(bad)),
    ("Allocator.__init__", "memory", MEMORY, lambda w, bad: zrt.Allocator(w.session, bad)),
    ("MemoryInfo.handle", "fields", [bad for bad in MEMORY[:-1] if bad.kind != Kind.UNKNOWN_NAME],
     lambda w, bad: bad.handle()),
    ("ElementType.of", "dtype", DTYPE, lambda w, bad: zrt.ElementType.of(bad)),
    ("SessionOptions.handle", "fields", SESSION_OPTIONS[3:], lambda w, bad: bad.handle()),
    ("copy", "source and destination", PAIR, lambda w, bad: zrt.copy(*bad)),
    ("copy_all", "pairs", PAIR, lambda w, bad: zrt.copy_all([bad])),
]  # fmt: skip


def left_lane(w: World) -> zrt.Lane:
    """A lane whose output ORT makes in each run."""
    return w.session.lane(w.shapes, outputs=zrt.LaneMemory.left())


def wrong_lane(w: World) -> zrt.Lane:
    """A lane whose output is bound in another shape than it comes in."""
    return w.session.lane(w.shapes, {"z": (3, 4)})


def wrong_binding(w: World) -> zrt.IoBinding:
    binding = w.session.binding()
    for name, feed in w.feeds.items():
        binding.bind_input(name, feed)
    binding.bind_output("z", f32(3, 4))
    return binding


def sequence(w: World) -> zrt.Value:
    """A value that is no tensor."""
    return zrt.Value.from_sequence([f32(1), f32(1)])


def huge_output(w: World) -> object:
    """A model whose output is declared with more elements than there is memory for."""
    model = models.build(
        [models.node("Identity", ["x"], ["z"])],
        [models.tensor("x", TensorProto.FLOAT, ["n"])],
        [models.tensor("z", TensorProto.FLOAT, [2**62])],
    )
    return zrt.Session(model, QUIET)


def rank_of_output(w: World, rank: int) -> object:
    model = models.build(
        [models.node("Reshape", ["x", "shape"], ["z"])],
        [models.tensor("x", TensorProto.FLOAT, [1]), models.tensor("shape", TensorProto.INT64, ["rank"])],
        [models.tensor("z", TensorProto.FLOAT, None)],
    )
    return zrt.infer(model, {"x": f32(1), "shape": np.ones(rank, np.int64)}, None, QUIET)


# What a call alone can be given, and what it answers.
SINGLE: list[Single] = [
    ("Session.run", Kind.HUGE, lambda w: huge_output(w).run({"x": f32(1)}), AllocationError, ("output 'z'",)),
    ("Session.run", Kind.WRONG_RANK, lambda w: rank_of_output(w, 65), UnsupportedError, ("65",)),
    ("Session.lane", Kind.HUGE, lambda w: huge_output(w).lane({"x": (1,)}), AllocationError, ("output 'z'",)),
    ("IoBinding.run", Kind.WRONG_SHAPE, lambda w: wrong_binding(w).run(), ShapeError, ("output", "{3,4}", "{2,4}")),
    (
        "IoBinding.run",
        Kind.MISSING_INPUT,
        lambda w: w.session.binding().run(),
        ArgumentError,
        ("'x', 'y'", "not bound"),
    ),
    ("Lane.run", Kind.WRONG_SHAPE, lambda w: wrong_lane(w).run(), ShapeError, ("output", "{3,4}", "{2,4}")),
    ("Lane.run_with", Kind.WRONG_SHAPE, lambda w: wrong_lane(w).run_with(zrt.RunOptions()), ShapeError, ("{3,4}",)),
    ("Lane.outputs", Kind.WRONG_VALUE, lambda w: left_lane(w).outputs["z"], ArgumentError, ("output 'z'",)),
    ("DynamicRuntime.prebuild", Kind.WRONG_TYPE, lambda w: w.dynamic.prebuild(5), DTypeError, ("specs", "int")),
    ("DynamicRuntime.prebuild", Kind.WRONG_TYPE, lambda w: w.dynamic.prebuild([({}, {}, {})]), DTypeError, ("specs",)),
    (
        "DynamicRuntime.prebuild",
        Kind.WRONG_VALUE,
        lambda w: w.dynamic.prebuild([{"x": (n, 4), "y": (n, 4)} for n in (1, 2, 3)]),
        ArgumentError,
        ("3", "max_buckets=2"),
    ),
    ("DynamicRuntime.warm", Kind.WRONG_TYPE, lambda w: w.dynamic.warm(5), DTypeError, ("specs", "int")),
    (
        "DynamicRuntime.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.DynamicRuntime(w.session, shapes=w.shapes),
        ArgumentError,
        ("shapes",),
    ),
    ("Value.__init__", Kind.WRONG_TYPE, lambda w: zrt.Value(5), DTypeError, ("int",)),
    ("Value.__init__", Kind.WRONG_TYPE, lambda w: zrt.Value(w.session), DTypeError, ("Session",)),
    ("Value.from_array", Kind.WRONG_TYPE, lambda w: zrt.Value.from_array([1.0]), DTypeError, ("list",)),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.zeros(1, "M8[s]")),
        DTypeError,
        ("array",),
    ),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.zeros(1, "c8")),
        UnsupportedError,
        ("array",),
    ),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.array(["a"])),
        UnsupportedError,
        ("strings",),
    ),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.zeros(1, ">f4")),
        ArgumentError,
        ("order",),
    ),
    ("Value.from_array", Kind.HUGE, lambda w: zrt.Value.from_array(huge_array()), ArgumentError, ("contiguous",)),
    ("Value.from_packed", Kind.WRONG_TYPE, lambda w: zrt.Value.from_packed(5, "int4", (2,)), DTypeError, ("uint8",)),
    (
        "Value.from_packed",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_packed(np.zeros(1, np.int8), "int4", (2,)),
        DTypeError,
        ("uint8", "int8"),
    ),
    (
        "Value.from_packed",
        Kind.WRONG_SHAPE,
        lambda w: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, (3,)),
        ShapeError,
        ("2 bytes", "has 1"),
    ),
    (
        "Value.from_packed",
        Kind.HUGE,
        lambda w: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, (2**62, 2**62)),
        ShapeError,
        ("has 1",),
    ),
    ("Value.from_buffer", Kind.CLOSED, lambda w: zrt.Value.from_buffer(closed(w.buffer())), ClosedError, ("Buffer",)),
    ("Value.from_buffer", Kind.WRONG_TYPE, lambda w: zrt.Value.from_buffer(5), DTypeError, ("Buffer", "int")),
    ("Value.numpy", Kind.WRONG_TYPE, lambda w: sequence(w).numpy(), UnsupportedError, ("sequence",)),
    ("Value.address", Kind.WRONG_TYPE, lambda w: sequence(w).address, UnsupportedError, ("sequence",)),
    ("Value.unpack", Kind.WRONG_DTYPE, lambda w: w.value().unpack(), DTypeError, ("FLOAT",)),
    ("Buffer.unpack", Kind.WRONG_DTYPE, lambda w: w.buffer().unpack(), DTypeError, ("FLOAT",)),
    (
        "BufferPolicy.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.BufferPolicy(alignment=3),
        ArgumentError,
        ("alignment 3",),
    ),
    (
        "BufferPolicy.__init__",
        Kind.NEGATIVE,
        lambda w: zrt.BufferPolicy(alignment=-64),
        ArgumentError,
        ("alignment -64",),
    ),
    ("BufferPolicy.__init__", Kind.HUGE, lambda w: zrt.BufferPolicy(alignment=2**62), ArgumentError, ("alignment",)),
    ("BufferPolicy.__init__", Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy(alignment="64"), ArgumentError, ("'64'",)),
    ("BufferPolicy.parse", Kind.WRONG_VALUE, lambda w: zrt.BufferPolicy.parse("fast"), ArgumentError, ("'fast'",)),
    ("BufferPolicy.parse", Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy.parse(5), DTypeError, ("5",)),
    ("BufferPolicy.resolve", Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy.AUTO.resolve("5"), DTypeError, ("'5'",)),
    ("Environment.__new__", Kind.WRONG_TYPE, lambda w: zrt.Environment(5), DTypeError, ("log_id", "5")),
    ("Environment.__new__", Kind.WRONG_VALUE, lambda w: zrt.Environment("other"), ArgumentError, ("'other'", "second")),
    ("Environment.__new__", Kind.WRONG_VALUE, lambda w: zrt.Environment("a\0"), ArgumentError, ("log_id", "NUL")),
    (
        "Environment.__new__",
        Kind.WRONG_VALUE,
        lambda w: zrt.Environment("zrt", 9),
        ArgumentError,
        ("log_severity", "9"),
    ),
    ("RunOptions.__init__", Kind.WRONG_TYPE, lambda w: zrt.RunOptions(tag=5), DTypeError, ("tag", "5")),
    ("RunOptions.__init__", Kind.WRONG_VALUE, lambda w: zrt.RunOptions(tag="a\0"), ArgumentError, ("tag", "NUL")),
    (
        "RunOptions.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.RunOptions(log_severity_level=9),
        ArgumentError,
        ("log_severity_level", "9"),
    ),
    (
        "RunOptions.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.RunOptions(log_verbosity_level=-1),
        ArgumentError,
        ("log_verbosity_level", "-1"),
    ),
    (
        "RunOptions.__init__",
        Kind.WRONG_TYPE,
        lambda w: zrt.RunOptions(config_entries=5),
        DTypeError,
        ("config_entries", "int"),
    ),
    (
        "RunOptions.__init__",
        Kind.WRONG_TYPE,
        lambda w: zrt.RunOptions(config_entries={"a": 5}),
        DTypeError,
        ("config_entries", "'a'"),
    ),
    ("copy_all", Kind.WRONG_TYPE, lambda w: zrt.copy_all(5), DTypeError, ("pairs", "int")),
    ("copy_all", Kind.WRONG_TYPE, lambda w: zrt.copy_all([5]), DTypeError, ("copy 0", "pair")),
]


# Each method that a closed object refuses.
CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "Session.run": lambda w, it: it.run(w.feeds),
    "Session.prepare": lambda w, it: it.prepare(w.feeds),
    "Session.allocator": lambda w, it: it.allocator(),
    "Session.lane": lambda w, it: it.lane(w.shapes),
    "Session.binding": lambda w, it: it.binding(),
    "Session.end_profiling": lambda w, it: it.end_profiling(),
    "Session.__enter__": lambda w, it: it.__enter__(),
    "PreparedRun.run": lambda w, it: it.run(),
    "PreparedRun.__enter__": lambda w, it: it.__enter__(),
    "IoBinding.bind_input": lambda w, it: it.bind_input("x", w.array),
    "IoBinding.bind_output": lambda w, it: it.bind_output("z"),
    "IoBinding.clear_inputs": lambda w, it: it.clear_inputs(),
    "IoBinding.clear_outputs": lambda w, it: it.clear_outputs(),
    "IoBinding.synchronize_inputs": lambda w, it: it.synchronize_inputs(),
    "IoBinding.synchronize_outputs": lambda w, it: it.synchronize_outputs(),
    "IoBinding.run": lambda w, it: it.run(),
    "IoBinding.outputs": lambda w, it: it.outputs(),
    "IoBinding.numpy": lambda w, it: it.numpy(),
    "IoBinding.__enter__": lambda w, it: it.__enter__(),
    "Lane.run": lambda w, it: it.run(),
    "Lane.run_with": lambda w, it: it.run_with(zrt.RunOptions()),
    "Lane.prime": lambda w, it: it.prime(),
    "Lane.run_with_allocator_stats": lambda w, it: it.run_with_allocator_stats(),
    "Lane.session": lambda w, it: it.session,
    "Lane.inputs": lambda w, it: it.inputs,
    "Lane.outputs": lambda w, it: it.outputs,
    "Lane.audit": lambda w, it: it.audit(),
    "Lane.__enter__": lambda w, it: it.__enter__(),
    "Runtime.sessions": lambda w, it: it.sessions,
    "Runtime.prime": lambda w, it: it.prime(),
    "Runtime.audit": lambda w, it: it.audit(),
    "Runtime.__enter__": lambda w, it: it.__enter__(),
    "DynamicRuntime.lane": lambda w, it: it.lane(w.shapes),
    "DynamicRuntime.prebuild": lambda w, it: it.prebuild([w.shapes]),
    "DynamicRuntime.warm": lambda w, it: it.warm([w.shapes]),
    "DynamicRuntime.remove": lambda w, it: it.remove(w.shapes),
    "DynamicRuntime.__enter__": lambda w, it: it.__enter__(),
    "Value.address": lambda w, it: it.address,
    "Value.numpy": lambda w, it: it.numpy(),
    "Value.unpack": lambda w, it: it.unpack(),
    "Value.__enter__": lambda w, it: it.__enter__(),
    "Buffer.array": lambda w, it: it.array,
    "Buffer.address": lambda w, it: it.address,
    "Buffer.hugepage": lambda w, it: it.hugepage,
    "Buffer.unpack": lambda w, it: it.unpack(),
    "Buffer.__enter__": lambda w, it: it.__enter__(),
    "Allocator.stats": lambda w, it: it.stats(),
    "Allocator.__enter__": lambda w, it: it.__enter__(),
    "RunOptions.terminate": lambda w, it: it.terminate(),
    "RunOptions.reset": lambda w, it: it.reset(),
    "RunOptions.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {
    "Session": lambda w: zrt.Session(w.model, QUIET),
    "PreparedRun": lambda w: w.session.prepare(w.feeds),
    "IoBinding": lambda w: w.session.binding(),
    "Lane": lambda w: w.session.lane(w.shapes),
    "Runtime": lambda w: zrt.Runtime(w.session, shapes=w.shapes),
    "DynamicRuntime": lambda w: zrt.DynamicRuntime(w.session),
    "Value": lambda w: w.value(),
    "Buffer": lambda w: w.buffer(),
    "Allocator": lambda w: w.session.allocator(),
    "RunOptions": lambda w: zrt.RunOptions(),
}


CANNOT_FAIL: dict[str, str] = {
    **{f"Value.{name}": A_FACT for name in (
        "kind", "is_tensor", "element_type", "shape", "nbytes", "memory", "writeable"
    )},
    **{f"ValueInfo.{name}": A_FACT for name in ("is_tensor", "symbolic_dimensions", "static_shape")},
    **{f"LaneAudit.{name}": A_FACT for name in ("copies", "allocations", "zero_copy")},
    **{f"ElementType.{name}": A_FACT for name in ("packed", "onnx_code")},
    **{f"Buffer.{name}": A_FACT for name in ("alignment", "locked")},
    **{f"{name}.__init__": A_RESULT for name in (
        "AllocatorStats", "LaneAudit", "ModelMetadata", "PortAudit", "ValueInfo"
    )},
    "LaneAudit.require_zero_copy": "its error is about the lane and not about what it was given",
    "AllocatorStats.__sub__": "counters of one's own making may be anything",
    "Allocator.of": INSIDE,
    "AllocatorStats.parse": INSIDE,
    "PreparedRun.__init__": INSIDE,
    "MemoryInfo.read": INSIDE,
    "RunOptions.opened": INSIDE,
    "Session.adopt": INSIDE,
    "Value.own": INSIDE,
    "Value.hold": INSIDE,
    "Allocator.default": NOTHING,
    "MemoryInfo.cpu": NOTHING,
    "MemoryInfo.is_host": NOTHING,
    "MemoryInfo.beside": NOTHING,
    **{f"MemoryInfo.{name}": "whatever it is given shows where the memory is used: see MEMORY" for name in (
        "__init__", "cuda", "cuda_pinned"
    )},
    **{f"LaneMemory.{name}": "whatever it is given shows where the lane is made: see LANE_MEMORY" for name in (
        "__init__", "buffers", "allocated", "left"
    )},
    "SessionOptions.__init__": "whatever it is given shows where it is used: see SESSION_OPTIONS",
    **{f"DynamicRuntime.{name}": NOTHING for name in ("buckets", "clear", "__len__")},
    **{f"Runtime.{name}": NOTHING for name in ("__len__", "__iter__")},
    "available_providers": NOTHING,
    "prefer_gpu": NOTHING,
}  # fmt: skip

# Of each thing that can be taken: the promised kinds that apply to it.
APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "feeds": (
        COPIED_FEEDS,
        {
            Kind.UNKNOWN_NAME,
            Kind.MISSING_INPUT,
            Kind.WRONG_DTYPE,
            Kind.WRONG_RANK,
            Kind.WRONG_SHAPE,
            Kind.HUGE,
            Kind.CLOSED,
        },
    ),
    "borrowed feeds": (
        BORROWED_FEEDS,
        {
            Kind.UNKNOWN_NAME,
            Kind.MISSING_INPUT,
            Kind.WRONG_DTYPE,
            Kind.WRONG_RANK,
            Kind.WRONG_SHAPE,
            Kind.HUGE,
            Kind.CLOSED,
        },
    ),
    "bound input": (
        BOUND_INPUT,
        {Kind.UNKNOWN_NAME, Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.HUGE, Kind.CLOSED},
    ),
    "bound output": (
        BOUND_OUTPUT,
        {Kind.UNKNOWN_NAME, Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.HUGE, Kind.CLOSED},
    ),
    "shapes": (
        SHAPES,
        {Kind.UNKNOWN_NAME, Kind.MISSING_INPUT, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.NEGATIVE, Kind.HUGE},
    ),
    "output shapes": (OUTPUT_SHAPES, {Kind.UNKNOWN_NAME, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.NEGATIVE, Kind.HUGE}),
    "model": (MODEL, {Kind.CORRUPT, Kind.EMPTY, Kind.DIRECTORY, Kind.MISSING_FILE, Kind.TRUNCATED}),
    "model to share": (SHARED_MODEL, {Kind.CORRUPT, Kind.EMPTY, Kind.DIRECTORY, Kind.MISSING_FILE, Kind.TRUNCATED}),
    "pair": (PAIR, {Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.HUGE, Kind.CLOSED}),
    "dims": (DIMS, {Kind.WRONG_RANK, Kind.NEGATIVE, Kind.HUGE}),
    "output names": (OUTPUT_NAMES, {Kind.UNKNOWN_NAME}),
    "run options": (RUN_OPTIONS, {Kind.CLOSED}),
    "session": (SESSION, {Kind.CLOSED}),
    "allocator": (ALLOCATOR, {Kind.CLOSED}),
    "providers": (PROVIDERS, {Kind.UNKNOWN_NAME}),
    "memory": (MEMORY, {Kind.UNKNOWN_NAME}),
}
