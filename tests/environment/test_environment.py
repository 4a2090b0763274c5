"""`Environment`: one in a process, so each of these tests has a process of its own."""

from __future__ import annotations

import pytest

from tests.support.threads import two_processors

MODEL = """
import onnx, numpy as np, zrt
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    test (float[n] x) => (float[3] y) { y = Neg(x) }''')
"""


def test_a_session_makes_the_default_one(python):
    done = python(f"""{MODEL}
from zrt.environment import environment
assert environment._current is None
zrt.Session(model)
assert environment._current is zrt.Environment()
print(zrt.Environment())
""")
    assert done.stdout.strip() == "Environment(log_id='zrt', log_severity=WARNING)"


def test_the_same_settings_give_the_same_one_and_others_are_an_error(python):
    done = python("""
import zrt
first = zrt.Environment("server", zrt.LogSeverity.ERROR)
assert zrt.Environment("server", zrt.LogSeverity.ERROR) is first
assert zrt.Environment("server", "error") is first
for arguments in (("other", "error"), ("server", "info"), ()):
    try:
        zrt.Environment(*arguments)
    except zrt.errors.ArgumentError as error:
        print(error)
""")
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert "this process has its environment already, as Environment(log_id='server', log_severity=ERROR)" in line
    assert "'other' at ERROR cannot be a second one" in lines[0]


def test_after_a_session_it_is_too_late(python):
    done = python(f"""{MODEL}
zrt.Session(model)
try:
    zrt.Environment("server")
except zrt.errors.ArgumentError as error:
    print(error)
""")
    assert "Environment(log_id='zrt', log_severity=WARNING); 'server'" in done.stdout


@pytest.mark.parametrize(("severity", "logged"), [("warning", True), ("error", False)])
def test_log_id_and_severity_reach_the_log(python, severity, logged):
    # The model declares another size than comes out, of which ONNX Runtime warns.
    done = python(f"""{MODEL}
zrt.Environment("my process", {severity!r})
session = zrt.Session(model, zrt.SessionOptions())
try:
    session.run([np.ones(5, np.float32)], options=zrt.RunOptions(tag="my run"))
except zrt.Error:
    pass
""")
    assert ("does not match actual shape" in done.stderr) == logged
    assert "my run" in done.stderr


def test_verbose_logs_name_the_environment(python):
    done = python(f'{MODEL}\nzrt.Environment("my process", "verbose")\nzrt.Session(model)')
    assert "[I:onnxruntime:my process" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ("5", "DTypeError", "log_id: expected a str, got int 5"),
        ("'a\\0b'", "ArgumentError", "log_id: 'a\\x00b' holds a NUL character"),
        ("'a', 'loud'", "ArgumentError", "log_severity: 'loud' is none of VERBOSE, INFO, WARNING, ERROR, FATAL"),
        ("'a', 9", "ArgumentError", "log_severity: 9 is none of"),
        ("'a', None", "ArgumentError", "log_severity: None is none of"),
    ],
)
def test_bad_arguments_make_none(python, arguments, error, message):
    done = python(f"""
import zrt
from zrt.environment import environment
try:
    zrt.Environment({arguments})
except zrt.Error as error:
    print(type(error).__name__, error)
assert environment._current is None
""")
    assert done.stdout.startswith(f"{error} {message}")


def test_threads_that_race_make_one(python):
    python("""
import threading, zrt
barrier, made = threading.Barrier(8), []
def make():
    barrier.wait()
    made.append(zrt.Environment())
threads = [threading.Thread(target=make) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len({id(one) for one in made}) == 1, made
""")


def test_the_process_ends_well_whatever_is_left(python):
    """Sessions, runs, values and bindings that are alive at the interpreter's end, in cycles too."""
    python(f"""{MODEL}
import threading
session = zrt.Session(model)
cycle = [session, session.binding(), session.prepare([np.ones(3, np.float32)])]
cycle.append(cycle)
results = cycle[2].run()
value = zrt.Value.from_array(np.ones(3, np.float32))
def forever():
    while True:
        session.run([np.ones(3, np.float32)])
threading.Thread(target=forever, daemon=True).start()
""")


THREADS = f"""{MODEL}
import gc, threading
from zrt import Environment, Session, SessionOptions, ThreadingOptions
from tests.support.threads import FEEDS, MODEL as ADD, Factory, check
def of_the_environment(**fields):
    return Session(ADD, SessionOptions(use_per_session_threads=False, **fields))
def error(call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except zrt.Error as error:
        print(type(error).__name__, error)
        return error
    raise AssertionError("no error")
"""


class TestGlobalThreads:
    def test_are_shared_by_the_sessions_that_want_them(self, python):
        python(f"""{THREADS}
import os
threads = lambda: len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0
before = threads()
Environment(threading=ThreadingOptions(intra_op_num_threads=3, inter_op_num_threads=4, allow_spinning=False))
assert not before or threads() == before + 2 + 3, threads() - before
made = [of_the_environment(), of_the_environment(execution_mode="PARALLEL")]
assert not before or threads() == before + 5
for session in made:
    check(session)
own = Session(ADD, SessionOptions(intra_op_num_threads=3))
assert not before or threads() == before + 5 + 2
check(own)
""")

    def test_none_are_needed(self, python):
        python(f"""{THREADS}
Environment(threading=ThreadingOptions(intra_op_num_threads=1, inter_op_num_threads=1))
check(of_the_environment())
check(of_the_environment(execution_mode="PARALLEL"))
""")

    def test_an_environment_without_them_is_said_plainly(self, python):
        done = python(f"""{THREADS}
error(of_the_environment)
error(zrt.Runtime.replicate, ADD, 2, SessionOptions(use_per_session_threads=False), share_weights=True)
error(Environment, threading=ThreadingOptions())
check(Session(ADD))
""")
        words = "ArgumentError use_per_session_threads=False: the environment of this process has no thread pools"
        lines = done.stdout.splitlines()
        assert lines[0].startswith(words)
        assert lines[1].startswith(words)
        assert "ArgumentError this process has its environment already, as Environment(log_id='zrt'" in lines[2]
        assert "WARNING, threading=ThreadingOptions(intra_op_num_threads=0" in lines[2]

    def test_the_same_ones_give_the_same_environment(self, python):
        python(f"""{THREADS}
options = ThreadingOptions(intra_op_num_threads=2)
first = Environment(threading=options)
assert Environment(threading=ThreadingOptions(intra_op_num_threads=2)) is first
options.intra_op_num_threads = 3
assert first.threading.intra_op_num_threads == 2
error(Environment, threading=options)
error(Environment)
assert zrt.environment.environment.current() is first
""")

    def test_of_a_factory(self, python):
        done = python(f"""{THREADS}
factory = Factory()
environment = Environment(threading=ThreadingOptions(
    intra_op_num_threads=3, inter_op_num_threads=2, thread_factory=factory))
assert len(factory.threads) == 3
for _ in range(3):
    session = of_the_environment()
    check(session)
    session.close()
gc.collect()
assert all(thread.is_alive() for thread in factory.threads)
""")
        assert done.stderr == ""

    @pytest.mark.parametrize("before", [0, 1, 2])
    def test_a_factory_that_raises_leaves_no_environment(self, python, before):
        """The last of the three threads is that between operators."""
        done = python(f"""{THREADS}
from tests.support.threads import raises, unstarted
factory = Factory(*[unstarted] * {before}, raises)
pools = ThreadingOptions(intra_op_num_threads=3, inter_op_num_threads=2, thread_factory=factory)
assert type(error(Environment, "first", threading=pools).__cause__) is ValueError
assert factory.ended()
assert zrt.environment.environment._current is None
factory = Factory()
Environment("second", threading=ThreadingOptions(intra_op_num_threads=3, thread_factory=factory))
assert factory.asked >= 2
check(of_the_environment())
""")
        assert done.stdout == "CallbackError Environment: thread_factory raised ValueError: no more threads\n"

    def test_affinity(self, python):
        if not two_processors():
            pytest.skip("the first two processors are not this process's")
        python(f"""{THREADS}
import os
factory = Factory()
Environment(threading=ThreadingOptions(
    intra_op_num_threads=3, inter_op_num_threads=1, intra_op_thread_affinity="2;1", thread_factory=factory))
check(of_the_environment())
assert [os.sched_getaffinity(thread.native_id) for thread in factory.threads] == [{{1}}, {{0}}]
""")

    @pytest.mark.parametrize("zero", [False, True])
    def test_denormals(self, python, zero):
        python(f"""{THREADS}
Environment(threading=ThreadingOptions(intra_op_num_threads=4, denormal_as_zero={zero}))
session = of_the_environment()
tiny = np.full_like(FEEDS["x"], 1e-40)
feeds = {{"x": tiny, "y": np.zeros_like(tiny)}}
# What the caller's own thread computes keeps its denormals: some runs may be its alone.
found = any(np.any(session.run(feeds)[0] == 0) for _ in range(1000 if {zero} else 20))
assert found == {zero}
""")

    def test_bad_ones_make_none(self, python):
        wrong = [
            ("threading=5", "DTypeError threading: expected ThreadingOptions, got int"),
            ("threading=ThreadingOptions(allow_spinning=2)", "DTypeError allow_spinning: expected True or False"),
            ("threading=ThreadingOptions(thread_factory=2)", "DTypeError thread_factory: expected a function"),
            ("threading=ThreadingOptions(intra_op_num_threads=-1)", "ArgumentError intra_op_num_threads: -1"),
            ("threading=ThreadingOptions(inter_op_num_threads=1.5)", "DTypeError inter_op_num_threads: expected"),
            ("threading=ThreadingOptions(denormal_as_zero=None)", "DTypeError denormal_as_zero: expected"),
            (
                "threading=ThreadingOptions(intra_op_num_threads=3, intra_op_thread_affinity='1')",
                "ArgumentError intra_op_thread_affinity: '1' has 1 groups, and 3 threads take 2",
            ),
            ("config_entries=5", "DTypeError config_entries: expected a dict of strings, got int"),
        ]
        calls = "\n".join(f"error(Environment, {arguments})" for arguments, _ in wrong)
        done = python(f"{THREADS}\n{calls}\nassert zrt.environment.environment._current is None")
        for (_, message), line in zip(wrong, done.stdout.splitlines(), strict=True):
            assert line.startswith(message)


def test_config_entries(python):
    done = python("""
import zrt
first = zrt.Environment(config_entries={"allow_virtual_devices": "1"})
assert zrt.Environment(config_entries={"allow_virtual_devices": "1"}) is first
try:
    zrt.Environment()
except zrt.errors.ArgumentError as error:
    print(error)
print(first.config_entries)
""")
    assert "config_entries={'allow_virtual_devices': '1'}); 'zrt' at WARNING cannot be a second one" in done.stdout


class TestAllocators:
    """Those that are registered with the environment."""

    def test_are_shared_by_the_sessions_that_want_them(self, python):
        python(f"""{THREADS}
from zrt import ArenaConfig, MemoryInfo
environment = Environment()
environment.register_allocator(arena=ArenaConfig(max_mem=1 << 26, arena_extend_strategy="same_as_requested"))
shared = [Session(ADD, SessionOptions(use_env_allocators=True)) for _ in range(2)]
own = Session(ADD)
first, second = [session.allocator() for session in shared]
assert first.stats().bytes_limit == 1 << 26
before = second.stats()
held = first.allocate(1 << 20)
change = second.stats() - before
assert (change.bytes_in_use, change.num_allocs, change.num_arena_extensions) == (1 << 20, 1, 1)
assert own.allocator().stats().bytes_limit != 1 << 26
for session in (*shared, own):
    check(session)
""")

    def test_the_limit_holds(self, python):
        done = python(f"""{THREADS}
from zrt import ArenaConfig
Environment().register_allocator(arena=ArenaConfig(max_mem=1 << 20))
session = Session(ADD, SessionOptions(use_env_allocators=True, log_severity_level="FATAL"))
error(session.allocator().allocate, 1 << 21)
held = session.allocator().allocate(1 << 18)
error(session.allocator().allocate, 1 << 20)
""")
        assert done.stdout.count("AllocationError no memory for") == 2
        assert "Available memory of 1048576 is smaller than requested bytes of 2097152" in done.stdout

    def test_end_while_sessions_use_them(self, python):
        done = python(f"""{THREADS}
from zrt import ArenaConfig, MemoryInfo
environment = Environment()
error(environment.unregister_allocator)
environment.register_allocator(arena=ArenaConfig(max_mem=1 << 25))
first = Session(ADD, SessionOptions(use_env_allocators=True))
# Another takes its place.
environment.register_allocator(arena=ArenaConfig(max_mem=1 << 26))
second = Session(ADD, SessionOptions(use_env_allocators=True))
environment.unregister_allocator()
error(environment.unregister_allocator)
third = Session(ADD, SessionOptions(use_env_allocators=True))
limits = [session.allocator().stats().bytes_limit for session in (first, second, third)]
assert limits[:2] == [1 << 25, 1 << 26] and limits[2] not in limits[:2], limits
for session in (first, second, third):
    check(session)
""")
        assert done.stdout.count("ArgumentError memory 'Cpu': No allocator for this device has been registered") == 2

    def test_without_an_arena(self, python):
        python(f"""{THREADS}
Environment().register_allocator()
session = Session(ADD, SessionOptions(use_env_allocators=True))
check(session)
assert session.allocator().stats().num_allocs == 0
held = session.allocator().allocate(100)
held.numpy()[...] = 1
""")

    def test_what_cannot_be(self, python):
        done = python(f"""{THREADS}
from zrt import MemoryInfo
environment = Environment()
error(environment.register_allocator, MemoryInfo.of("mine", "NPU"))
error(environment.register_allocator, MemoryInfo("Nope"))
error(environment.register_allocator, 5)
error(environment.register_allocator, arena=5)
error(environment.unregister_allocator, 5)
error(environment.unregister_allocator, MemoryInfo.cuda())
if zrt.providers.usable("CUDA"):
    error(environment.register_allocator, MemoryInfo.cuda())
check(Session(ADD))
""")
        kinds = [line.split()[0] for line in done.stdout.splitlines()]
        assert kinds[:6] == ["UnsupportedError", "UnsupportedError", *["DTypeError"] * 3, "ArgumentError"]
        assert kinds[6:] in ([], ["ProviderError"])

    @pytest.mark.gpu
    def test_of_cuda(self, python):
        python(f"""{THREADS}
from zrt import ArenaConfig, MemoryInfo
Environment().register_allocator(MemoryInfo.cuda(), ArenaConfig(max_mem=1 << 28))
session = Session(ADD, SessionOptions(use_env_allocators=True), ["CUDA"])
assert session.allocator(MemoryInfo.cuda()).stats().bytes_limit == 1 << 28
check(session)
""")
