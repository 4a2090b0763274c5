"""The environment, thread pools and factories, registered allocators, arenas, allocations, memories of any device."""

from typing import Any

import zrt
from tests.robustness.bad import FLAG, MEMORY
from tests.robustness.vocabulary import NOTHING, Bad, Kind, World, closed, wrong_types
from zrt.errors import (
    AllocationError,
    ArgumentError,
    CallbackError,
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
        Bad(kind, lambda w, count=count: count, *words, error=error)
        for kind, count, error, words in (
            (Kind.NEGATIVE, -1, ArgumentError, ["-1"]), (Kind.HUGE, 2**31, ArgumentError, [str(2**31)]),
            (Kind.WRONG_TYPE, 1.5, DTypeError, ["1.5"]), (Kind.WRONG_TYPE, True, DTypeError, ["True"]),
            (Kind.WRONG_TYPE, None, DTypeError, ["None"]),
        )
    )
]  # fmt: skip

# Affinities for three threads, the first of which is the caller's.
AFFINITY = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, "5"), Bad(Kind.WRONG_TYPE, lambda w: [1, 2], "list"),
    Bad(Kind.WRONG_VALUE, lambda w: "", "1 groups"), Bad(Kind.WRONG_VALUE, lambda w: "1", "1 groups", "3 threads"),
    Bad(Kind.WRONG_VALUE, lambda w: "1;1;1", "3 groups", "3 threads"), Bad(Kind.WRONG_VALUE, lambda w: "1;a", "'a'"),
    Bad(Kind.WRONG_VALUE, lambda w: "1;0", "'0'"), Bad(Kind.WRONG_VALUE, lambda w: "1\0;1", "NUL"),
    Bad(Kind.HUGE, lambda w: "1;99999", "'99999'"),
]  # fmt: skip

FACTORY = [*wrong_types("thread_factory", 5, "threading.Thread")]

# With thread factories that fail only when ONNX Runtime asks for a thread.
ASKED_FACTORY = [
    *FACTORY,
    Bad(Kind.WRONG_VALUE, lambda w: raises, "model in memory", "ValueError: no more threads", error=CallbackError),
    Bad(Kind.WRONG_VALUE, lambda w: on_the_spot, "model in memory", "another thread", error=CallbackError),
    Bad(Kind.WRONG_VALUE, lambda w: forgets, "model in memory", "dropped the work", error=CallbackError),
    Bad(Kind.WRONG_VALUE, lambda w: lambda: None, "model in memory", "TypeError", error=CallbackError),
]

CANCELLATION = [
    *wrong_types("load_cancellation", 5, True),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.LoadCancellation, "load_cancellation", "type"),
    Bad(Kind.CLOSED, lambda w: closed(zrt.LoadCancellation()), "this LoadCancellation is closed"),
]

ARENA = [
    *(
        Bad(kind, lambda w, field=field, value=value: zrt.ArenaConfig(**{field: value}), field, error=error)
        for field, least in (
            ("max_mem", 0), ("initial_chunk_size_bytes", 0), ("max_dead_bytes_per_chunk", 0),
            ("initial_growth_chunk_size_bytes", 255), ("max_power_of_two_extend_bytes", 1000),
            ("cuda_mempool_release_threshold", -1), ("cuda_mempool_bytes_to_keep_on_shrink", -1),
        )
        for kind, value, error in (
            (Kind.NEGATIVE, -(2**70), ArgumentError), (Kind.HUGE, 2**70, ArgumentError),
            (Kind.WRONG_VALUE, least, ArgumentError), (Kind.WRONG_TYPE, "1", DTypeError),
            (Kind.WRONG_TYPE, 1.5, DTypeError),
        )
    ),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.ArenaConfig(arena_extend_strategy="twice"), "'twice'"),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.ArenaConfig(arena_extend_strategy=2), "arena_extend_strategy", "2"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.ArenaConfig(use_cuda_mempool=1), "use_cuda_mempool", "1"),
]  # fmt: skip

# Options of a session for the memory that it holds.
HELD = [
    Bad(Kind.WRONG_VALUE, lambda w: {"memory": "bound"}, "memory: 'bound' is not \"bounded\""),
    Bad(Kind.WRONG_TYPE, lambda w: {"memory": True}, 'memory: expected "bounded", got bool True'),
    Bad(Kind.WRONG_VALUE, lambda w: {"memory_limit": "much"}, "memory_limit: expected bytes such as ", ", got 'much'"),
    Bad(Kind.WRONG_VALUE, lambda w: {"memory_limit": 0}, "memory_limit: 0 is not between"),
    Bad(Kind.WRONG_TYPE, lambda w: {"memory_limit": 1.5}, "memory_limit: expected an int"),
    Bad(Kind.WRONG_VALUE, lambda w: {"memory": "bounded", "enable_cpu_mem_arena": False}, "memory: ",
        " enable_cpu_mem_arena"),
    Bad(Kind.WRONG_VALUE, lambda w: {"memory_limit": 1 << 30, "use_env_allocators": True}, "memory_limit: ",
        " use_env_alloc"),
]  # fmt: skip

ARENA_TO_REGISTER = [*ARENA, *wrong_types("arena", 5)]

MEMORY_TO_REGISTER = [
    *(bad for bad in MEMORY if bad.kind != Kind.UNKNOWN_NAME),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo("Nope"), "'Nope'", error=UnsupportedError),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo(""), "''", error=UnsupportedError),
    Bad(Kind.WRONG_VALUE, lambda w: zrt.MemoryInfo.of("Other", "NPU"), "'Other'", error=UnsupportedError),
]

MEMORY_TO_UNREGISTER = [
    *MEMORY,
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo.cpu(), "'Cpu'", "No allocator", error=ArgumentError),
    Bad(Kind.UNKNOWN_NAME, lambda w: zrt.MemoryInfo.of("Other", "NPU"), "'Other'", "No allocator", error=ArgumentError),
]

NBYTES = [
    Bad(Kind.NEGATIVE, lambda w: -1, "nbytes", "-1"), Bad(Kind.WRONG_VALUE, lambda w: 0, "nbytes", "0"),
    Bad(Kind.HUGE, lambda w: 2**64, "nbytes", str(2**64)),
    Bad(Kind.HUGE, lambda w: 2**63 + 1, str(2**63 + 1), error=AllocationError),
    Bad(Kind.HUGE, lambda w: 2**52, str(2**52), error=AllocationError), *wrong_types("nbytes", 1.5, "1", True),
]  # fmt: skip

MEMORY_FIELDS = [
    Bad(kind, lambda w, fields=fields: {"name": "Mine", "device_type": "NPU", **fields}, *words, error=error)
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
    *wrong_types("shrink_arenas", 5, "cpu:0"),
    Bad(Kind.WRONG_TYPE, lambda w: ["cpu"], "shrink_arenas", "'cpu'"),
    Bad(Kind.WRONG_VALUE, lambda w: [zrt.MemoryInfo.of("Mine", "NPU")], "shrink_arenas", "'Mine'"),
]


def options(**fields: Any) -> zrt.SessionOptions:
    return zrt.SessionOptions(**{"intra_op_num_threads": 3, "log_severity_level": "FATAL", **fields})


def pools(**fields: Any) -> object:
    return zrt.ThreadingOptions(**fields).handle()


TAKES = [
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
    ("Session.__init__", "memory held", HELD, lambda w, bad: zrt.Session(w.model, options(**bad))),
    ("SessionSpec.__init__", "memory held", HELD, lambda w, bad: zrt.SessionSpec("m.onnx", options(**bad))),
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


SINGLE = {
    "Environment.__new__": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Environment(5), "log_id", "5"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Environment("other"), "'other'", "second"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Environment("a\0"), "log_id", "NUL"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Environment("zrt", 9), "log_severity", "9"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Environment(threading=5), "threading", "int"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Environment(threading=zrt.ThreadingOptions()), "ThreadingOptions",
            "second"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Environment(config_entries={"a": 5}), "config_entries", "'a'"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Environment(config_entries={"a": "1"}), "config_entries", "second"),
    ],
    "Session.__init__": [
        Bad(Kind.WRONG_VALUE,
            lambda w: zrt.Session(w.model, options(intra_op_num_threads=0, use_per_session_threads=False)),
            "use_per_session_threads", "ThreadingOptions"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Session(w.model, options(load_cancellation=canceled())), "model in memory",
            "canceled", error=ModelLoadCanceledError),
    ],
    "SessionOptions.handle": [
        Bad(Kind.WRONG_VALUE, lambda w: options(use_per_session_threads=False).handle(), "intra_op_num_threads",
            "use_per_session_threads")
    ],
    "Session.run": [Bad(Kind.WRONG_VALUE, lambda w: shrunk(w), "arena", error=Error)],
    "Allocation.__init__": [Bad(Kind.WRONG_TYPE, lambda w: zrt.Allocation(5, zrt.MemoryInfo.cpu()), "int")],
    "Allocation.numpy": [Bad(Kind.WRONG_VALUE, lambda w: on_a_device(w).numpy(), "Cuda", error=UnsupportedError)],
}  # fmt: skip


def shrunk(w: World) -> object:
    """A run with options to shrink an arena that the session does not have."""
    return w.session.run(w.feeds, options=zrt.RunOptions(shrink_arenas=[zrt.MemoryInfo.cuda(9)]))


CLOSED_SELF = {"Allocator.allocate": lambda w, it: it.allocate(1)}

CLOSED_ALONE = {"Allocation": "address nbytes numpy", "LoadCancellation": "cancel reset"}

CLOSABLE = {
    "Allocation": lambda w: w.session.allocator().allocate(8),
    "LoadCancellation": lambda w: zrt.LoadCancellation(),
}

CANNOT_FAIL = {
    NOTHING: "LoadCancellation.__init__",
    "its arguments are checked where it is used: see ThreadingOptions.handle": "ThreadingOptions.__init__",
    "its arguments are checked where it is used: see ARENA": "ArenaConfig.__init__",
}
