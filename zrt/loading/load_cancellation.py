"""`LoadCancellation`: the switch that cancels loads of models."""

from __future__ import annotations

from collections.abc import Sequence

from zrt._common.public import public
from zrt._native import status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.environment.pool_options import PoolOptions


@public
class LoadCancellation(Owner):
    """Cancels running loads from any thread; set it as `SessionOptions.load_cancellation`.

    One object serves any number of loads, also at the same time: `cancel` ends them all with
    `ModelLoadCanceledError`, and the object then refuses further loads until `reset`. Loaded sessions are not affected.
    """

    __slots__ = ()

    def __init__(self) -> None:
        table = api()
        # ORT keeps the switch in session options, and their clones share it.
        self._handle = Handle.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")

    def cancel(self) -> None:
        """Ends every load with this object, at the next point where ONNX Runtime checks: between optimizer steps, for
        example.

        A long step (a provider that compiles, a kernel that packs a large weight) runs to its end first.
        """
        self._set(True)

    def reset(self) -> None:
        """Makes the object usable again after `cancel`; a load that has not yet checked the switch continues."""
        self._set(False)

    def _set(self, canceled: bool) -> None:
        handle = self._open()
        status.check(api().SessionOptionsSetLoadCancellationFlag(handle.pointer, canceled))

    def _session_options(self, parents: Sequence[Handle] = ()) -> PoolOptions:
        """A new ``OrtSessionOptions`` with the shared switch and ORT's defaults, which keeps `parents` alive."""
        handle = self._open()
        table = api()
        return PoolOptions.make(
            table.ReleaseSessionOptions, parents, table.CloneSessionOptions, "OrtSessionOptions", handle.pointer
        )
