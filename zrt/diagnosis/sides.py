"""The two sides of a comparison: a model in sessions, or by the evaluator of the onnx package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np

from zrt.diagnosis.candidates import writing_nothing
from zrt.errors import ArgumentError, ModelError, UnsupportedError
from zrt.graph import editing
from zrt.graph.model_proto import called, folder_of, light, load_weights, package, parse
from zrt.session.spec import SessionSpec
from zrt.values.type_info import ValueInfo

REFERENCE = "reference"
MOST_LETTERS = 200

Feeds: TypeAlias = "Mapping[str, Any]"
Arrays: TypeAlias = "dict[str, np.ndarray[Any, Any]]"
Side: TypeAlias = "SessionSide | ReferenceSide"


class SessionSide:
    """A model in sessions."""

    proto: Any
    subject: str
    """The model's name for messages."""

    def __init__(self, spec: SessionSpec) -> None:
        self.spec: SessionSpec = writing_nothing(spec)
        self.proto, self.subject, beside = parse(spec.model)
        self.folder: str = folder_of(spec.external_data_dir, beside)
        """That of the weights in other files."""
        self.outputs: list[str] = [info.name for info in self.proto.graph.output]
        self.inputs: set[str] = {info.name for info in self.proto.graph.input}
        self.nodes: dict[str, str] = _makers(self.proto)
        """The tensors that nodes of its main graph make, in their order, and the node that makes each."""

    def run(self, wanted: Sequence[str], feeds: Feeds, tapped: Sequence[str] = ()) -> Arrays:
        """Values of the graph. They and those in `tapped` are outputs of the session: the optimizer fuses none away."""
        spec, outputs = self.spec, [*wanted, *tapped]
        if any(name not in self.outputs for name in outputs):
            session = editing.tapped(spec.model, outputs, spec.options, spec.providers, spec.external_data_dir)
        else:
            session = spec.load()
        with session:
            results = session.run({info.name: _fitting(info, feeds) for info in session.inputs}, list(wanted))
        named = dict(zip(wanted, results, strict=True))
        others = [name for name, value in named.items() if not isinstance(value, np.ndarray)]
        if others:
            raise UnsupportedError(f"output {others[0]!r} is no tensor: only tensors can be compared")
        return named


class ReferenceSide:
    """A model by the evaluator of the onnx package, which keeps all values in memory."""

    def __init__(self, other: SessionSide) -> None:
        self._proto = deepcopy(other.proto)
        self.inputs: set[str] = other.inputs
        self.outputs: list[str] = other.outputs
        self.nodes: dict[str, str] = other.nodes
        load_weights(self._proto, other.subject, other.folder)
        for name in self.nodes:
            if name not in self.outputs:
                self._proto.graph.output.add(name=name)
        self._found: Arrays | None = None

    def run(self, wanted: Sequence[str], feeds: Feeds, tapped: Sequence[str] = ()) -> Arrays:
        """Values of the graph."""
        if self._found is None:
            # A separate module of the package.
            from onnx.reference import ReferenceEvaluator

            try:
                evaluator = ReferenceEvaluator(self._proto)
                found = zip(evaluator.output_names, evaluator.run(None, dict(feeds)), strict=True)
            # The evaluator and its operators raise classes of their own.
            except Exception as error:
                # Some messages list all values.
                reason = str(error)[:MOST_LETTERS]
                raise ModelError(f"the evaluator of the onnx package cannot run the model: {reason}") from error
            self._found = {name: np.asarray(value) for name, value in found if value is not None}
        return {name: self._found[name] for name in wanted if name in self._found}


def _fitting(info: ValueInfo, feeds: Feeds) -> Any:
    """The feed of an input; floats in the input's own type, as models of other precisions take them."""
    if info.name not in feeds:
        raise ArgumentError(f"feeds: input {info.name!r} is missing")
    feed = feeds[info.name]
    floats = (
        info.is_tensor and info.element_type.dtype.kind == "f" and getattr(feed, "dtype", np.dtype("V")).kind == "f"
    )
    return feed.astype(info.element_type.dtype, copy=False) if floats else feed


def _makers(proto: Any) -> dict[str, str]:
    """The values of a model's main graph that are tensors, in the order of its nodes, and the node that makes each."""
    onnx = package()
    try:
        typed = onnx.shape_inference.infer_shapes(light(proto)).graph
    # Shape inference and protobuf raise classes of their own.
    except Exception as error:
        raise ModelError(f"the types of the values cannot be inferred: {error}") from error
    tensors = {info.name for info in (*typed.value_info, *typed.output) if info.type.HasField("tensor_type")}
    return {name: called(node) for node in proto.graph.node for name in node.output if name in tensors}
