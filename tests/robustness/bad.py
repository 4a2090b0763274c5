"""Bad arguments for calls of several areas: feeds, models, options, sessions, memories."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import zrt
from tests.robustness.vocabulary import (
    QUIET,
    Bad,
    Impostor,
    Kind,
    Take,
    World,
    closed,
    each,
    f32,
    fed,
    feeding,
    huge_array,
    terminated,
    wrong_types,
)
from tests.support import models
from zrt.errors import (
    AllocationError,
    ArgumentError,
    DTypeError,
    Error,
    FailError,
    InvalidArgumentError,
    InvalidGraphError,
    InvalidProtobufError,
    ModelError,
    ProviderError,
    TerminatedError,
)

ARRAY = [
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4)), "float32", "float64"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), np.int32), "float32", "int32"),
    # ORT cannot make tensors over arrays of these types, for any model.
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), np.complex64), error=Error),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), object), error=Error),
    Bad(Kind.WRONG_DTYPE, lambda w: np.full((2, 4), "a"), "string", error=Error),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), "M8[s]"), "datetime64"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), [("f", "f4")]), "dtype"),
    Bad(Kind.WRONG_DTYPE, lambda w: zrt.Value.from_array(np.zeros((2, 4))), "float32", "float64"),
    Bad(Kind.WRONG_DTYPE, lambda w: zrt.Buffer((2, 4), np.float64), "float32", "float64"),
    Bad(Kind.WRONG_RANK, lambda w: f32(2), "[n, 4]", "[2]"),
    Bad(Kind.WRONG_RANK, lambda w: f32(2, 4, 1), "[n, 4]", "[2, 4, 1]"),
    Bad(Kind.WRONG_RANK, lambda w: f32(), "[n, 4]", "[]"),
    Bad(Kind.WRONG_RANK, lambda w: zrt.Value.from_array(f32(2)), "[n, 4]", "[2]"),
    Bad(Kind.WRONG_SHAPE, lambda w: f32(2, 5), "[n, 4]", "[2, 5]"),
    Bad(Kind.WRONG_SHAPE, lambda w: f32(2, 0), "[n, 4]", "[2, 0]"),
    Bad(Kind.WRONG_SHAPE, lambda w: zrt.Buffer((2, 5), np.float32), "[n, 4]", "[2, 5]"),
    Bad(Kind.CLOSED, lambda w: closed(w.value()), "Value is closed"),
    Bad(Kind.CLOSED, lambda w: zrt.Value.__new__(zrt.Value), "Value was not made"),
    Bad(Kind.CLOSED, lambda w: zrt.Buffer.__new__(zrt.Buffer), "Buffer was not made"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor()),
    Bad(Kind.CLOSED, lambda w: closed(w.buffer()), "Buffer is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: "a", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: object()),
    Bad(Kind.WRONG_TYPE, lambda w: {"x": 1}),
]

FEEDS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.feeds, "q": w.array}, "'q'", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.feeds, 5: w.array}, "5", "'x', 'y'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**w.feeds, "x\0": w.array}, "'x\\x00'"),
    Bad(Kind.MISSING_INPUT, lambda w: {"x": w.array}, "'y'", "missing", error=ArgumentError),
    Bad(Kind.MISSING_INPUT, lambda w: {}, "'x', 'y'", "missing", error=ArgumentError),
    Bad(Kind.MISSING_INPUT, lambda w: [w.array], "2 inputs", "got 1", error=ArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: [w.array] * 3, "2 inputs", "got 3"),
    *(bad.inside(fed, "input 'x'") for bad in ARRAY),
    feeding(Kind.WRONG_TYPE, lambda w: None),
    *wrong_types("feeds", 5, None, "xy", {"x"}),
    Bad(Kind.WRONG_TYPE, lambda w: w.array, "feeds", "ndarray"),
]

COPIED_FEEDS = [
    *FEEDS,
    feeding(Kind.WRONG_DTYPE, lambda w: [["a", "b"]], "float32"),
    feeding(Kind.WRONG_RANK, lambda w: [[1.0], [2.0, 3.0]], error=DTypeError),
    feeding(Kind.HUGE, lambda w: huge_array(), "float32", error=AllocationError),
]

BORROWED_FEEDS = [
    *FEEDS,
    feeding(Kind.WRONG_TYPE, lambda w: [[0.0] * 4], "list"),
    feeding(Kind.WRONG_VALUE, lambda w: f32(4, 2).T, "contiguous"),
    feeding(Kind.WRONG_VALUE, lambda w: np.zeros((2, 4), ">f4"), "byte order"),
    feeding(Kind.HUGE, lambda w: huge_array(), "contiguous"),
]


def _fed(x: Any) -> dict[str, Any]:
    return {"x": x, "y": zrt.Value.from_array(f32(2, 4))}


# Feeds that are values: ONNX Runtime itself finds most mistakes.
VALUE_FEEDS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {**_fed(w.value()), "q": w.value()}, "q", error=InvalidArgumentError),
    Bad(Kind.UNKNOWN_NAME, lambda w: {**_fed(w.value()), "x\0": w.value()}, "name", "NUL", error=ArgumentError),
    Bad(Kind.MISSING_INPUT, lambda w: {"x": w.value()}, "y", error=FailError),
    Bad(Kind.WRONG_DTYPE, lambda w: _fed(zrt.Value.from_array(np.zeros((2, 4)))), "double", error=InvalidArgumentError),
    Bad(Kind.WRONG_RANK, lambda w: _fed(zrt.Value.from_array(f32(2))), "rank", "x", error=InvalidArgumentError),
    Bad(Kind.WRONG_SHAPE, lambda w: _fed(zrt.Value.from_array(f32(2, 5))), "Got: 5", error=InvalidArgumentError),
    Bad(Kind.WRONG_TYPE, lambda w: _fed(w.array), "input 'x'", "Value"),
    Bad(Kind.WRONG_TYPE, lambda w: _fed(None), "input 'x'", "Value"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: w.value()}, "name", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [w.value()], "feeds", "list"),
    Bad(Kind.CLOSED, lambda w: _fed(closed(w.value())), "Value is closed"),
]

VALUE_OUTPUTS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ["q"], "q", error=InvalidArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: [], "output", error=InvalidArgumentError),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "outputs", "5"),
    *wrong_types("outputs", "z", 5),
]

SAMPLES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"q": 1}, "samples", "'q'", "'x', 'y'"),
    *(Bad(bad.kind, lambda w, bad=bad: {"y": bad.make(w)}, "'y'", error=bad.error) for bad in ARRAY[:5]),
    Bad(Kind.WRONG_SHAPE, lambda w: {"y": f32(2, 3)}, "samples: input 'y'", "[2, 4]", "[2, 3]"),
    Bad(Kind.WRONG_RANK, lambda w: {"y": f32(4)}, "samples: input 'y'", "[4]"),
    Bad(Kind.WRONG_DTYPE, lambda w: {"y": True}, "samples: input 'y'", "float32", "True"),
    Bad(Kind.HUGE, lambda w: {"y": 10**400}, "samples: input 'y'", "float32", error=DTypeError),
    Bad(Kind.WRONG_TYPE, lambda w: {"y": object()}, "samples: input 'y'"),
    *wrong_types("samples", [1], 5),
]

READ_ONLY = np.frombuffer(bytes(32), np.float32).reshape(2, 4)

RUNS = [*each(Kind.WRONG_VALUE, "runs", -1, 2**70), *wrong_types("runs", 1.5, None)]

OUTPUT_NAMES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: ["q"], "outputs", "'q'", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ["z", 5], "outputs", "5", "'z'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: [[]], "outputs", "[]", "'z'"),
    Bad(Kind.WRONG_VALUE, lambda w: [], "outputs"),
    Bad(Kind.WRONG_VALUE, lambda w: ["z", "z"], "outputs", "'z'"),
    *wrong_types("outputs", "z", 5),
]

RUN_OPTIONS = [
    Bad(Kind.CLOSED, lambda w: closed(zrt.RunOptions()), "RunOptions is closed"),
    Bad(Kind.CLOSED, lambda w: zrt.RunOptions.__new__(zrt.RunOptions), "RunOptions was not made"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), "options", "Impostor"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, "options", "RunOptions", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(), "options", "SessionOptions"),
    Bad(Kind.WRONG_VALUE, lambda w: terminated(), error=TerminatedError),
]

TIMEOUT = [
    *wrong_types("timeout", "1", True),
    Bad(Kind.WRONG_VALUE, lambda w: -1, "timeout", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: float("nan"), "timeout", "nan"),
    Bad(Kind.WRONG_VALUE, lambda w: float("inf"), "timeout", "inf"),
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
    Bad(Kind.CORRUPT, lambda w: w.file("bad.onnx", b"no model" * 99), "bad.onnx", error=InvalidProtobufError),
    Bad(Kind.CORRUPT, lambda w: b"no model" * 99, "model in memory", error=InvalidProtobufError),
    Bad(Kind.CORRUPT, lambda w: bytearray(99), "model in memory", error=InvalidProtobufError),
    Bad(Kind.CORRUPT, lambda w: w.model[: len(w.model) // 2], "model in memory", error=InvalidProtobufError),
    Bad(Kind.CORRUPT, lambda w: w.file("half.onnx", w.model[: len(w.model) // 2]), "half.onnx",
        error=InvalidProtobufError),
    Bad(Kind.CORRUPT, lambda w: with_operator(w, "Nope"), "model in memory", "Nope", error=InvalidGraphError),
    Bad(Kind.CORRUPT, lambda w: with_operator(w, "Not"), "model in memory", "Not", error=InvalidGraphError),
    Bad(Kind.EMPTY, lambda w: w.file("empty.onnx", b""), "empty.onnx", "is empty"),
    Bad(Kind.EMPTY, lambda w: b"", "is empty"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "is a directory"),
    Bad(Kind.DIRECTORY, lambda w: str(w.folder), "is a directory"),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no.onnx", "no.onnx", "no such file"),
    Bad(Kind.MISSING_FILE, lambda w: "no/such/folder.onnx", "folder.onnx", "no such file"),
    Bad(Kind.MISSING_FILE, lambda w: without(w.outside(99), "outside.weights"), "outside", error=Error),
    Bad(Kind.TRUNCATED, lambda w: w.outside(16383), "outside.onnx", error=Error),
    Bad(Kind.TRUNCATED, lambda w: w.outside(0), "outside.onnx", error=Error),
    Bad(Kind.WRONG_VALUE, newer, "ModelProto", "99", "ir_version", error=ModelError),
    Bad(Kind.WRONG_VALUE, lambda w: "no\0", "model", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "\ud800", "model"),
    Bad(Kind.WRONG_VALUE, lambda w: "a" * 5000, "aaa", error=ModelError),
    *wrong_types("model: expected a path", 5, None),
    Bad(Kind.WRONG_TYPE, lambda w: [w.model], "model", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: w.array, "model", "ndarray"),
]  # fmt: skip


def option(field: str, value: Any, error: type[Error], *words: str) -> Bad:
    return Bad(Kind.WRONG_VALUE, lambda w: zrt.SessionOptions(**{field: value}), field, *words, error=error)


SESSION_OPTIONS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, "options", "SessionOptions", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: {"intra_op_num_threads": 1}, "options", "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.RunOptions(), "options", "RunOptions"),
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
    Bad(Kind.UNKNOWN_NAME, lambda w: ["nope"], "'nope'", "CPUExecutionProvider", error=ProviderError),
    Bad(Kind.UNKNOWN_NAME, lambda w: ["CPU\0"], "CPUExecutionProvider", error=ProviderError),
    Bad(Kind.UNKNOWN_NAME, lambda w: ["\ud800"], "CPUExecutionProvider", error=ProviderError),
    Bad(Kind.WRONG_VALUE, lambda w: ["CPU", "cpu"], "'CPUExecutionProvider'", "twice"),
    Bad(Kind.WRONG_VALUE, lambda w: [("CPU", {"a": "b"})], "CPUExecutionProvider", "a", error=ProviderError),
    Bad(Kind.WRONG_VALUE, lambda w: [zrt.providers.CPU(extra={"a": "b"})], "CPUExecutionProvider", "a",
        error=ProviderError),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.providers.CPU(extra=5)], "CPUExecutionProvider", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.providers.CPU(extra={5: "b"})], "CPUExecutionProvider", "5"),
    *each(Kind.WRONG_TYPE, "providers", 5, "CPU"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "providers", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [("CPU",)], "providers", "('CPU',)"),
    Bad(Kind.WRONG_TYPE, lambda w: [("CPU", 5)], "'CPU'", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: [("CPU", {5: "a"})], "'CPU'", "5"),
]  # fmt: skip

EXTERNAL_DATA_DIR = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "none", "external_data_dir", "none"),
    Bad(Kind.MISSING_FILE, lambda w: w.file("file", b"x"), "external_data_dir", "file"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", "external_data_dir", "NUL"),
    *wrong_types("external_data_dir", 5),
]

SESSION = [
    Bad(Kind.CLOSED, lambda w: closed(zrt.Session(w.model, QUIET)), "Session is closed"),
    *wrong_types("session", 5, None),
    Bad(Kind.WRONG_TYPE, lambda w: w.model, "session", "bytes"),
    Bad(Kind.WRONG_TYPE, lambda w: w.value(), "session", "Value"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), "session", "Impostor"),
    Bad(Kind.CLOSED, lambda w: zrt.Session.__new__(zrt.Session), "Session was not made"),
]

MEMORY = [
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo("Nope"), "'Nope'", error=ArgumentError),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo(""), "''", error=ArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo("Cpu\0"), "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo("\ud800"), "\\ud800"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo("Cpu", 2**40), str(2**40)),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.MemoryInfo(5), "5"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.MemoryInfo("Cpu", "0"), "'0'"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, "int"),
]

FLAG = [*wrong_types("True or False", 1, "yes")]

ALLOCATOR = [
    Bad(Kind.CLOSED, lambda w: closed(w.session.allocator()), "Allocator is closed"),
    *wrong_types("llocator", 5),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), "llocator", "Impostor"),
    Bad(Kind.CLOSED, lambda w: zrt.Allocator.__new__(zrt.Allocator), "Allocator was not made"),
]


# Calls that load a model, with good arguments but for these keywords.
LOADS = {
    "Session.__init__": lambda w, **keywords: zrt.Session(w.model, QUIET, **keywords),
    "infer": lambda w, **keywords: zrt.infer(w.model, w.feeds, None, QUIET, **keywords),
    "Runtime.replicate": lambda w, **keywords: zrt.Runtime.replicate(w.model, 2, QUIET, shapes=w.shapes, **keywords),
    "DynamicRuntime.replicate": lambda w, **keywords: zrt.DynamicRuntime.replicate(w.model, 2, QUIET, **keywords),
}


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
    model = models.parse(f"(float[n] x) => (float[{2**62}] z) {{ z = Identity(x) }}")
    return zrt.Session(model, QUIET)
