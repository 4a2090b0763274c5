"""Trials: models of one node, by which a library says what it has. They are loaded and never run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from zrt._common.files import temporary_folder
from zrt._common.one_node import NEWEST_IR
from zrt._native import ort_messages
from zrt._native.ort_messages import OrtMessage
from zrt.diagnosis.operators import Operator
from zrt.errors import Error
from zrt.graph.model_proto import package
from zrt.loading.session_options import SessionOptions
from zrt.session.session import Session
from zrt.types import BY_ONNX_CODE, ElementType, GraphOptimizationLevel, LogSeverity

# A number that no version reaches.
BEYOND = 1 << 20

# The types that a user may cast to where a library has no kernel, the best first.
FLOATS = (ElementType.FLOAT, ElementType.FLOAT16, ElementType.DOUBLE)
WHOLE = (ElementType.INT64, ElementType.INT32, ElementType.UINT8, ElementType.INT8)


class Limits(NamedTuple):
    """The newest that a library reads; None where it does not say."""

    ir_version: int | None
    opsets: dict[str, int | None]
    """By domain; "" is ONNX's own."""


def limits(domains: Iterable[str]) -> Limits:
    """The newest IR version that the library reads, and the newest version of each of these domains."""
    return Limits(
        _newest(ort_messages.NEWER_MODEL, _identity(BEYOND, {})),
        {domain: _newest(ort_messages.NEWER_OPSET, _identity(NEWEST_IR, {domain: BEYOND})) for domain in domains},
    )


def _identity(ir_version: int, versions: Mapping[str, int]) -> Any:
    helper = package().helper
    node = helper.make_node("Identity", ["x"], ["y"])
    values = (helper.make_tensor_value_info(name, 1, None) for name in "xy")
    return _model([node], [next(values)], [next(values)], {"": 13, **versions}, ir_version)


def _newest(message: OrtMessage, model: Any) -> int | None:
    error = _refusal(model, SessionOptions())
    found = None if error is None else message.search(error)
    return int(found["newest"]) if found else None


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], versions: Mapping[str, int], ir: int) -> Any:
    helper = package().helper
    graph = helper.make_graph(nodes, "trial", inputs, outputs)
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def _refusal(model: Any, options: SessionOptions, written: str | None = None) -> Error | None:
    """The library's reason not to load a model; None if it does.

    The load has the operators of `options`, and neither optimization nor messages. It writes the model to `written`.
    """
    quiet = SessionOptions(
        intra_op_num_threads=1,
        graph_optimization_level=GraphOptimizationLevel.DISABLE_ALL,
        log_severity_level=LogSeverity.FATAL,
        custom_ops=options.custom_ops,
        custom_op_libraries=options.custom_op_libraries,
        optimized_model_filepath=written,
    )
    try:
        Session(model, quiet).close()
    except Error as error:
        return error
    return None


class Trials:
    """Loads operators of a model one by one; `options` has the domains of custom operators."""

    def __init__(self, versions: Mapping[str, int], ir_version: int, options: SessionOptions) -> None:
        self._versions = versions
        self._ir_version = ir_version
        self._options = options

    def error(
        self, operator: Operator, types: Mapping[str, Any] | None = None, written: str | None = None
    ) -> Error | None:
        """The library's reason not to load an operator, with its own types or others; None if it does."""
        return _refusal(self._model_of(operator, types or operator.types), self._options, written)

    def _model_of(self, operator: Operator, types: Mapping[str, Any]) -> Any:
        helper = package().helper
        names = list(dict.fromkeys(name for name in operator.node.input if name and name not in operator.constants))
        # Whether a library knows an operator does not depend on the types.
        unknown = helper.make_tensor_type_proto(int(ElementType.FLOAT), None)
        inputs = [helper.make_value_info(name, types.get(name, unknown)) for name in names]
        # The library infers the type of an output that is not declared.
        outputs = [
            helper.make_value_info(name, operator.outputs[name])
            if operator.domain and name in operator.outputs
            else helper.make_empty_tensor_value_info(name)
            for name in operator.node.output
            if name
        ]
        model = _model([operator.node], inputs, outputs, self._versions, self._ir_version)
        model.graph.initializer.extend(operator.constants.values())
        return model

    def types_with_kernels(self, operator: Operator) -> list[ElementType]:
        """Other element types with which the library loads an operator that it does not load with its own."""
        found: dict[ElementType, None] = {}
        for own in operator.element_types:
            for other in WHOLE if "int" in own.onnx_name else FLOATS:
                changed = {name: _recoded(kind, own, other) for name, kind in operator.types.items()}
                # Weights would keep their types.
                if other != own and not operator.constants and self.error(operator, changed) is None:
                    found[other] = None
        return list(found)

    def is_cast(self, operator: Operator) -> bool:
        """Whether the library loads an operator by casts of its inputs to another type."""
        with temporary_folder("zrt-check-") as folder:
            path = os.path.join(folder, "trial.onnx")
            if self.error(operator, written=path) is not None:
                return False
            written = package().load(path)
        casts = [node for node in written.graph.node if node.op_type == "Cast"]
        return len(casts) > int(operator.node.op_type == "Cast")


def _recoded(kind: Any, own: ElementType, other: ElementType) -> Any:
    """A type with another element type in place of its own."""
    changed = deepcopy(kind)
    if kind.HasField("tensor_type") and BY_ONNX_CODE.get(kind.tensor_type.elem_type) is own:
        # ONNX has the same numbers for these types.
        changed.tensor_type.elem_type = int(other)
    return changed
