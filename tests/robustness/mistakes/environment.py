"""The environment, thread pools and factories, registered allocators, arenas, allocations, memories of any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zrt
from tests.robustness.bad import FLAG, MEMORY
from tests.robustness.vocabulary import NOTHING, Bad, Kind, Single, Take, World, closed
from zrt.errors import (
    AllocationError,
    ArgumentError,
    CallbackError,
    ClosedError,
    DTypeError,
    Error,
    ModelLoadCanceledError,
    UnsupportedError,
)


def raises(work: object) -> object:
    raise ValueError("no more threads")


def on_the_spot(work: Any) -> None:
    work()


def forgets(work: object) -> str:
    return "a thread"


THREADS = [
    *(
        Bad(kind, lambda w, count=count: count, error, *words)
        for kind, count, error, words in (
            (Kind.NEGATIVE, -1, ArgumentError, ["-1"]),
            (Kind.HUGE, 2**31, ArgumentError, [str(2**31)]),
            (Kind.WRONG_TYPE, 1.5, DTypeError, ["1.5"]),
            (Kind.WRONG_TYPE, True, DTypeError, ["True"]),
            (Kind.WRONG_TYPE, None, DTypeError, ["None"]),
        )
    )
]

# Affinities for three threads, the first of which is the caller's.
AFFINITY = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [1, 2], DTypeError, "list"),
    Bad(Kind.WRONG_VALUE, lambda w: "", ArgumentError, "1 groups"),
    Bad(Kind.WRONG_VALUE, lambda w: "1", ArgumentError, "1 groups", "3 threads"),
    Bad(Kind.WRONG_VALUE, lambda w: "1;1;1", ArgumentError, "3 groups", "3 threads"),
    Bad(Kind.WRONG_VALUE, lambda w: "1;a", ArgumentError, "'a'"),
    Bad(Kind.WRONG_VALUE, lambda w: "1;0", ArgumentError, "'0'"),
    Bad(Kind.WRONG_VALUE, lambda w: "1\0;1", ArgumentError, "NUL"),
    Bad(Kind.HUGE, lambda w: "1;99999", ArgumentError, "'99999'"),
]

FACTORY = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "thread_factory", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "threading.Thread", DTypeError, "thread_factory", "str"),
]

# With thread factories that fail only when ONNX Runtime asks for a thread.
ASKED_FACTORY = [
    *FACTORY,
    Bad(Kind.WRONG_VALUE, lambda w: raises, CallbackError, "model in memory", "ValueError: no more threads"),
    Bad(Kind.WRONG_VALUE, lambda w: on_the_spot, CallbackError, "model in memory", "another thread"),
    Bad(Kind.WRONG_VALUE, lambda w: forgets, CallbackError, "model in memory", "dropped the work"),
    Bad(Kind.WRONG_VALUE, lambda w: lambda: None, CallbackError, "model in memory", "TypeError"),
]

CANCELLATION = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "load_cancellation", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: True, DTypeError, "load_cancellation", "bool"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.LoadCancellation, DTypeError, "load_cancellation", "type"),
    Bad(Kind.CLOSED, lambda w: closed(zrt.LoadCancellation()), ClosedError, "this LoadCancellation is closed"),
]

ARENA = [
    *(
        Bad(kind, lambda w, field=field, value=value: zrt.ArenaConfig(**{field: value}), error, field)
        for field, least in (
            ("max_mem", 0),
            ("initial_chunk_size_bytes", 0),
            ("max_dead_bytes_per_chunk", 0),
            ("initial_growth_chunk_size_bytes", 255),
            ("max_power_of_two_extend_bytes", 1000),
            ("cuda_mempool_release_threshold", -1),
            ("cuda_mempool_bytes_to_keep_on_shrink", -1),
        )
        for kind, value, error in (
            (Kind.NEGATIVE, -(2**70), ArgumentError),
            (Kind.HUGE, 2**70, ArgumentError),
            (Kind.WRONG_VALUE, least, ArgumentError),
            (Kind.WRONG_TYPE, "1", DTypeError),
            (Kind.WRONG_TYPE, 1.5, DTypeError),
        )
    ),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.ArenaConfig(arena_extend_strategy="twice"), ArgumentError, "'twice'"),
    Bad(
        Kind.WRONG_VALUE,
        lambda w: zrt.ArenaConfig(arena_extend_strategy=2),
        ArgumentError,
        "arena_extend_strategy",
        "2",
    ),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.ArenaConfig(use_cuda_mempool=1), DTypeError, "use_cuda_mempool", "1"),
]

ARENA_TO_REGISTER = [*ARENA, Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "arena", "int")]

MEMORY_TO_REGISTER = [
    *(bad for bad in MEMORY if bad.kind != Kind.UNKNOWN_NAME),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo("Nope"), UnsupportedError, "'Nope'"),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo(""), UnsupportedError, "''"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo.of("Other", "NPU"), UnsupportedError, "'Other'"),
]

MEMORY_TO_UNREGISTER = [
    *MEMORY,
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo.cpu(), ArgumentError, "'Cpu'", "No allocator"),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo.of("Other", "NPU"), ArgumentError, "'Other'", "No allocator"),
]

NBYTES = [
    Bad(Kind.NEGATIVE, lambda w: -1, ArgumentError, "nbytes", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: 0, ArgumentError, "nbytes", "0"),
    Bad(Kind.HUGE, lambda w: 2**64, ArgumentError, "nbytes", str(2**64)),
    Bad(Kind.HUGE, lambda w: 2**63 + 1, AllocationError, str(2**63 + 1)),
    Bad(Kind.HUGE, lambda w: 2**52, AllocationError, str(2**52)),
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, DTypeError, "nbytes", "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: "1", DTypeError, "nbytes", "'1'"),
    Bad(Kind.WRONG_TYPE, lambda w: True, DTypeError, "nbytes", "True"),
]

MEMORY_FIELDS = [
    Bad(kind, lambda w, fields=fields: {"name": "Mine", "device_type": "NPU", **fields}, error, *words)
    for kind, fields, error, words in (
        (Kind.WRONG_TYPE, {"name": 5}, DTypeError, ["5"]),
        (Kind.WRONG_VALUE, {"name": "a\0"}, ArgumentError, ["NUL"]),
        (Kind.WRONG_VALUE, {"name": "\ud800"}, ArgumentError, ["UTF-8"]),
        (Kind.UNKNOWN_NAME, {"device_type": "TPU"}, ArgumentError, ["device_type", "'TPU'", "NPU"]),
        (Kind.WRONG_VALUE, {"device_type": 9}, ArgumentError, ["device_type", "9"]),
        (Kind.NEGATIVE, {"device_id": -1}, ArgumentError, ["device_id", "-1"]),
        (Kind.HUGE, {"device_id": 2**15}, ArgumentError, ["device_id", str(2**15)]),
        (Kind.WRONG_TYPE, {"device_id": "0"}, DTypeError, ["device_id", "'0'"]),
        (Kind.NEGATIVE, {"vendor_id": -1}, ArgumentError, ["vendor_id", "-1"]),
        (Kind.HUGE, {"vendor_id": 2**32}, ArgumentError, ["vendor_id", str(2**32)]),
        (Kind.WRONG_TYPE, {"host_accessible": 1}, DTypeError, ["host_accessible", "1"]),
        (Kind.WRONG_VALUE, {"alignment": 3}, ArgumentError, ["alignment", "3"]),
        (Kind.HUGE, {"alignment": 2**62}, ArgumentError, ["alignment", str(2**62)]),
        (Kind.WRONG_VALUE, {"allocator_type": "best"}, ArgumentError, ["allocator_type", "'best'"]),
    )
]

SHRINK_ARENAS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "shrink_arenas", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: "cpu:0", DTypeError, "shrink_arenas", "'cpu:0'"),
    Bad(Kind.WRONG_TYPE, lambda w: ["cpu"], DTypeError, "shrink_arenas", "'cpu'"),
    Bad(Kind.WRONG_VALUE, lambda w: [zrt.MemoryInfo.of("Mine", "NPU")], ArgumentError, "shrink_arenas", "'Mine'"),
]


def options(**fields: Any) -> zrt.SessionOptions:
    return zrt.SessionOptions(**{"intra_op_num_threads": 3, "log_severity_level": "FATAL", **fields})


def pools(**fields: Any) -> object:
    return zrt.ThreadingOptions(**fields).handle()


TAKES: list[Take] = [
    ("ThreadingOptions.handle", "intra_op_num_threads", THREADS, lambda w, bad: pools(intra_op_num_threads=bad)),
    ("ThreadingOptions.handle", "inter_op_num_threads", THREADS, lambda w, bad: pools(inter_op_num_threads=bad)),
    ("ThreadingOptions.handle", "allow_spinning", FLAG, lambda w, bad: pools(allow_spinning=bad)),
    ("ThreadingOptions.handle", "denormal_as_zero", FLAG, lambda w, bad: pools(denormal_as_zero=bad)),
    ("ThreadingOptions.handle", "intra_op_thread_affinity", AFFINITY,
     lambda w, bad: pools(intra_op_num_threads=3, intra_op_thread_affinity=bad)),
    ("ThreadingOptions.handle", "thread_factory", FACTORY, lambda w, bad: pools(thread_factory=bad)),
    ("SessionOptions.handle", "intra_op_thread_affinities", AFFINITY,
     lambda w, bad: options(intra_op_thread_affinities=bad).handle()),
    *(
        ("SessionOptions.handle", field, FLAG, lambda w, bad, field=field: options(**{field: bad}).handle())
        for field in (
            "set_denormal_as_zero",
            "use_per_session_threads",
            "use_env_allocators",
            "use_device_allocator_for_initializers",
        )
    ),
    ("SessionOptions.handle", "thread_factory", FACTORY, lambda w, bad: options(thread_factory=bad).handle()),
    ("Session.__init__", "thread_factory", ASKED_FACTORY,
     lambda w, bad: zrt.Session(w.model, options(thread_factory=bad))),
    ("Runtime.replicate", "thread_factory", [bad for bad in ASKED_FACTORY if "TypeError" not in bad.words],
     lambda w, bad: zrt.Runtime.replicate(w.model, 2, options(thread_factory=bad), share_weights=True)),
    ("SessionOptions.handle", "load_cancellation", CANCELLATION,
     lambda w, bad: options(load_cancellation=bad).handle()),
    ("RunOptions.__init__", "shrink_arenas", SHRINK_ARENAS, lambda w, bad: zrt.RunOptions(shrink_arenas=bad)),
    ("Environment.register_allocator", "memory", MEMORY_TO_REGISTER,
     lambda w, bad: zrt.Environment().register_allocator(bad)),
    ("Environment.register_allocator", "arena", ARENA_TO_REGISTER,
     lambda w, bad: zrt.Environment().register_allocator(arena=bad)),
    ("Environment.unregister_allocator", "memory", MEMORY_TO_UNREGISTER,
     lambda w, bad: zrt.Environment().unregister_allocator(bad)),
    ("ArenaConfig.handle", "fields", ARENA, lambda w, bad: bad.handle()),
    ("Allocator.allocate", "nbytes", NBYTES, lambda w, bad: w.session.allocator().allocate(bad)),
    ("MemoryInfo.of", "fields", MEMORY_FIELDS, lambda w, bad: zrt.MemoryInfo.of(**bad)),
    ("MemoryInfo.same", "other", MEMORY, lambda w, bad: zrt.MemoryInfo.cpu().same(bad)),
]  # fmt: skip


def canceled() -> zrt.LoadCancellation:
    cancellation = zrt.LoadCancellation()
    cancellation.cancel()
    return cancellation


def on_a_device(w: World) -> zrt.Allocation:
    """An allocation that claims to be in device memory."""
    there = w.session.allocator().allocate(8)
    there.memory = zrt.MemoryInfo.cuda()
    return there


SINGLE: list[Single] = [
    ("Environment.__new__", Kind.WRONG_TYPE, lambda w: zrt.Environment(5), DTypeError, ("log_id", "5")),
    ("Environment.__new__", Kind.WRONG_VALUE, lambda w: zrt.Environment("other"), ArgumentError, ("'other'", "second")),
    ("Environment.__new__", Kind.WRONG_VALUE, lambda w: zrt.Environment("a\0"), ArgumentError, ("log_id", "NUL")),
    (
        "Environment.__new__",
        Kind.WRONG_VALUE,
        lambda w: zrt.Environment("zrt", 9),
        ArgumentError,
        ("log_severity", "9"),
    ),
    ("Environment.__new__", Kind.WRONG_TYPE, lambda w: zrt.Environment(threading=5), DTypeError, ("threading", "int")),
    (
        "Environment.__new__",
        Kind.WRONG_VALUE,
        lambda w: zrt.Environment(threading=zrt.ThreadingOptions()),
        ArgumentError,
        ("ThreadingOptions", "second"),
    ),
    (
        "Environment.__new__",
        Kind.WRONG_TYPE,
        lambda w: zrt.Environment(config_entries={"a": 5}),
        DTypeError,
        ("config_entries", "'a'"),
    ),
    (
        "Environment.__new__",
        Kind.WRONG_VALUE,
        lambda w: zrt.Environment(config_entries={"a": "1"}),
        ArgumentError,
        ("config_entries", "second"),
    ),
    (
        "Session.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.Session(w.model, options(intra_op_num_threads=0, use_per_session_threads=False)),
        ArgumentError,
        ("use_per_session_threads", "ThreadingOptions"),
    ),
    (
        "SessionOptions.handle",
        Kind.WRONG_VALUE,
        lambda w: options(use_per_session_threads=False).handle(),
        ArgumentError,
        ("intra_op_num_threads", "use_per_session_threads"),
    ),
    (
        "Session.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.Session(w.model, options(load_cancellation=canceled())),
        ModelLoadCanceledError,
        ("model in memory", "canceled"),
    ),
    ("Session.run", Kind.WRONG_VALUE, lambda w: shrunk(w), Error, ("arena",)),
    ("Allocation.__init__", Kind.WRONG_TYPE, lambda w: zrt.Allocation(5, zrt.MemoryInfo.cpu()), DTypeError, ("int",)),
    ("Allocation.numpy", Kind.WRONG_VALUE, lambda w: on_a_device(w).numpy(), UnsupportedError, ("Cuda",)),
]


def shrunk(w: World) -> object:
    """A run with options to shrink an arena that the session does not have."""
    return w.session.run(w.feeds, options=zrt.RunOptions(shrink_arenas=[zrt.MemoryInfo.cuda(9)]))


CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "Allocator.allocate": lambda w, it: it.allocate(1),
    "Allocation.address": lambda w, it: it.address,
    "Allocation.nbytes": lambda w, it: it.nbytes,
    "Allocation.numpy": lambda w, it: it.numpy(),
    "Allocation.__enter__": lambda w, it: it.__enter__(),
    "LoadCancellation.cancel": lambda w, it: it.cancel(),
    "LoadCancellation.reset": lambda w, it: it.reset(),
    "LoadCancellation.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {
    "Allocation": lambda w: w.session.allocator().allocate(8),
    "LoadCancellation": lambda w: zrt.LoadCancellation(),
}

CANNOT_FAIL: dict[str, str] = {
    "LoadCancellation.__init__": NOTHING,
    "ThreadingOptions.__init__": "its arguments are checked where it is used: see ThreadingOptions.handle",
    "ArenaConfig.__init__": "its arguments are checked where it is used: see ARENA",
}

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "threads": (THREADS, {Kind.NEGATIVE, Kind.HUGE}),
    "affinity": (AFFINITY, {Kind.HUGE}),
    "arena": (ARENA, {Kind.NEGATIVE, Kind.HUGE}),
    "memory to register": (MEMORY_TO_REGISTER, {Kind.UNKNOWN_NAME}),
    "memory to unregister": (MEMORY_TO_UNREGISTER, {Kind.UNKNOWN_NAME}),
    "bytes": (NBYTES, {Kind.NEGATIVE, Kind.HUGE}),
    "fields of a memory": (MEMORY_FIELDS, {Kind.UNKNOWN_NAME, Kind.NEGATIVE, Kind.HUGE}),
}
