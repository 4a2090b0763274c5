"""Sessions: models, feeds, runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

import zrt
from tests.robustness.bad import (
    BORROWED_FEEDS,
    COPIED_FEEDS,
    MEMORY,
    MODEL,
    OF_ARRAY,
    OUTPUT_NAMES,
    PROVIDERS,
    RUN_OPTIONS,
    RUNS,
    SESSION,
    SESSION_OPTIONS,
    TIMEOUT,
    huge_output,
    loading,
)
from tests.robustness.vocabulary import (
    A_FACT,
    A_RESULT,
    ANY,
    INSIDE,
    NOTHING,
    QUIET,
    Bad,
    Impostor,
    Kind,
    Single,
    Take,
    World,
    f32,
)
from tests.support import models
from zrt.errors import AllocationError, ArgumentError, DTypeError, ModelNotFoundError, UnsupportedError


def infer(model: Any, options: Any, providers: Any = None, **arguments: Any) -> object:
    feeds = {"x": f32(1024, 4), "y": f32(1024, 4)} if isinstance(model, bytes) else {"x": f32(1024, 4)}
    return zrt.infer(model, feeds, None, options, providers, **arguments)


def load_recipe(*arguments: Any, **named: Any) -> object:
    return zrt.SessionSpec(*arguments, **named).load()


CALLS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "Session.prepare"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), DTypeError, "Session.prepare"),
]

TAKES: list[Take] = [
    *loading("Session.__init__", zrt.Session),
    *loading("SessionSpec.__init__", load_recipe),
    ("Session.run", "feeds", COPIED_FEEDS, lambda w, bad: w.session.run(bad)),
    ("Session.run", "feeds of a subset", COPIED_FEEDS, lambda w, bad: w.session.run(bad, ["z"])),
    ("Session.run", "outputs", OUTPUT_NAMES, lambda w, bad: w.session.run(w.feeds, bad)),
    ("Session.run", "options", RUN_OPTIONS, lambda w, bad: w.session.run(w.feeds, options=bad)),
    ("Session.run", "timeout", TIMEOUT, lambda w, bad: w.session.run(w.feeds, timeout=bad)),
    ("Session.prepare", "feeds", BORROWED_FEEDS, lambda w, bad: w.session.prepare(bad)),
    ("Session.allocator", "memory", MEMORY, lambda w, bad: w.session.allocator(bad)),
    *loading("infer", infer),
    ("infer", "feeds", COPIED_FEEDS, lambda w, bad: zrt.infer(w.model, bad, None, QUIET)),
    ("infer", "outputs", OUTPUT_NAMES, lambda w, bad: zrt.infer(w.model, w.feeds, bad, QUIET)),
    ("PreparedRun.__init__", "call", CALLS, lambda w, bad: zrt.PreparedRun(bad, [])),
    ("PreparedRun.run", "options", RUN_OPTIONS, lambda w, bad: w.prepared.run(bad)),
    ("PreparedRun.run_named", "options", RUN_OPTIONS, lambda w, bad: w.prepared.run_named(bad)),
    ("PreparedRun.run", "timeout", TIMEOUT, lambda w, bad: w.prepared.run(timeout=bad)),
    ("PreparedRun.run_named", "timeout", TIMEOUT, lambda w, bad: w.prepared.run_named(timeout=bad)),
    ("PreparedRun.prime", "runs", RUNS, lambda w, bad: w.prepared.prime(bad)),
    ("SessionOptions.handle", "fields", SESSION_OPTIONS[3:], lambda w, bad: bad.handle()),
]  # fmt: skip


def rank_of_output(w: World, rank: int) -> object:
    model = models.build(
        [models.node("Reshape", ["x", "shape"], ["z"])],
        [models.tensor("x", TensorProto.FLOAT, [1]), models.tensor("shape", TensorProto.INT64, ["rank"])],
        [models.tensor("z", TensorProto.FLOAT, None)],
    )
    return zrt.infer(model, {"x": f32(1), "shape": np.ones(rank, np.int64)}, None, QUIET)


def metadata_of_a_deleted_file(w: World) -> zrt.ModelMetadata:
    path = w.folder / "deleted.onnx"
    path.write_bytes(w.model)
    metadata = zrt.Session(path, QUIET).metadata
    path.unlink()
    return metadata


SINGLE: list[Single] = [
    *(
        (
            f"SessionSpec.{name}",
            Kind.MISSING_FILE,
            lambda w, name=name: getattr(zrt.SessionSpec(w.folder / "none.onnx"), name)(),
            ModelNotFoundError,
            ("none.onnx",),
        )
        for name in ("load", "shared")
    ),
    (
        "ModelMetadata.opsets",
        Kind.MISSING_FILE,
        lambda w: metadata_of_a_deleted_file(w).opsets,
        ModelNotFoundError,
        ("deleted.onnx",),
    ),
    ("Session.run", Kind.HUGE, lambda w: huge_output(w).run({"x": f32(1)}), AllocationError, ("output 'z'",)),
    ("Session.run", Kind.WRONG_RANK, lambda w: rank_of_output(w, 65), UnsupportedError, ("65",)),
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
]

# The methods that raise on a closed object.
CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "Session.run": lambda w, it: it.run(w.feeds),
    "Session.prepare": lambda w, it: it.prepare(w.feeds),
    "Session.allocator": lambda w, it: it.allocator(),
    "Session.binding": lambda w, it: it.binding(),
    "Session.end_profiling": lambda w, it: it.end_profiling(),
    "Session.__enter__": lambda w, it: it.__enter__(),
    "PreparedRun.run": lambda w, it: it.run(),
    "PreparedRun.run_named": lambda w, it: it.run_named(),
    "PreparedRun.prime": lambda w, it: it.prime(),
    "PreparedRun.__enter__": lambda w, it: it.__enter__(),
    "RunOptions.terminate": lambda w, it: it.terminate(),
    "RunOptions.reset": lambda w, it: it.reset(),
    "RunOptions.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {
    "Session": lambda w: zrt.Session(w.model, QUIET),
    "PreparedRun": lambda w: w.session.prepare(w.feeds),
    "RunOptions": lambda w: zrt.RunOptions(),
}

CANNOT_FAIL: dict[str, str] = {
    **{f"ValueInfo.{name}": A_FACT for name in ("is_tensor", "symbolic_dimensions", "static_shape")},
    "ModelMetadata.__init__": A_RESULT,
    "ValueInfo.__init__": A_RESULT,
    "PreparedRun.__new__": ANY,
    "RunOptions.opened": INSIDE,
    **{
        f"SessionSpec.{name}": A_FACT
        for name in ("allow", "external_data_dir", "model", "options", "providers", "strict")
    },
    "Session.metadata": A_FACT,
    "SessionOptions.__init__": "its arguments are checked where it is used: see SESSION_OPTIONS",
    "available_providers": NOTHING,
    "prefer_gpu": NOTHING,
}  # fmt: skip

A_FEED = {Kind.UNKNOWN_NAME, Kind.MISSING_INPUT, *OF_ARRAY}

# For each kind of argument: the promised kinds of mistakes that apply to it.
APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "feeds": (COPIED_FEEDS, A_FEED),
    "borrowed feeds": (BORROWED_FEEDS, A_FEED),
    "model": (MODEL, {Kind.CORRUPT, Kind.EMPTY, Kind.DIRECTORY, Kind.MISSING_FILE, Kind.TRUNCATED}),
    "output names": (OUTPUT_NAMES, {Kind.UNKNOWN_NAME}),
    "run options": (RUN_OPTIONS, {Kind.CLOSED}),
    "session": (SESSION, {Kind.CLOSED}),
    "providers": (PROVIDERS, {Kind.UNKNOWN_NAME}),
}
