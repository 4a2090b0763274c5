"""`LoadCancellation`: the switch that ends loads of models."""

from __future__ import annotations

from typing import Any

from zrt._native import status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api


class LoadCancellation(Owner):
    """Ends loads that are under way, from any thread; goes into `SessionOptions.load_cancellation`.

    One object serves any number of loads, at the same time too: `cancel` ends them all with `ModelLoadCanceledError`,
    and the object then refuses further loads until `reset`. Sessions that are loaded already stay as they are.
    """

    __slots__ = ()

    def __init__(self) -> None:
        table = api()
        # ORT keeps the switch in session options, and copies of these share it.
        pointer = status.make(table.CreateSessionOptions, "OrtSessionOptions")
        self._handle = Handle.own(pointer, table.ReleaseSessionOptions)

    def cancel(self) -> None:
        """Ends every load with this object, at the next point where ONNX Runtime looks: a step of the optimizer, say.

        What takes long in one piece (a provider that compiles, a kernel that packs a large weight) comes to its end.
        ``OrtApi::SessionOptionsSetLoadCancellationFlag``.
        """
        self._set(True)

    def reset(self) -> None:
        """Makes the object usable again after `cancel`; a load that has not seen that yet goes on."""
        self._set(False)

    def _set(self, canceled: bool) -> None:
        handle = self._open()
        status.check(api().SessionOptionsSetLoadCancellationFlag(handle.pointer, canceled))

    def session_options(self) -> Any:
        """A new ``OrtSessionOptions``, to be released by the caller, that shares the switch and is otherwise ORT's own.

        ``OrtApi::CloneSessionOptions``.
        """
        handle = self._open()
        return status.make(api().CloneSessionOptions, "OrtSessionOptions", handle.pointer)
