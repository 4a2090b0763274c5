"""Options as data, files of options, profiling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import zrt
from tests.robustness.vocabulary import A_FACT, A_RESULT, NOTHING, Bad, Kind, Single, Take, World, closed
from zrt.errors import (
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    FileError,
    TraceError,
    UnknownNameError,
    UnsupportedError,
)

NO_FIELDS = [
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "fields by name", "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: ["a"], DTypeError, "fields by name", "list"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"nope": 1}, UnknownNameError, "no field 'nope'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {None: 1}, UnknownNameError, "no field None"),
]
NO_JSON = [
    Bad(Kind.WRONG_TYPE, lambda w: b"{}", DTypeError, "a str", "bytes"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "a str", "NoneType"),
    Bad(Kind.WRONG_VALUE, lambda w: "", ArgumentError, "not JSON"),
    Bad(Kind.WRONG_VALUE, lambda w: '{"a": ', ArgumentError, "not JSON"),
    Bad(Kind.WRONG_VALUE, lambda w: "[" * 100_000, ArgumentError, "not JSON"),
    Bad(Kind.UNKNOWN_NAME, lambda w: '{"nope": 1}', UnknownNameError, "no field 'nope'"),
]
NO_TOML = [
    Bad(Kind.WRONG_TYPE, lambda w: {}, DTypeError, "a str", "dict"),
    Bad(Kind.WRONG_VALUE, lambda w: "a", ArgumentError, "not TOML"),
    Bad(Kind.WRONG_VALUE, lambda w: "a = 1\na = 2", ArgumentError, "not TOML"),
    Bad(Kind.WRONG_VALUE, lambda w: "a = " + "[" * 100_000, ArgumentError, "not TOML"),
    Bad(Kind.UNKNOWN_NAME, lambda w: "nope = 1", UnknownNameError, "no field 'nope'"),
]


def tagged(tag: Any) -> zrt.RunOptions:
    options = zrt.RunOptions()
    options.tag = tag
    return options


# For each kind of options: one with a field that cannot be written as data, and one with a field of a wrong type.
NO_DATA: dict[type, list[Bad]] = {
    zrt.SessionOptions: [
        Bad(
            Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(logid=w.session), UnsupportedError, "logid", "Session cannot"
        ),
        Bad(
            Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(intra_op_num_threads="1"), DTypeError, "intra_op_num_threads"
        ),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.SessionOptions(execution_mode="x"), ArgumentError, "execution_mode", "'x'"),
    ],
    zrt.RunOptions: [
        Bad(Kind.WRONG_TYPE, lambda w: tagged(w.array), UnsupportedError, "RunOptions.tag", "ndarray cannot"),
        Bad(Kind.WRONG_TYPE, lambda w: tagged(5), DTypeError, "RunOptions.tag", "int 5"),
    ],
    zrt.Options: [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(session=5), DTypeError, "session", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(run=5), DTypeError, "options", "int"),
        Bad(Kind.CLOSED, lambda w: zrt.Options(run=closed(zrt.RunOptions())), ClosedError, "RunOptions is closed"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(providers="cpu"), DTypeError, "providers", "str"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(providers=[w.session]), DTypeError, "providers[0]", "Session"),
        Bad(
            Kind.WRONG_VALUE,
            lambda w: zrt.Options(providers=[("cpu", {"a": 1})]),
            UnknownNameError,
            "providers[0]",
            "'a'",
        ),
    ],
}

PATH = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "path", "int"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "path", "NUL"),
]
OPTIONS_FILE = [
    *PATH,
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "nope.toml", FileError, "nope.toml"),
    Bad(Kind.DIRECTORY, lambda w: made(w.folder / "folder.json"), FileError, "folder.json"),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("options.ini", b""), ArgumentError, "options.ini", ".toml"),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("options.toml", b"\xff"), ArgumentError, "options.toml", "UTF-8"),
    Bad(Kind.EMPTY, lambda w: w.file("options.json", b""), ArgumentError, "options.json", "not JSON"),
    Bad(Kind.UNKNOWN_NAME, lambda w: w.file("options.toml", b"[nope]"), UnknownNameError, "options.toml", "'nope'"),
    Bad(
        Kind.WRONG_TYPE, lambda w: w.file("options.toml", b"session = 1"), DTypeError, "options.toml", "SessionOptions"
    ),
]
TRACE = [
    *PATH,
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "nope.json", FileError, "nope.json"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, FileError, "directory"),
    Bad(Kind.EMPTY, lambda w: w.file("trace.json", b""), TraceError, "trace.json", "empty"),
    Bad(Kind.TRUNCATED, lambda w: w.file("trace.json", b'[\n{"cat" : "Node",'), TraceError, "trace.json", "cut short"),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("trace.json", b"\x7fELF\xff"), TraceError, "trace.json", "no trace"),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("trace.json", b"{}"), TraceError, "trace.json", "no list of events"),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("trace.json", b'[{"ph": "X"}]'), TraceError, "trace.json", "event 0"),
]


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def profile(w: World) -> zrt.Profile:
    return w.session.profile(w.feeds, runs=1, warmup=0)


TAKES: list[Take] = [
    *(
        (f"{kind.__name__}.{call}", "data", bads, lambda w, bad, kind=kind, call=call: getattr(kind, call)(bad))
        for kind in NO_DATA
        for call, bads in (("from_dict", NO_FIELDS), ("from_json", NO_JSON), ("from_toml", NO_TOML))
    ),
    *(
        (f"{kind.__name__}.{call}", "fields", bads, lambda w, bad, call=call: getattr(bad, call)())
        for kind, bads in NO_DATA.items()
        for call in ("to_dict", "to_json", "to_toml")
    ),
    ("load_options", "path", OPTIONS_FILE, lambda w, bad: zrt.load_options(bad)),
    ("Profile.read", "path", TRACE, lambda w, bad: zrt.Profile.read(bad)),
    ("Profile.write", "path", [*PATH, *TRACE[3:4]], lambda w, bad: profile(w).write(bad)),
]

SINGLE: list[Single] = [
    (
        "SessionOptions.effective_config_entries",
        Kind.WRONG_TYPE,
        lambda w: zrt.SessionOptions(config_entries={"a": 1}).effective_config_entries(),
        DTypeError,
        ("config_entries['a']",),
    ),
    (
        "SessionOptions.handle",
        Kind.MISSING_FILE,
        lambda w: zrt.SessionOptions(profile_file_prefix=w.folder / "nope" / "trace").handle(),
        ArgumentError,
        ("profile_file_prefix", "no folder"),
    ),
    (
        "RunOptions.__init__",
        Kind.MISSING_FILE,
        lambda w: zrt.RunOptions(profile_file_prefix=w.folder / "nope" / "trace"),
        ArgumentError,
        ("profile_file_prefix", "no folder"),
    ),
    (
        "RunOptions.__init__",
        Kind.WRONG_TYPE,
        lambda w: zrt.RunOptions(profile_file_prefix=5),
        DTypeError,
        ("profile_file_prefix", "int 5"),
    ),
    ("Session.profile", Kind.WRONG_VALUE, lambda w: w.session.profile(w.feeds, runs=0), ArgumentError, ("runs", "0")),
    ("Session.profile", Kind.WRONG_TYPE, lambda w: w.session.profile(w.feeds, runs="1"), DTypeError, ("runs", "'1'")),
    (
        "Session.profile",
        Kind.WRONG_VALUE,
        lambda w: w.session.profile(w.feeds, warmup=-1),
        ArgumentError,
        ("warmup", "-1"),
    ),
    (
        "Session.profile",
        Kind.UNKNOWN_NAME,
        lambda w: w.session.profile({"nope": w.array}),
        UnknownNameError,
        ("'nope'",),
    ),
    ("Session.profile", Kind.WRONG_DTYPE, lambda w: w.session.profile(5), Error, ("feeds",)),
]

CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "Session.profile": lambda w, it: it.profile(w.feeds),
    "Session.profiling_start_ns": lambda w, it: it.profiling_start_ns,
}

CANNOT_FAIL: dict[str, str] = {
    "Options.__init__": "its arguments are checked where it is written: see NO_DATA",
    "RunOptions.profile_files": NOTHING,
    **{f"{kind.__name__}.addresses": NOTHING for kind in NO_DATA},
    "ElementType.dtype": A_FACT,
    **{f"{kind}.__init__": A_RESULT for kind in ("Profile", "ProfileEvent", "ProfileRow")},
    **{f"Profile.{name}": A_FACT for name in ("nodes", "kernels", "runs", "by_operator", "by_node", "by_kernel")},
    **{f"ProfileEvent.{name}": A_FACT for name in ("operator", "provider", "inputs", "outputs", "end_us")},
    "ProfileRow.mean_us": A_FACT,
}

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "options file": (OPTIONS_FILE, {Kind.UNKNOWN_NAME, Kind.DIRECTORY, Kind.MISSING_FILE, Kind.EMPTY}),
    "trace": (TRACE, {Kind.DIRECTORY, Kind.MISSING_FILE, Kind.EMPTY, Kind.TRUNCATED}),
}
