"""Devices, provider libraries, streams, placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zrt
from tests.robustness.bad import MEMORY
from tests.robustness.vocabulary import A_FACT, A_RESULT, NOTHING, QUIET, Bad, Kind, Single, Take, World, closed
from tests.support import plugin
from zrt.errors import (
    ArgumentError,
    BusyError,
    CallbackError,
    ClosedError,
    DTypeError,
    Error,
    InvalidArgumentError,
    ProviderError,
    ProviderNotFoundError,
    UnknownNameError,
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
    found, _ = plugin.devices("gone")
    environment().unregister_provider_library("gone")
    return found


LIBRARY_FILE = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "none.so", ProviderNotFoundError, "'bad'", "none.so", "no such file"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, ProviderError, "'bad'", "is not a file"),
    Bad(Kind.EMPTY, lambda w: w.file("empty.so", b""), ProviderError, "'bad'", "empty.so"),
    Bad(Kind.WRONG_VALUE, lambda w: w.file("text.so", b"no library" * 99), ProviderError, "'bad'", "text.so"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "path", "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "path", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "path", "NoneType"),
]

LIBRARY_NAME = [
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "name", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "\ud800", ArgumentError, "name", "UTF-8"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "name", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "name", "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: [], DTypeError, "name", "list"),
]

DEVICE = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "device", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "device", "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: device().hardware, DTypeError, "device", "HardwareDevice"),
    Bad(Kind.CLOSED, lambda w: gone(), ClosedError, "'gone' was unregistered"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.ep_devices()[0], UnsupportedError, "CPUExecutionProvider", "host's memory"),
]

STREAM = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "stream", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: device(), DTypeError, "stream", "EpDevice"),
    Bad(Kind.CLOSED, lambda w: closed(zrt.SyncStream(device())), ClosedError, "this SyncStream is closed"),
]

DEVICE_MEMORY = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "memory", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: device(), DTypeError, "memory", "EpDevice"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.ep_devices()[0].memory, UnsupportedError, "host's memory"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo.cpu(), UnsupportedError, "'Cpu'", "EpDevice"),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo("Nope"), UnsupportedError, "'Nope'", "EpDevice"),
    Bad(Kind.CLOSED, lambda w: gone().memory, ClosedError, "'gone' was unregistered"),
]

PAIRS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "options", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 5}, DTypeError, "options", "'a'"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: "a"}, DTypeError, "options", "5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"a\0": "b"}, ArgumentError, "options", "NUL"),
]

CHOSEN = [
    Bad(Kind.CLOSED, lambda w: [gone()], ClosedError, "'gone' was unregistered"),
    Bad(Kind.CLOSED, lambda w: [(gone(), {})], ClosedError, "'gone' was unregistered"),
    Bad(Kind.WRONG_VALUE, lambda w: [device(), device()], ArgumentError, "given twice"),
    Bad(Kind.WRONG_VALUE, lambda w: ["cpu", device()], ArgumentError, "put it last"),
    Bad(Kind.WRONG_VALUE, lambda w: [(device(), {"refuse": "1"})], Error, "refuse"),
    Bad(Kind.WRONG_TYPE, lambda w: device(), DTypeError, "expected a list"),
    Bad(Kind.WRONG_TYPE, lambda w: [(device(),)], DTypeError, "pair"),
    Bad(Kind.WRONG_TYPE, lambda w: [(device(), 5)], DTypeError, "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.DevicePolicy.PREFER_CPU], DTypeError, "neither a provider"),
    Bad(Kind.WRONG_VALUE, lambda w: lambda devices, metadata: 1 / 0, CallbackError, "ZeroDivisionError"),
    Bad(Kind.WRONG_VALUE, lambda w: lambda devices, metadata: [], CallbackError, "not 0"),
    Bad(Kind.CLOSED, lambda w: lambda devices, metadata: [gone()], CallbackError, "BusyError"),
    Bad(Kind.WRONG_TYPE, lambda w: lambda devices, metadata: [5], CallbackError, "devices"),
    Bad(Kind.WRONG_TYPE, lambda w: lambda: [], CallbackError, "TypeError"),
]


def loading(call: str, do: Callable[..., object]) -> Take:
    return (call, "devices", CHOSEN, lambda w, bad: do(w, bad))


def array(w: World) -> Any:
    return w.array


TAKES: list[Take] = [
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
    loading("Session.__init__", lambda w, bad: zrt.Session(w.model, QUIET, bad)),
    loading("infer", lambda w, bad: zrt.infer(w.model, w.feeds, None, QUIET, bad)),
    loading("Runtime.replicate", lambda w, bad: zrt.Runtime.replicate(w.model, 2, QUIET, bad, shapes=w.shapes)),
    loading("DynamicRuntime.replicate", lambda w, bad: zrt.DynamicRuntime.replicate(w.model, 2, QUIET, bad)),
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


SINGLE: list[Single] = [
    (
        "Environment.register_provider_library",
        Kind.WRONG_VALUE,
        lambda w: environment().register_provider_library("", plugin.path()),
        ArgumentError,
        ("name", "empty"),
    ),
    (
        "Environment.register_provider_library",
        Kind.WRONG_VALUE,
        lambda w: (device(), environment().register_provider_library("mistakes", plugin.path())),
        ArgumentError,
        ("'mistakes' is registered already",),
    ),
    (
        "Environment.register_provider_library",
        Kind.WRONG_VALUE,
        lambda w: environment().register_provider_library("refused", plugin.path()),
        ProviderError,
        ("'refused'", "told to refuse"),
    ),
    (
        "Environment.unregister_provider_library",
        Kind.UNKNOWN_NAME,
        lambda w: environment().unregister_provider_library("none"),
        UnknownNameError,
        ("'none'",),
    ),
    (
        "HardwareDevice.incompatibility",
        Kind.UNKNOWN_NAME,
        lambda w: zrt.hardware_devices()[0].incompatibility("none"),
        ArgumentError,
        ("'none'",),
    ),
    (
        "HardwareDevice.incompatibility",
        Kind.WRONG_TYPE,
        lambda w: zrt.hardware_devices()[0].incompatibility(5),
        DTypeError,
        ("provider", "int"),
    ),
    (
        "Environment.create_shared_allocator",
        Kind.WRONG_VALUE,
        lambda w: environment().create_shared_allocator(device().host_memory, {"refuse": "1"}),
        InvalidArgumentError,
        ("'ZrtTestHost'", "told to refuse"),
    ),
    *(
        (call, Kind.WRONG_VALUE, do, BusyError, ("'ZrtTest'", "is alive"))
        for call, do in (
            ("Environment.create_shared_allocator", lambda w: held(lambda e, m: e.create_shared_allocator(m))),
            ("Environment.release_shared_allocator", lambda w: held(lambda e, m: e.release_shared_allocator(m))),
            ("Environment.unregister_allocator", lambda w: held(lambda e, m: e.unregister_allocator(m))),
        )
    ),
    (
        "Environment.unregister_provider_library",
        Kind.WRONG_VALUE,
        lambda w: held(lambda e, m: e.unregister_provider_library("mistakes")),
        BusyError,
        ("'mistakes'", "is alive"),
    ),
    ("Session.allocator", Kind.CLOSED, lambda w: w.session.allocator(gone().memory), ClosedError, ("'gone'",)),
    (
        "Session.set_dynamic_options",
        Kind.WRONG_VALUE,
        lambda w: w.session.set_dynamic_options({}),
        ArgumentError,
        ("none",),
    ),
    (
        "Session.release_captured_graph",
        Kind.WRONG_VALUE,
        lambda w: w.session.release_captured_graph(-1),
        ArgumentError,
        ("graph_id", "-1"),
    ),
    (
        "Session.release_captured_graph",
        Kind.WRONG_TYPE,
        lambda w: w.session.release_captured_graph("1"),
        DTypeError,
        ("graph_id", "str"),
    ),
    (
        "Session.release_captured_graph",
        Kind.WRONG_VALUE,
        lambda w: w.session.release_captured_graph(1),
        UnsupportedError,
        ("no graph is captured",),
    ),
    (
        "RunOptions.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.RunOptions(gpu_graph_id=-2),
        ArgumentError,
        ("gpu_graph_id",),
    ),
    ("RunOptions.__init__", Kind.WRONG_TYPE, lambda w: zrt.RunOptions(gpu_graph_id="1"), DTypeError, ("gpu_graph_id",)),
    *(
        (call, Kind.WRONG_VALUE, do, UnsupportedError, ("takes no stream",))
        for call, do in (
            ("Session.run", lambda w: w.session.run(w.feeds, options=streamed())),
            ("PreparedRun.run", lambda w: w.prepared.run(streamed())),
            ("IoBinding.run", lambda w: w.binding.run(streamed())),
            ("Lane.run_with", lambda w: w.lane.run_with(streamed())),
        )
    ),
]

CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "Session.placement": lambda w, it: it.placement(),
    "Session.set_dynamic_options": lambda w, it: it.set_dynamic_options({"a": "b"}),
    "Session.release_captured_graph": lambda w, it: it.release_captured_graph(1),
    "SyncStream.native_handle": lambda w, it: it.native_handle,
    "SyncStream.release_copies": lambda w, it: it.release_copies(),
    "SyncStream.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {"SyncStream": lambda w: zrt.SyncStream(device())}

CANNOT_FAIL: dict[str, str] = {
    **{
        f"{name}.__init__": A_RESULT
        for name in (
            "EpDevice",
            "HardwareDevice",
            "Incompatibility",
            "NodePlacement",
            "Placement",
            "PortPlacement",
        )
    },
    **{f"Placement.{name}": A_FACT for name in ("nodes", "providers", "rows", "to_dict")},
    "Environment.provider_libraries": NOTHING,
    "ep_devices": NOTHING,
    "hardware_devices": NOTHING,
}
