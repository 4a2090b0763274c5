"""Weights of the caller, mapped files, containers, adapters, saved models."""

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.bad import MODEL, PROVIDERS, SESSION_OPTIONS, without
from tests.robustness.vocabulary import (
    A_RESULT,
    NOTHING,
    QUIET,
    Bad,
    Kind,
    World,
    closed,
    f32,
    unsupported,
    wrong_types,
)
from tests.support import models
from zrt.errors import (
    ArgumentError,
    DTypeError,
    Error,
    FailError,
    FileError,
    InvalidGraphError,
    ModelError,
    ProviderError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)

# y = x + w over float32 [512, 4].
WEIGHTED = models.parse("(float[512, 4] x) => (float[512, 4] y) { y = Add(x, w) }", w=f32(512, 4))


def with_options(w: World, model: Any = WEIGHTED, **fields: Any) -> zrt.Session:
    return zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", **fields))


def weight(kind: Kind, make: Callable[[World], Any], *words: str, **error: Any) -> Bad:
    return Bad(kind, lambda w: {"w": make(w)}, "initializer 'w'", *words, **error)


INITIALIZERS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"q": f32(512, 4)}, "'q'", "'w'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"x": f32(512, 4)}, "'x'", "'w'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"w\0": f32(512, 4)}, "NUL", error=ArgumentError),
    Bad(Kind.UNKNOWN_NAME, lambda w: {5: f32(512, 4)}, "initializers", "5", error=DTypeError),
    weight(Kind.WRONG_DTYPE, lambda w: np.zeros((512, 4)), "float32", "float64"),
    weight(Kind.WRONG_DTYPE, lambda w: zrt.Buffer((512, 4), np.int32), "float32", "int32"),
    weight(Kind.WRONG_DTYPE, lambda w: np.full((512, 4), "a"), error=Error),
    weight(Kind.WRONG_RANK, lambda w: f32(2048), "[512, 4]", "[2048]"),
    weight(Kind.WRONG_SHAPE, lambda w: f32(511, 4), "[512, 4]", "[511, 4]"),
    weight(Kind.WRONG_SHAPE, lambda w: f32(0, 4), "[0, 4]"),
    weight(Kind.HUGE, lambda w: np.broadcast_to(np.float32(0), (2**46, 4)), "contiguous"),
    weight(Kind.CLOSED, lambda w: closed(zrt.Buffer((512, 4), np.float32)), "Buffer is closed"),
    weight(Kind.CLOSED, lambda w: closed(zrt.Value.from_array(f32(512, 4))), "Value is closed"),
    weight(Kind.WRONG_TYPE, lambda w: [[0.0] * 4] * 512, "list"),
    weight(Kind.WRONG_VALUE, lambda w: f32(4, 512).T, "contiguous"),
    weight(Kind.WRONG_VALUE, lambda w: np.zeros((512, 4), ">f4"), "byte order"),
    Bad(Kind.WRONG_TYPE, lambda w: [f32(512, 4)], "initializers", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: f32(512, 4), "initializers", "ndarray"),
    *wrong_types("initializers", None),
]

OPTIONAL = [
    *wrong_types("optional_initializers", "w", None),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "optional_initializers", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: np.array(["w"]), "optional_initializers", "ndarray"),
]

FILES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: {"other": b"1"}, "'other'", "'outside.weights'"),
    Bad(Kind.MISSING_FILE, lambda w: {"": b"1"}, "''", error=UnknownNameError),
    Bad(Kind.TRUNCATED, lambda w: {"outside.weights": bytes(16383)}, "16383", "16384", "'w'", error=ShapeError),
    Bad(Kind.EMPTY, lambda w: {"outside.weights": b""}, "0 bytes", error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: {"outside.weights": "text"}, "'outside.weights'", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: {"outside.weights": 5}, "'outside.weights'", "int"),
    Bad(Kind.WRONG_VALUE, lambda w: {"outside.weights": memoryview(bytes(99))[::2]}, "contiguous"),
    *wrong_types("external_initializer_files", b""),
    Bad(Kind.WRONG_TYPE, lambda w: f32(4), "external_initializer_files", "ndarray"),
]

TRUSTED = [
    *wrong_types("trusted_folders", "folder", 5),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "trusted_folders", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: np.array([str(w.folder)]), "trusted_folders", "ndarray"),
    Bad(Kind.MISSING_FILE, lambda w: [w.folder / "absent"], "trusted_folders", "absent", error=ArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: [w.file("a", b"1")], "trusted_folders", "directory", error=ArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: ["a\0"], "trusted_folders", "NUL"),
]

CONTAINER = [
    Bad(Kind.CLOSED, lambda w: closed(zrt.PrepackedWeights()), "PrepackedWeights is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: {}, "prepacked_weights", "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.PrepackedWeights, "prepacked_weights", "type"),
]

FILE = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no", "no such file"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "is a directory"),
    Bad(Kind.EMPTY, lambda w: w.file("empty", b""), "is empty"),
    Bad(Kind.WRONG_VALUE, lambda w: "/dev/null", "cannot be mapped", error=ModelError),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "a" * 5000, "cannot be mapped", error=ModelError),
    *wrong_types("path", 5, None),
]

PLACE = [
    Bad(Kind.WRONG_DTYPE, lambda w: ("f2x", (1,), 0)),
    Bad(Kind.WRONG_DTYPE, lambda w: (object, (1,), 0), "STRING"),
    Bad(Kind.WRONG_DTYPE, lambda w: (">f4", (1,), 0), "other byte order", error=ArgumentError),
    Bad(Kind.WRONG_SHAPE, lambda w: ("float32", (17,), 0), "68 bytes", "has 64"),
    Bad(Kind.WRONG_SHAPE, lambda w: ("float32", (1,), 64), "offset 64", "has 64"),
    Bad(Kind.WRONG_SHAPE, lambda w: ("float64", None, 128), "offset 128"),
    Bad(Kind.NEGATIVE, lambda w: ("float32", (-1,), 0), "-1", error=ShapeError),
    Bad(Kind.NEGATIVE, lambda w: ("float32", (1,), -4), "offset", "-4"),
    Bad(Kind.HUGE, lambda w: ("float32", (2**62, 2**62), 0), "has 64", error=ShapeError),
    Bad(Kind.HUGE, lambda w: ("float32", (1,), 2**63 - 4), "has 64", error=ShapeError),
    Bad(Kind.HUGE, lambda w: ("float32", (1,), 2**70), "offset"),
    Bad(Kind.WRONG_VALUE, lambda w: ("float32", (1,), 2), "offset 2", "multiple of 4"),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", 5.5, 0), error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", (1,), "0"), "offset", "str"),
]

ADAPTER = [
    Bad(Kind.CORRUPT, lambda w: b"no adapter" * 9, "adapter in memory", error=FailError),
    Bad(Kind.CORRUPT, lambda w: w.file("bad", b"no adapter" * 9), "adapter", "bad", error=FailError),
    Bad(Kind.TRUNCATED, lambda w: adapter_bytes(w)[:-9], "adapter in memory", error=FailError),
    Bad(Kind.EMPTY, lambda w: b"", "adapter in memory", error=FailError),
    *wrong_types("adapter", 5),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no", "no such file"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "is a directory"),
]

ADAPTERS = [
    Bad(Kind.CLOSED, lambda w: [closed(adapter(w))], "LoraAdapter is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: adapter(w), "adapters", "LoraAdapter"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "adapters[0]", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", "adapters[0]", "str 'a'"),
    *wrong_types("adapters", 5),
]

PARAMETERS = [
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": np.full(2, "text")}, "parameter 'a'", "STRING", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": np.zeros(2, "M8[s]")}, "parameter 'a'", "datetime64"),
    Bad(Kind.WRONG_RANK, lambda w: {"a": np.array(1.0)}, "parameter 'a'", "scalars"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": [1.0]}, "parameter 'a'", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: f32(2)}, "parameters", "5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"a\0": f32(2)}, "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: [f32(2)], "parameters", "list"),
]

UNREADABLE = [
    Bad(Kind.CORRUPT, lambda w: w.file("bad.onnx", b"no model" * 99), "bad.onnx"),
    Bad(Kind.CORRUPT, lambda w: w.model[: len(w.model) // 2], "model in memory"),
    Bad(Kind.EMPTY, lambda w: b"", "is empty"), Bad(Kind.EMPTY, lambda w: w.file("empty.onnx", b""), "empty.onnx"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "is a directory"),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no.onnx", "no.onnx"), Bad(Kind.WRONG_VALUE, lambda w: "no\0", "NUL"),
    *wrong_types("model", 5),
]  # fmt: skip

NO_GRAPH = [
    Bad(Kind.CORRUPT, lambda w: b"\xff" * 9, "model in memory", error=InvalidGraphError),
    Bad(Kind.CORRUPT, lambda w: w.file("bad.onnx", b"\xff" * 9), "bad.onnx", error=InvalidGraphError),
]

OUTSIDE = [
    Bad(
        Kind.MISSING_FILE, lambda w: without(w.outside(99), "outside.weights"), "outside.onnx", "'w'", error=ModelError
    ),
    Bad(Kind.TRUNCATED, lambda w: w.outside(16383), "outside.onnx", "'w'", "1 bytes too soon"),
    Bad(Kind.TRUNCATED, lambda w: w.outside(0), "outside.onnx", "'w'"),
]

PROVIDER_S_NAME = [*wrong_types("provider", 5, None), Bad(Kind.WRONG_VALUE, lambda w: "a\0b", "provider", "NUL")]

SAVED_PATH = [
    Bad(Kind.DIRECTORY, lambda w: w.folder, "Is a directory", error=FileError),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no" / "m.onnx", "cannot be written", error=FileError),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", "path", "NUL"),
    *wrong_types("path", 5),
]

WEIGHTS_FILE = [
    Bad(Kind.WRONG_VALUE, lambda w: "a/b", "weights_file", "'a/b'"),
    Bad(Kind.WRONG_VALUE, lambda w: "", "weights_file"), Bad(Kind.WRONG_VALUE, lambda w: "out.onnx", "weights_file"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", "weights_file", "NUL"), *wrong_types("weights_file", 5),
]  # fmt: skip


def mapped(w: World, **options: Any) -> zrt.MappedFile:
    return zrt.MappedFile(w.file("weights", bytes(64)), **options)


def adapter_bytes(w: World) -> bytes:
    path = w.folder / "good.onnx_adapter"
    zrt.save_lora_adapter(path, {"a": f32(3, 2)})
    return path.read_bytes()


def adapter(w: World) -> zrt.LoraAdapter:
    return zrt.LoraAdapter(adapter_bytes(w))


def adapted(w: World) -> zrt.RunOptions:
    return zrt.RunOptions(adapters=[adapter(w)])


def reading(w: World, files: Any) -> object:
    return zrt.read_weights(w.outside(16384), external_initializer_files=files)


def saving(w: World, model: Any, options: Any = QUIET, providers: Any = None, **more: Any) -> None:
    zrt.save_optimized(model, w.folder / "out.onnx", options, providers, **more)


TAKES = [
    ("Session.__init__", "initializers", INITIALIZERS, lambda w, bad: with_options(w, initializers=bad)),
    ("Session.__init__", "optional", OPTIONAL,
     lambda w, bad: with_options(w, initializers={"w": f32(512, 4)}, optional_initializers=bad)),
    ("Session.__init__", "files", FILES,
     lambda w, bad: with_options(w, w.outside(16384), external_initializer_files=bad)),
    ("Session.__init__", "trusted_folders", TRUSTED, lambda w, bad: with_options(w, trusted_folders=bad)),
    ("read_weights", "trusted_folders", TRUSTED,
     lambda w, bad: zrt.read_weights(w.outside(16384), trusted_folders=bad)),
    ("check", "trusted_folders", TRUSTED,
     lambda w, bad: zrt.check(w.outside(16384), zrt.SessionOptions(trusted_folders=bad))),
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
    ("fingerprint", "model", [*UNREADABLE, *OUTSIDE], lambda w, bad: zrt.fingerprint(bad)),
    ("fingerprint", "trusted_folders", TRUSTED,
     lambda w, bad: zrt.fingerprint(w.outside(16384), trusted_folders=bad)),
    ("read_weights", "model", [*UNREADABLE, *OUTSIDE], lambda w, bad: zrt.read_weights(bad)),
    ("save_optimized", "model", MODEL, saving),
    ("save_optimized", "options", [each for each in SESSION_OPTIONS if "optimized_model_filepath" not in each.words],
     lambda w, bad: saving(w, w.model, options=bad)),
    ("save_optimized", "providers", PROVIDERS, lambda w, bad: saving(w, w.model, providers=bad)),
    ("save_optimized", "path", SAVED_PATH, lambda w, bad: zrt.save_optimized(w.model, bad, QUIET)),
    ("save_optimized", "weights_file", WEIGHTS_FILE, lambda w, bad: saving(w, w.model, weights_file=bad)),
    ("compatibility_info", "model", [each for each in UNREADABLE if each.kind is not Kind.CORRUPT],
     lambda w, bad: zrt.compatibility_info(bad, "CPUExecutionProvider")),
    ("compatibility_info", "corrupt model", NO_GRAPH, lambda w, bad: zrt.compatibility_info(bad, "a")),
    ("compatibility_info", "provider", PROVIDER_S_NAME, lambda w, bad: zrt.compatibility_info(w.model, bad)),
    ("model_compatibility", "provider", PROVIDER_S_NAME, lambda w, bad: zrt.model_compatibility("", bad)),
]  # fmt: skip

SINGLE = {
    "MappedFile.__init__": [
        *(
            Bad(Kind.WRONG_TYPE, lambda w, flag=flag: mapped(w, **{flag: 1}), flag, "int")
            for flag in ("prefetch", "hugepage", "lock")
        ),
        Bad(Kind.WRONG_VALUE, lambda w: mapped(w, access="often"), "access", "'often'", "sequential"),
        Bad(Kind.WRONG_TYPE, lambda w: mapped(w, access=5), "5", error=ArgumentError),
    ],
    "LoraAdapter.__init__": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.LoraAdapter(adapter_bytes(w), "cuda"), "allocator", "str"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.LoraAdapter(adapter_bytes(w), w.session.allocator()), "allocator", "host"),
        Bad(Kind.CLOSED, lambda w: zrt.LoraAdapter(adapter_bytes(w), closed(w.session.allocator())),
            "Allocator is closed"),
    ],
    "Lane.run_with": [unsupported(lambda w: w.lane.run_with(adapted(w)), "adapters")],
    "IoBinding.run": [unsupported(lambda w: w.binding.run(adapted(w)), "adapters")],
    "Session.run": [
        Bad(Kind.UNKNOWN_NAME, lambda w: w.session.run(w.feeds, options=adapted(w)), "Invalid input name", "a",
            error=Error)
    ],
    "save_lora_adapter": [
        Bad(Kind.WRONG_VALUE, lambda w: zrt.save_lora_adapter(w.folder / "a", {}, model_version=2**31),
            "model_version"),
        Bad(Kind.DIRECTORY, lambda w: zrt.save_lora_adapter(w.folder, {}), "directory", error=FileError),
    ],
    "read_weights": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.read_weights(w.model, 5), "external_data_dir", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: reading(w, [b""]), "external_initializer_files", "list"),
        Bad(Kind.UNKNOWN_NAME, lambda w: reading(w, {"nowhere": b""}), "external_initializer_files", "'nowhere'",
            "'outside.weights'"),
        Bad(Kind.TRUNCATED, lambda w: reading(w, {"outside.weights": b""}), "'w'", "ends", "bytes too soon"),
        Bad(Kind.MISSING_FILE, lambda w: zrt.read_weights(w.outside(16384).read_bytes(), w.folder / "no"), "'w'",
            "No such file", error=ModelError),
    ],
    "save_optimized": [
        Bad(Kind.NEGATIVE, lambda w: saving(w, w.model, weights_file="w", weights_from=-1), "weights_from", "-1"),
        Bad(Kind.WRONG_VALUE, lambda w: saving(w, w.model, zrt.SessionOptions(optimized_model_filepath="other.onnx")),
            "optimized_model_filepath"),
    ],
    "compatibility_info": [Bad(Kind.WRONG_TYPE, lambda w: zrt.compatibility_info(w.model, ""), "provider")],
    "model_compatibility": [
        Bad(Kind.WRONG_VALUE, lambda w: zrt.model_compatibility("a\0b", "CPUExecutionProvider"), "NUL"),
        Bad(Kind.UNKNOWN_NAME, lambda w: zrt.model_compatibility("", "Nope"), "'Nope'", "CPUExecutionProvider",
            error=ProviderError),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.model_compatibility(None, "Nope"), "info"),
    ],
}  # fmt: skip

CLOSED_SELF = {"MappedFile.tensor": lambda w, it: it.tensor("uint8")}

CLOSED_ALONE = {"MappedFile": "array hugepage"}

CLOSABLE = {"MappedFile": mapped, "LoraAdapter": adapter, "PrepackedWeights": lambda w: zrt.PrepackedWeights()}

CANNOT_FAIL = {A_RESULT: "Fingerprint.__init__ Initializer.__init__", NOTHING: "PrepackedWeights.__init__"}
