"""`SessionIOBinding`: inputs and outputs bound by name, and runs over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from zrt.errors import Error, ShapeError, ZrtError
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
from zrt.session.io_binding import IoBinding
from zrt.types import ElementType, ValueKind
from zrt.values import Value
from zrt.values.type_info import ValueInfo, is_plain

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


# After so many runs over arrays of the same types and shapes the arrays are bound.
_AT_ONCE = 3

_OPTIONS = instance(object, "RunOptions")


class SessionIOBinding(NotPickled):
    """Inputs and outputs of a session, bound by name.

    The first runs are one `zrt.Session.run` each if all that is bound are tensors on the host: for a few runs that is
    faster than to bind anything. Later ones, with arrays of the same types and shapes, go through a `zrt.IoBinding`.
    Either way the memory of an output stays the same from run to run until the output is bound again.
    """

    __slots__ = (
        "_arrays",
        "_binding",
        "_eager",
        "_inputs",
        "_known",
        "_last",
        "_left",
        "_odd",
        "_outputs",
        "_owner",
        "_pending",
        "_plain",
        "_ready",
        "_rebind",
        "_renewed",
        "_required",
        "_session",
        "_shown",
        "_streak",
    )

    _FORMS: ClassVar = {"": (instance(InferenceSession),)}
    _INPUT: ClassVar = {"": (TEXT, instance(OrtValue))}
    _BIND_INPUT: ClassVar = {"array": _ARRAY_FORM, "onnx": _ONNX_FORM, "numpy": _NUMPY_FORM}
    _BIND_OUTPUT: ClassVar = {"onnx": _ONNX_FORM, "numpy": _NUMPY_FORM, "device": _DEVICE_FORM}

    def __init__(self, *arguments: Any) -> None:
        _, (session,) = take("__init__", self._FORMS, arguments)
        self._owner = session
        self._session = session.session
        inputs, outputs = self._session.inputs, self._session.outputs
        self._required = {info.name for info in inputs if info.kind is not ValueKind.OPTIONAL}
        self._known = {info.name for info in (*inputs, *self._session.initializers)}
        # The inputs that take arrays, and the outputs that `Session.run` returns as arrays.
        self._arrays = {info.name for info in inputs if is_plain(info)}
        self._plain = {info.name for info in outputs if is_plain(info) and feeds.returns_as_official(info)}
        # The outputs for which `_binding` leaves the memory to ONNX Runtime.
        self._left = {info.name for info in outputs if not _settled(info, inputs)} | self._known
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
        # The runs over arrays of these types and shapes.
        self._streak = 0
        # The arrays of outputs, from the last run or for the next; the other outputs are in `_binding`.
        self._last: dict[str, np.ndarray[Any, Any]] = {}
        self._rebind: Any = None
        # The outputs whose memory users may have.
        self._shown: set[str] = set()
        # Those of them that were bound again since the last run: they get new memory.
        self._renewed: set[str] = set()
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
        if self._eager and not is_output:
            try:
                self._prepared()
            except Error as error:
                raise RuntimeError(f"Error when binding input: {runtime_error(error)}") from error

    def bind_input(self, *arguments: Any) -> None:
        """Binds an input to an array; or to memory: a device, an element type, a shape and an address.

        The caller keeps the memory at an address alive while it is bound.
        """
        if len(arguments) == 2 and type(arguments[1]) is np.ndarray:
            name, array = arguments
            if self._ready is not None:
                # `_rebound`, inlined: this is the path of each request.
                try:
                    if self._rebind(name, array, False):
                        self._inputs[name] = array
                        return
                except Error as error:
                    raise RuntimeError(f"Error when binding {name!r}: {error}") from error
            if name in self._arrays:
                self._bind(name, array)
                return
        form, (name, *given) = _taken("bind_input", self._BIND_INPUT, arguments)
        if form == "array":
            self._bind_array(name, given[0])
        else:
            self._bind_value(name, self._at_address(form, *given))

    def _bind(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Binds an array to an input that takes arrays."""
        if array.dtype.kind not in "biuf" or not array.flags.c_contiguous:
            array = self._converted(array)
        former = self._inputs.get(name)
        if type(former) is not np.ndarray or former.dtype is not array.dtype or former.shape != array.shape:
            self._streak = 0
        self._inputs[name] = array
        self._change(False, name, odd=False)

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
        self._bind(name, self._converted(array))

    @staticmethod
    def _converted(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array of numbers as it can be bound: contiguous and no subclass; raises for types without a tensor."""
        if array.dtype.kind in "biufc":
            element_type_of(array.dtype)
        return np.ascontiguousarray(array).reshape(array.shape)

    def _at_address(self, form: str, device: OrtDevice, given: Any, shape: list[int], address: int) -> OrtValue:
        if device.device_type() != HOST and not self._eager:
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
        if array is not None:
            if self._ready is not None and self._rebound(name, array):
                self._inputs[name] = array
            else:
                self._bind(name, array)
            return
        self._inputs[name] = value._to_zrt()
        self._streak = 0
        self._change(False, name, odd=not value.is_tensor())

    def bind_output(self, *arguments: Any) -> None:
        """Binds an output to the device on which ONNX Runtime makes it; or to memory, as `bind_input` does."""
        if len(arguments) == 2:
            name, device = arguments
            if self._outputs.get(name) is CPU and type(device) is OrtDevice and device.device_type() == HOST:
                if name in self._shown:
                    self._renew(name)
                return
        form, (name, device, *given) = _taken("bind_output", self._BIND_OUTPUT, arguments)
        if form == "device":
            self._bind_output(name, self._place(device))
        else:
            self._bind_output(name, self._at_address(form, device, *given)._to_zrt())

    def _renew(self, name: str) -> None:
        """Gives an output new memory for the next run, so that values of earlier ones stay as they are."""
        self._shown.discard(name)
        last = self._last.get(name)
        if self._ready is not None:
            if last is None:
                # ONNX Runtime makes it in each run.
                return
            made = np.zeros(last.shape, last.dtype)
            if self._rebound(name, made, True):
                self._last[name] = made
                return
            self._change(True, name, odd=name not in self._plain)
        self._renewed.add(name)

    def _rebound(self, name: str, array: np.ndarray[Any, Any], is_output: bool = False) -> bool:
        """Binds an array like the one before it to `_binding`; returns False if it is not like that."""
        try:
            return bool(self._rebind(name, array, is_output))
        except Error as error:
            raise RuntimeError(f"Error when binding {name!r}: {error}") from error

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
            if not place.is_tensor:
                # ONNX Runtime would put tensors into it that share the memory of inputs.
                raise RuntimeError(f"Error when binding output: the OrtValue for {name!r} is no tensor")
        self._outputs[name] = place if known else None
        self._last.pop(name, None)
        self._streak = 0
        if known:
            self._change(True, name, odd=place is not CPU or name not in self._plain)

    def _run(self, options: Any = None, session: InferenceSession | None = None) -> None:
        """One inference over all that is bound; the outputs that are not bound are not computed.

        A binding that another session runs is that session's from then on.
        """
        if session is not self._owner and session is not None:
            self._move(session)
        ready = self._ready
        try:
            if ready is not None and options is None:
                ready.run()
                return
            chosen = None if options is None else options._to_zrt()
        except ShapeError:
            chosen = None
        except Error as error:
            raise _execution(error) from error
        except AttributeError:
            raise refused("run_with_iobinding", [(_BINDING, _OPTIONS)], (self, options)) from None
        self._run_changed(chosen)

    def _move(self, session: InferenceSession) -> None:
        """Binds the same to another session."""
        inputs, outputs = self._inputs, self._outputs
        self.__init__(session)  # type: ignore[misc]
        for name, given in inputs.items():
            if isinstance(given, np.ndarray):
                self.bind_input(name, given)
            else:
                self._bind_value(name, OrtValue._of(given))
        for name, place in outputs.items():
            self._bind_output(name, CPU if place is None else place)

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
            if self._streak < _AT_ONCE and not self._odd and not self._eager:
                try:
                    self._run_at_once(options)
                    return
                except ZrtError:
                    # The arguments do not suit the model, or need a conversion: ONNX Runtime itself says more.
                    pass
            self._run_bound(options)
        except Error as error:
            raise _execution(error) from error

    def _run_at_once(self, options: Any) -> None:
        names = self._session.output_names
        if self._outputs.keys() != set(names):
            names = tuple(self._outputs)
            found = self._session.run(self._inputs, names, options)
        else:
            found = self._session.run(self._inputs, None, options)
        if not all(type(array) is np.ndarray for array in found):
            # The model declares as dense what is sparse.
            self._odd.update((True, name) for name in names)
            self._left.update(names)
            self._run_bound(options)
            return
        last: dict[str, np.ndarray[Any, Any]] = dict(zip(names, found, strict=True))
        for name, former in self._last.items():
            array = last.get(name)
            if array is not None and name not in self._renewed and former.shape == array.shape:
                former[...] = array
                last[name] = former
        self._last = last
        self._renewed.clear()
        self._streak += 1
        for name in last:
            self._pending[True, name] = None

    def _run_bound(self, options: Any) -> None:
        binding = self._prepared()
        try:
            binding.run(options)
        except ShapeError:
            own = self._last.keys() - self._left
            if not own:
                raise
            # A model may declare the shape of an output wrongly.
            self._left |= own
            self._pending.update(((True, name), None) for name in own)
            binding = self._prepared()
            binding.run(options)
        self._renewed.clear()
        if not self._pending:
            self._ready = binding

    def _prepared(self) -> IoBinding:
        """The binding of zrt's, with all that is bound."""
        binding = self._binding
        if binding is None:
            binding = self._binding = IoBinding(self._session)
            self._rebind = binding._opened().rebind
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
        if not is_output:
            given = self._inputs.get(name)
            if isinstance(given, np.ndarray):
                binding._bind_value(name, feeds.value(None, name, given), array=given)
            elif given is not None:
                binding._bind_value(name, given)
            return
        place = self._outputs.get(name)
        if isinstance(place, Value):
            binding._bind_value(name, place, output=True)
            return
        array = self._last.get(name)
        if place is CPU and array is not None and name not in self._left:
            if name in self._renewed:
                array = self._last[name] = np.zeros(array.shape, array.dtype)
            binding._bind_value(name, Value.from_array(array), output=True, array=array)
        elif place is not None:
            self._last.pop(name, None)
            binding.bind_output(name, place)

    def clear_binding_inputs(self) -> None:
        """Unbinds every input."""
        self._clear(False, self._inputs)
        if self._binding is not None:
            self._binding.clear_inputs()

    def clear_binding_outputs(self) -> None:
        """Unbinds every output."""
        self._clear(True, self._outputs)
        self._last = {}
        self._renewed.clear()
        if self._binding is not None:
            self._binding.clear_outputs()

    def _clear(self, is_output: bool, bound: dict[str, Any]) -> None:
        self._ready, self._streak = None, 0
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
        self._shown.update(found)
        return OrtValueVector._of([_value_of(found.get(name)) for name in self._outputs])

    def _found(self) -> dict[str, Any]:
        """The outputs of the last run by name, as arrays or values."""
        if len(self._last) == len(self._outputs):
            return self._last
        found: dict[str, Any] = {name: place for name, place in self._outputs.items() if isinstance(place, Value)}
        found.update(self._last)
        if self._binding is not None and len(found) < len(self._outputs):
            found = {**self._binding._views(), **found}
        return found

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as `run` returns them, copied."""
        last, found = self._last, self._found()
        if found is last:
            return [last[name].copy() for name in self._outputs]
        try:
            return [_copied(found[name]) for name in self._outputs]
        except KeyError as error:
            raise RuntimeError(f"output {error} has no value: no run has made it") from None


_BINDING = instance(SessionIOBinding)


def _settled(info: ValueInfo, inputs: Sequence[ValueInfo]) -> bool:
    """Whether the model declares a tensor of numbers whose shape follows from the shapes of the inputs."""
    known = {dim for each in inputs for dim in each.shape or ()}
    return is_plain(info) and info.shape is not None and all(type(dim) is int or dim in known for dim in info.shape)


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
