"""`LoadCancellation`: the switch that ends loads of models."""

from __future__ import annotations

from collections.abc import Sequence

from zrt._common.public import public
from zrt._native import status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.environment.thread_factory import PoolOptions


@public
class LoadCancellation(Owner):
    """Ends loads that are under way, from any thread; goes into `SessionOptions.load_cancellation`.

    One object serves any number of loads, at the same time too: `cancel` ends them all with `ModelLoadCanceledError`,
    and the object then refuses further loads until `reset`. Sessions that are loaded already stay as they are.
    """

    __slots__ = ()

    def __init__(self) -> None:
        table = api()
        # ORT keeps the switch in session options, and copies of these share it.
        self._handle = Handle.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")

    def cancel(self) -> None:
        """Ends every load with this object, at the next point where ONNX Runtime looks: a step of the optimizer, say.

        What takes long in one piece (a provider that compiles, a kernel that packs a large weight) comes to its end.
        """
        self._set(True)

    def reset(self) -> None:
        """Makes the object usable again after `cancel`; a load that has not seen that yet goes on."""
        self._set(False)

    def _set(self, canceled: bool) -> None:
        handle = self._open()
        status.check(api().SessionOptionsSetLoadCancellationFlag(handle.pointer, canceled))

    def session_options(self, parents: Sequence[Handle] = ()) -> PoolOptions:
        """A new ``OrtSessionOptions`` that shares the switch and is otherwise ORT's own; its `parents` outlive it."""
        handle = self._open()
        table = api()
        return PoolOptions.make(
            table.ReleaseSessionOptions, parents, table.CloneSessionOptions, "OrtSessionOptions", handle.pointer
        )
