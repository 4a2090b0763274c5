"""Products of 8-bit numbers that lose bits on processors without instructions for them."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

from zrt._common.config_keys import SessionConfigKey
from zrt.diagnosis.report import WARNING, Findings
from zrt.graph.model_proto import package, subgraphs
from zrt.loading.cache import processor
from zrt.loading.session_options import SessionOptions

# Operators that multiply, and the place of their weights among their inputs.
_WEIGHTS = {
    **{"ConvInteger": 1, "MatMulInteger": 1, "DynamicQuantizeMatMul": 1, "MatMulIntegerToFloat": 1, "QGemm": 3},
    **{"QLinearConv": 3, "QLinearMatMul": 3, "DequantizeLinear": 0},
}
_X86 = ("x86_64", "AMD64")


def check(proto: Any, settings: SessionOptions, found: Findings) -> None:
    """Finds int8 weights that are multiplied with uint8 on a processor where the sums of pairs saturate."""
    if platform.machine() not in _X86 or settings.config_entries.get(SessionConfigKey.X64QUANTPRECISION) == "1":
        return
    flags = processor_flags()
    if not flags or flags & {"avx512_vnni", "avx_vnni"}:
        return
    nodes = tuple(_multiplied(proto.graph, frozenset()))
    if nodes:
        found.add(
            WARNING,
            "weights of int8",
            "this processor has no VNNI: sums of two products with uint8 saturate at 16 bits, and results may be wrong",
            f'set config_entries={{"{SessionConfigKey.X64QUANTPRECISION}": "1"}}, or quantize with 7 bits',
            nodes,
        )


def processor_flags() -> set[str]:
    """The features of the processor; empty where the system does not tell them."""
    return set(next((line for line in processor() if line.startswith("flags")), "").split())


def _multiplied(graph: Any, outer: frozenset[str]) -> Iterator[str]:
    """The nodes that take int8 weights: those of the graph, or `outer`, those of the graphs around it."""
    int8 = package().TensorProto.INT8
    weights = outer | {tensor.name for tensor in graph.initializer if tensor.data_type == int8}
    constants = [node for node in graph.node if node.op_type == "Constant"]
    weights |= {node.output[0] for node in constants for each in node.attribute if each.t.data_type == int8}
    for node in graph.node:
        place = _WEIGHTS.get(node.op_type)
        if place is not None and len(node.input) > place and node.input[place] in weights:
            yield node.name or node.output[0]
        for inner in subgraphs(node):
            yield from _multiplied(inner, weights)
