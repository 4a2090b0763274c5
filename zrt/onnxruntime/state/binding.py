"""`SessionIOBinding`: inputs and outputs bound by name, and runs over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from zrt.errors import ArgumentError, Error, ShapeError, UnsupportedError
from zrt.memory.allocators import CPU, MemoryInfo, require_memory
from zrt.onnxruntime import errors, feeds
from zrt.onnxruntime.state.arguments import ANY, INT32, INT64, TEXT, UINT64, Kind, instance, refused, sequence, take
from zrt.onnxruntime.state.devices import CPU as HOST
from zrt.onnxruntime.state.devices import NotPickled, OrtDevice, memory_of, runtime_error
from zrt.onnxruntime.state.sessions import InferenceSession
from zrt.onnxruntime.state.values import (
    OrtValue,
    element_type_of,
    numpy_type,
    on_host,
    onnx_type,
    over_address,
)
from zrt.onnxruntime.state.vectors import OrtValueVector
from zrt.session.io_binding import ARRAYS, IoBinding
from zrt.types import ElementType, ValueKind
from zrt.values import Value

Result = TypeVar("Result")

_DEVICE = instance(OrtDevice)
_SHAPE = sequence(INT64)
_ARRAY_FORM = (TEXT, ANY)
_DEVICE_FORM = (TEXT, _DEVICE)
_ONNX_FORM = (TEXT, _DEVICE, INT32, _SHAPE, UINT64)
_NUMPY_FORM = (TEXT, _DEVICE, ANY, _SHAPE, UINT64)


_OPTIONS = instance(object, "RunOptions")

ndarray = np.ndarray

_HOST = OrtDevice(HOST, OrtDevice.default_memory(), 0)
# The types of numpy by the forms that programs give, as ONNX Runtime's number and the bits of an element.
_TYPES: dict[Any, tuple[int, int]] = {
    form: kind for dtype, kind in ARRAYS.items() for form in (dtype, dtype.type, dtype.name)
}


class SessionIOBinding(NotPickled):
    """Inputs and outputs of a session, bound by name.

    The memory of an output stays the same from run to run until the output is bound again, or an input comes in another
    shape. An output whose shape depends on the data has new memory in each run.
    """

    __slots__ = (
        "_binding",
        "_bound",
        "_fresh",
        "_inputs",
        "_outputs",
        "_owner",
        "_settled",
        "_shapes",
        "_stale",
        "_unknown",
    )

    _FORMS: ClassVar = {"": (instance(InferenceSession),)}
    _INPUT: ClassVar = {"": (TEXT, instance(OrtValue))}
    _BIND_INPUT: ClassVar = {"array": _ARRAY_FORM, "onnx": _ONNX_FORM, "numpy": _NUMPY_FORM}
    _BIND_OUTPUT: ClassVar = {"onnx": _ONNX_FORM, "numpy": _NUMPY_FORM, "device": _DEVICE_FORM}

    def __init__(self, *arguments: Any) -> None:
        if len(arguments) != 1 or type(arguments[0]) is not InferenceSession:
            arguments = tuple(take("__init__", self._FORMS, arguments)[1])
        self._open(arguments[0])
        # The arguments that bound each name, where that was no array.
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, tuple[Any, ...]] = {}

    def _open(self, session: InferenceSession) -> None:
        """An empty binding of a session."""
        self._owner = session
        self._binding = IoBinding(session.session)
        self._bound = self._binding._opened()
        self._settled = self._bound.ports.settled
        # The shapes of the inputs, whether one has changed since the last run, and the outputs bound since then.
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._stale = False
        self._fresh: set[str] = set()
        # The names of outputs that the model does not have.
        self._unknown: set[str] = set()

    def bind_input(self, *arguments: Any) -> None:
        """Binds an input to an array; or to memory: a device, an element type, a shape and an address.

        The caller keeps the memory at an address alive while it is bound.
        """
        if len(arguments) == 2 and self.bind_array(*arguments):
            return
        form, (name, *given) = _taken("bind_input", self._BIND_INPUT, arguments)
        if form == "array":
            self._bind_array(name, given[0])
        else:
            self._bind_input(name, self._at_address(form, *given))
        self._inputs[name] = arguments

    def bind_memory(self, is_output: bool, name: Any, given: Any, shape: Any, address: Any) -> bool:
        """`bind_input` or `bind_output` for memory of the host, with a type of numpy; returns False for odd arguments,
        which those two convert or refuse.
        """
        try:
            if not (address > 0 and self._bound.bind_address(is_output, name, address, shape, _TYPES[given])):
                return False
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return False
        except Error as error:
            raise _binding_error(is_output, error) from error
        arguments = name, _HOST, given, shape, address
        if is_output:
            self._outputs[name] = arguments
        else:
            if self._shapes.get(name) != shape:
                self._shaped(name, tuple(shape))
            self._inputs[name] = arguments
        return True

    def bind_array(self, name: Any, array: Any) -> bool:
        """`bind_input` for an array whose memory can be bound as it is; returns False for others."""
        try:
            if type(array) is not ndarray or not self._bound.bind_array(name, array):
                return False
        except TypeError:  # the name has no hash
            return False
        except Error as error:
            raise _binding_error(False, error) from error
        if self._shapes.get(name) != array.shape:
            self._shaped(name, array.shape)
        return True

    def _shaped(self, name: str, shape: tuple[int, ...]) -> None:
        """Notices that an input may come in another shape than before."""
        self._shapes[name] = shape
        self._stale = True

    def _bind_array(self, name: str, array: Any) -> None:
        """Binds an array where the fast path does not, or raises the error."""
        info = next((info for info in self._owner.session.inputs if info.name == name), None)
        if info is None:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        if info.kind is not ValueKind.TENSOR:
            raise RuntimeError("Only binding Tensors is currently supported")
        if info.element_type is ElementType.STRING:
            raise RuntimeError("Only binding non-string Tensors is currently supported")
        if not isinstance(array, np.ndarray):
            raise RuntimeError("Unable to create OrtValue from the given python object")
        array = self._converted(array)
        if not self.bind_array(name, array):
            self._bind_value(name, feeds.value(None, name, array))

    @staticmethod
    def _converted(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array of numbers as it can be bound: contiguous and no subclass; raises for types without a tensor."""
        if array.dtype.kind in "biufc":
            element_type_of(array.dtype)
        return np.ascontiguousarray(array).reshape(array.shape)

    def _at_address(self, form: str, device: OrtDevice, given: Any, shape: list[int], address: int) -> OrtValue:
        if device.device_type() != HOST and len(self._owner.session.providers) == 1:
            raise RuntimeError(f"There's no data transfer registered for a device of type {device.device_type()}")
        element_type = onnx_type(given) if form == "onnx" else numpy_type(given)
        return over_address(address, shape, element_type, device)

    def bind_ortvalue_input(self, *arguments: Any) -> None:
        """Binds an input to a value, which the binding keeps alive."""
        if len(arguments) != 2 or type(arguments[0]) is not str or type(arguments[1]) is not OrtValue:
            arguments = tuple(take("bind_ortvalue_input", self._INPUT, arguments)[1])
        name, value = arguments
        self._bind_input(name, value)
        self._inputs[name] = arguments

    def _bind_input(self, name: str, value: OrtValue) -> None:
        if name not in self._bound.ports.inputs:
            raise RuntimeError(f"Error when binding input: Failed to find input name in the mapping: {name}")
        array = value._array
        if array is None or not self.bind_array(name, array):
            self._bind_value(name, value._to_zrt())

    def _bind_value(self, name: str, value: Value) -> None:
        try:
            self._binding._bind_value(name, value)
        except Error as error:
            raise _binding_error(False, error) from error
        self._shaped(name, value.shape)

    def bind_output(self, *arguments: Any) -> None:
        """Binds an output to the device on which ONNX Runtime makes it; or to memory, as `bind_input` does."""
        form, (name, device, *given) = _taken("bind_output", self._BIND_OUTPUT, arguments)
        if form == "device":
            self._bind_output(name, self._place(device))
        else:
            self._bind_output(name, self._at_address(form, device, *given)._to_zrt())
        self._outputs[name] = arguments

    def leave_output(self, name: Any) -> bool:
        """`bind_output` to the host for an output that is bound so already; returns False for others."""
        try:
            left = self._bound.leave_on_host(name, name in self._settled)
        except Error as error:
            raise _binding_error(True, error) from error
        if left:
            self._fresh.add(name)
            self._outputs[name] = name, _HOST
        return left

    def _place(self, device: OrtDevice) -> MemoryInfo:
        """The memory of a device, or the host's if the session does not run on that device."""
        if device.device_type() == HOST:
            return CPU
        memory = memory_of(device)
        if memory is None or memory == CPU:
            return CPU
        try:
            require_memory(self._owner.session._open(), memory, "output")
        except Error:
            return CPU
        return memory

    def bind_ortvalue_output(self, *arguments: Any) -> None:
        """Binds an output to a value, into whose memory runs write."""
        _, (name, value) = take("bind_ortvalue_output", self._INPUT, arguments)
        self._bind_output(name, value._to_zrt())
        self._outputs[name] = (name, value)

    def _bind_output(self, name: str, place: Value | MemoryInfo) -> None:
        if name not in self._bound.ports.outputs:
            self._unknown.add(name)
            return
        if isinstance(place, MemoryInfo):
            self._leave(name, place)
        else:
            if not place.writeable:
                raise RuntimeError(f"Error when binding output: the OrtValue for {name!r} is over a read-only array")
            if name in self._bound.ports.inputs:
                raise RuntimeError(f"Error when binding output: {name!r} is an input too, and nothing is written")
            if not place.is_tensor:
                # ONNX Runtime would put tensors into it that share the memory of inputs.
                raise RuntimeError(f"Error when binding output: the OrtValue for {name!r} is no tensor")
            try:
                self._binding._bind_value(name, place, output=True)
            except Error as error:
                raise _binding_error(True, error) from error
        self._fresh.add(name)

    def _leave(self, name: str, memory: MemoryInfo) -> None:
        try:
            self._bound.leave(name, memory, lasting=name in self._settled)
        except Error as error:
            raise _binding_error(True, error) from error

    def _run(self, options: Any = None, session: InferenceSession | None = None) -> None:
        """One inference over all that is bound; the outputs that are not bound are not computed.

        A binding that another session runs is that session's from then on.
        """
        if session is not self._owner and session is not None:
            self._move(session)
        try:
            chosen = None if options is None else options._to_zrt()
        except AttributeError:
            raise refused("run_with_iobinding", [(_BINDING, _OPTIONS)], (self, options)) from None
        if self._stale:
            self._renew()
        if self._unknown:
            raise RuntimeError(f"Error in execution: Invalid output name: {min(self._unknown)}")
        try:
            self._run_bound(chosen)
        except Error as error:
            raise self._execution(error) from error
        self._fresh.clear()

    def _renew(self) -> None:
        """Gives the outputs of an earlier run to ONNX Runtime, which makes them anew."""
        for name in self._bound.lasting() - self._fresh:
            self._leave(name, self._bound.outputs[name][-1])
        self._stale = False

    def _run_bound(self, options: Any) -> None:
        try:
            self._binding.run(options)
        except (ShapeError, UnsupportedError):
            lasting = self._bound.lasting()
            if not lasting:
                raise
            # The model declares these outputs wrongly: each run makes them anew.
            self._settled = self._settled.difference(lasting)
            self._fresh.clear()
            self._renew()
            self._binding.run(options)

    def _execution(self, error: Error) -> RuntimeError:
        """The error of a run that failed."""
        if isinstance(error, ArgumentError):
            if not self._outputs:
                return RuntimeError("Error in execution: At least one output should be requested.")
            missing = self._bound.ports.required - self._bound.inputs.keys()
            if missing:
                return RuntimeError(f"Error in execution: Missing Input: {', '.join(sorted(missing))}")
        found = errors.ort_error(error)
        return RuntimeError(f"Error in execution: {error if found is None else found.ort_message or found}")

    def _move(self, session: InferenceSession) -> None:
        """Binds the same to another session."""
        bound = self._bound.inputs.items()
        arrays = {name: (name, kept[-1]) for name, kept in bound if isinstance(kept[-1], ndarray)}
        self._open(session)
        for arguments in (self._inputs | arrays).values():
            (self.bind_ortvalue_input if isinstance(arguments[-1], OrtValue) else self.bind_input)(*arguments)
        for arguments in self._outputs.values():
            (self.bind_ortvalue_output if isinstance(arguments[-1], OrtValue) else self.bind_output)(*arguments)

    def clear_binding_inputs(self) -> None:
        """Unbinds every input."""
        self._carry_out(self._binding.clear_inputs)
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbinds every output."""
        self._carry_out(self._binding.clear_outputs)
        self._outputs.clear()
        self._unknown.clear()

    def synchronize_inputs(self) -> None:
        """Waits until the bound inputs are on their devices."""
        self._carry_out(self._binding.synchronize_inputs)

    def synchronize_outputs(self) -> None:
        """Waits until the devices have written the outputs."""
        self._carry_out(self._binding.synchronize_outputs)

    @staticmethod
    def _carry_out(work: Callable[[], Result]) -> Result:
        try:
            return work()
        except Error as error:
            raise runtime_error(error) from error

    def get_outputs(self) -> OrtValueVector:
        """The outputs of the last run, in the order of binding; one that no run has made has no value."""
        views = self._views()
        return OrtValueVector._of([_value_of(views.get(name)) for name in self._outputs])

    def _views(self) -> dict[str, Any]:
        """The outputs of the last run by name, as arrays or values."""
        return self._carry_out(self._binding._views)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as `run` returns them, copied."""
        views = self._views()
        try:
            return [_copied(views[name]) for name in self._outputs]
        except KeyError as error:
            raise RuntimeError(f"output {error} has no value: no run has made it") from None


_BINDING = instance(SessionIOBinding)


def _binding_error(is_output: bool, error: Error) -> RuntimeError:
    return RuntimeError(f"Error when binding {'output' if is_output else 'input'}: {runtime_error(error)}")


def _taken(function: str, forms: dict[str, tuple[Kind, ...]], arguments: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """As `take`, with a fast path for memory at an address, since requests bind it anew."""
    if len(arguments) == 5 and not hasattr(type(arguments[2]), "__index__"):
        name, device, _, shape, address = arguments
        exact = type(name) is str and type(device) is OrtDevice and type(address) is int and 0 <= address < 1 << 64
        if exact and type(shape) in (list, tuple) and all(type(dim) is int and -1 <= dim < 1 << 63 for dim in shape):
            return "numpy", list(arguments)
        forms = {"numpy": forms["numpy"]}
    return take(function, forms, arguments)


def _value_of(found: Any) -> OrtValue:
    if type(found) is not np.ndarray:
        return OrtValue._of(found)
    # An array of a type that numpy lacks counts as a value: numpy() is to raise for it.
    return OrtValue._over(found) if found.dtype.kind in "biuf" else OrtValue._of(Value.from_array(found))


def _copied(found: Any) -> Any:
    """The object that `InferenceSession.run` returns for an array or a value, with memory of its own."""
    if type(found) is np.ndarray:
        if found.dtype.kind in "biuf":
            return found.copy()
        found = Value.from_array(found)
    if found is not None and found.is_tensor:
        found = on_host(found)
    result = feeds.result(found)
    return result.copy() if isinstance(result, np.ndarray) else result
