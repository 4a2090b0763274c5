"""`KernelContext`, the argument of `compute`: inputs, outputs and ONNX Runtime's services for kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from zrt._common.arguments import integer, require_type, wrong_type
from zrt._common.public import public_in
from zrt._native import ffi, lib, ort_messages, status
from zrt._native.callback_errors import Carrier, callback
from zrt._native.cdata import address_of, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.custom_ops.call_scoped import CallScoped
from zrt.custom_ops.info import KernelInfo, OpLogger, allocator_of
from zrt.errors import ArgumentError, Error, OutOfRangeError, ShapeError, UnsupportedError
from zrt.memory.allocators import CPU, Allocator, MemoryInfo
from zrt.types import ElementType, as_shape
from zrt.values import strings
from zrt.values.value import Value

new = ffi.new
unpack = ffi.unpack
make_output = lib.zrt_op_output

STRING = int(ElementType.STRING)


@dataclass(slots=True, weakref_slot=True, eq=False)
class Kernel:
    """A node's kernel in Python.

    C holds it weakly: its state may refer back to the session, a cycle that only the GC sees. The strong reference is
    in `home`, a set that the session owns.
    """

    info: KernelInfo
    compute: Callable[[Any], None]
    lock: threading.RLock | None
    aliased: Mapping[int, int]
    on_device: bool
    home: set[object]
    state: Any = None
    api: Any = field(default_factory=api)
    needed: frozenset[int] = field(init=False)
    """The outputs that the model uses: `compute` must make each of them."""

    def __post_init__(self) -> None:
        self.needed = frozenset(index for index, name in enumerate(self.info.output_names) if name)


@public_in("zrt.custom_ops")
class DeviceTensor(NamedTuple):
    """A tensor on a device, for a library that computes there; valid during the call."""

    address: int
    shape: tuple[int, ...]
    element_type: ElementType
    memory: MemoryInfo


@public_in("zrt.custom_ops")
class KernelContext(CallScoped):
    """One call of a kernel (``OrtKernelContext``).

    It is valid only during the call, in the call's own thread and in those of `parallel_for`. Its arrays are valid
    during the call in every thread.
    """

    __slots__ = ("_input_count", "_inputs", "_kernel", "_lock", "_output_count", "_outputs", "_tensors", "_texts")

    _call = "compute"

    def __init__(self, kernel: Kernel, pointer: Any, tensors: Any, input_count: int, output_count: int) -> None:
        self._begin(pointer)
        self._kernel = kernel
        self._tensors = tensors
        self._input_count = input_count
        self._output_count = output_count
        self._inputs: tuple[Any, ...] | None = None
        self._lock = threading.RLock()
        # The indices of the outputs made so far, and for string outputs their value and array of `str`.
        self._outputs: list[int] = []
        self._texts: dict[int, tuple[Any, np.ndarray[Any, Any]]] | None = None

    @property
    def state(self) -> Any:
        """The object that the operator's `create` returned for this kernel."""
        return self._kernel.state

    @property
    def info(self) -> KernelInfo:
        """The kernel's node: names, types, attributes."""
        return self._kernel.info

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The node's attributes by name."""
        return self._kernel.info.attributes

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs as read-only numpy views, zero-copy; None for an absent input.

        A packed type gives a uint8 array of its packed bytes, strings an array of `str` (a copy), a tensor in device
        memory a `DeviceTensor`.
        """
        self._opened()
        inputs = self._inputs
        if inputs is None:
            tensors = [self._tensors[index] for index in range(self._input_count)]
            views = [
                self._view("input", index, tensor, False) if tensor.element_type else None
                for index, tensor in enumerate(tensors)
            ]
            absent = len(self._kernel.info.input_names) - self._input_count
            inputs = self._inputs = (*views, *[None] * absent) if absent else tuple(views)
        return inputs

    @property
    def output_count(self) -> int:
        """How many outputs the node has, without the last ones if it leaves them out."""
        return self._output_count

    def output(self, index: int, shape: Any) -> Any:
        """An output of that shape: a writeable numpy view of ORT's memory, whose content is undefined.

        Returns None for an optional output that the model does not use, an array of None for strings (replace each
        element by a `str`), and a `DeviceTensor` on a device. An output that shares an input's memory
        (`CustomOp.aliases`) already has that input's content and is read-only.
        """
        pointer = self._opened()
        if type(index) is not int or not 0 <= index < self._output_count:
            # An enum's member is an int of another type.
            index = int(integer(index, "output"))
            if index < self._output_count:
                return self.output(index, shape)
            if index < len(self.info.output_names):
                # The last outputs that the node leaves out, which ORT does not count.
                return None
            raise OutOfRangeError(f"the node has no output {index}: there are {len(self.info.output_names)}")
        dims = shape if _is_plain(shape) else as_shape(shape, f"output {index}")
        tensor = new("zrt_op_tensor *")
        # ORT's function is not thread-safe, and two turns of `parallel_for` may ask for the same output.
        with self._lock:
            code = make_output(self._kernel.api, pointer, index, dims, len(dims), tensor)
            if code:
                raise self._refused(status.to_error(code), index, dims)
            self._outputs.append(index)
            if not tensor.element_type:
                return None
            aliased = self._kernel.aliased
            if index in aliased:
                return self._aliased(index, tensor, aliased[index])
            return self._view("output", index, tensor, True)

    def _refused(self, error: Error, index: int, dims: tuple[int, ...]) -> Error:
        name = self.info.output_names[index]
        if ort_messages.WRONG_OUTPUT_SHAPE.matches(error) or ort_messages.REUSED_BUFFER.matches(error):
            # Keep ORT's words: from them the run recognizes that it must let ORT allocate this output.
            return ShapeError(f"output {name!r} of shape {list(dims)}: {error}")
        return status.about(f"output {name!r} of shape {list(dims)}", error)

    def _aliased(self, index: int, tensor: Any, position: int) -> Any:
        source = self._tensors[position] if position < self._input_count else None
        if source is None or not source.element_type:
            name = self.info.output_names[index]
            raise ArgumentError(f"output {name!r} aliases input {position}, which the node does not have")
        if tensor.count != source.count:
            # In memory that both share, ORT accepts an output of fewer elements.
            raise ShapeError(f"output {index} has {tensor.count} elements, and the input that it is {source.count}")
        if tensor.data != source.data:
            # ORT gives a model output its own memory: copy the input there.
            view = self._view("output", index, tensor, True)
            if isinstance(view, DeviceTensor):
                name = self.info.output_names[index]
                raise UnsupportedError(
                    f"output {name!r} aliases input {position}, and ONNX Runtime gives it other memory on a device, "
                    "where zrt cannot copy: compute it without `aliases`"
                )
            view[...] = self.inputs[position].reshape(view.shape)
            view.setflags(write=False)
            return view
        if tensor.element_type == STRING:
            # The strings are there already: none is written after the call.
            return self.inputs[position].reshape(unpack(tensor.shape, tensor.rank) if tensor.rank else ())
        return self._view("output", index, tensor, False)

    def _view(self, role: str, index: int, tensor: Any, writeable: bool) -> Any:
        code = tensor.element_type
        rank = tensor.rank
        shape = tuple(unpack(tensor.shape, rank)) if rank else ()
        if self._kernel.on_device:
            memory = MemoryInfo._read(
                status.fetch(api().GetTensorMemoryInfo, "const OrtMemoryInfo *", self._value(role, index, shape))
            )
            if not memory.is_host:
                return DeviceTensor(address_of(tensor.data), shape, ElementType(code), memory)
        if code == STRING:
            return self._strings(role, index, shape)
        return self._lend(role, index, tensor.data, tensor.count, shape, code, writeable)

    def _value(self, role: str, index: int, shape: tuple[int, ...]) -> Any:
        table = api()
        if role == "input":
            value = status.fetch(table.KernelContext_GetInput, "const OrtValue *", self._pointer, index)
            return pointer_to(value, "OrtValue")
        # The output exists already: asking again with the same shape returns the same value.
        return status.fetch(table.KernelContext_GetOutput, "OrtValue *", self._pointer, index, shape, len(shape))

    def _strings(self, role: str, index: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        value = self._value(role, index, shape)
        if role == "input":
            array = strings.read(Handle.borrow(value), shape)
            array.setflags(write=False)
            return array
        texts = self._texts = self._texts or {}
        if index not in texts:
            with status.named(self._named(role, index)):
                texts[index] = value, strings.blank(shape)
        return texts[index][1]

    def scratch(self, shape: Any, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """An array in host memory from the provider's allocator; its content is undefined.

        The memory is freed with the last view of it.
        """
        element_type = ElementType.of(dtype)
        if not element_type.bits or element_type.packed:
            raise UnsupportedError(f"scratch: no memory for {element_type.name}")
        return Value.allocate(shape, element_type, self.allocator(), "scratch").numpy()

    def allocator(self, memory: MemoryInfo = CPU) -> Allocator:
        """The provider's allocator for that memory; it stays valid after the call."""
        require_type(memory, MemoryInfo, "memory", "a MemoryInfo")
        pointer = self._opened()
        where = memory.handle()
        return allocator_of(api().KernelContext_GetAllocator, pointer, where.pointer, memory.name)

    def parallel_for(self, function: Callable[[int], object], count: int, batches: int = 0) -> None:
        """Calls ``function(i)`` for each i below `count` in the session's threads, in any order, and waits for all.

        `batches` is the number of parts that the work is split into; with 0 ORT chooses. After an exception no further
        call starts; the first exception is raised when the running calls have ended.
        """
        pointer = self._opened()
        if not callable(function):
            raise wrong_type("function", "a callable", function)
        job = _Job(function, self._threads)
        python = job.handle()
        turns, parts = integer(count, "count", 0, 2**63 - 1), integer(batches, "batches", 0, 2**31 - 1)
        # ORT takes seconds to pass over the empty parts of two billion.
        code = lib.zrt_parallel_for(api(), pointer, turns, min(turns, parts), python)
        if job.raised is not None:
            raise job.raised
        status.check(code)

    @property
    def logger(self) -> OpLogger:
        """ONNX Runtime's logger for this run."""
        pointer = status.fetch(api().KernelContext_GetLogger, "const OrtLogger *", self._opened())
        return OpLogger(pointer, self, self.info.op_type)

    @property
    def stream(self) -> int:
        """The address of the device's compute stream; 0 on the CPU."""
        return address_of(status.fetch(api().KernelContext_GetGPUComputeStream, "void *", self._opened()))

    def resource(self, version: int, number: int) -> int:
        """The address of a provider's resource (a cuBLAS handle, say).

        The numbers are those of ORT's ``core/providers/*_resource.h``; `UnsupportedError` where there is no stream.
        """
        pointer = self._opened()
        ints = integer(version, "version"), integer(number, "number")
        with status.named(f"resource {number}", UnsupportedError):
            return address_of(status.fetch(api().KernelContext_GetResource, "void *", pointer, *ints))

    def _finish(self) -> None:
        """Ends a successful call: checks that every output was made, and revokes the arrays."""
        missing = self._kernel.needed.difference(self._outputs)
        if missing:
            names = [self.info.output_names[index] for index in sorted(missing)]
            raise ArgumentError(f"compute made no output {', '.join(map(repr, names))}: see KernelContext.output")
        if self._texts is not None:
            for index, (value, array) in self._texts.items():
                name = f"output {self.info.output_names[index]!r}"
                strings.write(value, strings.array_of(array, name), name)
            self._texts = None
        self._inputs = None
        kept = self._end()
        if kept is not None:
            raise kept

    def _abandon(self, error: BaseException) -> None:
        self._inputs = None
        super()._abandon(error)

    def _named(self, role: str, index: int) -> str:
        names = self.info.input_names if role == "input" else self.info.output_names
        return f"{role} {names[index]!r}"


def _is_plain(shape: Any) -> bool:
    """Whether a shape is a tuple of plain ints, the common case, which needs no conversion."""
    if type(shape) is not tuple:
        return False
    for size in shape:  # noqa: SIM110 (all() over a generator takes three times as long)
        if type(size) is not int or not 0 <= size < 1 << 63:
            return False
    return True


class _Job(Carrier):
    """The calls of one `parallel_for`, and the threads that may use its context."""

    __slots__ = ("function", "threads")

    def __init__(self, function: Callable[[int], object], threads: set[int]) -> None:
        super().__init__()
        self.function = function
        self.threads = threads

    def turn(self, index: int) -> None:
        if self.raised is not None:
            return
        thread = threading.get_ident()
        guest = thread not in self.threads
        try:
            if guest:
                self.threads.add(thread)
            self.function(index)
        except BaseException as error:
            self.keep(error)
        finally:
            if guest:
                self.threads.discard(thread)


@callback()
def zrt_python_turn(python: Any, index: int) -> int:
    job = ffi.from_handle(python)
    job.turn(index)
    return int(job.raised is not None)
