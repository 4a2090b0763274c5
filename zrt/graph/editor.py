"""ONNX Runtime's model editor: fills it from an ``onnx.ModelProto`` without serializing the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zrt._native import ffi, lib, status
from zrt._native.cdata import from_buffer, new_array, pointer_to, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import InvalidArgumentError, UnsupportedError
from zrt.graph import types
from zrt.graph.model_proto import called, package
from zrt.graph.tensors import raw
from zrt.memory.allocators import cpu_memory, default_allocator
from zrt.types import new_tensor
from zrt.values.type_info import write_shape
from zrt.values.value import Value

Borrowed = Mapping[str, Value]


def editor_api() -> Any:
    """The table of the model editor; `UnsupportedError` where the library was built without it."""
    table = api().GetModelEditorApi()
    if not table:
        raise UnsupportedError("this ONNX Runtime was built without the model editor")
    return table


def type_info(kind: types.GraphType | None) -> Handle:
    """A new ``OrtTypeInfo`` of a dense tensor."""
    # `Engine` refuses values of other types.
    assert isinstance(kind, types.TensorType)
    info = write_shape(int(kind.element_type), kind.shape)
    return Handle.make(api().ReleaseTypeInfo, [], editor_api().CreateTensorTypeInfo, "OrtTypeInfo", info.pointer)


class Assembly:
    """A model of the model editor under construction."""

    def __init__(self) -> None:
        self.handle: Handle = Handle.block("zrt_editor", (), lib.zrt_editor_free)
        editor = self.handle.pointer
        editor.api, editor.editor = api(), editor_api()
        status.check(editor.editor.CreateGraph(ffi.addressof(editor, "graph")))

    def fill(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        initializers: Iterable[Any],
        borrowed: Borrowed,
        nodes: Iterable[Any],
    ) -> list[Handle]:
        """Adds all parts of a graph; returns the owners of borrowed memory, for the session to keep."""
        self.values(inputs, outputs=False)
        self.values(outputs, outputs=True)
        lenders = []
        for tensor in initializers:
            value = borrowed.get(tensor.name)
            self.initializer(tensor, value)
            if value is not None:
                lenders.append(value._open())
        for node in nodes:
            self.node(node)
        return lenders

    def values(self, infos: Sequence[Any], outputs: bool) -> None:
        """Sets the graph's inputs or outputs."""
        handles = [type_info(types.from_proto(info.type, info.name)) for info in infos]
        names = strings(info.name for info in infos)
        pointers = new_array("OrtTypeInfo *", [handle.pointer for handle in handles])
        status.check(lib.zrt_editor_values(self.handle.pointer, outputs, names, pointers, len(infos)))

    def initializer(self, tensor: Any, borrowed: Value | None) -> None:
        """Adds an initializer: a copy of the tensor's content, or the borrowed memory of a value."""
        kind = types.of_code(tensor.data_type, tensor.name)
        table, name, shape = api(), tensor.name.encode(), tuple(tensor.dims)
        with status.named(f"initializer {tensor.name!r}"):
            if borrowed is None:
                value = new_tensor(table.CreateTensorAsOrtValue, (default_allocator(),), shape, kind)
                _fill(value.pointer, raw(tensor))
            else:
                place = cpu_memory().pointer, pointer_to(borrowed.address), borrowed.nbytes
                value = new_tensor(table.CreateTensorWithDataAsOrtValue, place, shape, kind, [borrowed._open()])
            borrows = borrowed is not None
            status.check(lib.zrt_editor_initializer(self.handle.pointer, name, value.reference, borrows))

    def node(self, node: Any) -> None:
        inputs = strings(node.input)
        outputs = strings(node.output)
        filled = [_attribute(attribute) for attribute in node.attribute]
        attributes = new_array("zrt_attribute", [each for each, _ in filled])
        domain = "" if node.domain == "ai.onnx" else node.domain
        with status.named(called(node)):
            status.check(
                lib.zrt_editor_node(
                    self.handle.pointer,
                    node.op_type.encode(),
                    domain.encode(),
                    node.name.encode(),
                    inputs,
                    len(node.input),
                    outputs,
                    len(node.output),
                    attributes,
                    len(filled),
                )
            )

    def model(self, opsets: Mapping[str, int]) -> Any:
        """The finished ``OrtModel``, which this object owns."""
        domains = strings(opsets)
        versions = new_array("int", list(opsets.values()))
        status.check(lib.zrt_editor_model(self.handle.pointer, domains, versions, len(opsets)))
        return self.handle.pointer.model


def _fill(value: Any, content: Any) -> None:
    """Copies the bytes of a tensor into a value."""
    source = from_buffer(content)
    if status.fetch(api().GetTensorSizeInBytes, "size_t", value) != len(source):
        raise InvalidArgumentError(f"it has {len(source)} bytes, and its shape takes another number")
    if source:
        ffi.memmove(status.fetch(api().GetTensorMutableData, "void *", value), source, len(source))


def _attribute(attribute: Any) -> tuple[dict[str, Any], Any]:
    """An attribute for C, and the objects that own its memory."""
    kinds = package().AttributeProto
    name = new_array("char", attribute.name.encode())
    code, ctype, values = {
        kinds.INT: (lib.ORT_OP_ATTR_INT, "int64_t", [attribute.i]),
        kinds.FLOAT: (lib.ORT_OP_ATTR_FLOAT, "float", [attribute.f]),
        kinds.STRING: (lib.ORT_OP_ATTR_STRING, "char", attribute.s),
        kinds.INTS: (lib.ORT_OP_ATTR_INTS, "int64_t", list(attribute.ints)),
        kinds.FLOATS: (lib.ORT_OP_ATTR_FLOATS, "float", list(attribute.floats)),
        kinds.STRINGS: (lib.ORT_OP_ATTR_STRINGS, "strings", attribute.strings),
    }[attribute.type]
    data = strings(values) if ctype == "strings" else new_array(ctype, values)
    return {"name": name, "data": pointer_to(data), "length": len(values), "type": code}, (name, data)
