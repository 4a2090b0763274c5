"""Steps with a provider library that end or spoil the process: `provider_library.py FUNCTION LIBRARY` runs one."""

import contextlib
import signal
import sys

import numpy as np
import pytest

import zrt
from tests.support import models, ort, plugin
from zrt.errors import ProviderError, UnsupportedError

MODEL = models.parsed("(float[n] x) => (float[n] y) { y = Neg(x) }")
environment = zrt.Environment()


def exit_with_a_session_and_a_stream(library):
    environment.register_provider_library("mine", library)
    device, _ = plugin.devices("mine")
    session = zrt.Session(MODEL, providers=[device])
    lane = session.lane({"x": (3,)}, outputs=zrt.LaneMemory.allocated(device.memory))
    stream = zrt.SyncStream(device)
    options = zrt.RunOptions(sync_stream=stream)
    lane.run_with(options)
    # Only the interpreter's end releases them.
    sys.modules["kept"] = [device, session, lane, stream, options]


def exit_with_allocations(library):
    environment.register_provider_library("mine", library)
    own, _ = plugin.devices("mine")
    allocator = environment.create_shared_allocator(own.memory)
    cycle = [allocator.allocate(8), zrt.Value.allocate((2,), "float32", allocator)]
    cycle.append(cycle)
    sys.modules["kept"] = cycle


def failed_registration(library):
    """The library "spoiled" fails after it listed devices, which some releases of ONNX Runtime keep in their list."""

    def only_cpu():
        return [device.provider for device in zrt.ep_devices()] == ["CPUExecutionProvider"]

    def walks_the_list():
        if ort.TAKES_BACK_FAILED_REGISTRATIONS:
            return contextlib.nullcontext()
        return pytest.raises(UnsupportedError, match="'spoiled'")

    with pytest.raises(ProviderError, match=r"'spoiled'.*told to have no memory"):
        environment.register_provider_library("spoiled", library)
    assert only_cpu()
    assert environment.provider_libraries == {}
    with walks_the_list():
        zrt.Session(MODEL, providers=zrt.DevicePolicy.PREFER_CPU)
    with walks_the_list():
        environment.shared_allocator(zrt.MemoryInfo.cpu())
    [placed] = zrt.Session(MODEL).placement().inputs
    assert placed.provider == "CPUExecutionProvider"
    assert (placed.device is not None) is ort.TAKES_BACK_FAILED_REGISTRATIONS
    environment.register_provider_library("mine", library)
    own, _ = plugin.devices("mine")
    session = zrt.Session(MODEL, providers=[own])
    options = zrt.RunOptions(sync_stream=zrt.SyncStream(own))
    with walks_the_list():
        session.run([np.ones(1, "f")], options=options)
    assert session.providers == ("ZrtTestProvider", "CPUExecutionProvider")
    del session, options
    environment.unregister_provider_library("mine")
    assert only_cpu()


def interrupted_registration(library):
    """`library` sends Ctrl-C while it is loaded."""
    # A process of the background may have been started without.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        environment.register_provider_library("mine", library)
    assert environment.provider_libraries == {}
    environment.shared_allocator(zrt.MemoryInfo.cpu())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    environment.register_provider_library("mine", library)
    assert len(plugin.devices("mine")) == 2
    environment.unregister_provider_library("mine")


globals()[sys.argv[1]](*sys.argv[2:])
