"""Requests that bind their inputs and outputs anew: the drop-in for onnxruntime beside the official package.

Each request has other memory than the one before, as in a server: at addresses (`bind_input`, `bind_output`), or
arrays (`bind_cpu_input`) with outputs that ONNX Runtime makes, which are read or copied. The binding stays, or each
request has a new one. Many programs pass all providers of the library, as `get_available_providers` lists them. The
inputs are those of BERT, and those of decoders of 12 and 24 layers with their caches; the models compute next to
nothing, so that the calls decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import zrt
from benches.support import DROP_IN, Compare, Entry, Group, assert_same, ort_session
from zrt.bench.harness import python_contender

PACKAGES = {"official": "onnxruntime", "drop_in": DROP_IN}
# The requests take turns, so that each binds other memory than the one before.
REQUESTS = 20
# The sizes that the models leave open.
SIZES = {"batch": 1, "tokens": 3, "past": 8}


def model(inputs: Mapping[str, tuple[int, list[Any]]]) -> onnx.ModelProto:
    """A model with an output for each input, the negated one."""
    nodes, infos, outputs = [], [], []
    for name, (kind, shape) in inputs.items():
        infos.append(helper.make_tensor_value_info(name, kind, shape))
        outputs.append(helper.make_tensor_value_info(f"{name}.out", kind, shape))
        nodes.append(helper.make_node("Neg", [name], [f"{name}.out"]))
    graph = helper.make_graph(nodes, "graph", infos, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def bert() -> onnx.ModelProto:
    """Three inputs of tokens."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    return model({name: (TensorProto.INT64, ["batch", "tokens"]) for name in names})


def decoder(layers: int) -> onnx.ModelProto:
    """Tokens, and a cache of keys and values in each layer."""
    caches = [f"past.{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    tokens = {"input_ids": (TensorProto.INT64, ["batch", "tokens"])}
    return model(tokens | {name: (TensorProto.FLOAT, ["batch", 2, "past", 4]) for name in caches})


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "BERT": bert,
    "decoder of 12 layers": lambda: decoder(12),
    "decoder of 24 layers": lambda: decoder(24),
}


def filled(infos: Any, number: int) -> dict[str, np.ndarray]:
    """An array for each input or output, filled with a number."""
    return {
        info.name: np.full([SIZES.get(dim, dim) for dim in info.shape], number, info.type[7:-1].replace("float", "f4"))
        for info in infos
    }


def addresses(session: Any) -> Callable[[], Any]:
    """Requests over memory at addresses."""
    binding = session.io_binding()
    requests = [
        (filled(session.get_inputs(), number), filled(session.get_outputs(), 0)) for number in range(1, REQUESTS + 1)
    ]
    turn = cycle(requests)

    def request() -> list[np.ndarray]:
        inputs, outputs = next(turn)
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.__array_interface__["data"][0])
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.__array_interface__["data"][0])
        session.run_with_iobinding(binding)
        return list(outputs.values())

    return request


def all_providers(session: Any) -> Callable[[], Any]:
    """`addresses` in a session with all providers of the library, most of which take no node."""
    session.set_providers(list(zrt.available_providers()))
    return addresses(session)


def arrays(session: Any, *, copies: bool = False, anew: bool = False) -> Callable[[], Any]:
    """Requests over arrays, with outputs of ONNX Runtime's: `copies` of them; `anew` in a new binding each."""
    kept = session.io_binding()
    turn = cycle([filled(session.get_inputs(), number) for number in range(1, REQUESTS + 1)])

    def request() -> list[np.ndarray]:
        binding = session.io_binding() if anew else kept
        for name, array in next(turn).items():
            binding.bind_cpu_input(name, array)
        for info in outputs:
            binding.bind_output(info)
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu() if copies else binding.get_outputs()

    outputs = [info.name for info in session.get_outputs()]
    return request


WAYS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "addresses": addresses,
    "addresses with all providers": all_providers,
    "arrays": arrays,
    "copies": partial(arrays, copies=True),
    "new bindings": partial(arrays, copies=True, anew=True),
}


@pytest.fixture(scope="module", params=[(name, way) for name in MODELS for way in WAYS], ids=" ".join)
def requests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Group:
    name, way = request.param
    path = tmp_path_factory.mktemp("bindings") / "model.onnx"
    onnx.save_model(MODELS[name](), path)

    def entry(key: str, package: str) -> Entry:
        call = WAYS[way](ort_session(Path(path), package))

        def check() -> None:
            results = [one if isinstance(one, np.ndarray) else one.numpy() for one in call()]
            assert (results[0] < 0).all()
            assert_same(results, [np.full_like(result, results[0].flat[0]) for result in results])

        return Entry(python_contender(key, key, call), check)

    return Group(f"bindings: {name}, new {way} in each request", [entry(*item) for item in PACKAGES.items()])


@pytest.mark.parametrize("way", PACKAGES)
def test_requests(compare: Compare, requests: Group, way: str) -> None:
    compare(requests, way)
