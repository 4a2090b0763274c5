"""An operator's declaration, checked and in the form that C reads."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from zrt._common.arguments import boolean, choose, integer, require_type, text, wrong_type
from zrt._native import ffi, lib, status
from zrt._native.cdata import address_of, new_array, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.custom_ops.declare import Attribute, CFunction, Input, Output, Port
from zrt.custom_ops.op import CustomOp
from zrt.errors import AllocationError, ArgumentError
from zrt.providers import full_name
from zrt.types import MemType, creation_code

# The classes of all functions, of all typed pointers, and of pointers without a type.
CTYPES: Any = (ctypes.CFUNCTYPE(None).__base__, ctypes.POINTER(ctypes.c_int).__base__, ctypes.c_void_p)

# The operators with a lock.
_serialized: weakref.WeakSet[Description] = weakref.WeakSet()


class Description:
    """An operator in its form for C; `handle` owns the C struct and everything that it points to."""

    def __init__(self, op: CustomOp) -> None:
        kind = type(op)
        self.op = op
        name = op.name or kind.__name__
        subject = f"operator {name!r}"
        encoded = text(name, f"{kind.__name__}.name")
        self.name = name
        self.attributes: dict[str, Attribute] = _attributes(op.attributes, subject)
        inputs = _ports(op.inputs, Input, f"{subject}, input")
        outputs = _ports(op.outputs, Output, f"{subject}, output")
        if not outputs:
            raise ArgumentError(f"{subject} has no outputs")
        first = integer(op.since_version, f"{subject}.since_version", 1)
        last = integer(op.end_version, f"{subject}.end_version", first)
        with status.named(subject):
            provider = full_name(op.provider)
        self.on_device: bool = provider != "CPUExecutionProvider"
        self.infers: bool = kind.infer_shapes is not CustomOp.infer_shapes
        _check_types(inputs, outputs, self.infers, subject)
        inplace = _pairs(op.inplace, inputs, outputs, self.infers, f"{subject}.inplace")
        aliases = _pairs(op.aliases, inputs, outputs, self.infers, f"{subject}.aliases")
        # For each output that shares an input's memory: that input.
        self.aliased: dict[int, int] = {target: source for source, target in aliases.items()}
        self.lock: threading.RLock | None = threading.RLock() if boolean(op.serialize, f"{subject}.serialize") else None
        self.function: CFunction | None = op.function
        # The number of outputs that every node of the operator has.
        self.certain: int = max((i + _least(port) for i, port in enumerate(outputs)), default=0)
        # The number of inputs and of outputs without a variadic one; a node may leave out the last of them.
        self.single: tuple[int, int] = (
            sum(not port.variadic for port in inputs),
            sum(not port.variadic for port in outputs),
        )
        # The owner of kernels that were made outside of a load.
        self.kernels: set[object] = set()
        python = ffi.new_handle(weakref.ref(self))
        owned: list[Any] = [python]
        self.handle: Handle = Handle.block("zrt_op", [Handle.pin(owned)], lib.zrt_op_free)
        pointer = self.handle.pointer

        def keep(data: Any) -> Any:
            owned.append(data)
            return data

        pointer.api = api()
        pointer.name = keep(new_array("char", encoded))
        pointer.provider = keep(new_array("char", provider.encode()))
        pointer.first_version, pointer.last_version = first, last
        pointer.input_count, pointer.output_count = len(inputs), len(outputs)
        pointer.inputs = keep(new_array("zrt_port", [_port(each, subject) for each in inputs]))
        pointer.outputs = keep(new_array("zrt_port", [_port(each, subject) for each in outputs]))
        for arity, ports in ((pointer.input_arity, inputs), (pointer.output_arity, outputs)):
            last_port = ports[-1] if ports else Port()
            arity.least, arity.homogeneous = last_port.least, last_port.homogeneous
        for pairs, checked in ((pointer.inplace, inplace), (pointer.aliases, aliases)):
            pairs.count = len(checked)
            pairs.inputs = keep(new_array("int", list(checked)))
            pairs.outputs = keep(new_array("int", list(checked.values())))
        pointer.python = python
        pointer.infers = self.infers
        pointer.serialize = self.lock is not None
        if op.function is not None:
            self._in_c(pointer, op.function, len(inputs), len(outputs), keep, subject)
        elif kind.compute is CustomOp.compute:
            raise ArgumentError(f"{subject} has neither compute nor function")
        if lib.zrt_op_complete(pointer):
            raise AllocationError(f"no memory for {subject}")
        if self.lock is not None:
            _serialized.add(self)

    def _in_c(self, pointer: Any, function: CFunction, inputs: int, outputs: int, keep: Any, subject: str) -> None:
        require_type(function, CFunction, f"{subject}.function", "a CFunction")
        if self.on_device:
            raise ArgumentError(f"{subject}.function: functions in C compute on the host, not with {self.op.provider}")
        if self.aliased:
            raise ArgumentError(f"{subject}.aliases: not with a function in C, for which zrt copies nothing")
        pointer.compute = ffi.cast("zrt_compute", _address(function.compute, f"{subject}.function.compute"))
        pointer.user_data = pointer_to(_address(function.user_data, f"{subject}.function.user_data", 0))
        if function.shape is not None:
            pointer.shape = ffi.cast("zrt_shape", _address(function.shape, f"{subject}.function.shape"))
            return
        given = [0] * outputs if function.shaped_like is None else function.shaped_like
        require_type(given, Sequence, f"{subject}.function.shaped_like", "a list of inputs")
        # Read once: C gets what is checked here.
        like = list(given)
        if len(like) != outputs:
            raise ArgumentError(f"{subject}.function.shaped_like: {outputs} outputs, {len(like)} inputs are named")
        for each in like:
            if integer(each, f"{subject}.function.shaped_like") >= inputs:
                raise ArgumentError(f"{subject}.function.shaped_like: there is no input {each}")
        pointer.shaped_like = keep(new_array("size_t", like))


def _attributes(declared: Any, subject: str) -> dict[str, Attribute]:
    require_type(declared, Mapping, f"{subject}.attributes", "a dict")
    attributes = {}
    for name, each in declared.items():
        text(name, f"{subject}, attribute")
        attributes[name] = each if isinstance(each, Attribute) else Attribute(each)
        attributes[name].check(f"{subject}, attribute {name!r}")
    return attributes


def _ports(declared: Any, kind: type[Port], subject: str) -> list[Port]:
    require_type(declared, Sequence, f"{subject}s", "a list")
    ports = []
    for number, each in enumerate(declared):
        if isinstance(each, Port) and not isinstance(each, kind):
            raise wrong_type(f"{subject} {number}", kind.__name__, each)
        port = each if isinstance(each, Port) else kind(dtype=each)
        port.check(f"{subject} {number}")
        port.element_type(f"{subject} {number}")
        if port.variadic and number != len(declared) - 1:
            raise ArgumentError(f"{subject} {number}: only the last one may be variadic")
        ports.append(port)
    return ports


def _check_types(inputs: list[Port], outputs: list[Port], infers: bool, subject: str) -> None:
    """An output without a type needs exactly one input without a type, whose type ORT gives it, or shape inference."""
    open_inputs = sum(port.dtype is None for port in inputs)
    if any(port.dtype is None for port in outputs) and open_inputs != 1 and not infers:
        raise ArgumentError(
            f"{subject}: an output of any type takes the type of the only input of any type, but there are "
            f"{open_inputs} of them: declare the type, or write infer_shapes"
        )


def _least(port: Port) -> int:
    if port.variadic:
        return port.least
    # An optional port does not count by itself; a required port after it makes the position certain.
    return 0 if port.optional else 1


def _port(port: Port, subject: str) -> tuple[int, int, int]:
    element_type = port.element_type(subject)
    characteristic = 2 if port.variadic else int(port.optional)
    memory = choose(MemType, port.memory, subject) if isinstance(port, Input) else MemType.DEFAULT
    # ORT reads ONNX's numbers here, as in a model.
    return creation_code(element_type) if element_type else 0, characteristic, int(memory)


def _pairs(given: Any, inputs: list[Port], outputs: list[Port], infers: bool, subject: str) -> dict[int, int]:
    """Checks pairs that share memory: ORT compares only their element counts, not the sizes of their elements."""
    require_type(given, Mapping, subject, "a dict of inputs to outputs")
    # Read once: C gets what is checked here.
    pairs = dict(given.items())
    for source, target in pairs.items():
        for number, ports, what in ((source, inputs, "input"), (target, outputs, "output")):
            if integer(number, subject) >= len(ports):
                raise ArgumentError(f"{subject}: there is no {what} {number}")
        types = inputs[source].element_type(subject), outputs[target].element_type(subject)
        if types[0] is not types[1] or (not types[0] and infers):
            raise ArgumentError(f"{subject}: input {source} and output {target} must be of one declared type")
    if len(set(pairs.values())) < len(pairs):
        raise ArgumentError(f"{subject}: an output shares the memory of one input, not of several")
    return pairs


def _address(address: Any, subject: str, least: int = 1) -> int:
    """An address as an int: of an int, a pointer of cffi or ctypes, or an object with `address` (Numba's cfunc)."""
    if isinstance(address, ffi.CData):
        address = address_of(address)
    elif not isinstance(address, int) and isinstance(getattr(address, "address", None), int):
        address = address.address
    elif not isinstance(address, int):
        require_type(address, CTYPES, subject, "an address")
        address = ctypes.cast(address, ctypes.c_void_p).value or 0
    return integer(address, subject, least, 2**64 - 1)


def _forked() -> None:
    # A thread of the parent may hold the locks for ever: the sessions of the child get others.
    for description in _serialized:
        description.lock = threading.RLock()
        lib.zrt_op_complete(description.handle.pointer)


os.register_at_fork(after_in_child=_forked)
