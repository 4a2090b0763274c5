"""Options as data, files of options, profiling."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import zrt
from tests.robustness.vocabulary import A_FACT, A_RESULT, NOTHING, Bad, Kind, World, closed, wrong_types
from zrt.errors import ArgumentError, Error, FileError, TraceError, UnknownNameError, UnsupportedError

NO_FIELDS = [
    *wrong_types("fields by name", None, ["a"]),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"nope": 1}, "no field 'nope'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {None: 1}, "no field None"),
]
NO_JSON = [
    *wrong_types("a str", b"{}", None),
    Bad(Kind.WRONG_VALUE, lambda w: "", "not JSON"),
    Bad(Kind.WRONG_VALUE, lambda w: '{"a": ', "not JSON"),
    Bad(Kind.WRONG_VALUE, lambda w: "[" * 100_000, "not JSON"),
    Bad(Kind.UNKNOWN_NAME, lambda w: '{"nope": 1}', "no field 'nope'"),
]
NO_TOML = [
    Bad(Kind.WRONG_TYPE, lambda w: {}, "a str", "dict"),
    Bad(Kind.WRONG_VALUE, lambda w: "a", "not TOML"),
    Bad(Kind.WRONG_VALUE, lambda w: "a = 1\na = 2", "not TOML"),
    Bad(Kind.WRONG_VALUE, lambda w: "a = " + "[" * 100_000, "not TOML"),
    Bad(Kind.UNKNOWN_NAME, lambda w: "nope = 1", "no field 'nope'"),
]


def tagged(tag: Any) -> zrt.RunOptions:
    options = zrt.RunOptions()
    options.tag = tag
    return options


# For each kind of options: one with a field that cannot be written as data, and one with a field of a wrong type.
NO_DATA = {
    zrt.SessionOptions: [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(logid=w.session), "logid", "Session cannot",
            error=UnsupportedError),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(intra_op_num_threads="1"), "intra_op_num_threads"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.SessionOptions(execution_mode="x"), "execution_mode", "'x'"),
    ],
    zrt.RunOptions: [
        Bad(Kind.WRONG_TYPE, lambda w: tagged(w.array), "RunOptions.tag", "ndarray cannot", error=UnsupportedError),
        Bad(Kind.WRONG_TYPE, lambda w: tagged(5), "RunOptions.tag", "int 5"),
    ],
    zrt.Options: [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(session=5), "session", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(run=5), "options", "int"),
        Bad(Kind.CLOSED, lambda w: zrt.Options(run=closed(zrt.RunOptions())), "RunOptions is closed"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(providers="cpu"), "providers", "str"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Options(providers=[w.session]), "providers[0]", "Session"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Options(providers=[("cpu", {"a": 1})]), "providers[0]", "'a'",
            error=UnknownNameError),
    ],
}  # fmt: skip

PATH = [*wrong_types("path", 5), Bad(Kind.WRONG_VALUE, lambda w: "a\0", "path", "NUL")]
OPTIONS_FILE = [
    *PATH,
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "nope.toml", "nope.toml", error=FileError),
    Bad(Kind.DIRECTORY, lambda w: made(w.folder / "folder.json"), "folder.json", error=FileError),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("options.ini", b""), "options.ini", ".toml"),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("options.toml", b"\xff"), "options.toml", "UTF-8"),
    Bad(Kind.EMPTY, lambda w: w.file("options.json", b""), "options.json", "not JSON", error=ArgumentError),
    Bad(Kind.UNKNOWN_NAME, lambda w: w.file("options.toml", b"[nope]"), "options.toml", "'nope'"),
    Bad(Kind.WRONG_TYPE, lambda w: w.file("options.toml", b"session = 1"), "options.toml", "SessionOptions"),
]
TRACE = [
    *PATH,
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "nope.json", "nope.json", error=FileError),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "directory", error=FileError),
    Bad(Kind.EMPTY, lambda w: w.file("trace.json", b""), "trace.json", "empty", error=TraceError),
    Bad(Kind.TRUNCATED, lambda w: w.file("trace.json", b'[\n{"cat" : "Node",'), "trace.json", "cut short",
        error=TraceError),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("trace.json", b"\x7fELF\xff"), "trace.json", "no trace", error=TraceError),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("trace.json", b"{}"), "trace.json", "no list of events", error=TraceError),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("trace.json", b'[{"ph": "X"}]'), "trace.json", "event 0", error=TraceError),
]  # fmt: skip


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def profile(w: World) -> zrt.Profile:
    return w.session.profile(w.feeds, runs=1, warmup=0)


TAKES = [
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


def no_folder(do: Callable[[Path], object]) -> Bad:
    """A prefix in a folder that is not there."""
    words = "profile_file_prefix", "no folder"
    return Bad(Kind.MISSING_FILE, lambda w: do(w.folder / "nope" / "trace"), *words, error=ArgumentError)


SINGLE = {
    "SessionOptions.effective_config_entries": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.SessionOptions(config_entries={"a": 1}).effective_config_entries(),
            "config_entries['a']")
    ],
    "SessionOptions.handle": [no_folder(lambda path: zrt.SessionOptions(profile_file_prefix=path).handle())],
    "RunOptions.__init__": [
        no_folder(lambda path: zrt.RunOptions(profile_file_prefix=path)),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.RunOptions(profile_file_prefix=5), "profile_file_prefix", "int 5"),
    ],
    "Session.profile": [
        Bad(Kind.WRONG_VALUE, lambda w: w.session.profile(w.feeds, runs=0), "runs", "0"),
        Bad(Kind.WRONG_TYPE, lambda w: w.session.profile(w.feeds, runs="1"), "runs", "'1'"),
        Bad(Kind.WRONG_VALUE, lambda w: w.session.profile(w.feeds, warmup=-1), "warmup", "-1"),
        Bad(Kind.UNKNOWN_NAME, lambda w: w.session.profile({"nope": w.array}), "'nope'"),
        Bad(Kind.WRONG_DTYPE, lambda w: w.session.profile(5), "feeds", error=Error),
    ],
}  # fmt: skip

CLOSED_SELF = {"Session.profile": lambda w, it: it.profile(w.feeds)}

CLOSED_ALONE = {"Session": "profiling_start_ns"}

CANNOT_FAIL = {
    "its arguments are checked where it is written: see NO_DATA": "Options.__init__",
    NOTHING: "RunOptions.profile_files SessionOptions.addresses RunOptions.addresses Options.addresses",
    A_FACT: """
        ElementType.dtype Profile.nodes Profile.kernels Profile.runs Profile.by_operator Profile.by_node
        Profile.by_kernel ProfileEvent.operator ProfileEvent.provider ProfileEvent.inputs ProfileEvent.outputs
        ProfileEvent.end_us ProfileRow.mean_us
    """,
    A_RESULT: "Profile.__init__ ProfileEvent.__init__ ProfileRow.__init__",
}
