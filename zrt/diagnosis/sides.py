"""The two sides of a comparison: a model in sessions, or by the evaluator of the onnx package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np

from zrt.diagnosis.candidates import writing_nothing
from zrt.diagnosis.operators import versions_of
from zrt.errors import ModelError, UnsupportedError
from zrt.graph import editing, types
from zrt.graph.model_proto import called, folder_of, load_weights, parse, with_types
from zrt.loading.initializers import OVERRIDABLE
from zrt.memory.buffers import Buffer
from zrt.session.feeds import by_name, right_array
from zrt.session.spec import SessionSpec
from zrt.types import ElementType, ValueKind
from zrt.values.type_info import ValueInfo, is_plain
from zrt.values.value import Value

REFERENCE = "reference"
MOST_LETTERS = 200
# From this opset on the evaluator of the onnx package computes BatchNormalization as a model that is not in training.
OWN_MEAN = 14

_KINDS = {
    types.TensorType: ValueKind.TENSOR,
    types.SparseTensorType: ValueKind.SPARSE_TENSOR,
    types.SequenceType: ValueKind.SEQUENCE,
    types.MapType: ValueKind.MAP,
    types.OptionalType: ValueKind.OPTIONAL,
}

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
        self.inputs: dict[str, ValueInfo] = _inputs(self.proto)
        self.nodes: dict[str, str] = _makers(self.proto)
        """The tensors that nodes of its main graph make, in their order, and the node that makes each."""
        self.feeds: Feeds = {}

    def take(self, feeds: Feeds) -> None:
        """Takes the feeds of its inputs, floats in the input's own type, as models of other precisions need them.

        Raises `ArgumentError`, `DTypeError` and `ShapeError` for feeds that do not fit the model.
        """
        defaults = {tensor.name for tensor in self.proto.graph.initializer}
        required = [info for name, info in self.inputs.items() if name not in defaults]
        overridable = [info for name, info in self.inputs.items() if name in defaults]
        own = {name: feeds[name] for name in feeds if name in self.inputs}
        self.feeds = {info.name: _fitting(info, feed) for info, feed in by_name(own, required, overridable)}

    def run(self, wanted: Sequence[str], tapped: Sequence[str] = ()) -> Arrays:
        """Values of the graph. They and those in `tapped` are outputs of the session: the optimizer fuses none away."""
        spec, outputs = self.spec, [*wanted, *tapped]
        if any(name not in self.outputs for name in outputs):
            session = editing.tapped(spec.model, outputs, spec.options, spec.providers, spec.external_data_dir)
        else:
            session = spec.load()
        with session:
            results = session.run(self.feeds, list(wanted))
        named = {name: _array(value) for name, value in zip(wanted, results, strict=True)}
        others = [name for name, value in named.items() if not isinstance(value, np.ndarray)]
        if others:
            raise UnsupportedError(f"output {others[0]!r} is no tensor: only tensors can be compared")
        return named


class ReferenceSide:
    """A model by the evaluator of the onnx package, which keeps all values in memory."""

    def __init__(self, other: SessionSide) -> None:
        self._other = other
        self._proto = deepcopy(other.proto)
        self.inputs: dict[str, ValueInfo] = other.inputs
        self.outputs: list[str] = other.outputs
        self.nodes: dict[str, str] = other.nodes
        load_weights(self._proto, other.subject, other.folder)
        for name in self.nodes:
            if name not in self.outputs:
                self._proto.graph.output.add(name=name)
        self._found: Arrays | None = None

    def take(self, feeds: Feeds) -> None:
        """Takes the feeds of its inputs as the session's side does."""
        self._other.take(feeds)

    def run(self, wanted: Sequence[str], tapped: Sequence[str] = ()) -> Arrays:
        """Values of the graph."""
        if self._found is None:
            # A separate module of the package.
            from onnx.reference import ReferenceEvaluator

            try:
                # It computes with numpy, which warns of numbers that are not finite.
                with np.errstate(all="ignore"):
                    evaluator = ReferenceEvaluator(self._proto, new_ops=_mended(self._proto))
                    found = zip(evaluator.output_names, evaluator.run(None, dict(self._other.feeds)), strict=True)
            # The evaluator and its operators raise classes of their own.
            except Exception as error:
                # Some messages list all values.
                reason = str(error)[:MOST_LETTERS]
                raise ModelError(f"the evaluator of the onnx package cannot run the model: {reason}") from error
            self._found = {name: np.asarray(value) for name, value in found if value is not None}
        return {name: self._found[name] for name in wanted if name in self._found}


def _mended(proto: Any) -> list[Any]:
    """Operators in place of the evaluator's own: before opset 14 it mixes a batch's mean into a BatchNormalization."""
    if versions_of(proto).get("", OWN_MEAN) >= OWN_MEAN:
        return []
    # A separate module of the package.
    from onnx.reference.ops.op_batch_normalization import BatchNormalization_9

    own: Any = BatchNormalization_9

    def run(self: Any, x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: Any = None, **_: Any) -> Any:
        # Without a momentum it takes the mean and the variance that the model has.
        return own._run(self, x, scale, bias, mean, var, epsilon=epsilon)

    return [type("BatchNormalization", (own,), {"_run": run})]


def _inputs(proto: Any) -> dict[str, ValueInfo]:
    """The inputs of a model that may be fed, as it declares them."""
    constant = {tensor.name for tensor in proto.graph.initializer} if proto.ir_version < OVERRIDABLE else ()
    found = {}
    for info in proto.graph.input:
        if info.name not in constant:
            declared: Any = types.from_proto(info.type, f"input {info.name!r}")
            found[info.name] = ValueInfo(
                info.name,
                _KINDS.get(type(declared), ValueKind.UNKNOWN),
                getattr(declared, "element_type", ElementType.UNDEFINED),
                getattr(declared, "shape", None),
            )
    return found


def _fitting(info: ValueInfo, feed: Any) -> Any:
    """The feed of an input: an array where numpy has one, floats in the input's own type."""
    feed = _array(feed)
    if not is_plain(info) or isinstance(feed, (Value, Buffer)):
        return feed
    wanted = info.element_type.dtype
    if _is_float(wanted) and _is_float(getattr(feed, "dtype", None)):
        feed = feed.astype(wanted, copy=False)
    return right_array(info, feed)


def _array(thing: Any) -> Any:
    """The array of a tensor in host memory; the elements of a packed type each by itself. Other things as they are."""
    if isinstance(thing, Value) and thing.is_tensor and thing.memory.is_host:
        return thing.unpack() if thing.element_type.packed else thing.numpy()
    return thing


def _is_float(dtype: Any) -> bool:
    """Whether it is a dtype of floats that a model may compute with."""
    return isinstance(dtype, np.dtype) and (dtype.kind == "f" or dtype.name == "bfloat16")


def _makers(proto: Any) -> dict[str, str]:
    """The values of a model's main graph that are tensors, in the order of its nodes, and the node that makes each."""
    try:
        typed = with_types(proto).graph
    # Shape inference and protobuf raise classes of their own.
    except Exception as error:
        raise ModelError(f"the types of the values cannot be inferred: {error}") from error
    tensors = {info.name for info in (*typed.value_info, *typed.output) if info.type.HasField("tensor_type")}
    return {name: called(node) for node in proto.graph.node for name in node.output if name in tensors}
