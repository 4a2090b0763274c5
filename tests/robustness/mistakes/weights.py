"""Weights of the caller, mapped files, containers, adapters, saved models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.bad import MODEL, PROVIDERS, SESSION_OPTIONS, without
from tests.robustness.vocabulary import A_RESULT, NOTHING, QUIET, Bad, Kind, Single, Take, World, closed, f32
from tests.support import models
from zrt.errors import (
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    FailError,
    InvalidGraphError,
    ModelError,
    ModelNotFoundError,
    ProviderError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)

# y = x + w over float32 [512, 4].
WEIGHTED = models.build(
    [models.node("Add", ["x", "w"], ["y"])],
    [models.tensor("x", models.FLOAT, [512, 4])],
    [models.tensor("y", models.FLOAT, [512, 4])],
    {"w": f32(512, 4)},
)


def with_options(w: World, model: Any = WEIGHTED, **fields: Any) -> zrt.Session:
    return zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", **fields))


def weight(kind: Kind, make: Callable[[World], Any], error: type[Error], *words: str) -> Bad:
    return Bad(kind, lambda w: {"w": make(w)}, error, "initializer 'w'", *words)


INITIALIZERS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"q": f32(512, 4)}, UnknownNameError, "'q'", "'w'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"x": f32(512, 4)}, UnknownNameError, "'x'", "'w'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"w\0": f32(512, 4)}, ArgumentError, "NUL"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {5: f32(512, 4)}, DTypeError, "initializers", "5"),
    weight(Kind.WRONG_DTYPE, lambda w: np.zeros((512, 4)), DTypeError, "float32", "float64"),
    weight(Kind.WRONG_DTYPE, lambda w: zrt.Buffer((512, 4), np.int32), DTypeError, "float32", "int32"),
    weight(Kind.WRONG_DTYPE, lambda w: np.full((512, 4), "a"), Error),
    weight(Kind.WRONG_RANK, lambda w: f32(2048), ShapeError, "[512, 4]", "[2048]"),
    weight(Kind.WRONG_SHAPE, lambda w: f32(511, 4), ShapeError, "[512, 4]", "[511, 4]"),
    weight(Kind.WRONG_SHAPE, lambda w: f32(0, 4), ShapeError, "[0, 4]"),
    weight(Kind.HUGE, lambda w: np.broadcast_to(np.float32(0), (2**46, 4)), ArgumentError, "contiguous"),
    weight(Kind.CLOSED, lambda w: closed(zrt.Buffer((512, 4), np.float32)), ClosedError, "Buffer is closed"),
    weight(Kind.CLOSED, lambda w: closed(zrt.Value.from_array(f32(512, 4))), ClosedError, "Value is closed"),
    weight(Kind.WRONG_TYPE, lambda w: [[0.0] * 4] * 512, DTypeError, "list"),
    weight(Kind.WRONG_VALUE, lambda w: f32(4, 512).T, ArgumentError, "contiguous"),
    weight(Kind.WRONG_VALUE, lambda w: np.zeros((512, 4), ">f4"), ArgumentError, "byte order"),
    Bad(Kind.WRONG_TYPE, lambda w: [f32(512, 4)], DTypeError, "initializers", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "initializers", "NoneType"),
]

OPTIONAL = [
    Bad(Kind.WRONG_TYPE, lambda w: "w", DTypeError, "optional_initializers", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], DTypeError, "optional_initializers", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "optional_initializers", "NoneType"),
]

FILES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"other": b"1"}, UnknownNameError, "'other'", "'outside.weights'"),
    Bad(Kind.MISSING_FILE, lambda w: {"": b"1"}, UnknownNameError, "''"),
    Bad(Kind.TRUNCATED, lambda w: {"outside.weights": bytes(16383)}, ShapeError, "16383", "16384", "'w'"),
    Bad(Kind.EMPTY, lambda w: {"outside.weights": b""}, ShapeError, "0 bytes"),
    Bad(Kind.WRONG_TYPE, lambda w: {"outside.weights": "text"}, DTypeError, "'outside.weights'", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: {"outside.weights": 5}, DTypeError, "'outside.weights'", "int"),
    Bad(Kind.WRONG_VALUE, lambda w: {"outside.weights": memoryview(bytes(99))[::2]}, ArgumentError, "contiguous"),
    Bad(Kind.WRONG_TYPE, lambda w: b"", DTypeError, "external_initializer_files", "bytes"),
]

CONTAINER = [
    Bad(Kind.CLOSED, lambda w: closed(zrt.PrepackedWeights()), ClosedError, "PrepackedWeights is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: {}, DTypeError, "prepacked_weights", "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.PrepackedWeights, DTypeError, "prepacked_weights", "type"),
]

FILE = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no", ModelNotFoundError, "no such file"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, ModelError, "is a directory"),
    Bad(Kind.EMPTY, lambda w: w.file("empty", b""), ModelError, "is empty"),
    Bad(Kind.WRONG_VALUE, lambda w: "/dev/null", ModelError, "cannot be mapped"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", ArgumentError, "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "a" * 5000, ModelError, "cannot be mapped"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "path", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "path", "NoneType"),
]

PLACE = [
    Bad(Kind.WRONG_DTYPE, lambda w: ("f2x", (1,), 0), DTypeError),
    Bad(Kind.WRONG_DTYPE, lambda w: (object, (1,), 0), DTypeError, "STRING"),
    Bad(Kind.WRONG_DTYPE, lambda w: (">f4", (1,), 0), ArgumentError, "other byte order"),
    Bad(Kind.WRONG_SHAPE, lambda w: ("float32", (17,), 0), ShapeError, "68 bytes", "has 64"),
    Bad(Kind.WRONG_SHAPE, lambda w: ("float32", (1,), 64), ShapeError, "offset 64", "has 64"),
    Bad(Kind.WRONG_SHAPE, lambda w: ("float64", None, 128), ShapeError, "offset 128"),
    Bad(Kind.NEGATIVE, lambda w: ("float32", (-1,), 0), ShapeError, "-1"),
    Bad(Kind.NEGATIVE, lambda w: ("float32", (1,), -4), ArgumentError, "offset", "-4"),
    Bad(Kind.HUGE, lambda w: ("float32", (2**62, 2**62), 0), ShapeError, "has 64"),
    Bad(Kind.HUGE, lambda w: ("float32", (1,), 2**63 - 4), ShapeError, "has 64"),
    Bad(Kind.HUGE, lambda w: ("float32", (1,), 2**70), ArgumentError, "offset"),
    Bad(Kind.WRONG_VALUE, lambda w: ("float32", (1,), 2), ArgumentError, "offset 2", "multiple of 4"),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", 5.5, 0), ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", (1,), "0"), DTypeError, "offset", "str"),
]

ADAPTER = [
    Bad(Kind.CORRUPT, lambda w: b"no adapter" * 9, FailError, "adapter in memory"),
    Bad(Kind.CORRUPT, lambda w: w.file("bad", b"no adapter" * 9), FailError, "adapter", "bad"),
    Bad(Kind.TRUNCATED, lambda w: adapter_bytes(w)[:-9], FailError, "adapter in memory"),
    Bad(Kind.EMPTY, lambda w: b"", FailError, "adapter in memory"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "adapter", "int"),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no", ModelNotFoundError, "no such file"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, ModelError, "is a directory"),
]

ADAPTERS = [
    Bad(Kind.CLOSED, lambda w: [closed(adapter(w))], ClosedError, "LoraAdapter is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: adapter(w), DTypeError, "adapters", "LoraAdapter"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], DTypeError, "adapters[0]", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", DTypeError, "adapters[0]", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "adapters", "int"),
]

PARAMETERS = [
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": np.full(2, "text")}, UnsupportedError, "parameter 'a'", "STRING"),
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": np.zeros(2, "M8[s]")}, DTypeError, "parameter 'a'", "datetime64"),
    Bad(Kind.WRONG_RANK, lambda w: {"a": np.array(1.0)}, ShapeError, "parameter 'a'", "scalars"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": [1.0]}, DTypeError, "parameter 'a'", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: f32(2)}, DTypeError, "parameters", "5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"a\0": f32(2)}, ArgumentError, "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: [f32(2)], DTypeError, "parameters", "list"),
]

UNREADABLE = [
    Bad(Kind.CORRUPT, lambda w: w.file("bad.onnx", b"no model" * 99), ModelError, "bad.onnx"),
    Bad(Kind.CORRUPT, lambda w: w.model[: len(w.model) // 2], ModelError, "model in memory"),
    Bad(Kind.EMPTY, lambda w: b"", ModelError, "is empty"),
    Bad(Kind.EMPTY, lambda w: w.file("empty.onnx", b""), ModelError, "empty.onnx"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, ModelError, "is a directory"),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no.onnx", ModelNotFoundError, "no.onnx"),
    Bad(Kind.WRONG_VALUE, lambda w: "no\0", ArgumentError, "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "model", "int"),
]

OUTSIDE = [
    Bad(Kind.MISSING_FILE, lambda w: without(w.outside(99), "outside.weights"), ModelError, "outside.onnx", "'w'"),
    Bad(Kind.TRUNCATED, lambda w: w.outside(16383), ModelError, "outside.onnx", "'w'", "1 bytes too soon"),
    Bad(Kind.TRUNCATED, lambda w: w.outside(0), ModelError, "outside.onnx", "'w'"),
]

PROVIDER_S_NAME = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "provider", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "provider", "None"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", ArgumentError, "provider", "NUL"),
]

SAVED_PATH = [
    Bad(Kind.DIRECTORY, lambda w: w.folder, ArgumentError, "Is a directory"),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no" / "m.onnx", ArgumentError, "cannot be written"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", ArgumentError, "path", "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "path", "int"),
]

WEIGHTS_FILE = [
    Bad(Kind.WRONG_VALUE, lambda w: "a/b", ArgumentError, "weights_file", "'a/b'"),
    Bad(Kind.WRONG_VALUE, lambda w: "", ArgumentError, "weights_file"),
    Bad(Kind.WRONG_VALUE, lambda w: "out.onnx", ArgumentError, "weights_file"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", ArgumentError, "weights_file", "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "weights_file", "int"),
]


def mapped(w: World) -> zrt.MappedFile:
    return zrt.MappedFile(w.file("weights", bytes(64)))


def adapter_bytes(w: World) -> bytes:
    path = w.folder / "good.onnx_adapter"
    zrt.save_lora_adapter(path, {"a": f32(3, 2)})
    return path.read_bytes()


def adapter(w: World) -> zrt.LoraAdapter:
    return zrt.LoraAdapter(adapter_bytes(w))


def saving(w: World, model: Any, options: Any = QUIET, providers: Any = None, **more: Any) -> None:
    zrt.save_optimized(model, w.folder / "out.onnx", options, providers, **more)


TAKES: list[Take] = [
    ("Session.__init__", "initializers", INITIALIZERS, lambda w, bad: with_options(w, initializers=bad)),
    ("Session.__init__", "optional", OPTIONAL,
     lambda w, bad: with_options(w, initializers={"w": f32(512, 4)}, optional_initializers=bad)),
    ("Session.__init__", "files", FILES,
     lambda w, bad: with_options(w, w.outside(16384), external_initializer_files=bad)),
    ("Session.__init__", "container", CONTAINER, lambda w, bad: with_options(w, prepacked_weights=bad)),
    ("MappedFile.__init__", "path", FILE, lambda w, bad: zrt.MappedFile(bad)),
    ("MappedFile.array", "place", PLACE, lambda w, bad: mapped(w).array(*bad)),
    ("MappedFile.tensor", "place", PLACE, lambda w, bad: mapped(w).tensor(*bad)),
    ("LoraAdapter.__init__", "adapter", ADAPTER, lambda w, bad: zrt.LoraAdapter(bad)),
    ("RunOptions.__init__", "adapters", ADAPTERS, lambda w, bad: zrt.RunOptions(adapters=bad)),
    ("save_lora_adapter", "parameters", PARAMETERS,
     lambda w, bad: zrt.save_lora_adapter(w.folder / "a", bad)),
    ("save_lora_adapter", "path", [each for each in SAVED_PATH if each.kind is not Kind.DIRECTORY],
     lambda w, bad: zrt.save_lora_adapter(bad, {})),
    ("list_initializers", "model", UNREADABLE, lambda w, bad: zrt.list_initializers(bad)),
    ("read_weights", "model", [*UNREADABLE, *OUTSIDE], lambda w, bad: zrt.read_weights(bad)),
    ("save_optimized", "model", MODEL, saving),
    ("save_optimized", "options", [each for each in SESSION_OPTIONS if "optimized_model_filepath" not in each.words],
     lambda w, bad: saving(w, w.model, options=bad)),
    ("save_optimized", "providers", PROVIDERS, lambda w, bad: saving(w, w.model, providers=bad)),
    ("save_optimized", "path", SAVED_PATH, lambda w, bad: zrt.save_optimized(w.model, bad, QUIET)),
    ("save_optimized", "weights_file", WEIGHTS_FILE, lambda w, bad: saving(w, w.model, weights_file=bad)),
    ("compatibility_info", "model", [each for each in UNREADABLE if each.kind is not Kind.CORRUPT],
     lambda w, bad: zrt.compatibility_info(bad, "CPUExecutionProvider")),
    ("compatibility_info", "provider", PROVIDER_S_NAME, lambda w, bad: zrt.compatibility_info(w.model, bad)),
    ("model_compatibility", "provider", PROVIDER_S_NAME, lambda w, bad: zrt.model_compatibility("", bad)),
]  # fmt: skip

SINGLE: list[Single] = [
    ("MappedFile.__init__", Kind.WRONG_VALUE, lambda w: zrt.MappedFile(w.file("w", b"1"), access="often"),
     ArgumentError, ("access", "'often'", "sequential")),
    ("MappedFile.__init__", Kind.WRONG_TYPE, lambda w: zrt.MappedFile(w.file("w", b"1"), access=5),
     ArgumentError, ("5",)),
    *((("MappedFile.__init__", Kind.WRONG_TYPE, lambda w, flag=flag: zrt.MappedFile(w.file("w", b"1"), **{flag: 1}),
        DTypeError, (flag, "int"))) for flag in ("prefetch", "hugepage", "lock")),
    ("LoraAdapter.__init__", Kind.WRONG_TYPE, lambda w: zrt.LoraAdapter(adapter_bytes(w), "cuda"),
     DTypeError, ("allocator", "str")),
    ("LoraAdapter.__init__", Kind.WRONG_VALUE, lambda w: zrt.LoraAdapter(adapter_bytes(w), w.session.allocator()),
     ArgumentError, ("allocator", "host")),
    ("LoraAdapter.__init__", Kind.CLOSED, lambda w: zrt.LoraAdapter(adapter_bytes(w), closed(w.session.allocator())),
     ClosedError, ("Allocator is closed",)),
    ("Lane.run_with", Kind.WRONG_VALUE, lambda w: w.lane.run_with(zrt.RunOptions(adapters=[adapter(w)])),
     UnsupportedError, ("adapters",)),
    ("IoBinding.run", Kind.WRONG_VALUE, lambda w: w.binding.run(zrt.RunOptions(adapters=[adapter(w)])),
     UnsupportedError, ("adapters",)),
    ("Session.run", Kind.UNKNOWN_NAME, lambda w: w.session.run(w.feeds, options=zrt.RunOptions(adapters=[adapter(w)])),
     Error, ("Invalid input name", "a")),
    ("save_lora_adapter", Kind.WRONG_VALUE, lambda w: zrt.save_lora_adapter(w.folder / "a", {}, model_version=2**31),
     ArgumentError, ("model_version",)),
    ("save_lora_adapter", Kind.DIRECTORY, lambda w: zrt.save_lora_adapter(w.folder, {}), ArgumentError, ("directory",)),
    ("read_weights", Kind.WRONG_TYPE, lambda w: zrt.read_weights(w.model, 5), DTypeError, ("external_data_dir", "int")),
    ("read_weights", Kind.WRONG_TYPE, lambda w: zrt.read_weights(w.model, external_initializer_files=[b""]),
     DTypeError, ("external_initializer_files", "list")),
    ("read_weights", Kind.UNKNOWN_NAME,
     lambda w: zrt.read_weights(w.outside(16384), external_initializer_files={"nowhere": b""}),
     UnknownNameError, ("external_initializer_files", "'nowhere'", "'outside.weights'")),
    ("read_weights", Kind.TRUNCATED,
     lambda w: zrt.read_weights(w.outside(16384), external_initializer_files={"outside.weights": b""}),
     ModelError, ("'w'", "ends", "bytes too soon")),
    ("read_weights", Kind.MISSING_FILE, lambda w: zrt.read_weights(w.outside(16384).read_bytes(), w.folder / "no"),
     ModelError, ("'w'", "No such file")),
    ("save_optimized", Kind.NEGATIVE, lambda w: saving(w, w.model, weights_file="w", weights_from=-1),
     ArgumentError, ("weights_from", "-1")),
    ("save_optimized", Kind.WRONG_VALUE,
     lambda w: saving(w, w.model, zrt.SessionOptions(optimized_model_filepath="other.onnx")),
     ArgumentError, ("optimized_model_filepath",)),
    ("compatibility_info", Kind.CORRUPT, lambda w: zrt.compatibility_info(b"\xff" * 9, "a"),
     InvalidGraphError, ("model in memory",)),
    ("compatibility_info", Kind.CORRUPT, lambda w: zrt.compatibility_info(w.file("bad.onnx", b"\xff" * 9), "a"),
     InvalidGraphError, ("bad.onnx",)),
    ("model_compatibility", Kind.UNKNOWN_NAME, lambda w: zrt.model_compatibility("", "Nope"),
     ProviderError, ("'Nope'", "CPUExecutionProvider")),
    ("model_compatibility", Kind.WRONG_TYPE, lambda w: zrt.model_compatibility(None, "Nope"), DTypeError, ("info",)),
]  # fmt: skip

CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "MappedFile.array": lambda w, it: it.array(),
    "MappedFile.tensor": lambda w, it: it.tensor("uint8"),
    "MappedFile.hugepage": lambda w, it: it.hugepage,
    "MappedFile.__enter__": lambda w, it: it.__enter__(),
    "LoraAdapter.__enter__": lambda w, it: it.__enter__(),
    "PrepackedWeights.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {
    "MappedFile": mapped,
    "LoraAdapter": adapter,
    "PrepackedWeights": lambda w: zrt.PrepackedWeights(),
}

CANNOT_FAIL: dict[str, str] = {
    "Initializer.__init__": A_RESULT,
    "PrepackedWeights.__init__": NOTHING,
}

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "initializers": (
        INITIALIZERS,
        {Kind.UNKNOWN_NAME, Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.HUGE, Kind.CLOSED},
    ),
    "files of weights": (FILES, {Kind.UNKNOWN_NAME, Kind.MISSING_FILE, Kind.TRUNCATED, Kind.EMPTY}),
    "file": (FILE, {Kind.MISSING_FILE, Kind.DIRECTORY, Kind.EMPTY}),
    "place in a file": (PLACE, {Kind.WRONG_DTYPE, Kind.WRONG_SHAPE, Kind.NEGATIVE, Kind.HUGE}),
    "adapter": (ADAPTER, {Kind.CORRUPT, Kind.TRUNCATED, Kind.EMPTY, Kind.MISSING_FILE, Kind.DIRECTORY}),
    "weights to read": (
        [*UNREADABLE, *OUTSIDE],
        {Kind.CORRUPT, Kind.EMPTY, Kind.DIRECTORY, Kind.MISSING_FILE, Kind.TRUNCATED},
    ),
}
