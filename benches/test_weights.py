"""How long a model of 32 MiB takes to load, and its first run, by where its weights are. The files are in the cache.

embedded    inside the model: ONNX Runtime parses the file and copies each weight out of it.
external    in a file beside the model (ONNX's external data), which ONNX Runtime maps by itself.
mapped      that same file mapped by the caller with numpy, each weight given to ``AddInitializer`` where it lies. zrt
            has no public call for this yet: it is done here with zrt's own parts.
ort_mapped  a model in ONNX Runtime's own format, which ONNX Runtime maps, and whose weights it uses where they lie.
shared      in memory already: a further session of ``Runtime.replicate(..., share_weights=True)``.

By default ONNX Runtime packs the weights of its matrix products anew at load, which reads and copies them wherever
they are. ``session.disable_prepacking`` leaves that out: what is mapped is then read by the first run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
import pytest

import zrt
from benches.models import build
from benches.support import ONE_THREAD, Compare, Entry, Group, Workload, assert_same, fresh
from zrt import loading
from zrt._native import ffi, status
from zrt._native.library import api
from zrt.session import prepare_options
from zrt.sharing import SharedWeights

PLACES = ("embedded", "external", "mapped", "ort_mapped", "shared")
CONFIGS: dict[str, dict[str, str]] = {"prepacking": {}, "no prepacking": {"session.disable_prepacking": "1"}}
MAP_ORT_MODEL = {
    "session.use_memory_mapped_ort_model": "1",
    "session.use_ort_model_bytes_for_initializers": "1",
}

# A loaded session, and what has to outlive it.
Loaded: TypeAlias = "tuple[zrt.Session, Any]"
Load: TypeAlias = "Callable[[], Loaded]"


class Config(NamedTuple):
    label: str
    entries: dict[str, str]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """The model with its weights in each of the places, in one folder."""
    folder = tmp_path_factory.mktemp("weights")
    model = build.mlp(width=1024, depth=8, batch=1)
    onnx.save_model(model, folder / "embedded.onnx")
    build.with_external_weights(model, folder)
    writing = zrt.SessionOptions(
        **ONE_THREAD,
        # The next level would write what suits this processor only.
        graph_optimization_level="ENABLE_EXTENDED",
        optimized_model_filepath=folder / "mlp.ort",
        config_entries={"session.save_model_format": "ORT"},
    )
    zrt.Session(folder / "embedded.onnx", writing).close()
    return Workload.of(folder / "embedded.onnx")


@pytest.fixture(scope="module", params=CONFIGS)
def config(request: pytest.FixtureRequest) -> Config:
    return Config(request.param, CONFIGS[request.param])


@pytest.fixture(scope="module")
def loads(work: Workload, config: Config) -> Group:
    return Group(
        f"weights: loading, {config.label}",
        [load_entry(key, load, work) for key, load in loaders(work.path.parent, config.entries).items()],
    )


@pytest.fixture(scope="module")
def first_runs(work: Workload, config: Config) -> Group:
    return Group(
        f"weights: first run, {config.label}",
        [first_run_entry(key, load, work) for key, load in loaders(work.path.parent, config.entries).items()],
    )


def load_entry(key: str, load: Load, work: Workload) -> Entry:
    return Entry(fresh(key, lambda: None, lambda _: load()), partial(check, load, work))


def first_run_entry(key: str, load: Load, work: Workload) -> Entry:
    return Entry(fresh(key, load, lambda loaded: loaded[0].run(work.inputs)), partial(check, load, work))


def check(load: Load, work: Workload) -> None:
    session, _kept = load()
    assert_same(session.run(work.inputs), work.expected)


def loaders(folder: Path, entries: dict[str, str]) -> dict[str, Load]:
    """What loads the model from each of the places."""
    external = folder / "mlp.onnx"
    shared = SharedWeights(external)
    here = [place_of(tensor) for tensor in onnx.load_model(external, load_external_data=False).graph.initializer]

    def options(**more: str) -> zrt.SessionOptions:
        return zrt.SessionOptions(**ONE_THREAD, config_entries={**entries, **more})

    def load(path: Path, **more: str) -> Loaded:
        return zrt.Session(path, options(**more)), None

    def load_mapped() -> Loaded:
        values = {
            name: zrt.Value.from_array(np.memmap(folder / file, np.float32, "r", offset, shape))
            for name, file, offset, shape in here
        }
        settings = prepare_options(options(), [])
        for name, value in values.items():
            text = ffi.new("char[]", name.encode())
            status.check(api().AddInitializer(settings.pointer, text, value._open().pointer))
        # The values must outlive the session, which knows nothing of them.
        return zrt.Session.adopt(loading.create(loading.Source(external), settings), []), values

    def load_shared() -> Loaded:
        return zrt.Session.adopt(shared.load(prepare_options(options(), [])), []), None

    return {
        "embedded": partial(load, folder / "embedded.onnx"),
        "external": partial(load, external),
        "mapped": load_mapped,
        "ort_mapped": partial(load, folder / "mlp.ort", **MAP_ORT_MODEL),
        "shared": load_shared,
    }


def place_of(tensor: onnx.TensorProto) -> tuple[str, str, int, tuple[int, ...]]:
    """A weight's name, its file, where in it the weight begins, and its shape."""
    place = {entry.key: entry.value for entry in tensor.external_data}
    return tensor.name, place["location"], int(place["offset"]), tuple(tensor.dims)


@pytest.mark.parametrize("place", PLACES)
def test_load(compare: Compare, loads: Group, place: str) -> None:
    compare(loads, place)


@pytest.mark.parametrize("place", PLACES)
def test_first_run(compare: Compare, first_runs: Group, place: str) -> None:
    compare(first_runs, place)
