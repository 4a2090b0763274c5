"""Compilation ahead of time."""

from typing import Any

import zrt
from tests.robustness.bad import loading
from tests.robustness.vocabulary import QUIET, Bad, Kind, World, each, wrong_types
from zrt.errors import ArgumentError, CallbackError, FailError, FileError


def compiled(**keywords: Any) -> Any:
    return lambda w: zrt.compile(w.model, options=QUIET, **keywords)


def compiled_to(name: str, **keywords: Any) -> Any:
    return lambda w: zrt.compile(w.model, w.folder / name, QUIET, **keywords)


def raising(*_: object) -> Any:
    raise LookupError("mine alone")


OUTPUTS = [
    *wrong_types("output", 5, []),
    Bad(Kind.WRONG_VALUE, lambda w: "", "output", "''"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0.onnx", "output", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: w.folder / "name", "output", "extension"),
    Bad(Kind.WRONG_VALUE, lambda w: raising, "output", "LookupError: mine alone", error=CallbackError),
    Bad(Kind.WRONG_VALUE, lambda w: lambda: None, "output", "TypeError", error=CallbackError),
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "none" / "a.onnx", "output", "No such file", error=FileError),
    Bad(Kind.DIRECTORY, lambda w: _folder(w, "a.onnx"), "output", "directory", error=FileError),
]

WEIGHT_FILES = [
    *wrong_types("external_initializers_file", 5),
    *each(Kind.WRONG_VALUE, "external_initializers_file", "", "..", "a/b", "a.onnx"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", "external_initializers_file", "NUL"),
]

LOCATORS = [
    *wrong_types("get_initializer_location_func", 5),
    Bad(Kind.WRONG_VALUE, lambda w: raising, "get_initializer_location_func", "mine alone", error=CallbackError),
    Bad(Kind.WRONG_VALUE, lambda w: lambda *_: 5, "weight 'w'", "5", error=CallbackError),
    Bad(Kind.WRONG_VALUE, lambda w: lambda *_: ("a", 1.5), "weight 'w'", "1.5", error=CallbackError),
    Bad(Kind.NEGATIVE, lambda w: lambda *_: ("a", -1), "weight 'w'", "-1", error=CallbackError),
]

ALIGNMENTS = [
    Bad(Kind.WRONG_VALUE, lambda w: 3, "3 is no power of two"),
    Bad(Kind.NEGATIVE, lambda w: -1, "alignment"),
    Bad(Kind.WRONG_TYPE, lambda w: "4", "alignment"),
]

BINARIES = [
    *wrong_types("ep_context_binaries", 5),
    Bad(Kind.WRONG_TYPE, lambda w: (5, "a"), "ep_context_binaries", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: (w.folder, 5), "ep_context_binaries", "5"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.folder, ""), "ep_context_binaries", "empty"),
    Bad(Kind.MISSING_FILE, lambda w: (w.folder / "none", "a"), "ep_context_binaries", "none", error=ArgumentError),
]


def _folder(w: World, name: str) -> Any:
    (w.folder / name).mkdir()
    return w.folder / name


def located(w: World, locator: Any) -> Any:
    return zrt.compile(w.outside(16384), options=QUIET, get_initializer_location_func=locator)


TAKES = [
    *loading("compile", lambda model, *given, **named: zrt.compile(model, None, *given, **named)),
    ("compile", "output", OUTPUTS, lambda w, bad: zrt.compile(w.model, bad, QUIET)),
    ("compile", "weights", WEIGHT_FILES, lambda w, bad: compiled_to("a.onnx", external_initializers_file=bad)(w)),
    ("compile", "locator", LOCATORS, lambda w, bad: located(w, bad)),
    ("compile", "alignment", ALIGNMENTS,
     lambda w, bad: compiled_to("a.onnx", external_initializers_file="w", external_initializers_alignment=bad)(w)),
    ("compile", "ep_context_binaries", BINARIES, lambda w, bad: compiled(ep_context_binaries=bad)(w)),
]  # fmt: skip

SINGLE = {
    "compile": [
        Bad(Kind.WRONG_VALUE, compiled(graph_optimization_level="most"), "level", "most"),
        Bad(Kind.WRONG_VALUE, compiled(external_initializers_alignment=64), "it is for external_initializers_file"),
        Bad(Kind.WRONG_TYPE, compiled(weightless=1), "weightless"),
        Bad(Kind.WRONG_TYPE, compiled(embed_compiled_data_into_model=1), "embed"),
        Bad(Kind.WRONG_TYPE, compiled(error_if_no_nodes_compiled=1), "error_if_no_nodes"),
        Bad(Kind.WRONG_TYPE, compiled(error_if_output_file_exists="no"), "error_if_output"),
        Bad(Kind.WRONG_VALUE, compiled(error_if_no_nodes_compiled=True), "compile any nodes", error=FailError),
        Bad(Kind.WRONG_VALUE, compiled(external_initializers_file="w"), "must be a path"),
        Bad(Kind.NEGATIVE,
            compiled_to("a.onnx", external_initializers_file="w", external_initializers_size_threshold=-1),
            "external_initializers_size_threshold", "-1"),
        Bad(Kind.WRONG_VALUE,
            compiled_to("a.onnx", external_initializers_file="w", get_initializer_location_func=raising),
            "external_initializers_file", "get_initializer_location_func"),
        Bad(Kind.WRONG_VALUE, lambda w: compiled_to("a.onnx", ep_context_binaries=(w.folder, "a"))(w),
            "ep_context_binaries"),
    ]
}  # fmt: skip
