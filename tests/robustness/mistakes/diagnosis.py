"""Checks of models, comparisons of two ways to run one, and trials of options."""

from typing import Any

import numpy as np

import zrt
from tests.robustness.bad import MODEL, PROVIDERS, SESSION_OPTIONS
from tests.robustness.vocabulary import A_FACT, A_RESULT, NOTHING, QUIET, Bad, Kind, World, f32
from zrt.errors import ArgumentError, Error, FileError, LibraryError, UnsupportedError

# A check sets these itself.
OWN = {"record_placement", "log_severity_level", "optimized_model_filepath", "profile_file_prefix"}


def spec(w: World) -> zrt.SessionSpec:
    return zrt.SessionSpec(w.model, QUIET)


def diff(w: World, **arguments: Any) -> zrt.Diff:
    return zrt.diff(spec(w), spec(w), arguments.pop("feeds", w.feeds), **arguments)


def record(w: World, **arguments: Any) -> zrt.Recorder:
    return zrt.Session(w.model, QUIET).record(**arguments)


def tune(w: World, *feeds: Any, **arguments: Any) -> zrt.Tuning:
    return zrt.tune(spec(w), *feeds, **{"seconds": 1e-6} | arguments)


TAKES = [
    # A model that can be found and not be read is no mistake, but what the check reports.
    (
        "check",
        "model",
        [bad for bad in MODEL if bad.kind in (Kind.WRONG_TYPE, Kind.WRONG_VALUE) and not {"99", "aaa"} & {*bad.words}],
        lambda w, bad: zrt.check(bad, QUIET),
    ),
    (
        "check",
        "options",
        [bad for bad in SESSION_OPTIONS if OWN.isdisjoint(bad.words)],
        lambda w, bad: zrt.check(w.model, bad),
    ),
    ("check", "providers", PROVIDERS, lambda w, bad: zrt.check(w.model, QUIET, bad)),
]

SINGLE = {
    "check": [Bad(Kind.MISSING_FILE, lambda w: zrt.check(w.folder / "no.onnx"), "no.onnx", "no such file")],
    "diff": [
        *(
            Bad(Kind.WRONG_TYPE, lambda w, wrong=wrong: zrt.diff(spec(w), wrong),
                "b: expected a SessionSpec or 'reference'")
            for wrong in (5, None, "other", b"model", np.ones(2))
        ),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.diff(w.session, spec(w)), "a", "SessionSpec", "Session"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.diff("reference", "reference"), "both 'reference'"),
        Bad(Kind.WRONG_TYPE, lambda w: diff(w, library=5), "library", "int"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.diff(spec(w), "reference", library="x"), "library"),
        Bad(Kind.MISSING_FILE, lambda w: diff(w, library=w.folder / "none.so"), "none.so", error=LibraryError),
        Bad(Kind.WRONG_TYPE, lambda w: diff(w, feeds=5), "feeds", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: diff(w, feeds=[w.array]), "feeds", "list"),
        Bad(Kind.UNKNOWN_NAME, lambda w: diff(w, feeds={**w.feeds, "q": w.array}), "'q'", "'x', 'y'"),
        Bad(Kind.UNKNOWN_NAME, lambda w: diff(w, feeds={**w.feeds, 5: w.array}), "5", "'x', 'y'"),
        Bad(Kind.MISSING_INPUT, lambda w: diff(w, feeds={"x": w.array}), "'y'", "missing", error=ArgumentError),
        Bad(Kind.WRONG_SHAPE, lambda w: diff(w, feeds={**w.feeds, "x": f32(2, 5)}), "'x'", "[2, 5]"),
        Bad(Kind.WRONG_DTYPE, lambda w: diff(w, feeds={**w.feeds, "x": np.zeros((2, 4), np.int32)}), "'x'", "int32"),
        Bad(Kind.WRONG_TYPE, lambda w: diff(w, feeds={**w.feeds, "x": "a"}), "'x'", error=Error),
        *(
            Bad(Kind.WRONG_VALUE, lambda w, name=name, wrong=wrong: diff(w, **{name: wrong}), name, "number")
            for name in ("rtol", "atol")
            for wrong in (-1, float("inf"), float("nan"), "1", None, True)
        ),
        Bad(Kind.MISSING_FILE, lambda w: zrt.diff(zrt.SessionSpec(w.folder / "no.onnx"), spec(w), w.feeds), "no.onnx",
            "no such file"),
    ],
    "tune": [
        *(
            Bad(Kind.WRONG_TYPE, lambda w, wrong=wrong: zrt.tune(wrong, seconds=1e-6), "spec", "SessionSpec")
            for wrong in (5, None, "model.onnx", b"model")
        ),
        *(
            Bad(Kind.WRONG_TYPE, lambda w, wrong=wrong: tune(w, wrong), "feeds", "mapping")
            for wrong in (5, [], "x", [5], [None], np.zeros((2, 4), np.float32))
        ),
        Bad(Kind.UNKNOWN_NAME, lambda w: tune(w, {**w.feeds, "q": w.array}), "'q'", "'x', 'y'"),
        Bad(Kind.MISSING_INPUT, lambda w: tune(w, [w.feeds, {"x": w.array}]), "'y'", error=ArgumentError),
        Bad(Kind.WRONG_SHAPE, lambda w: tune(w, {**w.feeds, "x": f32(2, 5)}), "'x'", "[2, 5]"),
        Bad(Kind.WRONG_DTYPE, lambda w: tune(w, {**w.feeds, "x": np.zeros((2, 4), np.int32)}), "'x'", "int32"),
        Bad(Kind.WRONG_VALUE, lambda w: tune(w, goal="speed"), "goal", "'speed'", "throughput"),
        *(
            Bad(Kind.WRONG_VALUE, lambda w, wrong=wrong: tune(w, seconds=wrong), "seconds: ", " seconds ")
            for wrong in (-1, 0, float("inf"), float("nan"), 1e300)
        ),
        *(
            Bad(Kind.WRONG_TYPE, lambda w, wrong=wrong: tune(w, seconds=wrong), "seconds: expected seconds, got")
            for wrong in ("1", None, True)
        ),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.tune(zrt.SessionSpec(w.model, QUIET, zrt.DevicePolicy.PREFER_CPU)), "spec",
            "policies", error=UnsupportedError),
        Bad(Kind.MISSING_FILE, lambda w: zrt.tune(zrt.SessionSpec(w.folder / "no.onnx")), "no.onnx", "no such file"),
    ],
    "Session.record": [
        *(
            Bad(Kind.WRONG_VALUE, lambda w, bad=bad: record(w, **bad), next(iter(bad)))
            for bad in (
                {"keep": 0},
                {"slower_than": 0, "capsules": "x"},
                {"slower_than": float("nan"), "capsules": "x"},
                {"times_median": 1, "capsules": "x"},
            )
        ),
        Bad(Kind.WRONG_TYPE, lambda w: record(w, feeds=1, capsules="x"), "feeds", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: record(w, keep="1"), "keep", "str"),
        Bad(Kind.WRONG_TYPE, lambda w: record(w, slower_than="1", capsules="x"), "slower_than", "str '1'"),
        Bad(Kind.WRONG_TYPE, lambda w: record(w, capsules=5), "capsules", "int"),
        Bad(Kind.WRONG_VALUE, lambda w: record(w, feeds=True), "capsules"),
    ],
    "replay": [
        Bad(Kind.MISSING_FILE, lambda w: zrt.replay(w.folder / "no.capsule"), "no.capsule", error=FileError),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.replay(5), "capsule", "int"),
        Bad(Kind.DIRECTORY, lambda w: zrt.replay(w.folder), "no capsule", error=FileError),
    ],
    "Diff.worst": [Bad(Kind.WRONG_TYPE, lambda w: diff(w).worst("1"), "count", "str")],
}  # fmt: skip

CLOSED_ALONE = {"Recorder": "runs count capsules"}

CLOSABLE = {"Recorder": lambda w: record(w)}

CANNOT_FAIL = {
    A_RESULT: "Check.__init__ Problem.__init__ Diff.__init__ Difference.__init__ Trial.__init__ Tuning.__init__ "
    "RecordedRun.__init__ Replay.__init__ Recorder.__init__",
    A_FACT: "Check.loads Diff.equal Diff.first Replay.failed_again",
    NOTHING: "Replay.to_dict Check.to_dict Diff.to_dict Tuning.to_dict Tuning.summary",
}
