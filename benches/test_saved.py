"""The load time of a model, and of its copies that `zrt.save_optimized` wrote.

as_it_is    the model, which the optimizer rewrites at load.
optimized   the optimized model in ONNX; loaded with the optimizer off.
ort         the same in ONNX Runtime's own format, which needs neither optimizer nor protobuf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

import zrt
from benches.support import ONE_THREAD, Compare, Entry, Group, Workload, assert_same, fresh

FORMS = ("as_it_is", "optimized", "ort")
MODELS = ("digits", "cnn", "squeezenet")

Load: TypeAlias = "Callable[[], zrt.Session]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module", params=MODELS)
def loads(
    request: pytest.FixtureRequest, model_file: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Group:
    work = Workload.of(model_file(request.param))
    folder = tmp_path_factory.mktemp("saved")
    whole = zrt.SessionOptions(**ONE_THREAD)
    as_it_is = zrt.SessionOptions(**ONE_THREAD, graph_optimization_level="DISABLE_ALL")
    saved, in_ort_format = folder / f"{request.param}.onnx", folder / f"{request.param}.ort"
    for path in (saved, in_ort_format):
        zrt.save_optimized(work.path, path)
    loaders: dict[str, Load] = {
        "as_it_is": lambda: zrt.Session(work.path, whole),
        "optimized": lambda: zrt.Session(saved, as_it_is),
        "ort": lambda: zrt.Session(in_ort_format, as_it_is),
    }
    return Group(f"saved: loading {request.param}", [load_entry(key, loaders[key], work) for key in FORMS])


def load_entry(key: str, load: Load, work: Workload) -> Entry:
    return Entry(fresh(key, lambda: None, lambda _: load()), partial(check, load, work))


def check(load: Load, work: Workload) -> None:
    assert_same(load().run(work.inputs), work.expected)


@pytest.mark.parametrize("form", FORMS)
def test_load(compare: Compare, loads: Group, form: str) -> None:
    compare(loads, form)
