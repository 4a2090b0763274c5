"""How long a model of 32 MiB takes to load, and its first run, by where its weights are. The files are in the cache.

embedded    inside the model: ONNX Runtime parses the file and copies each weight out of it.
external    in a file beside the model (ONNX's external data), which ONNX Runtime maps by itself.
mapped      that same file mapped by the caller with `zrt.MappedFile`, each weight given as one of
            `SessionOptions.initializers` where it lies.
ort_mapped  a model in ONNX Runtime's own format, which ONNX Runtime maps, and whose weights it uses where they lie.
shared      in memory already, with their packed forms: a further session over what `zrt.read_weights` gave, with the
            same `zrt.PrepackedWeights`. It is what ``Runtime.replicate(..., share_weights=True)`` makes.

By default ONNX Runtime packs the weights of its matrix products anew at load, which reads and copies them wherever
they are. ``session.disable_prepacking`` leaves that out: what is mapped is then read by the first run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import onnx
import pytest

import zrt
from benches.models import build
from benches.support import ONE_THREAD, Compare, Entry, Group, Workload, assert_same, fresh

PLACES = ("embedded", "external", "mapped", "ort_mapped", "shared")
CONFIGS: dict[str, dict[str, str]] = {"prepacking": {}, "no prepacking": {"session.disable_prepacking": "1"}}
MAP_ORT_MODEL = {
    "session.use_memory_mapped_ort_model": "1",
    "session.use_ort_model_bytes_for_initializers": "1",
}

Load: TypeAlias = "Callable[[], zrt.Session]"


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
    zrt.save_optimized(folder / "embedded.onnx", folder / "mlp.ort")
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
    return Entry(fresh(key, load, lambda session: session.run(work.inputs)), partial(check, load, work))


def check(load: Load, work: Workload) -> None:
    assert_same(load().run(work.inputs), work.expected)


def loaders(folder: Path, entries: dict[str, str]) -> dict[str, Load]:
    """A function for each place of the weights, which loads the model from there."""
    external = folder / "mlp.onnx"
    weights, container = zrt.read_weights(external), zrt.PrepackedWeights()
    here = [info for info in zrt.list_initializers(external) if info.location is not None]

    def options(more: dict[str, str] | None = None, **fields: Any) -> zrt.SessionOptions:
        return zrt.SessionOptions(**ONE_THREAD, **fields, config_entries={**entries, **(more or {})})

    def load_mapped() -> zrt.Session:
        file = zrt.MappedFile(folder / "mlp.weights")
        mapped = {info.name: file.tensor(info.element_type, info.shape, info.offset) for info in here}
        return zrt.Session(external, options(initializers=mapped))

    return {
        "embedded": lambda: zrt.Session(folder / "embedded.onnx", options()),
        "external": lambda: zrt.Session(external, options()),
        "mapped": load_mapped,
        "ort_mapped": lambda: zrt.Session(folder / "mlp.ort", options(MAP_ORT_MODEL)),
        "shared": lambda: zrt.Session(external, options(initializers=weights, prepacked_weights=container)),
    }


@pytest.mark.parametrize("place", PLACES)
def test_load(compare: Compare, loads: Group, place: str) -> None:
    compare(loads, place)


@pytest.mark.parametrize("place", PLACES)
def test_first_run(compare: Compare, first_runs: Group, place: str) -> None:
    compare(first_runs, place)
