"""External memory and semaphores, imported by the tests' own provider and refused by others.

Not tested on hardware: Direct3D and Vulkan.
"""

import gc
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support.bindings import bind
from zrt import ExternalMemoryType, ExternalSemaphoreType
from zrt.errors import FailError, InvalidArgumentError, ShapeError, UnsupportedError

FD = ExternalMemoryType.VK_MEMORY_OPAQUE_FD
SEMAPHORE_FD = ExternalSemaphoreType.VK_TIMELINE_SEMAPHORE_OPAQUE_FD
KINDS = [*ExternalMemoryType, *ExternalSemaphoreType]


@pytest.fixture
def shared() -> Iterator[tuple[int, np.ndarray]]:
    """The descriptor of a mapped file, and its content as 16 float32."""
    with tempfile.TemporaryFile() as file:
        file.truncate(64)
        yield file.fileno(), np.frombuffer(mmap.mmap(file.fileno(), 64), np.float32)


@pytest.fixture
def importer(plugin: Any) -> zrt.ExternalResourceImporter:
    return zrt.ExternalResourceImporter(plugin.own)


class TestMemory:
    def test_can_import(self, importer: zrt.ExternalResourceImporter) -> None:
        assert {kind for kind in KINDS if importer.can_import(kind)} == {FD, SEMAPHORE_FD}

    def test_tensors_share_the_memory(
        self, importer: zrt.ExternalResourceImporter, shared: Any, negate: Callable[..., zrt.Session], plugin: Any
    ) -> None:
        descriptor, content = shared
        memory = importer.import_memory(FD, descriptor, 64, offset=8)
        assert (memory.nbytes, memory.device) == (56, plugin.own)
        x, y = memory.tensor((3,), "float32"), memory.tensor((3,), np.float32, offset=12)
        assert (x.shape, x.memory.name, x.memory.is_host) == ((3,), "ZrtTest", False)
        content[2:5] = [1, -2, 3]
        session = negate()
        bind(session, {"x": x}, y=y).run()
        assert content.tolist() == [0, 0, 1, -2, 3, -1, 2, -3, *[0] * 8]
        assert session.run([x])[0].tolist() == [-1, 2, -3]

    def test_tensor_keeps_memory_and_importer_alive(self, plugin: Any, shared: Any) -> None:
        descriptor, content = shared
        importer = zrt.ExternalResourceImporter(plugin.own)
        with importer.import_memory("vk_memory_opaque_fd", descriptor, 64) as memory:
            value = memory.tensor((16,), "float32")
        importer.close()
        del importer, memory
        gc.collect()
        content[15] = 5
        host = np.zeros(16, np.float32)
        zrt.copy(value, host)
        assert host[15] == 5

    def test_tensors_must_fit_into_the_memory(self, importer: zrt.ExternalResourceImporter, shared: Any) -> None:
        memory = importer.import_memory(FD, shared[0], 64)
        for shape, dtype in (
            ((4, 2), "float64"),
            ((), "bool"),
            ((0, 9), "int8"),
            ((128,), "int4"),
            ((32,), "bfloat16"),
        ):
            assert memory.tensor(shape, dtype).shape == shape
        with pytest.raises(ShapeError, match="from byte 4 on ends at 68"):
            memory.tensor((16,), "float32", offset=4)

    def test_provider_refuses_a_file_that_it_cannot_map(self, importer: zrt.ExternalResourceImporter) -> None:
        read, write = os.pipe()
        with pytest.raises(InvalidArgumentError, match=r"memory of kind VK_MEMORY_OPAQUE_FD: .*cannot map"):
            importer.import_memory(FD, read, 64)
        with pytest.raises(InvalidArgumentError, match=r"semaphores of kind .*cannot map"):
            importer.import_semaphore(SEMAPHORE_FD, read)
        os.close(read)
        os.close(write)

    @pytest.mark.parametrize("kind", [kind for kind in ExternalMemoryType if kind is not FD])
    def test_handle_of_windows_reaches_the_provider(
        self, importer: zrt.ExternalResourceImporter, kind: ExternalMemoryType
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=f"memory of kind {kind.name}: .*cannot map"):
            importer.import_memory(kind, 2**40, 64)


class TestSemaphores:
    def test_signal_and_wait(self, importer: zrt.ExternalResourceImporter, plugin: Any, shared: Any) -> None:
        semaphore = importer.import_semaphore(SEMAPHORE_FD, shared[0])
        count = shared[1].view(np.uint64)
        stream = zrt.SyncStream(plugin.own)
        semaphore.signal(stream, 2**63 + 1)
        assert count[0] == 2**63 + 1
        semaphore.wait(stream, 7)
        with pytest.raises(FailError, match="semaphores: the test provider does not wait"):
            semaphore.wait(stream, 2**63 + 2)

    def test_stream_keeps_the_semaphore_alive(
        self, importer: zrt.ExternalResourceImporter, plugin: Any, shared: Any
    ) -> None:
        stream = zrt.SyncStream(plugin.own)
        with importer.import_semaphore(SEMAPHORE_FD, shared[0]) as semaphore:
            semaphore.signal(stream, 1)
        with pytest.raises(zrt.errors.ClosedError):
            semaphore.signal(stream, 2)
        del semaphore
        gc.collect()
        stream.release_copies()


class TestGraphics:
    def test_init_and_deinit(self, plugin: Any) -> None:
        zrt.init_graphics_interop(plugin.own, "vulkan", options={"queue": "0"})
        zrt.deinit_graphics_interop(plugin.own)
        with pytest.raises(FailError, match="graphics interop: the test provider has no"):
            zrt.deinit_graphics_interop(plugin.own)

    def test_provider_refuses_another_api(self, plugin: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="knows Vulkan alone"):
            zrt.init_graphics_interop(plugin.own, zrt.GraphicsApi.D3D12, command_queue=4096)


def test_device_whose_provider_imports_nothing(plugin: Any, shared: Any) -> None:
    importer = zrt.ExternalResourceImporter(plugin.npu)
    assert not any(importer.can_import(kind) for kind in KINDS)
    assert str(plugin.npu) in repr(importer)
    with pytest.raises(UnsupportedError, match="memory: its provider imports nothing") as caught:
        importer.import_memory(FD, shared[0], 64)
    assert str(plugin.npu) in str(caught.value)


@pytest.mark.gpu
def test_can_import_answers_for_cuda() -> None:
    devices = [device for device in zrt.ep_devices() if "cuda" in device.provider.lower()]
    if not devices:
        pytest.skip("CUDA's provider is not registered as a library")
    importer = zrt.ExternalResourceImporter(devices[0])
    assert all(isinstance(importer.can_import(kind), bool) for kind in KINDS)
