"""`Graph`: a model built in memory, operator by operator."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from zrt._common.arguments import boolean, entries, integer, require_type, shown, text, wrong_type
from zrt._common.public import guarded, public
from zrt.errors import (
    ArgumentError,
    DTypeError,
    ModelError,
    NotCopyableError,
    OutOfRangeError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.graph import attributes, files, model_proto, schemas, sessions, tensors, types
from zrt.graph.engine import Engine
from zrt.graph.names import Names, checked
from zrt.graph.types import GraphType
from zrt.loading.model_source import Model
from zrt.loading.session_options import SessionOptions
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session
from zrt.values.model_metadata import NO_VERSION, ModelMetadata, with_opsets
from zrt.values.value import Value

# The default opset of ONNX's own operators.
OPSET = 21

# The oldest IR version with all element types of that opset; every supported ONNX Runtime reads it.
IR_VERSION = 10


@public
@dataclass(frozen=True, slots=True)
class GraphValue:
    """A value of a graph: an input, an initializer, or an operator's output. The methods of `Graph` return it."""

    graph: Graph
    """The graph that it belongs to."""
    name: str
    """Its name there."""

    @property
    def type(self) -> GraphType | None:
        """Its declared type; None where only shape inference can find it."""
        return self.graph._types.get(self.name)

    def __repr__(self) -> str:
        kind = self.type
        return f"GraphValue({self.name}{'' if kind is None else f': {kind}'})"


@public
@guarded
class Graph:
    """A model under construction.

    Start with ``g = zrt.Graph(opset=21)``, then call `input`, `initializer`, `op` and `output` in the order of the
    computation. Each returns a `GraphValue` for the next `op`. `session` makes a session of the model, `save` writes
    it, `to_onnx` returns an ``onnx.ModelProto`` and `from_onnx` takes one.

    `opset` is the version of ONNX's own operators, or a dict of versions by domain. `name` is the graph's name.
    Mistakes raise an error as early as possible, which names the operator, attribute or value. A graph is not
    thread-safe. Needs the ``onnx`` package.
    """

    # No slots, so that `GraphEdit` can also derive from `Owner`.
    _model: Any
    _graph: Any
    _parent: Graph | None
    _sealed: bool
    _names: Names
    _types: dict[str, GraphType]
    _borrowed: dict[str, Value]

    def __init__(self, opset: int | Mapping[str, int] = OPSET, *, name: str = "graph") -> None:
        onnx = model_proto.package()
        opsets = opset if isinstance(opset, Mapping) else {"": opset}
        if "" not in opsets and "ai.onnx" not in opsets:
            raise ArgumentError(f"opset: {shown(opset)} has no version for ONNX's own domain, ''")
        model = onnx.ModelProto(ir_version=IR_VERSION)
        model.graph.name = checked(name, "name")
        self._begin(model, model.graph, None)
        for domain, version in opsets.items():
            self.import_opset(domain, version)

    def _begin(self, model: Any, graph: Any, parent: Graph | None) -> None:
        """Initializes the graph from a proto, which may already have content."""
        self._model = model
        self._graph = graph
        self._parent = parent
        self._sealed = False
        self._names = Names(graph, None if parent is None else parent._names)
        self._types = types.declared(graph)
        self._borrowed = {}

    @classmethod
    def from_onnx(cls, model: Model | bytes, *, external_data_dir: str | os.PathLike[str] | None = None) -> Graph:
        """A copy of an existing model: a path, bytes, or an ``onnx.ModelProto``.

        It keeps everything in the model: functions, metadata, sparse initializers. External weights are read from the
        model's folder, or from `external_data_dir`. Raises `ModelNotFoundError` or `ModelError`.
        """
        proto, subject, beside = model_proto.parse(model)
        model_proto.load_weights(proto, subject, model_proto.folder_of(external_data_dir, beside))
        graph = Graph.__new__(Graph)
        graph._begin(proto, proto.graph, None)
        return graph

    # Contents.

    @property
    def name(self) -> str:
        """The graph's name."""
        return str(self._graph.name)

    @property
    def inputs(self) -> tuple[GraphValue, ...]:
        """The inputs, including the initializers that a feed may override."""
        return tuple(GraphValue(self, info.name) for info in self._graph.input)

    @property
    def outputs(self) -> tuple[GraphValue, ...]:
        """The outputs."""
        return tuple(self._handle_of(info.name) for info in self._graph.output)

    @property
    def opsets(self) -> dict[str, int]:
        """The opset versions by domain; "" is ONNX's own."""
        return {_domain(entry.domain): int(entry.version) for entry in self._model.opset_import}

    @property
    def metadata(self) -> ModelMetadata:
        """The model's metadata, as set by `describe`."""
        model = self._model
        return with_opsets(
            partial(dict, self.opsets),
            model.producer_name,
            model.graph.name,
            model.domain,
            model.doc_string,
            model.graph.doc_string,
            model.model_version if model.HasField("model_version") else NO_VERSION,
            {entry.key: entry.value for entry in model.metadata_props},
        )

    def value(self, name: str) -> GraphValue:
        """The value of that name in this graph or an enclosing one; `UnknownNameError` where there is none."""
        require_type(name, str, "name", "a str")
        handle = self._handle_of(name)
        if name not in handle.graph._names:
            raise UnknownNameError(f"graph {self.name!r} has no value {name!r}")
        return handle

    def import_opset(self, domain: str, version: int) -> None:
        """Declares the opset version of another domain, such as ("com.microsoft", 1)."""
        self._change()
        domain = _domain(text(domain, "domain").decode())
        version = integer(version, f"opset of domain {domain!r}", 1)
        known = self.opsets
        if known.get(domain, version) != version:
            raise ArgumentError(f"domain {domain!r} has opset {known[domain]} already, and cannot have {version} too")
        if domain not in known:
            self._model.opset_import.add(domain=domain, version=version)
            least = model_proto.package().helper.find_min_ir_version_for(self._model.opset_import, ignore_unknown=True)
            self._model.ir_version = max(self._model.ir_version, least)

    def describe(
        self,
        *,
        producer_name: str | None = None,
        domain: str | None = None,
        description: str | None = None,
        graph_description: str | None = None,
        version: int | None = None,
        custom_metadata_map: Mapping[str, str] | None = None,
    ) -> None:
        """Sets the model's metadata, which `Session.metadata` reads; an argument that is None changes nothing."""
        self._root_only("describe")
        self._change()
        model = self._model
        fields = [
            (message, field, text(value, subject).decode())
            for subject, message, field, value in (
                ("producer_name", model, "producer_name", producer_name),
                ("domain", model, "domain", domain),
                ("description", model, "doc_string", description),
                ("graph_description", model.graph, "doc_string", graph_description),
            )
            if value is not None
        ]
        number = None if version is None else integer(version, "version", 0, NO_VERSION)
        pairs = None if custom_metadata_map is None else dict(entries(custom_metadata_map, "custom_metadata_map"))
        # Nothing below raises: all changes are made or none.
        for message, field, value in fields:
            setattr(message, field, value)
        if number is not None:
            model.model_version = number
        if pairs is not None:
            del model.metadata_props[:]
            for key, entry in pairs.items():
                model.metadata_props.add(key=key, value=entry)

    # Building.

    def input(self, name: str, type: Any = None, shape: Sequence[int | str | None] | None = None) -> GraphValue:
        """A new input.

        `type` is an element type, in any form that `ElementType.of` takes. `shape` holds sizes, names of
        symbolic sizes, and None for unnamed ones; a `shape` of None leaves the rank open. For inputs other than tensors
        `type` is one of `zrt.graph`'s types. Only inputs of a subgraph may omit the type: it follows from the node.
        The number of the iteration in a Loop's body needs its shape, ``()``: ONNX Runtime does not infer that one.
        """
        self._change()
        subject = f"input {shown(name)}"
        kind = types.as_type(type, shape, subject)
        if kind is None and self._parent is None:
            raise DTypeError(f"{subject}: a type is missing")
        self._names.check_free(name, subject)
        self._names.add(name, "input")
        self._info(self._graph.input, name, kind)
        return GraphValue(self, name)

    def initializer(self, name: str | None, array: Any, *, borrow: bool = False) -> GraphValue:
        """A constant: a numpy array or scalar, a `Value`, or an ``onnx.TensorProto``.

        The content is copied, unless `borrow` is set: then the graph and its sessions use the memory of the array or
        host `Value` itself, which must have at least 128 bytes and must not change from then on. `to_onnx` and `save`
        copy it. A `name` of None generates one.

        Raises `DTypeError` for a type that ONNX does not have, `ArgumentError` for memory that cannot be borrowed.
        """
        self._change()
        if name is None:
            name = self._names.fresh("constant")
        subject = f"initializer {shown(name)}"
        self._names.check_free(name, subject)
        if boolean(borrow, "borrow"):
            if self._parent is not None:
                raise UnsupportedError(f"{subject}: a subgraph cannot borrow; the graph around it can")
            lent = tensors.borrowed(array, subject)
            # An initializer without content stands for the borrowed memory.
            tensor = tensors.outside(name, lent.element_type.onnx_code, lent.shape, "borrowed", 0, lent.nbytes)
        else:
            tensor = tensors.copied(array, name, subject)
        element_type = types.to_element_type(types.of_code(tensor.data_type, subject), subject)
        kind = types.TensorType(element_type, types.dimensions(tuple(tensor.dims), subject))
        # Nothing below raises.
        self._names.add(name, "initializer")
        if borrow:
            self._borrowed[name] = lent
        self._graph.initializer.append(tensor)
        self._types[name] = kind
        return GraphValue(self, name)

    def op(
        self,
        op_type: str,
        /,
        *inputs: GraphValue | None,
        outputs: int | str | Sequence[str] | None = None,
        name: str | None = None,
        domain: str = "",
        attributes: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """Adds a node; returns the `GraphValue` of its output, or a tuple for several outputs.

        `inputs` are values of this graph or an enclosing one, None for an optional input that is left out. `outputs` is
        the number of outputs, or their names: one name returns one value, a list of names a tuple. By default it is the
        least number that the operator has. `name` is the node's name. Further keywords are attributes; `attributes`
        takes those whose names clash with parameters. Attributes are ints, floats, strings, arrays, lists of these,
        types, and graphs made by `subgraph` of this graph. An attribute that is None is left out.

        Where ONNX has a schema for the operator, the node is checked against it: `UnknownNameError` for an unknown
        operator or attribute, `ArgumentError` for a wrong number of inputs or outputs, `DTypeError` for an attribute of
        the wrong kind. A domain without a declared opset raises `ArgumentError`.
        """
        self._change()
        op_type = checked(op_type, "op")
        subject = f"op {op_type!r}"
        domain = _domain(text(domain, f"{subject}: domain").decode())
        schema = schemas.find(op_type, domain, self._opset(domain, subject))
        names = [
            "" if value is None else self._usable(value, f"{subject}: input {index}")
            for index, value in enumerate(inputs)
        ]
        if schema is not None:
            schemas.check_inputs(schema, names)
        require_type(attributes, Mapping | None, f"{subject}: attributes", "a dict")
        values = {checked(key, f"{subject}: attributes"): value for key, value in (attributes or {}).items()}
        for key, value in more.items():
            if checked(key, f"{subject}: attributes") in values:
                raise ArgumentError(f"{subject}: attribute {key!r} is given twice")
            values[key] = value
        filled = self._attributes(schema, values, subject)
        node_name = self._names.fresh(op_type) if name is None else checked(name, f"{subject}: name")
        results, single = self._results(schema, outputs, node_name, subject)
        node = model_proto.package().NodeProto(
            op_type=op_type, domain=domain, name=node_name, input=names, output=results, attribute=filled
        )
        self._names.add_node(node, subject)
        # Nothing below can fail: a node is added as a whole or not at all.
        for graph in _graphs(values.values()):
            graph._sealed = True
        self._graph.node.append(node)
        handles = tuple(GraphValue(self, label) for label in results)
        return handles[0] if single else handles

    def output(
        self, value: GraphValue, type: Any = None, shape: Sequence[int | str | None] | None = None
    ) -> GraphValue:
        """Makes a value an output of the graph; returns the value.

        Without a `type`, shape inference must find it when the model is finished. The output has the value's name,
        which `op` takes as ``outputs="logits"``.
        """
        self._change()
        name = self._usable(value, "output")
        subject = f"output {name!r}"
        if name not in self._names:
            raise ArgumentError(f"{subject}: it belongs to a graph around {self.name!r}: give an Identity of it")
        if any(info.name == name for info in self._graph.output):
            raise ArgumentError(f"{subject}: it is already an output")
        self._info(self._graph.output, name, types.as_type(type, shape, subject) or self._types.get(name))
        return value

    def value_info(self, value: GraphValue, type: Any, shape: Sequence[int | str | None] | None = None) -> GraphValue:
        """Declares the type of an intermediate value, which ONNX cannot infer; returns the value."""
        self._change()
        name = self._usable(value, "value_info")
        subject = f"value {name!r}"
        if name not in self._names:
            raise ArgumentError(f"{subject}: it belongs to a graph around {self.name!r}: declare its type there")
        if name in self._types:
            raise ArgumentError(f"{subject}: its type is already known")
        kind = types.as_type(type, shape, subject)
        if kind is None:
            raise DTypeError(f"{subject}: a type is missing")
        self._info(self._graph.value_info, name, kind)
        return value

    def remove_input(self, value: GraphValue | str) -> None:
        """Removes an input. The nodes that read it stay, so that a new node can produce the value."""
        name = self._remove(self._graph.input, value, "input")
        if all(tensor.name != name for tensor in self._graph.initializer):
            self._names.remove(name)

    def remove_output(self, value: GraphValue | str) -> None:
        """Removes an output; the value stays."""
        self._remove(self._graph.output, value, "output")

    def _remove(self, infos: Any, value: GraphValue | str, role: str) -> str:
        self._change()
        name = value.name if isinstance(value, GraphValue) and value.graph is self else value
        if not isinstance(name, str):
            raise wrong_type(role, "a GraphValue of this graph or a name", value)
        for index, info in enumerate(infos):
            if info.name == name:
                del infos[index]
                self._types = types.declared(self._graph)
                return name
        known = ", ".join(repr(info.name) for info in infos) or "none"
        raise UnknownNameError(f"graph {self.name!r} has no {role} {name!r}; it has {known}")

    def subgraph(self, name: str) -> Graph:
        """A graph for an attribute of `op`: a branch of If, the body of Loop or Scan.

        It can read the values of this graph. Pass it to `op` of this graph; from then on it cannot be changed.
        """
        self._change()
        graph = Graph.__new__(Graph)
        graph._begin(self._model, model_proto.package().GraphProto(name=checked(name, "name")), self)
        return graph

    # Results.

    def to_onnx(self) -> Any:
        """The model as a new ``onnx.ModelProto`` with all weights in it and its nodes in topological order.

        Raises `ModelError` where no node produces a value that a node or output needs, where nodes form a cycle, and
        where an output's type cannot be inferred.
        """
        return files.fill(self._finished(), self._borrowed)

    def to_bytes(self) -> bytes:
        """The model's bytes; `ModelError` where they exceed the 2 GB that protobuf supports."""
        return model_proto.serialize(self.to_onnx(), f"graph {self.name!r}")

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        external_data: bool = False,
        location: str | None = None,
        size_threshold: int = 1024,
    ) -> None:
        """Writes the model to a file, atomically.

        With `external_data` the initializers of at least `size_threshold` bytes go into a file `location` in the same
        folder, by default the model's name followed by ``.data``. Raises `FileError` where the system refuses to
        write, and `ArgumentError` for the name of a device, or of a file that the graph reads.
        """
        files.save(self._finished(), self._borrowed, path, external_data, location, size_threshold, self._read_files())

    def _read_files(self) -> Iterable[str]:
        """The files that the graph still reads, and that `save` must not write."""
        return ()

    def check(self) -> None:
        """Checks the model against ONNX's rules, types and shapes included; `ModelError` names the violation."""
        model = self._finished()
        model_proto.check(model, f"graph {self.name!r}")
        for graph in model_proto.graphs_in(model.graph):
            for tensor in graph.initializer:
                tensors.check_amount(tensor)

    @property
    def engine(self) -> Engine:
        """The engine that `session` uses, and the reasons against ONNX Runtime's model editor."""
        return Engine.of(self._finished())

    def session(
        self,
        options: SessionOptions | None = None,
        providers: ProvidersLike = None,
        *,
        engine: str | None = None,
        strict: bool = False,
        allow: Iterable[str] = (),
    ) -> Session:
        """A session that runs the model in its present state; later changes to the graph do not affect it.

        It is made through ONNX Runtime's model editor, without serializing the model, where the editor supports all of
        the model, else through the model's bytes; the property `engine` says which, and why. The argument `engine`
        forces "editor" or "onnx"; `UnsupportedError` names the parts that the editor does not support. Both ways use
        borrowed initializers in place, and the session keeps their memory alive. The other arguments are `Session`'s.
        """
        model = self._finished()
        if not model.graph.output:
            raise ModelError(f"graph {self.name!r} has no outputs")
        session = sessions.make(model, self._borrowed, engine, options, providers, strict, allow)
        # ONNX Runtime's model editor has no metadata.
        session._metadata = self.metadata
        return session

    def __repr__(self) -> str:
        def listed(infos: Any) -> str:
            return ", ".join(f"{info.name}: {self._types.get(info.name, '?')}" for info in infos)

        graph = self._graph
        return f"{type(self).__name__}({listed(graph.input)} -> {listed(graph.output)}; {len(graph.node)} nodes)"

    # Internals.

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # A copy's graph would no longer be part of the copy's model: protobuf copies each message for itself.
        raise NotCopyableError("a Graph has no copy and no pickle; Graph.from_onnx(graph.to_onnx()) makes another one")

    def _finished(self) -> Any:
        """The model as `model_proto.finished` returns it; borrowed initializers are without their content."""
        self._root_only("a model")
        return model_proto.finished(self._model)

    def _change(self) -> None:
        """Checks that the graph may be changed; every change calls it first."""
        if self._sealed:
            raise ArgumentError(f"graph {self.name!r}: it was passed to a node and cannot be changed any more")

    def _root_only(self, action: str) -> None:
        if self._parent is not None:
            raise ArgumentError(f"graph {self.name!r} is a subgraph: {action} is for the graph around it")

    def _around(self) -> tuple[Graph, ...]:
        """This graph and those around it, the nearest first."""
        return (self,) if self._parent is None else (self, *self._parent._around())

    def _handle_of(self, name: str) -> GraphValue:
        return GraphValue(next((graph for graph in self._around() if name in graph._names), self), name)

    def _usable(self, value: Any, subject: str) -> str:
        """The name of a value, checked to be usable in this graph."""
        if not isinstance(value, GraphValue) or not isinstance(value.graph, Graph):
            raise wrong_type(subject, "a GraphValue (`initializer` makes one of an array)", value)
        if all(graph is not value.graph for graph in self._around()):
            raise ArgumentError(
                f"{subject}: value {value.name!r} belongs to another graph, {value.graph.name!r}, "
                f"not to {self.name!r} or one around it"
            )
        if value.name not in value.graph._names:
            raise ArgumentError(f"{subject}: value {value.name!r} was removed")
        nearest = self._handle_of(value.name).graph
        if nearest is not value.graph:
            raise ArgumentError(
                f"{subject}: graph {nearest.name!r} has a value {value.name!r} of its own, which hides that of graph "
                f"{value.graph.name!r}"
            )
        return value.name

    def _opset(self, domain: str, subject: str) -> int:
        if self._parent is not None:
            # An edit, the graph around all others, knows more domains.
            return self._parent._opset(domain, subject)
        opsets = self.opsets
        if domain not in opsets:
            raise ArgumentError(f"{subject}: domain {domain!r} has no opset: declare it with import_opset")
        return opsets[domain]

    def _attributes(self, schema: Any, values: Mapping[str, Any], subject: str) -> list[Any]:
        protos = []
        for name, value in values.items():
            if value is not None:
                where = f"{subject}: attribute {name!r}"
                kind = schemas.kind_of(schema, name)
                placed = self._placed(value, where)
                self._check_depth(placed, where)
                protos.append(attributes.make(name, placed, kind, where))
        if schema is not None:
            schemas.check_required(schema, {proto.name for proto in protos})
        return protos

    def _check_depth(self, value: Any, subject: str) -> None:
        """Raises an `ArgumentError` for graphs that would lie too deep in the model for protobuf to read it."""
        own = model_proto.package()
        # Each graph around a node adds a graph, a node and an attribute.
        outer = 3 * len(self._around())
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, (own.GraphProto, own.AttributeProto)):
                deepest = outer + isinstance(each, own.GraphProto) + model_proto.depth(each)
                if deepest > model_proto.DEEPEST:
                    raise ArgumentError(
                        f"{subject}: the model would have {deepest} nested messages, and protobuf reads "
                        f"{model_proto.DEEPEST}, which are 32 subgraphs in each other"
                    )

    def _placed(self, value: Any, subject: str) -> Any:
        """The protos of a subgraph or a list of them; other values unchanged."""
        if isinstance(value, (list, tuple)) and any(isinstance(each, Graph) for each in value):
            return [self._placed(each, subject) for each in value]
        if not isinstance(value, Graph):
            return value
        if value._parent is not self:
            raise ArgumentError(f"{subject}: graph {value.name!r} was not made by subgraph() of {self.name!r}")
        if not value._graph.output:
            raise ArgumentError(f"{subject}: graph {value.name!r} has no outputs")
        return value._graph

    def _results(self, schema: Any, outputs: Any, node: str, subject: str) -> tuple[list[str], bool]:
        """The names of a node's outputs, and whether `op` returns one value instead of a tuple."""
        if outputs is None:
            outputs = 1 if schema is None else max(schema.min_output, 1)
        if isinstance(outputs, int) and not isinstance(outputs, bool):
            if not 1 <= outputs <= 1 << 16:
                raise OutOfRangeError(f"{subject}: outputs: {outputs} is not between 1 and {1 << 16}")
            names = [self._names.fresh(f"{node}_out") for _ in range(outputs)]
            single = outputs == 1
        elif isinstance(outputs, str):
            names, single = [checked(outputs, f"{subject}: outputs")], True
        elif isinstance(outputs, (list, tuple)) and outputs:
            names, single = [checked(each, f"{subject}: outputs") for each in outputs], False
        else:
            raise wrong_type(f"{subject}: outputs", "a number, a name or names", outputs)
        if schema is not None:
            schemas.check_outputs(schema, len(names))
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ArgumentError(f"{subject}: output {twice!r} is named twice")
        return names, single

    def _info(self, infos: Any, name: str, kind: GraphType | None) -> None:
        info = infos.add(name=name)
        if kind is not None:
            info.type.CopyFrom(types.to_proto(kind))
            self._types[name] = kind


def _graphs(values: Iterable[Any]) -> Iterator[Graph]:
    """The graphs among values and lists of them."""
    for value in values:
        listed = value if isinstance(value, (list, tuple)) else (value,)
        yield from (each for each in listed if isinstance(each, Graph))


def _domain(domain: str) -> str:
    """A domain's canonical name: "ai.onnx" and "" are the same."""
    return "" if domain == "ai.onnx" else domain
