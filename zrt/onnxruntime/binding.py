"""`IOBinding` as programs use it."""

from __future__ import annotations

from typing import Any

from zrt.onnxruntime.devices import state_device
from zrt.onnxruntime.state.binding import SessionIOBinding
from zrt.onnxruntime.state.vectors import OrtValueVector
from zrt.onnxruntime.values import OrtValue

_NO_VENDOR = 0


class IOBinding:
    """Inputs and outputs of a session, bound by name for `InferenceSession.run_with_iobinding`."""

    def __init__(self, session: Any) -> None:
        self._iobinding = SessionIOBinding(session._sess)

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an input to the memory of an array, which the binding keeps alive; a strided array is copied."""
        if not self._iobinding.bind_array(name, arr_on_cpu):
            self._iobinding.bind_input(name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int
    ) -> None:
        """Binds an input to memory at an address, which the caller keeps alive while it is bound.

        `element_type` is a type of numpy or a number of `onnx.TensorProto`.
        """
        state = self._iobinding
        host = device_type == "cpu" and type(device_id) is int
        if not (host and state.bind_memory(False, name, element_type, shape, buffer_ptr)):
            device = state_device(device_type, device_id, _NO_VENDOR)
            state.bind_input(name, device, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to an `OrtValue`, which the binding keeps alive."""
        self._iobinding.bind_ortvalue_input(name, ortvalue._ortvalue)

    def synchronize_inputs(self) -> None:
        """Waits until the bound inputs are on their devices."""
        self._iobinding.synchronize_inputs()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output to a device, on which runs make it; or to memory at an address.

        Memory needs `element_type` and `shape`, and the caller keeps it alive while it is bound.
        """
        state = self._iobinding
        host = device_type == "cpu" and type(device_id) is int
        if buffer_ptr is None:
            if not (host and state.leave_output(name)):
                state.bind_output(name, state_device(device_type, device_id, _NO_VENDOR))
        elif element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        elif not (host and state.bind_memory(True, name, element_type, shape, buffer_ptr)):
            device = state_device(device_type, device_id, _NO_VENDOR)
            state.bind_output(name, device, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to an `OrtValue`, into whose memory runs write."""
        self._iobinding.bind_ortvalue_output(name, ortvalue._ortvalue)

    def synchronize_outputs(self) -> None:
        """Waits until the devices have written the outputs."""
        self._iobinding.synchronize_outputs()

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order of binding, on the devices that made them."""
        return [OrtValue(value) for value in self._iobinding.get_outputs()]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """`get_outputs` as an `OrtValueVector` of the extension module."""
        return self._iobinding.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as `InferenceSession.run` returns them, in the order of binding."""
        return self._iobinding.copy_outputs_to_cpu()

    def clear_binding_inputs(self) -> None:
        """Unbinds every input."""
        self._iobinding.clear_binding_inputs()

    def clear_binding_outputs(self) -> None:
        """Unbinds every output."""
        self._iobinding.clear_binding_outputs()
