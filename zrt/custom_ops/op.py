"""`CustomOp`: an operator of the user's own, and the domain that takes it into sessions."""

from __future__ import annotations

import _thread
import atexit
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar

from zrt._common.arguments import boolean, choose, integer, shown, text, wrong_type
from zrt._common.public import public
from zrt._native import callback, callback_errors, ffi, lib, status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.custom_ops.call_scoped import Borrowed
from zrt.custom_ops.context import KernelContext
from zrt.custom_ops.declare import Attribute, CFunction, Input, Output, Port
from zrt.custom_ops.info import KernelInfo, end_standards
from zrt.custom_ops.shapes import ShapeContext
from zrt.errors import AllocationError, ArgumentError, ClosedError, DTypeError
from zrt.providers import full_name
from zrt.types import MemType, creation_code

NEWEST = 2**31 - 1


@public
class CustomOp:
    """An operator of your own: a subclass says what it is and computes it.

    What it is stands in the class attributes below. An instance goes into a `CustomOpDomain`; every node of a model
    that calls it has a kernel, made when the model is loaded.

    ONNX Runtime calls one kernel in several threads when a session runs in several: `compute` must bear that, or
    `serialize` be True.
    """

    name: ClassVar[str] = ""
    """The operator's name in models; without one, the class's."""
    inputs: ClassVar[Sequence[Any]] = ()
    """An `Input` for each, or just its element type."""
    outputs: ClassVar[Sequence[Any]] = ()
    """An `Output` for each, or just its element type."""
    attributes: ClassVar[Mapping[str, Any]] = {}
    """An `Attribute` for each name, or just its kind."""
    since_version: ClassVar[int] = 1
    """The first version of the domain's opset in which it is as it is."""
    end_version: ClassVar[int] = NEWEST
    """The last such version. ONNX Runtime 1.27 keeps it and lets models of later ones pass."""
    provider: ClassVar[str] = "CPU"
    """The execution provider that runs it, by its short or full name."""
    inplace: ClassVar[Mapping[int, int]] = {}
    """Inputs whose memory an output of the same type may take over: {input: output}. `compute` may then find both at
    one place."""
    aliases: ClassVar[Mapping[int, int]] = {}
    """Inputs that an output of the same type is, in another shape at most: {input: output}. Where ONNX Runtime can, it
    is their very memory; `compute` asks for the output, and has nothing to copy."""
    serialize: ClassVar[bool] = False
    """Whether only one thread at a time may be in `compute`, in all kernels and sessions of its domain."""
    function: ClassVar[CFunction | None] = None
    """`compute` in C, in place of the method."""

    def create(self, info: KernelInfo) -> Any:
        """Called for each node while a model is loaded; what it returns is that kernel's `KernelContext.state`."""
        return None

    def compute(self, context: KernelContext) -> None:
        """Computes the outputs from the inputs; an exception ends the run, which then raises `CallbackError`.

        It travels as a status of ONNX Runtime's, ``OrtApi::CreateStatus``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    def infer_shapes(self, context: ShapeContext) -> None:
        """Says the outputs' shapes and types while a model is loaded; without it they are known at runs alone."""
        raise NotImplementedError


class _Description:
    """An operator as C has it; `handle` owns that and everything that it points to."""

    def __init__(self, op: CustomOp) -> None:
        kind = type(op)
        self.op = op
        name = op.name or kind.__name__
        subject = f"operator {name!r}"
        encoded = text(name, f"{kind.__name__}.name")
        self.name = name
        self.attributes = _attributes(op.attributes, subject)
        inputs = _ports(op.inputs, Input, f"{subject}, input")
        outputs = _ports(op.outputs, Output, f"{subject}, output")
        if not outputs:
            raise ArgumentError(f"{subject} has no outputs")
        first = integer(op.since_version, f"{subject}.since_version", 1)
        last = integer(op.end_version, f"{subject}.end_version", first)
        provider = full_name(op.provider)
        self.on_device = provider != "CPUExecutionProvider"
        self.infers = kind.infer_shapes is not CustomOp.infer_shapes
        _check_types(inputs, outputs, self.infers, subject)
        inplace = _pairs(op.inplace, inputs, outputs, self.infers, f"{subject}.inplace")
        aliases = _pairs(op.aliases, inputs, outputs, self.infers, f"{subject}.aliases")
        # The input that each such output is.
        self.aliased = {target: source for source, target in aliases.items()}
        self.lock = threading.RLock() if boolean(op.serialize, f"{subject}.serialize") else None
        self.function = op.function
        # How many outputs every node of it has.
        self.certain = max((i + _least(port) for i, port in enumerate(outputs)), default=0)
        # Where kernels live that were made outside of a load.
        self.kernels: set[object] = set()
        held = ffi.new_handle(weakref.ref(self))
        pointer = lib.zrt_op_new()
        if not pointer:
            raise AllocationError(f"no memory for {subject}")
        kept: list[Any] = [held]
        self.handle = Handle.own(pointer, lib.zrt_op_free, [Handle.pin(kept)])

        def keep(thing: Any) -> Any:
            kept.append(thing)
            return thing

        pointer.api = api()
        pointer.name = keep(ffi.new("char[]", encoded))
        pointer.provider = keep(ffi.new("char[]", provider.encode()))
        pointer.first_version, pointer.last_version = first, last
        pointer.input_count, pointer.output_count = len(inputs), len(outputs)
        pointer.inputs = keep(ffi.new("zrt_port[]", [_port(each, subject) for each in inputs]))
        pointer.outputs = keep(ffi.new("zrt_port[]", [_port(each, subject) for each in outputs]))
        for arity, ports in ((pointer.input_arity, inputs), (pointer.output_arity, outputs)):
            last_port = ports[-1] if ports else Port()
            arity.least, arity.homogeneous = last_port.least, last_port.homogeneous
        for pairs, checked in ((pointer.inplace, inplace), (pointer.aliases, aliases)):
            pairs.count = len(checked)
            pairs.inputs = keep(ffi.new("int[]", list(checked)))
            pairs.outputs = keep(ffi.new("int[]", list(checked.values())))
        pointer.python = held
        pointer.infers = self.infers
        pointer.serialize = self.lock is not None
        if op.function is not None:
            self._in_c(pointer, op.function, len(inputs), len(outputs), keep, subject)
        elif kind.compute is CustomOp.compute:
            raise ArgumentError(f"{subject} has neither compute nor function")
        lib.zrt_op_complete(pointer)

    def _in_c(self, pointer: Any, function: CFunction, inputs: int, outputs: int, keep: Any, subject: str) -> None:
        if not isinstance(function, CFunction):
            raise wrong_type(f"{subject}.function", "a CFunction", function)
        if self.on_device:
            raise ArgumentError(f"{subject}.function: functions in C compute on the host, not with {self.op.provider}")
        pointer.compute = ffi.cast("zrt_compute", _address(function.compute, f"{subject}.function.compute"))
        pointer.user_data = ffi.cast("void *", _address(function.user_data, f"{subject}.function.user_data", 0))
        if function.shape is not None:
            pointer.shape = ffi.cast("zrt_shape", _address(function.shape, f"{subject}.function.shape"))
            return
        like = [0] * outputs if function.shaped_like is None else function.shaped_like
        if isinstance(like, str) or not isinstance(like, Sequence):
            raise wrong_type(f"{subject}.function.shaped_like", "a list of inputs", like)
        if len(like) != outputs:
            raise ArgumentError(f"{subject}.function.shaped_like: {outputs} outputs, {len(like)} inputs are named")
        for each in like:
            if integer(each, f"{subject}.function.shaped_like") >= inputs:
                raise ArgumentError(f"{subject}.function.shaped_like: there is no input {each}")
        pointer.shaped_like = keep(ffi.new("size_t[]", list(like)))


def _attributes(given: Any, subject: str) -> dict[str, Attribute]:
    if not isinstance(given, Mapping):
        raise wrong_type(f"{subject}.attributes", "a dict", given)
    found = {}
    for name, each in given.items():
        text(name, f"{subject}, attribute")
        found[name] = each if isinstance(each, Attribute) else Attribute(each)
        found[name].check(f"{subject}, attribute {name!r}")
    return found


def _ports(given: Any, kind: type[Port], subject: str) -> list[Port]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise wrong_type(f"{subject}s", "a list", given)
    ports = []
    for number, each in enumerate(given):
        if isinstance(each, Port) and not isinstance(each, kind):
            raise wrong_type(f"{subject} {number}", kind.__name__, each)
        port = each if isinstance(each, Port) else kind(dtype=each)
        port.check(f"{subject} {number}")
        port.element_type(f"{subject} {number}")
        if port.variadic and number != len(given) - 1:
            raise ArgumentError(f"{subject} {number}: only the last one may be variadic")
        ports.append(port)
    return ports


def _check_types(inputs: list[Port], outputs: list[Port], infers: bool, subject: str) -> None:
    """ORT gives an output of any type that of the one such input, or what the shapes' inference says."""
    open_inputs = sum(port.dtype is None for port in inputs)
    if any(port.dtype is None for port in outputs) and open_inputs != 1 and not infers:
        raise ArgumentError(
            f"{subject}: an output of any type takes the type of the one input of any type, of which there are "
            f"{open_inputs}: say the type, or write infer_shapes"
        )


def _least(port: Port) -> int:
    if port.variadic:
        return port.least
    # (of an optional one, the required ones after it say that it is there)
    return 0 if port.optional else 1


def _port(port: Port, subject: str) -> tuple[int, int, int]:
    element_type = port.element_type(subject)
    characteristic = 2 if port.variadic else int(port.optional)
    memory = choose(MemType, port.memory, subject) if isinstance(port, Input) else MemType.DEFAULT
    # ORT reads the declared type by the numbers that models have.
    return creation_code(element_type) if element_type else 0, characteristic, int(memory)


def _pairs(given: Any, inputs: list[Port], outputs: list[Port], infers: bool, subject: str) -> dict[int, int]:
    """ORT compares how many elements such a pair has, not how large they are."""
    if not isinstance(given, Mapping):
        raise wrong_type(subject, "a dict of inputs to outputs", given)
    for source, target in given.items():
        for number, ports, what in ((source, inputs, "input"), (target, outputs, "output")):
            if integer(number, subject) >= len(ports):
                raise ArgumentError(f"{subject}: there is no {what} {number}")
        types = inputs[source].element_type(subject), outputs[target].element_type(subject)
        if types[0] is not types[1] or (not types[0] and infers):
            raise ArgumentError(f"{subject}: input {source} and output {target} must be of one declared type")
    if len(set(given.values())) < len(given):
        raise ArgumentError(f"{subject}: an output has the memory of one input, not of several")
    return dict(given)


def _address(given: Any, subject: str, least: int = 1) -> int:
    """An address as an int, from an int, a pointer of cffi's or ctypes', or what has one (Numba's cfunc)."""
    if isinstance(given, ffi.CData):
        given = int(ffi.cast("uintptr_t", given))
    elif not isinstance(given, int) and isinstance(getattr(given, "address", None), int):
        given = given.address
    elif not isinstance(given, int):
        # ctypes' classes are in use where an object is of one.
        import ctypes
        from _ctypes import CFuncPtr, _Pointer

        if not isinstance(given, (CFuncPtr, _Pointer, ctypes.c_void_p)):
            raise wrong_type(subject, "an address", given)
        given = ctypes.cast(given, ctypes.c_void_p).value or 0
    return integer(given, subject, least, 2**64 - 1)


@public
class CustomOpDomain(Owner):
    """Operators of your own under a domain's name, to be given to `SessionOptions.custom_ops`.

    It may serve any number of sessions, which keep it alive.
    """

    __slots__ = ("name", "ops")

    name: str
    """The domain, as the models' nodes and opset imports name it."""
    ops: tuple[CustomOp, ...]
    """The operators."""

    def __init__(self, name: str, ops: Iterable[CustomOp]) -> None:
        self._handle = None
        if isinstance(ops, (str, bytes)) or not isinstance(ops, Iterable):
            raise wrong_type("ops", "a list of CustomOps", ops)
        self.name = name
        self.ops = tuple(ops)
        for op in self.ops:
            if not isinstance(op, CustomOp):
                hint = " (the class, not an instance of it)" if isinstance(op, type) else ""
                raise DTypeError(f"ops: expected CustomOps, got {shown(op)}{hint}")
        described = [_Description(op) for op in self.ops]
        names = [each.name for each in described]
        twice = {each for each in names if names.count(each) > 1}
        if twice:
            raise ArgumentError(f"domain {name!r} has operator {', '.join(map(repr, sorted(twice)))} twice")
        table = api()
        handles = [each.handle for each in described]
        handle = Handle.make(
            table.ReleaseCustomOpDomain,
            handles,
            table.CreateCustomOpDomain,
            "OrtCustomOpDomain",
            text(name, "name"),
            kept=tuple(described),
        )
        for each in handles:
            status.check(table.CustomOpDomain_Add(handle.pointer, ffi.cast("OrtCustomOp *", each.pointer)))
        self._handle = handle

    def __repr__(self) -> str:
        state = "closed" if self.closed else ", ".join(op.name or type(op).__name__ for op in self.ops)
        return f"CustomOpDomain({self.name!r}: {state})"


class Kernel:
    """A node's kernel in Python. What may run it keeps it alive (`Handle.kept`), not C: its state may hold that."""

    __slots__ = ("__weakref__", "api", "description", "home", "info", "needed", "on_device", "state")

    def __init__(self, description: _Description, info: KernelInfo) -> None:
        self.api = api()
        self.description = description
        self.on_device = description.on_device
        self.info = info
        self.state: Any = None
        # The outputs that the model takes.
        self.needed = frozenset(index for index, name in enumerate(info.output_names) if name)
        load = callback_errors.load()
        self.home = description.kernels if load is None else load.kept


class _Link:
    """What C holds of a kernel."""

    __slots__ = ("kernel", "standards")

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = weakref.ref(kernel)
        self.standards = kernel.info._standards


def _gone(name: str) -> ClosedError:
    return ClosedError(f"{name} has been collected with its session")


def _fail(place: Any, error: BaseException) -> int:
    place[0] = api().CreateStatus(1, callback_errors.keep(error))
    return 1


def _stray(kind: type[BaseException], error: BaseException, trace: TracebackType) -> int:
    """An interrupt between the steps of a function below."""
    names = trace.tb_frame.f_locals
    for lent in ("info", "context"):
        if isinstance(names.get(lent), Borrowed):
            names[lent]._abandon()
    return _fail(names["place"], error) if not names["place"][0] else 1


@callback(_stray)
def zrt_python_create(op: Any, pointer: Any, kernel: Any, place: Any) -> int:
    info = None
    try:
        description = ffi.from_handle(op)()
        if description is None:
            raise _gone("the operator")
        info = KernelInfo(pointer, description.attributes)
        made = Kernel(description, info)
        made.state = description.op.create(info)
        info._finish()
        held = ffi.new_handle(_Link(made))
        kept = Handle.pin(held)
        made.home.add(made)
        kernel.python = held
        kernel.kept = lib.zrt_handle_ref(kept.reference)
        return 0
    except BaseException as error:
        code = _fail(place, error)
        if info is not None:
            info._abandon()
        return code


@callback(_stray)
def zrt_python_compute(kernel: Any, pointer: Any, tensors: Any, inputs: int, outputs: int, place: Any) -> int:
    context = None
    try:
        made = ffi.from_handle(kernel).kernel()
        if made is None:
            raise _gone("the kernel")
        context = KernelContext(made, pointer, tensors, inputs, outputs)
        description = made.description
        lock = description.lock
        if lock is None:
            description.op.compute(context)
        else:
            with lock:
                description.op.compute(context)
        context._finish()
        return 0
    except BaseException as error:
        code = _fail(place, error)
        if context is not None:
            context._abandon()
        return code


def _stray_end(kind: type[BaseException], error: BaseException, trace: TracebackType) -> int:
    # Nothing can be raised here: the interrupt comes again in the main thread.
    if isinstance(error, KeyboardInterrupt):
        _thread.interrupt_main()
    end_standards(ffi.from_handle(trace.tb_frame.f_locals["kernel"]).standards)
    return 1


@callback(_stray_end)
def zrt_python_destroy(kernel: Any) -> int:
    link = ffi.from_handle(kernel)
    end_standards(link.standards)
    made = link.kernel()
    if made is not None:
        made.home.discard(made)
    return 0


def _stray_infer(kind: type[BaseException], error: BaseException, trace: TracebackType) -> int:
    context = trace.tb_frame.f_locals.get("context")
    if context is not None:
        context._pointer = None
    callback_errors.collect("infer_shapes", error)
    return 1


@callback(_stray_infer)
def zrt_python_infer(op: Any, pointer: Any) -> int:
    description = ffi.from_handle(op)()
    if description is None:
        return 1
    context = ShapeContext(pointer, description.name, description.attributes, description.certain)
    try:
        description.op.infer_shapes(context)
    except BaseException as error:
        callback_errors.collect(f"operator {description.name!r}, infer_shapes", error)
    context._pointer = None
    return 0


# Threads that outlive the interpreter must not come back into it.
atexit.register(lib.zrt_ops_end)
