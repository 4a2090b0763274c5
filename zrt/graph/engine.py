"""`Engine`: whether a session is made through ONNX Runtime's model editor or through the model's bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zrt._common.arguments import INT32_MAX, shown
from zrt._common.public import public_in
from zrt.errors import ArgumentError, UnsupportedError
from zrt.graph import types
from zrt.graph.model_proto import called, package
from zrt.loading.session_options import SessionOptions
from zrt.types import ElementType

# The domains of ONNX Runtime's own operators. Other domains may have custom operators, which a session made from the
# editor's model does not find.
BUILT_IN = frozenset(
    ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft", "com.microsoft.experimental")
)

EDITOR, ONNX = "editor", "onnx"

# Why the editor writes no optimized model.
UNDESCRIBED = "the optimized model that is to be written would lack the model's metadata"


@public_in("zrt.graph")
@dataclass(frozen=True, slots=True)
class Engine:
    """The way in which a graph's session is made.

    `name` is "editor" for ONNX Runtime's model editor and "onnx" for the model's bytes; `reasons` name the parts that
    the editor does not support.
    """

    name: str
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Any, options: SessionOptions | None = None) -> Engine:
        """The engine for a model with these options."""
        graph = model.graph
        values = (*graph.input, *graph.output)
        reasons = [*refusals(model, graph.node, graph.initializer, values), *_whole(model)]
        if options is not None:
            reasons.extend(weights_given(options))
            if options.optimized_model_filepath:
                reasons.append(UNDESCRIBED)
            if options.prepacked_weights is not None:
                reasons.append("prepacked weights need a model in bytes")
        return cls.because(reasons)

    @classmethod
    def because(cls, reasons: Iterable[str]) -> Engine:
        """The editor, unless there are reasons against it."""
        reasons = tuple(reasons)
        return cls(ONNX if reasons else EDITOR, reasons)

    def insisted(self, wanted: str | None) -> Engine:
        """This engine, or the one that the caller forces; `UnsupportedError` where that cannot make the session."""
        if wanted is None:
            return self
        if not isinstance(wanted, str) or wanted not in (EDITOR, ONNX):
            raise ArgumentError(f"engine: {shown(wanted)} is neither {EDITOR!r} nor {ONNX!r}")
        if wanted == self.name:
            return self
        if wanted == ONNX:
            return Engine(ONNX, ("the caller asked for it",))
        raise UnsupportedError(f"ONNX Runtime's model editor does not support this: {'; '.join(self.reasons)}")


def _whole(model: Any) -> Iterable[str]:
    """The further parts that the editor would lose or refuse when it gets the whole model."""
    graph = model.graph
    if graph.sparse_initializer:
        yield "the graph has sparse initializers"
    if graph.value_info:
        yield "the graph declares types of intermediate values"
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        yield "the model imports no opset of ONNX's own domain"
    for domain in sorted({node.domain for node in graph.node} - BUILT_IN):
        yield f"domain {domain!r} may have custom operators, which a session of the editor's model does not find"


def weights_given(options: SessionOptions) -> Iterator[str]:
    """The options that replace weights, which the editor ignores."""
    for field in ("initializers", "external_initializer_files"):
        if getattr(options, field):
            yield f"options.{field} replace weights"


def refusals(
    model: Any, nodes: Sequence[Any], initializers: Sequence[Any], values: Sequence[Any], known: Collection[str] = ()
) -> Iterator[str]:
    """The reasons why the editor refuses these parts of a model or would change them.

    `known` are values whose types the session already has.
    """
    graph = model.graph
    for field in ("functions", "training_info"):
        if getattr(model, field):
            yield f"the model has {field.replace('_', ' ')}"
    if graph.quantization_annotation:
        yield "the graph has quantization annotations"
    for domain, version in ((entry.domain, entry.version) for entry in model.opset_import):
        if not 0 < version <= INT32_MAX or "\0" in domain:
            yield f"domain {domain!r} has opset {version}"
    for node in nodes:
        yield from _refused_node(node)
    inputs = {info.name for info in graph.input}
    for tensor in initializers:
        yield from _refused_initializer(tensor, tensor.name in inputs)
    for info in values:
        yield from _refused_value(info, info.name in known)


def _refused_node(node: Any) -> Iterator[str]:
    kinds = package().AttributeProto
    taken = (kinds.INT, kinds.INTS, kinds.FLOAT, kinds.FLOATS, kinds.STRING, kinds.STRINGS)
    texts = (node.name, node.op_type, node.domain, *node.input, *node.output, *(each.name for each in node.attribute))
    if any("\0" in each for each in texts):
        yield f"{called(node)} has a NUL character in a name"
    if node.overload:
        yield f"{called(node)} names an overload"
    for attribute in node.attribute:
        subject = f"{called(node)}: attribute {attribute.name!r}"
        if attribute.ref_attr_name:
            yield f"{subject} refers to a function's"
        elif attribute.type not in taken:
            yield f"{subject} is of type {kinds.AttributeType.Name(attribute.type)}"
        elif any(b"\0" in each for each in attribute.strings):
            yield f"{subject} holds a NUL character"
    if node.op_type == "Constant" and not node.attribute:
        yield f"{called(node)} has no value"


def _refused_initializer(tensor: Any, overridable: bool) -> Iterator[str]:
    subject = f"initializer {tensor.name!r}"
    kind = types.of_code(tensor.data_type, subject)
    if "\0" in tensor.name:
        yield f"{subject} has a NUL character in its name"
    if overridable:
        yield f"{subject} is also an input, which may override it"
    if kind is ElementType.STRING or kind.refused or kind.onnx_code != kind:
        yield f"{subject} is of type {kind.name}"


def _refused_value(info: Any, known: bool) -> Iterator[str]:
    kind = types.from_proto(info.type, info.name)
    subject = f"{info.name!r}"
    if "\0" in info.name or (isinstance(kind, types.TensorType) and "\0" in str(kind)):
        yield f"{subject} has a NUL character in a name"
    if kind is None:
        yield f"{subject} has no type that zrt knows"
    elif type(kind) is not types.TensorType:
        # A later library may accept such types, but its results are untested: refuse them in any case.
        yield f"{subject} is a {kind}"
    elif known:
        # The session ignores the new type and uses its own.
        return
    elif kind.element_type.onnx_code != kind.element_type:
        yield f"{subject} is of type {kind.element_type.name}"
    elif kind.shape and {dim for dim in kind.shape if not isinstance(dim, int)} - {_first_name(kind.shape)}:
        # The editor of 1.27 to 1.32 gives every symbolic size the name of the first size.
        yield f"{subject} has sizes {kind.shape}, whose names ONNX Runtime would mix up"
    elif info.type.denotation or any(dim.denotation for dim in info.type.tensor_type.shape.dim):
        yield f"{subject} has denotations"


def _first_name(shape: Sequence[Any]) -> str | None:
    return shape[0] if isinstance(shape[0], str) else None
