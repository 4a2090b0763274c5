"""Sessions: models, feeds, runs."""

from typing import Any

import zrt
from tests.robustness.bad import (
    BORROWED_FEEDS,
    COPIED_FEEDS,
    EXTERNAL_DATA_DIR,
    MEMORY,
    MODEL,
    OUTPUT_NAMES,
    PROVIDERS,
    RUN_OPTIONS,
    RUNS,
    SESSION_OPTIONS,
    TIMEOUT,
    huge_output,
    loading,
)
from tests.robustness.vocabulary import A_FACT, A_RESULT, ANY, INSIDE, NOTHING, QUIET, Bad, Impostor, Kind, World, f32
from zrt.errors import AllocationError


def infer(model: Any, options: Any, providers: Any = None, **arguments: Any) -> object:
    feeds = {"x": f32(1024, 4), "y": f32(1024, 4)} if isinstance(model, bytes) else {"x": f32(1024, 4)}
    return zrt.infer(model, feeds, None, options, providers, **arguments)


def load_recipe(*arguments: Any, **named: Any) -> object:
    return zrt.SessionSpec(*arguments, **named).load()


CALLS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, "Session.prepare"),
    Bad(Kind.WRONG_TYPE, lambda w: Impostor(), "Session.prepare"),
]

TAPPED = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, "names", "list of names"),
    Bad(Kind.WRONG_TYPE, lambda w: "z", "names", "list of names"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "names", "5"),
    Bad(Kind.UNKNOWN_NAME, lambda w: ["none"], "no value 'none'"),
]


def tap(w: World, names: Any) -> object:
    path = w.folder / "tapped.onnx"
    path.write_bytes(w.model)
    return zrt.Session(path, QUIET).tap(names)


TAKES = [
    *loading("Session.__init__", zrt.Session),
    *loading("SessionSpec.__init__", load_recipe),
    # A recipe is refused where it is made if nothing need be looked up for that.
    ("SessionSpec.__init__", "model alone",
     [bad for bad in MODEL if bad.kind is Kind.WRONG_TYPE or "NUL" in bad.words], lambda w, bad: zrt.SessionSpec(bad)),
    ("SessionSpec.__init__", "options alone", SESSION_OPTIONS[:-2], lambda w, bad: zrt.SessionSpec(w.model, bad)),
    ("SessionSpec.__init__", "providers alone", [bad for bad in PROVIDERS if bad.kind is Kind.WRONG_TYPE],
     lambda w, bad: zrt.SessionSpec(w.model, None, bad)),
    ("SessionSpec.__init__", "folder alone", EXTERNAL_DATA_DIR[2:],
     lambda w, bad: zrt.SessionSpec(w.model, external_data_dir=bad)),
    ("Session.run", "feeds", COPIED_FEEDS, lambda w, bad: w.session.run(bad)),
    ("Session.run", "feeds of a subset", COPIED_FEEDS, lambda w, bad: w.session.run(bad, ["z"])),
    ("Session.run", "outputs", OUTPUT_NAMES, lambda w, bad: w.session.run(w.feeds, bad)),
    ("Session.run", "options", RUN_OPTIONS, lambda w, bad: w.session.run(w.feeds, options=bad)),
    ("Session.run", "timeout", TIMEOUT, lambda w, bad: w.session.run(w.feeds, timeout=bad)),
    ("Session.prepare", "feeds", BORROWED_FEEDS, lambda w, bad: w.session.prepare(bad)),
    ("Session.tap", "names", TAPPED, tap),
    ("Session.allocator", "memory", MEMORY, lambda w, bad: w.session.allocator(bad)),
    *loading("infer", infer),
    ("infer", "feeds", COPIED_FEEDS, lambda w, bad: zrt.infer(w.model, bad, None, QUIET)),
    ("infer", "outputs", OUTPUT_NAMES, lambda w, bad: zrt.infer(w.model, w.feeds, bad, QUIET)),
    ("PreparedRun.__init__", "call", CALLS, lambda w, bad: zrt.PreparedRun(bad, None, [])),
    ("PreparedRun.run", "options", RUN_OPTIONS, lambda w, bad: w.prepared.run(bad)),
    ("PreparedRun.run_named", "options", RUN_OPTIONS, lambda w, bad: w.prepared.run_named(bad)),
    ("PreparedRun.run", "timeout", TIMEOUT, lambda w, bad: w.prepared.run(timeout=bad)),
    ("PreparedRun.run_named", "timeout", TIMEOUT, lambda w, bad: w.prepared.run_named(timeout=bad)),
    ("PreparedRun.prime", "runs", RUNS, lambda w, bad: w.prepared.prime(bad)),
    ("SessionOptions.handle", "fields", SESSION_OPTIONS[3:], lambda w, bad: bad.handle()),
]  # fmt: skip


def metadata_of_a_deleted_file(w: World) -> zrt.ModelMetadata:
    path = w.folder / "deleted.onnx"
    path.write_bytes(w.model)
    metadata = zrt.Session(path, QUIET).metadata
    path.unlink()
    return metadata


SINGLE = {
    "ModelMetadata.opsets": [Bad(Kind.MISSING_FILE, lambda w: metadata_of_a_deleted_file(w).opsets, "deleted.onnx")],
    "Session.run": [Bad(Kind.HUGE, lambda w: huge_output(w).run({"x": f32(1)}), "output 'z'", error=AllocationError)],
    "RunOptions.__init__": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.RunOptions(tag=5), "tag", "5"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.RunOptions(tag="a\0"), "tag", "NUL"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.RunOptions(log_severity_level=9), "log_severity_level", "9"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.RunOptions(log_verbosity_level=-1), "log_verbosity_level", "-1"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.RunOptions(config_entries=5), "config_entries", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.RunOptions(config_entries={"a": 5}), "config_entries", "'a'"),
    ],
    "SessionSpec.__init__": [
        Bad(Kind.EMPTY, lambda w: zrt.SessionSpec(b""), "empty"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.SessionSpec(w.model, None, {"cpu": {}}),
            "providers: expected a list, got dict"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.SessionSpec(""), "model: the path is empty"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.SessionSpec(w.model, external_data_dir=""),
            "external_data_dir: the path is empty"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.SessionSpec(w.model, zrt.SessionOptions(trusted_folders=[""])),
            "trusted_folders: the path is empty"),
    ],
    "SessionSpec.load": [Bad(Kind.MISSING_FILE, lambda w: zrt.SessionSpec(w.folder / "none.onnx").load(), "none.onnx")],
    "SessionSpec.shared": [
        Bad(Kind.MISSING_FILE, lambda w: zrt.SessionSpec(w.folder / "none.onnx").shared(), "none.onnx")
    ],
}  # fmt: skip

# The methods that raise on a closed object.
CLOSED_SELF = {
    "Session.run": lambda w, it: it.run(w.feeds),
    "Session.prepare": lambda w, it: it.prepare(w.feeds),
    "Session.tap": lambda w, it: it.tap(["z"]),
}

CLOSED_ALONE = {
    "Session": "allocator binding end_profiling", "PreparedRun": "run run_named prime", "RunOptions": "terminate reset",
}  # fmt: skip

CLOSABLE = {
    "Session": lambda w: zrt.Session(w.model, QUIET),
    "PreparedRun": lambda w: w.session.prepare(w.feeds),
    "RunOptions": lambda w: zrt.RunOptions(),
}

CANNOT_FAIL = {
    A_FACT: """
        ValueInfo.is_tensor ValueInfo.symbolic_dimensions ValueInfo.static_shape SessionSpec.options
        SessionSpec.providers Session.metadata
    """,
    A_RESULT: "ModelMetadata.__init__ ValueInfo.__init__",
    ANY: "PreparedRun.__new__",
    INSIDE: "RunOptions.opened",
    "its arguments are checked where it is used: see SESSION_OPTIONS": "SessionOptions.__init__",
    NOTHING: "available_providers prefer_gpu",
}
