"""`SyncStream`: a queue of a device, on which copies and runs continue after the call returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakSet

from zrt._common.arguments import require_type
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import address_of, new_array
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.devices import EpDevice
from zrt.environment.provider_libraries import Place, place_of
from zrt.errors import UnsupportedError
from zrt.memory.allocators import write_pairs

# Its kernels expect a stream of their own class, and would read fields that others do not have.
CUDA = "CUDAExecutionProvider"


@public
class SyncStream(Owner):
    """A stream of a device (``OrtSyncStream``), as `copy` and `RunOptions` take it.

    `options` are those of the device's provider. Raises `UnsupportedError` if the provider has no streams, or if the
    device computes in the host's memory.
    """

    __slots__ = ("_kept", "_sessions", "device")

    device: EpDevice
    """The device that the stream belongs to."""

    def __init__(self, device: EpDevice, options: Mapping[str, str] | None = None) -> None:
        self._handle = None
        require_type(device, EpDevice, "device", "an EpDevice")
        owner = device._open()
        pairs = write_pairs(options, "stream options")
        if device.memory is None or device.memory.is_host:
            raise UnsupportedError(f"{device} computes in the host's memory, which needs no stream")
        table = api()
        self.device = device
        self._kept: set[Handle] = set()
        self._sessions: WeakSet[Handle] = WeakSet()
        # The tensors that copies read and write are released after the stream.
        parents = [owner, Handle.pin(self._kept)]
        make = table.CreateSyncStreamForEpDevice
        with status.named(f"{device} has no such stream", UnsupportedError):
            self._handle = Handle.make(
                table.ReleaseSyncStream, parents, make, "OrtSyncStream", owner.pointer, pairs.pointer
            )

    @property
    def native_handle(self) -> int:
        """The stream in the device's own library: for CUDA its ``cudaStream_t``. Use that library to wait for it."""
        handle = self._open()
        return address_of(api().SyncStream_GetHandle(handle.pointer))

    def release_copies(self) -> None:
        """Releases the tensors that copies on this stream read and write. Call it after waiting for the stream.

        The stream keeps these tensors alive until then, or until it is released itself.
        """
        self._open()
        self._kept.clear()

    def _keep(self, handles: Iterable[Handle]) -> None:
        """Keeps alive the tensors that a copy on this stream reads or writes."""
        self._kept.update(handles)

    def _reaches(self, value: Handle) -> bool:
        """Whether a tensor lies in the memory of this stream's device."""
        memory = status.fetch(api().GetTensorMemoryInfo, "const OrtMemoryInfo *", value.pointer)
        return place_of(memory) == self._place()

    def _place(self) -> Place:
        assert self.device.memory is not None
        memory = self.device.memory.handle()
        return place_of(memory.pointer)

    def _check(self, session: Handle) -> None:
        """Raises `UnsupportedError` for a session that does not run on the stream's device.

        ONNX Runtime searches for the stream to replace, and crashes if the session has none at all. A session that
        makes an output on this device has one for certain.
        """
        if session in self._sessions:
            return
        if self.device.provider == CUDA:
            raise UnsupportedError(f"the kernels of {CUDA} run on no stream but their own: see user_compute_stream")
        table = api()
        count = status.fetch(table.SessionGetOutputCount, "size_t", session.pointer)
        devices = new_array("const OrtEpDevice *", max(count, 1))
        memories = new_array("const OrtMemoryInfo *", max(count, 1))
        with status.named(f"this session takes no stream of {self.device}", UnsupportedError):
            with provider_libraries.lock:
                provider_libraries.check_whole()
                status.check(table.SessionGetEpDeviceForOutputs(session.pointer, devices, count))
                providers = [device and status.string(table.EpDevice_EpName(device)) for device in devices]
            status.check(table.SessionGetMemoryInfoForOutputs(session.pointer, memories, count))
        place = self._place()
        for provider, memory in zip(providers, memories, strict=True):
            if provider == self.device.provider and place_of(memory) == place:
                self._sessions.add(session)
                return
        raise UnsupportedError(f"this session takes no stream of {self.device}: it makes no output of the session")

    def __repr__(self) -> str:
        return "SyncStream(closed)" if self._handle is None else f"SyncStream({self.device})"
