"""`SyncStream`: a queue of a device's, for copies and runs that go on without waiting for each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakSet

from zrt._common.arguments import wrong_type
from zrt._common.public import public
from zrt._native import ffi, status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.allocator_registry import Place, place_of
from zrt.environment.devices import EpDevice
from zrt.errors import Error, UnsupportedError
from zrt.memory.allocators import write_pairs

# Its kernels take any stream for one of their own making, and would use what is not there.
CUDA = "CUDAExecutionProvider"


@public
class SyncStream(Owner):
    """A stream of a device (``OrtSyncStream``), as `copy` and `RunOptions` take it.

    `options` are the provider's own. `UnsupportedError` where the device's provider has no streams, or where the device
    computes in the host's memory.

    ``OrtApi::CreateSyncStreamForEpDevice``, ``ReleaseSyncStream``, ``CreateKeyValuePairs``, ``AddKeyValuePair``,
    ``ReleaseKeyValuePairs``; ``MemoryInfoGetVendorId`` and ``MemoryInfoGetDeviceMemType`` tell whose memory is whose.
    """

    __slots__ = ("_kept", "_sessions", "device")

    device: EpDevice
    """The device that it belongs to."""

    def __init__(self, device: EpDevice, options: Mapping[str, str] | None = None) -> None:
        self._handle = None
        if not isinstance(device, EpDevice):
            raise wrong_type("device", "an EpDevice", device)
        owner = device._open()
        wishes = write_pairs(options, "stream options")
        if device.memory is None or device.memory.is_host:
            raise UnsupportedError(f"{device} computes in the host's memory, where there is nothing to wait for")
        table = api()
        self.device = device
        self._kept: set[Handle] = set()
        self._sessions: WeakSet[Handle] = WeakSet()
        # What its copies read and write goes after the stream.
        parents = [owner, Handle.pin(self._kept)]
        make = table.CreateSyncStreamForEpDevice
        try:
            self._handle = Handle.make(
                table.ReleaseSyncStream, parents, make, "OrtSyncStream", owner.pointer, wishes.pointer
            )
        except Error as error:
            raise UnsupportedError(f"{device} has no such stream: {error}") from error

    @property
    def native_handle(self) -> int:
        """The stream as the device's own library knows it: CUDA's ``cudaStream_t``, say.

        Waiting for the stream goes through that library.
        """
        handle = self._open()
        return int(ffi.cast("uintptr_t", api().SyncStream_GetHandle(handle.pointer)))

    def release_copies(self) -> None:
        """Lets go of the tensors that copies on this stream read and write; for when the stream was waited for.

        Until then, or until the stream is gone, it keeps them alive.
        """
        self._open()
        self._kept.clear()

    def keep(self, handles: Iterable[Handle]) -> None:
        """Keeps alive what a copy on this stream reads or writes."""
        self._kept.update(handles)

    def reaches(self, value: Handle) -> bool:
        """Whether a tensor lies in the memory of this stream's device."""
        memory = status.fetch(api().GetTensorMemoryInfo, "const OrtMemoryInfo *", value.pointer)
        return place_of(memory) == self._place()

    def _place(self) -> Place:
        assert self.device.memory is not None
        memory = self.device.memory.handle()
        return place_of(memory.pointer)

    def check(self, session: Handle) -> None:
        """Raises `UnsupportedError` for a session that does not run on the stream's device.

        ONNX Runtime looks for the stream that it is to replace, and crashes where the session has none at all. An
        output that this very device makes is the sure sign that it has.
        """
        if session in self._sessions:
            return
        if self.device.provider == CUDA:
            raise UnsupportedError(f"the kernels of {CUDA} run on no stream but their own: see user_compute_stream")
        table = api()
        count = status.fetch(table.SessionGetOutputCount, "size_t", session.pointer)
        devices = ffi.new("const OrtEpDevice *[]", max(count, 1))
        memories = ffi.new("const OrtMemoryInfo *[]", max(count, 1))
        try:
            with provider_libraries.lock:
                provider_libraries.check_whole()
                status.check(table.SessionGetEpDeviceForOutputs(session.pointer, devices, count))
                providers = [device and status.string(table.EpDevice_EpName(device)) for device in devices]
            status.check(table.SessionGetMemoryInfoForOutputs(session.pointer, memories, count))
        except Error as error:
            raise UnsupportedError(f"this session takes no stream of {self.device}: {error}") from error
        where = self._place()
        for provider, memory in zip(providers, memories, strict=True):
            if provider == self.device.provider and place_of(memory) == where:
                self._sessions.add(session)
                return
        raise UnsupportedError(f"this session takes no stream of {self.device}: it makes no output of the session")

    def __repr__(self) -> str:
        return "SyncStream(closed)" if self._handle is None else f"SyncStream({self.device})"
