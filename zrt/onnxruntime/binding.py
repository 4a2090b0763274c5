"""`IOBinding`: inputs and outputs bound by name, and runs over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from zrt._native.builtin import bind_array
from zrt.errors import ArgumentError, Error, ShapeError, UnsupportedError
from zrt.memory.allocators import CPU, MemoryInfo, require_memory
from zrt.onnxruntime import conversions, errors, feeds
from zrt.onnxruntime.devices import OrtDevice
from zrt.onnxruntime.sessions import Session
from zrt.onnxruntime.values import OrtValue, OrtValueVector, element_type, on_host, over_address
from zrt.onnxruntime.wrapper import NotPickled, itself
from zrt.session.io_binding import ARRAYS, IoBinding, Place
from zrt.session.session import Session as ZrtSession
from zrt.types import ElementType, ValueKind
from zrt.values.value import Value

_NO_VENDOR = 0

ndarray = np.ndarray

# The types of numpy by the forms that programs give, as ONNX Runtime's number and the bits of an element.
_TYPES: dict[Any, tuple[int, int]] = {
    form: kind for dtype, kind in ARRAYS.items() for form in (dtype, dtype.type, dtype.name)
}

# For each session, by the numbers of a device: the memory for outputs on it, and the place of addresses on it, or None
# if the session does not use the device. Neither changes: the library of a provider in use cannot be unregistered.
_places: WeakKeyDictionary[ZrtSession, dict[tuple[int, ...], tuple[MemoryInfo, Place | None]]] = WeakKeyDictionary()


def _failed(is_output: bool, name: Any, reason: object) -> RuntimeError:
    return RuntimeError(f"Error when binding {'output' if is_output else 'input'} {name!r}: {reason}")


class IOBinding(NotPickled):
    """Inputs and outputs of a session, bound by name for `InferenceSession.run_with_iobinding`.

    The memory of an output stays the same from run to run until the output is bound again, or an input comes in another
    shape. An output whose shape depends on the data has new memory in each run.
    """

    def __init__(self, session: Session) -> None:
        self._open(session._sess._session)

    def _open(self, session: ZrtSession) -> None:
        """An empty binding of a session."""
        self._session = session
        self._binding = IoBinding(session)
        self._bound = self._binding._opened()
        self._direct = self._bound.ports.direct_inputs
        self._settled = self._bound.ports.settled
        self._host = self._bound.ports.host
        self._places = _places.setdefault(session, {})
        # The arguments that bound each name, where that was no array.
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, tuple[Any, ...]] = {}
        # The shapes of the inputs, whether one has changed since the last run, and the outputs bound since then.
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._stale = False
        self._fresh: set[str] = set()
        # The names of outputs that the model does not have.
        self._unknown: set[str] = set()

    _iobinding = property(itself)
    # A copy binds for the original too.
    __copy__ = itself

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray[Any, Any]) -> None:
        """Binds an input to the memory of an array, which the binding keeps alive; a strided array is copied."""
        # Another thread may move the binding to another session.
        bound = self._bound
        try:
            if (
                type(arr_on_cpu) is not ndarray
                or name not in self._direct
                or bind_array(bound.address, bound.inputs, name, arr_on_cpu, False)
            ):
                self._bind_converted(name, arr_on_cpu)
            else:
                if self._shapes.get(name) != arr_on_cpu.shape:
                    self._shaped(name, arr_on_cpu.shape)
                if self._inputs:
                    self._inputs.pop(name, None)
        except (Error, TypeError) as error:
            # A name that is no text may have no hash.
            conversions.string(name, "name")
            raise _failed(False, name, error) from error

    def _shaped(self, name: str, shape: tuple[int, ...]) -> None:
        """Notices that an input may come in another shape than before."""
        self._shapes[name] = shape
        self._stale = True

    def _bind_converted(self, name: str, array: Any) -> None:
        """Binds an array that cannot be bound as it is, or raises the error."""
        text = conversions.string(name, "name")
        info = next((info for info in self._session.inputs if info.name == text), None)
        if info is None:
            raise _failed(False, name, "the model has no such input")
        if info.kind is not ValueKind.TENSOR or info.element_type is ElementType.STRING:
            raise _failed(False, name, "only tensors of numbers are bound to an array")
        if not isinstance(array, np.ndarray):
            raise _failed(False, name, f"expected an array, got {type(array).__name__}")
        if array.dtype.kind in "biufc":
            feeds.tensor_type(array.dtype)
        plain = np.ascontiguousarray(array).reshape(array.shape)
        if self._bound.bind_array(False, text, plain):
            self._shaped(text, plain.shape)
        else:
            self._bind_value(text, feeds.value(None, text, plain))
        self._inputs[text] = (array,)

    def bind_input(
        self,
        name: str,
        device_type: str | OrtDevice,
        device_id: int,
        element_type: np.typing.DTypeLike | int,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Binds an input to memory at an address, which the caller keeps alive while it is bound.

        `element_type` is a type of numpy or a number of `onnx.TensorProto`.
        """
        memory = device_type, device_id, element_type, shape, buffer_ptr
        if not self._bind_memory(False, name, *memory):
            self.bind_ortvalue_input(name, self._at_address(*memory))
        self._inputs[name] = memory

    def _bind_memory(
        self, is_output: bool, name: Any, device_type: Any, device_id: Any, kind: Any, shape: Any, address: Any
    ) -> bool:
        """Binds memory with a type of numpy; returns False for unusual arguments, which need a check."""
        try:
            if type(device_id) is not int or not address > 0:
                return False
            place = self._host if device_type == "cpu" else self._place(device_type, device_id)[1]
            if place is None or not self._bound.bind_address(is_output, name, place, address, shape, _TYPES[kind]):
                return False
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return False
        except Error as error:
            raise _failed(is_output, name, error) from error
        if not is_output:
            sizes = tuple(shape)
            # Memory on a device may be an output of this binding: the next run must not write over it.
            if place is not self._host or self._shapes.get(name) != sizes:
                self._shaped(name, sizes)
        return True

    def _at_address(self, device_type: Any, device_id: int, kind: Any, shape: Any, address: int) -> OrtValue:
        device = OrtDevice._from(device_type, device_id, _NO_VENDOR)
        sizes = conversions.integers(shape, "shape")
        place = conversions.integer(address, "buffer_ptr", conversions.UINT64)
        if not device._is_cpu and len(self._session.providers) == 1:
            raise RuntimeError(f"the session copies nothing from a device of type {device.device_type()}")
        return over_address(place, sizes, element_type(kind), device)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to an `OrtValue`, which the binding keeps alive."""
        # As in `bind_cpu_input`.
        array, bound = ortvalue._as_array(), self._bound
        try:
            if array is None or name not in self._direct or bind_array(bound.address, bound.inputs, name, array, False):
                text = conversions.string(name, "name")
                if text not in self._bound.ports.inputs:
                    raise _failed(False, name, "the model has no such input")
                self._bind_value(text, ortvalue._to_zrt())
            elif self._shapes.get(name) != array.shape:
                self._shaped(name, array.shape)
        except (Error, TypeError) as error:
            conversions.string(name, "name")
            raise _failed(False, name, error) from error
        self._inputs[name] = (ortvalue,)

    def _bind_value(self, name: str, value: Value) -> None:
        self._binding._bind_value(name, value)
        # The shapes in a sequence are not known here. A value on a device may be an output of this binding: the next
        # run must not write over it.
        if not value.is_tensor or not value.memory.is_host or self._shapes.get(name) != value.shape:
            self._shaped(name, value.shape)

    def bind_output(
        self,
        name: str,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        element_type: np.typing.DTypeLike | int | None = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output to a device, on which runs make it; or to memory at an address.

        Memory needs `element_type` and `shape`, and the caller keeps it alive while it is bound.
        """
        memory = device_type, device_id, element_type, shape, buffer_ptr
        if buffer_ptr is None:
            if not (device_type == "cpu" and type(device_id) is int and self._leave_on_host(name)):
                self._bind_output(conversions.string(name, "name"), self._place(device_type, device_id)[0])
        elif element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        elif not self._bind_memory(True, name, *memory):
            value = self._at_address(device_type, device_id, element_type, shape, buffer_ptr)
            text = conversions.string(name, "name")
            if text not in self._bound.ports.outputs:
                raise _failed(True, name, "the model has no such output")
            self._bind_output(text, value._to_zrt())
        self._outputs[name] = memory

    def _leave_on_host(self, name: Any) -> bool:
        """Leaves an output to ONNX Runtime on the host; returns False for one that needs a check."""
        try:
            left = self._bound.leave_on_host(name, name in self._settled)
        except TypeError:  # the name has no hash
            return False
        except Error as error:
            raise _failed(True, name, error) from error
        if left:
            self._fresh.add(name)
        return left

    def _place(self, device_type: Any, device_id: int) -> tuple[MemoryInfo, Place | None]:
        """The memory of a device, or the host's if the session does not run there; and the place of addresses on it."""
        device = OrtDevice._from(device_type, device_id, _NO_VENDOR)
        if device._numbers not in self._places:
            self._places[device._numbers] = self._place_on(device)
        return self._places[device._numbers]

    def _place_on(self, device: OrtDevice) -> tuple[MemoryInfo, Place | None]:
        memory, ports = device._memory(), self._bound.ports
        if memory is None:
            return CPU, None
        try:
            require_memory(self._session._open(), memory, "output")
        except Error:
            return CPU, None
        return memory, ports.place(memory)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to an `OrtValue`, into whose memory runs write."""
        array, text = ortvalue._as_array(), conversions.string(name, "name")
        try:
            given = array is not None and self._bound.bind_array(True, text, array)
        except Error as error:
            raise _failed(True, name, error) from error
        if given:
            self._fresh.add(text)
        else:
            self._bind_output(text, ortvalue._to_zrt())
        self._outputs[name] = (ortvalue,)

    def _bind_output(self, name: str, place: Value | MemoryInfo) -> None:
        if name not in self._bound.ports.outputs:
            self._unknown.add(name)
            return
        try:
            if isinstance(place, MemoryInfo):
                self._bound.leave(name, place, lasting=name in self._settled)
            elif not place.writeable:
                raise _failed(True, name, "the OrtValue is over a read-only array")
            elif name in self._bound.ports.inputs:
                raise _failed(True, name, "it is an input too, and nothing is written")
            elif not place.is_tensor:
                # ONNX Runtime would put tensors into it that share the memory of inputs.
                raise _failed(True, name, "the OrtValue is no tensor")
            else:
                self._binding._bind_value(name, place, output=True)
        except Error as error:
            raise _failed(True, name, error) from error
        self._fresh.add(name)

    def _run(self, options: Any, session: Session) -> None:
        """One inference over all that is bound; the outputs that are not bound are not computed.

        A binding that another session runs is that session's from then on; `set_providers` makes another one.
        """
        if session._session is not self._session:
            self._move(session._session)
        if self._stale:
            self._renew()
        if self._unknown:
            raise RuntimeError(f"Error in execution: the model has no output {min(self._unknown)!r}")
        try:
            # Without an argument the run is a builtin.
            self._binding.run() if options is None else self._binding.run(options)
        except Error as error:
            self._run_again(error, options)
        if self._fresh:
            self._fresh.clear()

    def _renew(self) -> None:
        """Gives the outputs of an earlier run to ONNX Runtime, which makes them anew."""
        for name in self._bound.lasting() - self._fresh:
            self._bound.leave(name, self._bound.outputs[name][-1], lasting=name in self._settled)
        self._stale = False

    def _run_again(self, error: Error, options: Any) -> None:
        """Runs once more where the model declares outputs wrongly; raises the error of any other failure."""
        lasting = self._bound.lasting()
        if not isinstance(error, (ShapeError, UnsupportedError)) or not lasting:
            raise self._execution(error) from error
        # Each run makes these outputs anew.
        self._settled = self._settled.difference(lasting)
        self._fresh.clear()
        self._renew()
        try:
            self._binding.run(options)
        except Error as again:
            raise self._execution(again) from again

    def _execution(self, error: Error) -> RuntimeError:
        """The error of a run that failed."""
        if isinstance(error, ArgumentError):
            missing = sorted(self._bound.ports.required - self._bound.inputs.keys())
            if not self._outputs:
                return RuntimeError("Error in execution: no output is bound")
            if missing:
                return RuntimeError(f"Error in execution: no input is bound for {', '.join(missing)}")
        return RuntimeError(f"Error in execution: {error}")

    def _move(self, session: ZrtSession) -> None:
        """Binds the same to another session; where that fails, all stays as it was."""
        bound = self._bound.inputs.items()
        arrays = {name: (keepers[-1],) for name, keepers in bound if isinstance(keepers[-1], ndarray)}
        moved = IOBinding.__new__(IOBinding)
        moved._open(session)
        for name, (place, *memory) in (self._inputs | arrays).items():
            if isinstance(place, OrtValue):
                moved.bind_ortvalue_input(name, place)
            elif memory:
                moved.bind_input(name, place, *memory)
            else:
                moved.bind_cpu_input(name, place)
        for name, (place, *memory) in self._outputs.items():
            if isinstance(place, OrtValue):
                moved.bind_ortvalue_output(name, place)
            else:
                moved.bind_output(name, place, *memory)
        vars(self).update(vars(moved))

    def clear_binding_inputs(self) -> None:
        """Unbinds every input."""
        with errors.as_runtime_error():
            self._binding.clear_inputs()
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbinds every output."""
        with errors.as_runtime_error():
            self._binding.clear_outputs()
        self._outputs.clear()
        self._unknown.clear()

    def synchronize_inputs(self) -> None:
        """Waits until the bound inputs are on their devices."""
        with errors.as_runtime_error():
            self._binding.synchronize_inputs()

    def synchronize_outputs(self) -> None:
        """Waits until the devices have written the outputs."""
        with errors.as_runtime_error():
            self._binding.synchronize_outputs()

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order of binding, on the devices that made them.

        One that no run has made has no value.
        """
        with errors.as_runtime_error():
            views = self._binding._views()
        return [_value_of(views.get(name)) for name in self._outputs]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """`get_outputs` as an `OrtValueVector` of the extension module."""
        return OrtValueVector._of(IOBinding.get_outputs(self))

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as `InferenceSession.run` returns them, in the order of binding, copied."""
        try:
            copies = self._binding._copies()
            return [_result(copies[name]) for name in self._outputs]
        except KeyError as error:
            raise RuntimeError(f"output {error} has no value: no run has made it") from None
        except Error as error:
            raise RuntimeError(str(error)) from error


def _value_of(output: Any) -> OrtValue:
    if type(output) is not ndarray:
        return OrtValue._of(output)
    # An array of a type that numpy lacks counts as a value: numpy() is to raise for it.
    return OrtValue._of(None, output) if output.dtype.kind in "biuf" else OrtValue._of(Value.from_array(output))


def _result(output: Any) -> Any:
    """The object that `InferenceSession.run` returns for an array, which owns its memory, or a value."""
    if type(output) is ndarray:
        if output.dtype.kind in "biuf":
            return output
        output = Value.from_array(output)
    if output is not None and output.is_tensor:
        output = on_host(output)
    result = feeds.official(output)
    return result.copy() if isinstance(result, ndarray) else result
