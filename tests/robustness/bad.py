"""Bad arguments for calls of several areas: feeds, models, options, sessions, memories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import zrt
from tests.robustness.vocabulary import (
    QUIET,
    Bad,
    Impostor,
    Kind,
    Take,
    World,
    closed,
    f32,
    feeding,
    huge_array,
    terminated,
)
from tests.support import models
from zrt.errors import (
    AllocationError,
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    FailError,
    InvalidArgumentError,
    InvalidGraphError,
    InvalidProtobufError,
    ModelError,
    ModelNotFoundError,
    ProviderError,
    ShapeError,
    TerminatedError,
    UnknownNameError,
)

ARRAY = [
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4)), DTypeError, "float32", "float64"),
    (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), np.int32), DTypeError, "float32", "int32"),
    # ORT cannot make tensors over arrays of these types, for any model.
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
    (Kind.CLOSED, lambda w: zrt.Value.__new__(zrt.Value), ClosedError, "Value was not made"),
    (Kind.CLOSED, lambda w: zrt.Buffer.__new__(zrt.Buffer), ClosedError, "Buffer was not made"),
    (Kind.WRONG_TYPE, lambda w: Impostor(), DTypeError),
    (Kind.CLOSED, lambda w: closed(w.buffer()), ClosedError, "Buffer is closed"),
    (Kind.WRONG_TYPE, lambda w: "a", DTypeError, "str"),
    (Kind.WRONG_TYPE, lambda w: object(), DTypeError),
    (Kind.WRONG_TYPE, lambda w: {"x": 1}, DTypeError),
]

# The promised kinds that apply to arrays.
OF_ARRAY = {Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.HUGE, Kind.CLOSED}

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


def _fed(x: Any) -> dict[str, Any]:
    return {"x": x, "y": zrt.Value.from_array(f32(2, 4))}


# Feeds that are values: ONNX Runtime itself finds most mistakes.
VALUE_FEEDS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {**_fed(w.value()), "q": w.value()}, InvalidArgumentError, "q"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**_fed(w.value()), "x\0": w.value()}, ArgumentError, "name", "NUL"),
    Bad(Kind.MISSING_INPUT, lambda w: {"x": w.value()}, FailError, "y"),
    Bad(Kind.WRONG_DTYPE, lambda w: _fed(zrt.Value.from_array(np.zeros((2, 4)))), InvalidArgumentError, "double"),
    Bad(Kind.WRONG_RANK, lambda w: _fed(zrt.Value.from_array(f32(2))), InvalidArgumentError, "rank", "x"),
    Bad(Kind.WRONG_SHAPE, lambda w: _fed(zrt.Value.from_array(f32(2, 5))), InvalidArgumentError, "Got: 5"),
    Bad(Kind.WRONG_TYPE, lambda w: _fed(w.array), DTypeError, "input 'x'", "Value"),
    Bad(Kind.WRONG_TYPE, lambda w: _fed(None), DTypeError, "input 'x'", "Value"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: w.value()}, DTypeError, "name", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [w.value()], DTypeError, "feeds", "list"),
    Bad(Kind.CLOSED, lambda w: _fed(closed(w.value())), ClosedError, "Value is closed"),
]

VALUE_OUTPUTS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ["q"], InvalidArgumentError, "q"),
    Bad(Kind.WRONG_VALUE, lambda w: [], InvalidArgumentError, "output"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], DTypeError, "outputs", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: "z", DTypeError, "outputs", "'z'"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "outputs", "5"),
]

SAMPLES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"q": 1}, UnknownNameError, "samples", "'q'", "'x', 'y'"),
    *(Bad(kind, lambda w, make=make: {"y": make(w)}, error, "'y'") for kind, make, error, *_ in ARRAY[:5]),
    Bad(Kind.WRONG_SHAPE, lambda w: {"y": f32(2, 3)}, ShapeError, "samples: input 'y'", "[2, 4]", "[2, 3]"),
    Bad(Kind.WRONG_RANK, lambda w: {"y": f32(4)}, ShapeError, "samples: input 'y'", "[4]"),
    Bad(Kind.WRONG_DTYPE, lambda w: {"y": True}, DTypeError, "samples: input 'y'", "float32", "True"),
    Bad(Kind.HUGE, lambda w: {"y": 10**400}, DTypeError, "samples: input 'y'", "float32"),
    Bad(Kind.WRONG_TYPE, lambda w: {"y": object()}, DTypeError, "samples: input 'y'"),
    Bad(Kind.WRONG_TYPE, lambda w: [1], DTypeError, "samples", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "samples", "int"),
]

READ_ONLY = np.frombuffer(bytes(32), np.float32).reshape(2, 4)

RUNS = [
    Bad(Kind.WRONG_VALUE, lambda w: -1, ArgumentError, "runs", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: 2**70, ArgumentError, "runs", str(2**70)),
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, DTypeError, "runs", "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "runs", "None"),
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
    Bad(Kind.CLOSED, lambda w: zrt.RunOptions.__new__(zrt.RunOptions), ClosedError, "RunOptions was not made"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), DTypeError, "options", "Impostor"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "options", "RunOptions", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(), DTypeError, "options", "SessionOptions"),
    Bad(Kind.WRONG_VALUE, lambda w: terminated(), TerminatedError),
]

TIMEOUT = [
    Bad(Kind.WRONG_TYPE, lambda w: "1", DTypeError, "timeout", "'1'"),
    Bad(Kind.WRONG_TYPE, lambda w: True, DTypeError, "timeout", "True"),
    Bad(Kind.WRONG_VALUE, lambda w: -1, ArgumentError, "timeout", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: float("nan"), ArgumentError, "timeout", "nan"),
    Bad(Kind.WRONG_VALUE, lambda w: float("inf"), ArgumentError, "timeout", "inf"),
]


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
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), DTypeError, "session", "Impostor"),
    Bad(Kind.CLOSED, lambda w: zrt.Session.__new__(zrt.Session), ClosedError, "Session was not made"),
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

FLAG = [
    Bad(Kind.WRONG_TYPE, lambda w: 1, DTypeError, "True or False", "1"),
    Bad(Kind.WRONG_TYPE, lambda w: "yes", DTypeError, "True or False", "'yes'"),
]

ALLOCATOR = [
    Bad(Kind.CLOSED, lambda w: closed(w.session.allocator()), ClosedError, "Allocator is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "llocator", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), DTypeError, "llocator", "Impostor"),
    Bad(Kind.CLOSED, lambda w: zrt.Allocator.__new__(zrt.Allocator), ClosedError, "Allocator was not made"),
]


def loading(call: str, do: Callable[..., object]) -> list[Take]:
    """A call that loads a model: ``do(model, options, providers, external_data_dir=...)``."""
    return [
        (call, "model", MODEL, lambda w, bad: do(bad, QUIET)),
        (call, "options", SESSION_OPTIONS, lambda w, bad: do(w.model, bad)),
        (call, "providers", PROVIDERS, lambda w, bad: do(w.model, QUIET, bad)),
        (call, "external_data_dir", EXTERNAL_DATA_DIR, lambda w, bad: do(w.model, QUIET, external_data_dir=bad)),
    ]


def huge_output(w: World) -> object:
    """A model that declares an output larger than any memory."""
    model = models.build(
        [models.node("Identity", ["x"], ["z"])],
        [models.tensor("x", TensorProto.FLOAT, ["n"])],
        [models.tensor("z", TensorProto.FLOAT, [2**62])],
    )
    return zrt.Session(model, QUIET)
