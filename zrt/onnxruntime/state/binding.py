"""`SessionIOBinding`: inputs and outputs bound by name, and runs over them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from zrt.errors import Error, ZrtError
from zrt.memory.allocators import CPU, MemoryInfo, require_memory
from zrt.onnxruntime import errors, feeds
from zrt.onnxruntime.state.arguments import ANY, INT32, INT64, TEXT, UINT64, instance, refused, sequence, take
from zrt.onnxruntime.state.devices import NotPickled, OrtDevice, memory_of, runtime_error
from zrt.onnxruntime.state.sessions import InferenceSession
from zrt.onnxruntime.state.values import (
    OrtValue,
    OrtValueVector,
    as_array,
    element_type_of,
    numpy_type,
    onnx_type,
    over_address,
)
from zrt.session.io_binding import IoBinding
from zrt.types import ElementType, ValueKind
from zrt.values import Value
from zrt.values.type_info import is_plain

_DEVICE = instance(OrtDevice)
_SHAPE = sequence(INT64)
_ARRAY_FORM = (TEXT, ANY)
_DEVICE_FORM = (TEXT, _DEVICE)
_ONNX_FORM = (TEXT, _DEVICE, INT32, _SHAPE, UINT64)
_NUMPY_FORM = (TEXT, _DEVICE, ANY, _SHAPE, UINT64)


def _execution(error: Error) -> RuntimeError:
    """The error of a run that failed."""
    found = errors.ort_error(error)
    return RuntimeError(f"Error in execution: {error if found is None else found.ort_message or found}")


class SessionIOBinding(NotPickled):
    """Inputs and outputs of a session, bound by name.

    The first run after a change of what is bound is one `zrt.Session.run` if all of it are tensors on the host: that is
    faster than to bind anything. Other runs, and those that repeat the last one, go through a `zrt.IoBinding`, where
    each run writes into the outputs of the last one.
    """

    __slots__ = (
        "_arrays",
        "_binding",
        "_eager",
        "_fresh",
        "_inputs",
        "_known",
        "_last",
        "_odd",
        "_outputs",
        "_pending",
        "_plain",
        "_ready",
        "_required",
        "_session",
    )

    _FORMS: ClassVar = {"": (instance(InferenceSession),)}
    _INPUT: ClassVar = {"": (TEXT, instance(OrtValue))}
    _BIND_INPUT: ClassVar = {"array": _ARRAY_FORM, "onnx": _ONNX_FORM, "numpy": _NUMPY_FORM}
    _BIND_OUTPUT: ClassVar = {"onnx": _ONNX_FORM, "numpy": _NUMPY_FORM, "device": _DEVICE_FORM}

    def __init__(self, *arguments: Any) -> None:
        _, (session,) = take("__init__", self._FORMS, arguments)
        self._session = session.session
        inputs, outputs = self._session.inputs, self._session.outputs
        self._required = {info.name for info in inputs if info.kind is not ValueKind.OPTIONAL}
        self._known = {info.name for info in (*inputs, *self._session.initializers)}
        # The inputs that take arrays, and the outputs that `Session.run` returns as arrays.
        self._arrays = {info.name for info in inputs if is_plain(info)}
        self._plain = {info.name for info in outputs if is_plain(info) and feeds.returns_as_official(info)}
        self._inputs: dict[str, np.ndarray[Any, Any] | Value] = {}
        # The memory of an output, or where ONNX Runtime is to make it; None for a name that the model does not have.
        self._outputs: dict[str, Value | MemoryInfo | None] = {}
        self._binding: IoBinding | None = None
        # Inputs and outputs that `_binding` does not have yet.
        self._pending: dict[tuple[bool, str], None] = {}
        # `_binding`, if it has all that is bound and a run on it has succeeded.
        self._ready: IoBinding | None = None
        # The inputs and outputs with which a run must go through `_binding`.
        self._odd: set[tuple[bool, str]] = set()
        # Whether there was no run since the last change.
        self._fresh = True
        # The results of the last run: arrays by name, or the binding that has them.
        self._last: dict[str, Any] | IoBinding = {}
        # A session with devices copies inputs there when they are bound.
        self._eager = len(self._session.providers) > 1

    def _change(self, is_output: bool, name: str, odd: bool) -> None:
        key = is_output, name
        self._pending[key] = None
        if odd:
            self._odd.add(key)
        else:
            self._odd.discard(key)
        self._ready = None
        self._fresh = True
        if self._eager and not is_output:
            try:
                self._prepared()
            except Error as error:
                raise RuntimeError(f"Error when binding input: {runtime_error(error)}") from error

    def bind_input(self, *arguments: Any) -> None:
        """Binds an input to an array; or to memory: a device, an element type, a shape and an address.

        The caller keeps the memory at an address alive while it is bound.
        """
        if len(arguments) == 2:
            name, array = arguments
            if type(array) is np.ndarray and name in self._arrays:
                if array.dtype.kind not in "biuf" or not array.flags.c_contiguous:
                    array = self._converted(array)
                self._inputs[name] = array
                self._change(False, name, odd=False)
                return
        form, (name, *given) = take("bind_input", self._BIND_INPUT, arguments)
        if form == "array":
            self._bind_array(name, given[0])
        else:
            self._bind_value(name, self._at_address(form, *given))

    def _bind_array(self, name: str, array: Any) -> None:
        """Binds an array where the fast path does not, or raises the error."""
        info = next((info for info in self._session.inputs if info.name == name), None)
        if info is None:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        if info.kind is not ValueKind.TENSOR:
            raise RuntimeError("Only binding Tensors is currently supported")
        if info.element_type is ElementType.STRING:
            raise RuntimeError("Only binding non-string Tensors is currently supported")
        if not isinstance(array, np.ndarray):
            raise RuntimeError("Unable to create OrtValue from the given python object")
        self._inputs[name] = self._converted(array)
        self._change(False, name, odd=False)

    @staticmethod
    def _converted(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array of numbers as it can be bound: contiguous and no subclass; raises for types without a tensor."""
        if array.dtype.kind in "biufc":
            element_type_of(array)
        return np.ascontiguousarray(array).reshape(array.shape)

    def _at_address(self, form: str, device: OrtDevice, given: Any, shape: list[int], address: int) -> OrtValue:
        if device.device_type() != 0 and not self._eager:
            raise RuntimeError(f"There's no data transfer registered for a device of type {device.device_type()}")
        element_type = onnx_type(given) if form == "onnx" else numpy_type(given)
        return over_address(address, shape, element_type, device)

    def bind_ortvalue_input(self, *arguments: Any) -> None:
        """Binds an input to a value, which the binding keeps alive."""
        if len(arguments) != 2 or type(arguments[0]) is not str or type(arguments[1]) is not OrtValue:
            arguments = tuple(take("bind_ortvalue_input", self._INPUT, arguments)[1])
        name, value = arguments
        self._bind_value(name, value)

    def _bind_value(self, name: str, value: OrtValue) -> None:
        if name not in self._known:
            raise RuntimeError(f"Error when binding input: Failed to find input name in the mapping: {name}")
        array = value._array
        self._inputs[name] = value._to_zrt() if array is None else array
        self._change(False, name, odd=array is None and not value.is_tensor())

    def bind_output(self, *arguments: Any) -> None:
        """Binds an output to the device on which ONNX Runtime makes it; or to memory, as `bind_input` does."""
        if len(arguments) == 2 and self._outputs.get(arguments[0]) is CPU and _on_cpu(arguments[1]):
            if not self._fresh:
                self._change(True, arguments[0], odd=arguments[0] not in self._plain)
            return
        form, (name, device, *given) = take("bind_output", self._BIND_OUTPUT, arguments)
        if form == "device":
            self._bind_output(name, self._place(device))
        else:
            self._bind_output(name, self._at_address(form, device, *given)._to_zrt())

    def _place(self, device: OrtDevice) -> MemoryInfo:
        """The memory of a device, or the host's if the session does not run on that device."""
        memory = memory_of(device)
        if memory is None or memory == CPU:
            return CPU
        try:
            require_memory(self._session._open(), memory, "output")
        except Error:
            return CPU
        return memory

    def bind_ortvalue_output(self, *arguments: Any) -> None:
        """Binds an output to a value, into whose memory runs write."""
        _, (name, value) = take("bind_ortvalue_output", self._INPUT, arguments)
        self._bind_output(name, value._to_zrt())

    def _bind_output(self, name: str, place: Value | MemoryInfo) -> None:
        known = name in self._session.output_names
        if known and isinstance(place, Value):
            if not place.writeable:
                raise RuntimeError(f"Error when binding output: the OrtValue for {name!r} is over a read-only array")
            if name in self._session.input_names:
                raise RuntimeError(f"Error when binding output: {name!r} is an input too, and nothing is written")
        self._outputs[name] = place if known else None
        if known:
            self._change(True, name, odd=place is not CPU or name not in self._plain)

    def _run(self, options: Any = None) -> None:
        """One inference over all that is bound; the outputs that are not bound are not computed."""
        ready = self._ready
        try:
            if ready is not None and options is None:
                ready.run()
                return
            chosen = None if options is None else options._to_zrt()
        except Error as error:
            raise _execution(error) from error
        except AttributeError:
            raise refused(
                "run_with_iobinding", [(instance(SessionIOBinding), instance(object, "RunOptions"))], (self, options)
            ) from None
        self._run_changed(chosen)

    def _run_changed(self, options: Any) -> None:
        """A run on a binding that has changed, or with run options."""
        if not self._outputs:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        for name, place in self._outputs.items():
            if place is None:
                raise RuntimeError(f"Error in execution: Invalid output name: {name}")
        missing = self._required - self._inputs.keys()
        if missing:
            raise RuntimeError(f"Error in execution: Missing Input: {', '.join(sorted(missing))}")
        try:
            if self._fresh and not self._odd and not self._eager:
                try:
                    self._run_at_once(options)
                    return
                except ZrtError:
                    # The arguments do not suit the model, or need a conversion: ONNX Runtime itself says more.
                    pass
            binding = self._prepared()
            binding.run(options)
            binding._keep_outputs()
        except Error as error:
            raise _execution(error) from error
        self._last = binding
        self._fresh = False
        if not self._pending:
            self._ready = binding

    def _run_at_once(self, options: Any) -> None:
        names = self._session.output_names
        if self._outputs.keys() != set(names):
            names = tuple(self._outputs)
            found = self._session.run(self._inputs, names, options)
        else:
            found = self._session.run(self._inputs, None, options)
        self._last = dict(zip(names, found, strict=True))
        self._fresh = False

    def _prepared(self) -> IoBinding:
        """The binding of zrt's, with all that is bound."""
        binding = self._binding
        if binding is None:
            binding = self._binding = IoBinding(self._session)
        for key in list(self._pending):
            # Taken off the list before its value is read: another thread may bind the name again meanwhile.
            self._pending.pop(key, None)
            try:
                self._pass_on(binding, *key)
            except BaseException:
                self._pending[key] = None
                raise
        return binding

    def _pass_on(self, binding: IoBinding, is_output: bool, name: str) -> None:
        """Binds one input or output on the binding of zrt's, unless another thread has unbound it."""
        if is_output:
            place = self._outputs.get(name)
            if isinstance(place, Value):
                binding._bind_value(name, place, output=True)
            elif place is not None:
                binding.bind_output(name, place)
            return
        given = self._inputs.get(name)
        if given is not None:
            binding._bind_value(name, given if isinstance(given, Value) else feeds.value(None, name, given))

    def clear_binding_inputs(self) -> None:
        """Unbinds every input."""
        self._clear(False, self._inputs)
        if self._binding is not None:
            self._binding.clear_inputs()

    def clear_binding_outputs(self) -> None:
        """Unbinds every output."""
        self._clear(True, self._outputs)
        self._last = {}
        if self._binding is not None:
            self._binding.clear_outputs()

    def _clear(self, is_output: bool, bound: dict[str, Any]) -> None:
        self._ready, self._fresh = None, True
        self._pending = {key: None for key in self._pending if key[0] is not is_output}
        self._odd = {key for key in self._odd if key[0] is not is_output}
        bound.clear()

    def synchronize_inputs(self) -> None:
        """Waits until the bound inputs are on their devices."""
        if self._binding is not None:
            self._binding.synchronize_inputs()

    def synchronize_outputs(self) -> None:
        """Waits until the devices have written the outputs."""
        if self._binding is not None:
            self._binding.synchronize_outputs()

    def get_outputs(self) -> OrtValueVector:
        """The outputs of the last run, in the order of binding; one that no run has made has no value."""
        found = self._found()
        return OrtValueVector._of([_value_of(found.get(name)) for name in self._outputs])

    def _found(self) -> dict[str, Any]:
        """The outputs of the last run by name, as arrays or values."""
        found: dict[str, Any] = {name: place for name, place in self._outputs.items() if isinstance(place, Value)}
        last = self._last
        found.update(last._views() if isinstance(last, IoBinding) else last)
        return found

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as `run` returns them, copied."""
        found = self._found()
        try:
            return [_copied(found[name]) for name in self._outputs]
        except KeyError as error:
            raise RuntimeError(f"output {error} has no value: no run has made it") from None


def _on_cpu(device: Any) -> bool:
    return type(device) is OrtDevice and device.device_type() == 0


def _value_of(found: Any) -> OrtValue:
    if type(found) is not np.ndarray:
        return OrtValue._of(found)
    # An array of a type that numpy lacks counts as a value: numpy() is to raise for it.
    return OrtValue._over(found) if found.dtype.kind in "biuf" else OrtValue._of(Value.from_array(found))


def _copied(found: Any) -> Any:
    """An object of Python that shares no memory with an array or a value."""
    if type(found) is np.ndarray:
        return found.copy()
    if found is not None and found.is_tensor and found.element_type is not ElementType.STRING:
        return as_array(found).copy()
    return feeds.result(found)
