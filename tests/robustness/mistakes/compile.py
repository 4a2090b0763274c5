"""Compilation ahead of time."""

from __future__ import annotations

from typing import Any

import zrt
from tests.robustness.bad import loading
from tests.robustness.vocabulary import QUIET, Bad, Kind, Single, Take, World
from zrt.errors import ArgumentError, CallbackError, DTypeError, FailError


def compiled(**keywords: Any) -> Any:
    return lambda w: zrt.compile(w.model, options=QUIET, **keywords)


def compiled_to(name: str, **keywords: Any) -> Any:
    return lambda w: zrt.compile(w.model, w.folder / name, QUIET, **keywords)


def raising(*_: object) -> Any:
    raise LookupError("mine alone")


OUTPUTS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "output", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: [], DTypeError, "output", "list"),
    Bad(Kind.WRONG_VALUE, lambda w: "", ArgumentError, "output", "''"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0.onnx", ArgumentError, "output", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: w.folder / "name", ArgumentError, "output", "extension"),
    Bad(Kind.WRONG_VALUE, lambda w: raising, CallbackError, "output", "LookupError: mine alone"),
    Bad(Kind.WRONG_VALUE, lambda w: lambda: None, CallbackError, "output", "TypeError"),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "none" / "a.onnx", ArgumentError, "output", "No such file"),
    Bad(Kind.DIRECTORY, lambda w: _folder(w, "a.onnx"), ArgumentError, "output", "directory"),
]

WEIGHT_FILES = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "external_initializers_file", "int"),
    Bad(Kind.WRONG_VALUE, lambda w: "", ArgumentError, "external_initializers_file", "''"),
    Bad(Kind.WRONG_VALUE, lambda w: "..", ArgumentError, "external_initializers_file", "'..'"),
    Bad(Kind.WRONG_VALUE, lambda w: "a/b", ArgumentError, "external_initializers_file", "'a/b'"),
    Bad(Kind.WRONG_VALUE, lambda w: "a.onnx", ArgumentError, "external_initializers_file", "'a.onnx'"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "external_initializers_file", "NUL"),
]

LOCATORS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "get_initializer_location_func", "int"),
    Bad(Kind.WRONG_VALUE, lambda w: raising, CallbackError, "get_initializer_location_func", "mine alone"),
    Bad(Kind.WRONG_VALUE, lambda w: lambda *_: 5, CallbackError, "weight 'w'", "5"),
    Bad(Kind.WRONG_VALUE, lambda w: lambda *_: ("a", 1.5), CallbackError, "weight 'w'", "1.5"),
    Bad(Kind.NEGATIVE, lambda w: lambda *_: ("a", -1), CallbackError, "weight 'w'", "-1"),
]

BINARIES = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "ep_context_binaries", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: (5, "a"), DTypeError, "ep_context_binaries", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: (w.folder, 5), DTypeError, "ep_context_binaries", "5"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.folder, ""), ArgumentError, "ep_context_binaries", "empty"),
    Bad(Kind.MISSING_FILE, lambda w: (w.folder / "none", "a"), ArgumentError, "ep_context_binaries", "none"),
]


def _folder(w: World, name: str) -> Any:
    (w.folder / name).mkdir()
    return w.folder / name


TAKES: list[Take] = [
    *loading("compile", lambda model, *given, **named: zrt.compile(model, None, *given, **named)),
    ("compile", "output", OUTPUTS, lambda w, bad: zrt.compile(w.model, bad, QUIET)),
    (
        "compile",
        "external_initializers_file",
        WEIGHT_FILES,
        lambda w, bad: compiled_to("a.onnx", external_initializers_file=bad)(w),
    ),
    (
        "compile",
        "get_initializer_location_func",
        LOCATORS,
        lambda w, bad: zrt.compile(w.outside(16384), options=QUIET, get_initializer_location_func=bad),
    ),
    ("compile", "ep_context_binaries", BINARIES, lambda w, bad: compiled(ep_context_binaries=bad)(w)),
]

SINGLE: list[Single] = [
    ("compile", Kind.WRONG_VALUE, compiled(graph_optimization_level="most"), ArgumentError, ("level", "most")),
    ("compile", Kind.WRONG_TYPE, compiled(embed_compiled_data_into_model=1), DTypeError, ("embed",)),
    ("compile", Kind.WRONG_TYPE, compiled(error_if_no_nodes_compiled=1), DTypeError, ("error_if_no_nodes",)),
    ("compile", Kind.WRONG_TYPE, compiled(error_if_output_file_exists="no"), DTypeError, ("error_if_output",)),
    ("compile", Kind.WRONG_VALUE, compiled(error_if_no_nodes_compiled=True), FailError, ("compile any nodes",)),
    ("compile", Kind.WRONG_VALUE, compiled(external_initializers_file="w"), ArgumentError, ("must be a path",)),
    (
        "compile",
        Kind.NEGATIVE,
        compiled_to("a.onnx", external_initializers_file="w", external_initializers_size_threshold=-1),
        ArgumentError,
        ("external_initializers_size_threshold", "-1"),
    ),
    (
        "compile",
        Kind.WRONG_VALUE,
        compiled_to("a.onnx", external_initializers_file="w", get_initializer_location_func=raising),
        ArgumentError,
        ("external_initializers_file", "get_initializer_location_func"),
    ),
    (
        "compile",
        Kind.WRONG_VALUE,
        lambda w: compiled_to("a.onnx", ep_context_binaries=(w.folder, "a"))(w),
        ArgumentError,
        ("ep_context_binaries",),
    ),
]

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "outputs": (OUTPUTS, {Kind.MISSING_FILE, Kind.DIRECTORY}),
}
