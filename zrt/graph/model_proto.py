"""Models as ``onnx.ModelProto``: parsing, external weights, serialization, topological order, checks."""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Collection, Iterable, Iterator
from copy import deepcopy
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from zrt._common.arguments import absolute, path_bytes
from zrt._native.cdata import buffer_at
from zrt.errors import Error, ModelError, UnsupportedError
from zrt.loading import model_source
from zrt.loading.initializers import require_onnx
from zrt.types import BY_ONNX_CODE, nbytes

# Checks and shape inference do not read the content of initializers of more elements.
LARGEST_LIGHT = 128

# protobuf reads no message that is nested deeper, in Python and in C++.
DEEPEST = 100

# Inference of these operators ends the process where their first input has no type, as onnx 1.21 takes it as one. Nodes
# of other names are no operators of ONNX's: inference passes over them.
_FRAGILE = ("DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble")
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
_HIDING = "?"
_HIDDEN = tuple(name + _HIDING for name in _FRAGILE)


def package() -> Any:
    """The ``onnx`` package, imported at first use."""
    try:
        import onnx
        import onnx.checker
        import onnx.external_data_helper
        import onnx.inliner
        import onnx.shape_inference
    except ImportError:
        raise UnsupportedError('graphs are built with the onnx package: pip install "onnx==1.21.*"') from None
    return onnx


def parse(model: model_source.Model) -> tuple[Any, str, str]:
    """A model as a new ``onnx.ModelProto``, its name for messages, and the folder of its external weights.

    The folder is "" for a model in memory.
    """
    onnx = package()
    with model_source.Source(model) as source:
        folder = "" if source.path is None else os.path.dirname(absolute(os.fsdecode(source.path)))
        try:
            content = bytes(buffer_at(source.read()))
            require_onnx(content[:8], source.subject)
            proto = onnx.ModelProto.FromString(content)
        except (Error, MemoryError):
            raise
        # protobuf's Python implementation raises this; the one in C returns bytes, which `_check_text` finds.
        except UnicodeDecodeError as error:
            raise ModelError(f"{source.subject} cannot be read: a string is not UTF-8: {error.reason}") from error
        # protobuf raises classes of its own, which differ between its implementations.
        except Exception as error:
            raise ModelError(f"{source.subject} cannot be read: {error}") from error
        if not proto.HasField("graph"):
            raise ModelError(f"{source.subject} cannot be read: it has no graph")
        _check_text(proto, source.subject)
        return proto, source.subject, folder


def _messages(message: Any) -> Iterator[tuple[Any, int]]:
    """A message and all messages in it, in their order, each with how deep it is nested."""
    waiting = [(message, 0)]
    while waiting:
        each, level = waiting.pop()
        yield each, level
        for name in _names(each.DESCRIPTOR, "TYPE_MESSAGE"):
            content = getattr(each, name)
            if hasattr(content, "extend"):
                waiting.extend((one, level + 1) for one in reversed(content))
            elif each.HasField(name):
                waiting.append((content, level + 1))


@cache
def _names(descriptor: Any, kind: str) -> list[str]:
    """The fields of a message that are of this type, the last first. Those of weights, if read, would be copied."""
    return [field.name for field in reversed(descriptor.fields) if field.type == getattr(field, kind)]


def _check_text(message: Any, subject: str) -> None:
    """Raises a `ModelError` for a string that is not UTF-8, which protobuf returns as bytes."""
    for each, _ in _messages(message):
        for name in _names(each.DESCRIPTOR, "TYPE_STRING"):
            content = getattr(each, name)
            texts = [content] if isinstance(content, (str, bytes)) else content
            if any(isinstance(text, bytes) for text in texts):
                raise ModelError(f"{subject} cannot be read: its {name} is not UTF-8")


def load_weights(
    proto: Any, subject: str, folder: str, borrowed: Collection[str] = (), files: Iterable[str] = ()
) -> None:
    """Loads a model's external weights into it, except for those that are borrowed, or that are in these `files`."""
    helper = package().external_data_helper
    given = set(map(os.path.normpath, files))
    lent = [
        tensor
        for tensor in proto.graph.initializer
        if tensor.name in borrowed
        or any(each.key == "location" and os.path.normpath(each.value) in given for each in tensor.external_data)
    ]
    weights = [
        tensor
        for tensor in _tensors(proto)
        if helper.uses_external_data(tensor) and not any(tensor is each for each in lent)
    ]
    if not weights:
        return
    if not folder:
        raise ModelError(
            f"{subject}: the weight {weights[0].name!r} and others lie outside of the model: pass external_data_dir"
        )
    try:
        for tensor in weights:
            _add_length(tensor)
            helper.load_external_data_for_tensor(tensor, folder)
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")
    # For a file that is missing, too short or outside of the folder the onnx package raises various classes.
    except Exception as error:
        raise ModelError(f"{subject}: {error}") from error


def _add_length(tensor: Any) -> None:
    """Adds the length of an external weight where it is left out: the onnx package would read up to the file's end."""
    kind = BY_ONNX_CODE.get(tensor.data_type)
    if kind is not None and kind.bits and all(each.key != "length" for each in tensor.external_data):
        tensor.external_data.add(key="length", value=str(nbytes(kind, tensor.dims)))


def external_files(proto: Any) -> set[str]:
    """The names that a model has for the files of its weights."""
    helper = package().external_data_helper
    outside = (tensor for tensor in _tensors(proto) if helper.uses_external_data(tensor))
    return {entry.value for tensor in outside for entry in tensor.external_data if entry.key == "location"}


def folder_of(external_data_dir: str | os.PathLike[str] | None, beside: str) -> str:
    """The folder of a model's external weights: the caller's, else the model's own."""
    return beside if external_data_dir is None else os.fsdecode(path_bytes(external_data_dir, "external_data_dir"))


def serialize(proto: Any, subject: str) -> bytes:
    """A model's bytes; `ModelError` where protobuf cannot serialize it, for example above 2 GB."""
    return model_source.serialize(proto, subject, "save it with external_data=True")


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def depth(message: Any) -> int:
    """How deep the messages in a message are nested; 0 for a message without others."""
    return max(level for _, level in _messages(message))


def graphs_in(graph: Any) -> Iterator[Any]:
    """A graph and its subgraphs at any depth; a function has nodes too."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from graphs_in(inner)


def _tensors(proto: Any) -> Iterator[Any]:
    """All tensors in a model: initializers, parts of sparse ones, and attributes, also those of functions."""
    return (each for each, _ in _messages(proto) if each.DESCRIPTOR.full_name == "onnx.TensorProto")


def defined(graph: Any) -> Iterator[tuple[str, str]]:
    """The names of all values of a graph, without its subgraphs, each with a description of its definition."""
    yield from ((info.name, "input") for info in graph.input)
    inputs = {info.name for info in graph.input}
    tensors = [*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
    # An initializer that is an input too is the input's default.
    yield from ((tensor.name, "initializer") for tensor in tensors if tensor.name not in inputs)
    for node in graph.node:
        yield from ((name, f"output of {called(node)}") for name in node.output if name)


def definitions(graph: Any) -> dict[str, str]:
    """The result of `defined` as a dict; `ModelError` for a name that is defined twice."""
    by_name: dict[str, str] = {}
    for name, definition in defined(graph):
        if name in by_name:
            raise ModelError(f"{name!r} is defined twice: as {by_name[name]} and as {definition}")
        by_name[name] = definition
    return by_name


def all_names(graph: Any) -> Iterator[str]:
    """The names of the values and nodes of a graph and its subgraphs."""
    for each in graphs_in(graph):
        yield from (name for name, _ in defined(each))
        yield from (node.name for node in each.node)


def called(node: Any) -> str:
    """A node's name for messages."""
    return f"node {node.name!r} ({node.op_type})" if node.name else f"a node ({node.op_type})"


def reads(node: Any) -> Iterator[str]:
    """The values that a node reads, including those that its subgraphs take from the enclosing graphs."""
    for name in node.input:
        if name:
            yield name
    for inner in subgraphs(node):
        own = {name for name, _ in defined(inner)}
        for below in inner.node:
            yield from (name for name in reads(below) if name not in own)
        yield from (info.name for info in inner.output if info.name not in own)


def in_order(graph: Any, around: Iterable[str] = ()) -> list[int]:
    """The topological order of a graph's nodes that is closest to their present order.

    Raises `ModelError` for a name that is defined twice, a value that nothing produces, and a cycle.
    """
    known = definitions(graph)
    outer = set(around)
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for index, node in enumerate(graph.node):
        sorter.add(index)
        for name in reads(node):
            if name in maker:
                sorter.add(index, maker[name])
            elif name not in known and name not in outer:
                raise ModelError(f"{called(node)} reads {name!r}, which nothing produces")
        for inner in subgraphs(node):
            in_order(inner, outer | known.keys())
    for info in graph.output:
        if info.name not in known and info.name not in outer:
            raise ModelError(f"output {info.name!r}: nothing produces it")
    try:
        sorter.prepare()
    except CycleError as error:
        stuck = [called(graph.node[index]) for index in sorted(set(error.args[1]))]
        raise ModelError(f"there is a cycle among {', '.join(stuck[:20])}") from None
    ready: list[int] = []
    order = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return order


def circle_of_functions(proto: Any) -> list[str]:
    """Functions of a model that call each other in a circle; [] without such."""
    calls: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
    for each in proto.functions:
        # A damaged model may define a function twice.
        called = calls.setdefault((each.domain, each.name, each.overload), set())
        called |= {(node.domain, node.op_type, node.overload) for graph in graphs_in(each) for node in graph.node}
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        return [f"{name}:{overload}" if overload else name for _, name, overload in error.args[1]]
    return []


def light(model: Any) -> Any:
    """The model without its large weights, which become inputs: ONNX's checks and inference need only their types.

    Raises `ModelError` for functions that call themselves, over which these would end the process.
    """
    onnx = package()
    circle = circle_of_functions(model)
    if circle:
        raise ModelError(f"function {circle[0]!r} calls itself: {', '.join(circle)}")
    copy = onnx.ModelProto()
    _copy(model, copy, "graph")
    _copy(model.graph, copy.graph, "initializer")
    inputs = {info.name for info in model.graph.input}
    for tensor in model.graph.initializer:
        if is_light(tensor):
            copy.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return copy


def _copy(source: Any, target: Any, left_out: str) -> None:
    """Copies a message into an empty one of its kind, all but one field."""
    for field, content in source.ListFields():
        if field.name == left_out:
            continue
        if isinstance(content, (str, bytes, int, float)):
            setattr(target, field.name, content)
        elif hasattr(content, "extend"):
            getattr(target, field.name).extend(content)
        else:
            getattr(target, field.name).CopyFrom(content)


def is_light(tensor: Any) -> bool:
    """Whether an initializer is small and its content is in the model."""
    outside = tensor.data_location == type(tensor).EXTERNAL
    # Not ByteSize(), for which protobuf serializes the content. Strings may be long; they are rare here.
    return not outside and math.prod(tensor.dims) <= LARGEST_LIGHT


def check(model: Any, subject: str) -> None:
    """Checks a model that `finished` returned against ONNX's rules; `ModelError` names the violation."""
    onnx = package()
    if not model.graph.output:
        raise ModelError(f"{subject} has no outputs")
    try:
        inferable = not any(map(_is_fragile, _nodes(model))) or not _hidden(_followed(model))
        onnx.checker.check_model(light(model), full_check=inferable)
        for tensor in model.graph.initializer:
            if not is_light(tensor) and tensor.data_location != type(tensor).EXTERNAL:
                onnx.checker.check_tensor(tensor)
    # The checker, shape inference and protobuf raise classes of their own.
    except Exception as error:
        raise ModelError(f"{subject}: {error}") from error


def with_types(model: Any) -> Any:
    """The model as `light` returns it, with the types that ONNX's shape inference finds.

    Inference of some operators would end the process, and passes over these.
    """
    followed = _followed(model)
    for node in _hidden(followed):
        node.op_type = node.op_type.removesuffix(_HIDING)
    if followed.functions or not model.functions:
        return followed
    typed = light(model)
    types = {info.name: info for info in (*followed.graph.value_info, *followed.graph.output)}
    for output in typed.graph.output:
        output.CopyFrom(types[output.name])
    known = {info.name for info in (*typed.graph.value_info, *typed.graph.output)}
    made = [name for node in typed.graph.node for name in node.output]
    typed.graph.value_info.extend(types[name] for name in made if name in types and name not in known)
    return typed


def _followed(model: Any) -> Any:
    """The model as `light` returns it, with types; a node over which inference passes has another name.

    Functions with such nodes are in their callers' places, whose inputs may have types.
    """
    onnx = package()
    model = light(model)
    if any(_is_fragile(node) for function in model.functions for graph in graphs_in(function) for node in graph.node):
        model = onnx.inliner.inline_local_functions(model)
    for node in _nodes(model):
        if _is_fragile(node):
            node.op_type += _HIDING
    while True:
        model = onnx.shape_inference.infer_shapes(model)
        safe = list(_safe(model.graph, frozenset())) if _hidden(model) else []
        for node in safe:
            node.op_type = node.op_type.removesuffix(_HIDING)
        if not safe:
            return model


def _is_fragile(node: Any) -> bool:
    return node.op_type in _FRAGILE and node.domain in _DOMAINS


def _nodes(model: Any) -> Iterator[Any]:
    """All nodes of a model, also those of functions and subgraphs."""
    for top in (model.graph, *model.functions):
        for graph in graphs_in(top):
            yield from graph.node


def _hidden(model: Any) -> list[Any]:
    """The nodes over which inference passes, as it would end the process."""
    return [node for node in _nodes(model) if node.op_type in _HIDDEN]


def _safe(graph: Any, outer: frozenset[str]) -> Iterator[Any]:
    """The hidden nodes of a graph and its subgraphs that inference can follow by now; `outer` has types around it."""
    infos = (*graph.input, *graph.value_info, *graph.output)
    typed = outer | {info.name for info in infos if info.type.WhichOneof("value")}
    typed |= {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type in _HIDDEN and node.output and typed.intersection(node.input[:1]):
            yield node
        for inner in subgraphs(node):
            yield from _safe(inner, typed)


def inferred(model: Any) -> dict[str, Any]:
    """The types that shape inference finds for a model's outputs."""
    try:
        result = with_types(model)
    # Shape inference and protobuf raise classes of their own.
    except Exception as error:
        raise ModelError(f"the types of the outputs cannot be inferred: {error}") from error
    return {info.name: info.type for info in result.graph.output if info.type.WhichOneof("value")}


def finished(model: Any) -> Any:
    """A copy of a model with its nodes in topological order and the types of its outputs filled in.

    Raises `ModelError` as `in_order` does, and where an output's type cannot be inferred.
    """
    copy = deepcopy(model)
    order = in_order(copy.graph)
    if order != sorted(order):
        del copy.graph.node[:]
        copy.graph.node.extend(model.graph.node[index] for index in order)
    untyped = [info for info in copy.graph.output if not info.type.WhichOneof("value")]
    if untyped:
        types = inferred(copy)
        for info in untyped:
            if info.name not in types:
                raise ModelError(f"output {info.name!r}: its type cannot be inferred: pass it")
            info.type.CopyFrom(types[info.name])
    return copy
