"""Devices, provider libraries, streams, placement."""

from collections.abc import Callable

import zrt
from tests.robustness.bad import LOADS, MEMORY
from tests.robustness.vocabulary import A_FACT, A_RESULT, NOTHING, Bad, Kind, closed, unsupported, wrong_types
from tests.support import plugin
from zrt.errors import (
    ArgumentError,
    BusyError,
    CallbackError,
    Error,
    InvalidArgumentError,
    ProviderError,
    ProviderNotFoundError,
    UnsupportedError,
)


def environment() -> zrt.Environment:
    return zrt.Environment()


def device() -> zrt.EpDevice:
    """A device with streams, from the tests' own provider library (conftest.py unregisters it)."""
    if "mistakes" not in environment().provider_libraries:
        environment().register_provider_library("mistakes", plugin.path())
    return plugin.devices("mistakes")[0]


def gone() -> zrt.EpDevice:
    """A device whose library was unregistered."""
    environment().register_provider_library("gone", plugin.path())
    device, _ = plugin.devices("gone")
    environment().unregister_provider_library("gone")
    return device


LIBRARY_FILE = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "none.so", "'bad'", "none.so", "no such file",
        error=ProviderNotFoundError),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "'bad'", "is not a file", error=ProviderError),
    Bad(Kind.EMPTY, lambda w: w.file("empty.so", b""), "'bad'", "empty.so", error=ProviderError),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("text.so", b"no library" * 99), "'bad'", "text.so", error=ProviderError),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", "path", "NUL"), *wrong_types("path", 5, None),
]  # fmt: skip

LIBRARY_NAME = [
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", "name", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "\ud800", "name", "UTF-8"),
    *wrong_types("name", 5, None, []),
]

DEVICE = [
    *wrong_types("device", 5, None), Bad(Kind.WRONG_TYPE, lambda w: device().hardware, "device", "HardwareDevice"),
    Bad(Kind.CLOSED, lambda w: gone(), "'gone' was unregistered"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.ep_devices()[0], "CPUExecutionProvider", "host's memory",
        error=UnsupportedError),
]  # fmt: skip

STREAM = [
    *wrong_types("stream", 5),
    Bad(Kind.WRONG_TYPE, lambda w: device(), "stream", "EpDevice"),
    Bad(Kind.CLOSED, lambda w: closed(zrt.SyncStream(device())), "this SyncStream is closed"),
]

DEVICE_MEMORY = [
    *wrong_types("memory", 5),
    Bad(Kind.WRONG_TYPE, lambda w: device(), "memory", "EpDevice"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.ep_devices()[0].memory, "host's memory", error=UnsupportedError),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo.cpu(), "'Cpu'", "EpDevice", error=UnsupportedError),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo("Nope"), "'Nope'", "EpDevice", error=UnsupportedError),
    Bad(Kind.CLOSED, lambda w: gone().memory, "'gone' was unregistered"),
]

PAIRS = [
    *wrong_types("options", 5),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 5}, "options", "'a'"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: "a"}, "options", "5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"a\0": "b"}, "options", "NUL"),
]

CHOSEN = [
    Bad(Kind.CLOSED, lambda w: [gone()], "'gone' was unregistered"),
    Bad(Kind.CLOSED, lambda w: [(gone(), {})], "'gone' was unregistered"),
    Bad(Kind.WRONG_VALUE, lambda w: [device(), device()], "given twice"),
    Bad(Kind.WRONG_VALUE, lambda w: ["cpu", device()], "put it last"),
    Bad(Kind.WRONG_VALUE, lambda w: [(device(), {"refuse": "1"})], "refuse", error=Error),
    Bad(Kind.WRONG_TYPE, lambda w: device(), "expected a list"),
    Bad(Kind.WRONG_TYPE, lambda w: [(device(),)], "pair"),
    Bad(Kind.WRONG_TYPE, lambda w: [(device(), 5)], "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.DevicePolicy.PREFER_CPU], "neither a provider"),
    Bad(Kind.WRONG_VALUE, lambda w: lambda devices, metadata: 1 / 0, "ZeroDivisionError", error=CallbackError),
    Bad(Kind.WRONG_VALUE, lambda w: lambda devices, metadata: [], "not 0", error=CallbackError),
    Bad(Kind.CLOSED, lambda w: lambda devices, metadata: [gone()], "BusyError", error=CallbackError),
    Bad(Kind.WRONG_TYPE, lambda w: lambda devices, metadata: [5], "devices", error=CallbackError),
    Bad(Kind.WRONG_TYPE, lambda w: lambda: [], "TypeError", error=CallbackError),
]


TAKES = [
    ("Environment.register_provider_library", "path", LIBRARY_FILE,
     lambda w, bad: environment().register_provider_library("bad", bad)),
    ("Environment.register_provider_library", "name", LIBRARY_NAME,
     lambda w, bad: environment().register_provider_library(bad, plugin.path())),
    ("Environment.unregister_provider_library", "name", LIBRARY_NAME,
     lambda w, bad: environment().unregister_provider_library(bad)),
    ("Environment.shared_allocator", "memory", [*MEMORY, DEVICE_MEMORY[-1]],
     lambda w, bad: environment().shared_allocator(bad)),
    ("Environment.create_shared_allocator", "memory", DEVICE_MEMORY,
     lambda w, bad: environment().create_shared_allocator(bad)),
    ("Environment.create_shared_allocator", "options", PAIRS,
     lambda w, bad: environment().create_shared_allocator(device().memory, bad)),
    ("Environment.release_shared_allocator", "memory", DEVICE_MEMORY,
     lambda w, bad: environment().release_shared_allocator(bad)),
    *((call, "devices", CHOSEN, lambda w, bad, do=do: do(w, providers=bad)) for call, do in LOADS.items()),
    ("Session.set_dynamic_options", "options", PAIRS, lambda w, bad: w.session.set_dynamic_options(bad)),
    ("SyncStream.__init__", "device", DEVICE, lambda w, bad: zrt.SyncStream(bad)),
    ("SyncStream.__init__", "options", PAIRS, lambda w, bad: zrt.SyncStream(device(), bad)),
    ("RunOptions.__init__", "sync_stream", STREAM, lambda w, bad: zrt.RunOptions(sync_stream=bad)),
    ("copy", "stream", STREAM, lambda w, bad: zrt.copy(w.array, w.array.copy(), bad)),
    ("copy_all", "stream", STREAM, lambda w, bad: zrt.copy_all([(w.array, w.array.copy())], bad)),
]  # fmt: skip


def streamed() -> zrt.RunOptions:
    return zrt.RunOptions(sync_stream=zrt.SyncStream(device()))


def held(do: Callable[[zrt.Environment, zrt.MemoryInfo], object]) -> object:
    """Calls the function with a memory that has a live allocator."""
    memory = device().memory
    assert memory is not None
    with environment().create_shared_allocator(memory):
        return do(environment(), memory)


def alive(do: Callable[[zrt.Environment, zrt.MemoryInfo], object], name: str = "'ZrtTest'") -> Bad:
    """A call that would take away memory that is in use."""
    return Bad(Kind.WRONG_VALUE, lambda w: held(do), name, "is alive", error=BusyError)


SINGLE = {
    "Environment.register_provider_library": [
        Bad(Kind.WRONG_VALUE, lambda w: environment().register_provider_library("", plugin.path()), "name", "empty"),
        Bad(Kind.WRONG_VALUE, lambda w: (device(), environment().register_provider_library("mistakes", plugin.path())),
            "'mistakes' is registered already"),
        Bad(Kind.WRONG_VALUE, lambda w: environment().register_provider_library("refused", plugin.path()), "'refused'",
            "told to refuse", error=ProviderError),
    ],
    "Environment.unregister_provider_library": [
        Bad(Kind.UNKNOWN_NAME, lambda w: environment().unregister_provider_library("none"), "'none'"),
        alive(lambda e, m: e.unregister_provider_library("mistakes"), "'mistakes'"),
    ],
    "HardwareDevice.incompatibility": [
        Bad(Kind.UNKNOWN_NAME, lambda w: zrt.hardware_devices()[0].incompatibility("none"), "'none'",
            error=ArgumentError),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.hardware_devices()[0].incompatibility(5), "provider", "int"),
    ],
    "Environment.create_shared_allocator": [
        alive(lambda e, m: e.create_shared_allocator(m)),
        Bad(Kind.WRONG_VALUE, lambda w: environment().create_shared_allocator(device().host_memory, {"refuse": "1"}),
            "'ZrtTestHost'", "told to refuse", error=InvalidArgumentError),
    ],
    "Session.allocator": [Bad(Kind.CLOSED, lambda w: w.session.allocator(gone().memory), "'gone'")],
    "Session.set_dynamic_options": [Bad(Kind.WRONG_VALUE, lambda w: w.session.set_dynamic_options({}), "none")],
    "Session.release_captured_graph": [
        Bad(Kind.WRONG_VALUE, lambda w: w.session.release_captured_graph(-1), "graph_id", "-1"),
        Bad(Kind.WRONG_TYPE, lambda w: w.session.release_captured_graph("1"), "graph_id", "str"),
        unsupported(lambda w: w.session.release_captured_graph(1), "no graph is captured"),
    ],
    "RunOptions.__init__": [
        Bad(Kind.WRONG_VALUE, lambda w: zrt.RunOptions(gpu_graph_id=-2), "gpu_graph_id"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.RunOptions(gpu_graph_id="1"), "gpu_graph_id"),
    ],
    "Environment.release_shared_allocator": [alive(lambda e, m: e.release_shared_allocator(m))],
    "Environment.unregister_allocator": [alive(lambda e, m: e.unregister_allocator(m))],
    "Session.run": [unsupported(lambda w: w.session.run(w.feeds, options=streamed()), "takes no stream")],
    "PreparedRun.run": [unsupported(lambda w: w.prepared.run(streamed()), "takes no stream")],
    "IoBinding.run": [unsupported(lambda w: w.binding.run(streamed()), "takes no stream")],
    "Lane.run_with": [unsupported(lambda w: w.lane.run_with(streamed()), "takes no stream")],
}  # fmt: skip

CLOSED_SELF = {
    "Session.set_dynamic_options": lambda w, it: it.set_dynamic_options({"a": "b"}),
    "Session.release_captured_graph": lambda w, it: it.release_captured_graph(1),
}

CLOSED_ALONE = {"Session": "placement", "SyncStream": "native_handle release_copies"}

CLOSABLE = {"SyncStream": lambda w: zrt.SyncStream(device())}

CANNOT_FAIL = {
    A_RESULT: """
        CpuBudget.__new__ EpDevice.__init__ HardwareDevice.__init__ Incompatibility.__init__ NodePlacement.__init__
        Placement.__init__ PortPlacement.__init__
    """,
    A_FACT: "Placement.nodes Placement.providers Placement.rows Placement.to_dict",
    NOTHING: "Environment.cpu_budget Environment.provider_libraries ep_devices hardware_devices",
}
