from __future__ import annotations

import ctypes
import dataclasses
import gc
import json
import mmap
import os
import pickle
import platform
import re
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zrt
from zrt.errors import AllocationError, ArgumentError, ClosedError, DTypeError, LockError, ShapeError
from zrt.memory import buffers
from zrt.memory.buffers import Buffer, BufferPolicy
from zrt.types import ElementType, pack

KIB, MIB = 1 << 10, 1 << 20
PAGE = mmap.PAGESIZE
THP_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SIZES = [0, 1, 63, 4096, 100_000, MIB - 1, MIB, 2 * MIB - 1, 2 * MIB, 5 * MIB + 3]

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")


def smaps(address: int) -> dict[str, int]:
    """The kernel's figures, in bytes, for the mapping that holds `address`."""
    inside, figures = False, {}
    for line in Path("/proc/self/smaps").read_text().splitlines():
        key, *values = line.split()
        if not key.endswith(":"):
            first, last = (int(bound, 16) for bound in key.split("-"))
            inside = first <= address < last
            if inside:
                figures = {"first": first, "last": last}
        elif inside and values[1:] == ["kB"]:
            figures[key[:-1]] = int(values[0]) * KIB
    return figures


def locked_bytes() -> int:
    return int(re.search(r"VmLck:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * KIB


def process_pages() -> tuple[int, int]:
    """The pages of this process: its whole size, and what is resident."""
    size, resident, *_ = Path("/proc/self/statm").read_text().split()
    return int(size), int(resident)


def lockable() -> bool:
    """Whether this process may lock a few MiB."""
    try:
        Buffer((8 * MIB,), "u1", BufferPolicy(lock=True)).close()
    except LockError:
        return False
    return True


needs_lock = pytest.mark.skipif(not lockable(), reason="RLIMIT_MEMLOCK is below 8 MiB here")


class TestPolicy:
    def test_presets(self):
        assert BufferPolicy.BALANCED is BufferPolicy.AUTO
        assert BufferPolicy() == BufferPolicy.PLAIN == BufferPolicy(64, False, False, False)
        assert BufferPolicy(prefault=True) == BufferPolicy.LATENCY
        assert BufferPolicy(2 * MIB, hugepage=True, prefault=True) == BufferPolicy.THROUGHPUT_LARGE
        assert BufferPolicy(2 * MIB, True, True, lock=True) == BufferPolicy.PINNED_HOST_CANDIDATE
        assert BufferPolicy() != BufferPolicy.AUTO

    @pytest.mark.parametrize(
        ("size", "wanted"),
        [
            (0, BufferPolicy()),
            (MIB - 1, BufferPolicy()),
            (MIB, BufferPolicy(4096, prefault=True)),
            (2 * MIB - 1, BufferPolicy(4096, prefault=True)),
            (2 * MIB, BufferPolicy(2 * MIB, hugepage=True, prefault=True)),
            (1 << 40, BufferPolicy(2 * MIB, hugepage=True, prefault=True)),
        ],
    )
    def test_auto_by_size(self, size, wanted):
        assert BufferPolicy.AUTO.resolve(size) == wanted

    @given(st.integers(0, 1 << 50))
    def test_a_policy_that_was_chosen_stays(self, size):
        for policy in (BufferPolicy(), BufferPolicy.LATENCY, BufferPolicy.PINNED_HOST_CANDIDATE):
            assert policy.resolve(size) is policy

    @pytest.mark.parametrize("alignment", [0, -64, 1, 32, 63, 65, 96, 3 * 4096, 1 << 31, 64.0, "4096", None])
    def test_alignments_that_cannot_be(self, alignment):
        with pytest.raises(ArgumentError, match=re.escape(repr(alignment))):
            BufferPolicy(alignment)

    @pytest.mark.parametrize("wish", [{"alignment": 128}, {"hugepage": True}, {"prefault": True}, {"lock": True}])
    def test_auto_stands_alone(self, wish):
        with pytest.raises(ArgumentError, match="auto"):
            BufferPolicy(auto=True, **wish)

    def test_frozen_hashable_picklable_and_json(self):
        policy = BufferPolicy.THROUGHPUT_LARGE
        with pytest.raises(dataclasses.FrozenInstanceError):
            policy.lock = True
        assert len({policy, BufferPolicy(2 * MIB, True, True), BufferPolicy.AUTO}) == 2
        for each in (policy, BufferPolicy.AUTO):
            assert pickle.loads(pickle.dumps(each)) == each
            assert BufferPolicy(**json.loads(json.dumps(dataclasses.asdict(each)))) == each

    @given(st.integers(6, 30), st.booleans(), st.booleans(), st.booleans())
    def test_text_and_back(self, power, hugepage, prefault, lock):
        policy = BufferPolicy(1 << power, hugepage, prefault, lock)
        assert BufferPolicy.parse(str(policy)) == policy

    @pytest.mark.parametrize(
        ("text", "policy"),
        [
            ("auto", BufferPolicy.AUTO),
            ("balanced", BufferPolicy.AUTO),
            ("plain", BufferPolicy()),
            ("latency", BufferPolicy.LATENCY),
            ("throughput_large", BufferPolicy.THROUGHPUT_LARGE),
            ("Throughput-Large", BufferPolicy.THROUGHPUT_LARGE),
            (" PINNED_HOST_CANDIDATE ", BufferPolicy.PINNED_HOST_CANDIDATE),
            ("lock", BufferPolicy(lock=True)),
            ("alignment=4096, prefault", BufferPolicy(4096, prefault=True)),
        ],
    )
    def test_parse(self, text, policy):
        assert BufferPolicy.parse(text) == policy

    @pytest.mark.parametrize(
        "text",
        ["", "fast", "alignment", "alignment=", "alignment=x", "prefault=1", "auto,lock", "alignment=3"],
    )
    def test_parse_refuses(self, text):
        with pytest.raises(ArgumentError):
            BufferPolicy.parse(text)


class TestMemory:
    @pytest.mark.parametrize("prefault", [False, True])
    @pytest.mark.parametrize("hugepage", [False, True])
    @pytest.mark.parametrize("alignment", [64, 256, 4096, 16384, 2 * MIB])
    def test_every_combination(self, alignment, hugepage, prefault):
        for size in SIZES:
            self.check(size, BufferPolicy(alignment, hugepage, prefault))

    @needs_lock
    @pytest.mark.parametrize("prefault", [False, True])
    @pytest.mark.parametrize("hugepage", [False, True])
    @pytest.mark.parametrize("alignment", [64, 4096, 2 * MIB])
    def test_every_combination_locked(self, alignment, hugepage, prefault):
        for size in SIZES:
            self.check(size, BufferPolicy(alignment, hugepage, prefault, lock=True))

    @settings(max_examples=50, deadline=None)
    @given(st.integers(0, 3 * MIB), st.integers(6, 22), st.booleans(), st.booleans())
    def test_any_size(self, size, power, hugepage, prefault):
        self.check(size, BufferPolicy(1 << power, hugepage, prefault))

    def check(self, size: int, policy: BufferPolicy) -> None:
        buffer = Buffer((size,), np.uint8, policy)
        assert buffer.address % policy.alignment == 0
        assert buffer.alignment == policy.alignment
        assert buffer.policy is policy
        assert buffer.resolved is policy
        assert buffer.locked == policy.lock
        assert (buffer.hugepage is None) == (not policy.hugepage)
        array = buffer.array
        assert array.shape == (size,)
        assert array.nbytes == buffer.nbytes == size
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned
        assert not array.any()
        array[...] = 0xA5
        assert (array == 0xA5).all()
        if size:
            assert array.ctypes.data == buffer.address

    def test_largest_alignment(self):
        assert Buffer((3,), "f4", BufferPolicy(1 << 30)).address % (1 << 30) == 0

    def test_memory_taken_anew_is_zeroed(self):
        for _ in range(50):
            buffer = Buffer((10_000,), np.uint8)
            assert not buffer.array.any()
            buffer.array[...] = 255

    @linux
    @pytest.mark.parametrize("policy", [BufferPolicy(4096, prefault=True), BufferPolicy.THROUGHPUT_LARGE], ids=str)
    def test_prefaulted_pages_are_there(self, policy):
        buffer = Buffer((4 * MIB,), np.uint8, policy)
        assert smaps(buffer.address)["Rss"] == 4 * MIB

    @linux
    def test_other_pages_come_with_use(self):
        buffer = Buffer((4 * MIB,), np.uint8, BufferPolicy(4096))
        before = smaps(buffer.address)["Rss"]
        assert before < 4 * MIB or "[always]" in THP_MODE.read_text()
        buffer.array[...] = 1
        assert smaps(buffer.address)["Rss"] == 4 * MIB

    @linux
    @pytest.mark.parametrize("size", [1, 4096, 2 * MIB, 3 * MIB + 1])
    def test_mapping_is_this_memory_alone(self, size):
        held = [Buffer((size,), np.uint8, BufferPolicy.THROUGHPUT_LARGE) for _ in range(3)]
        for buffer in held:
            figures = smaps(buffer.address)
            assert figures["first"] == buffer.address
            assert figures["last"] - figures["first"] == -(-size // PAGE) * PAGE

    def test_reading_a_little_past_the_end_is_harmless(self):
        buffer = Buffer((2 * MIB,), np.uint8)
        assert len(ctypes.string_at(buffer.address + 2 * MIB - 4, 36)) == 36


class TestHugepage:
    def test_not_asked(self):
        assert Buffer((4 * MIB,), np.uint8, BufferPolicy(2 * MIB, prefault=True)).hugepage is None

    @linux
    def test_is_what_the_map_says(self):
        for policy in (BufferPolicy.THROUGHPUT_LARGE, BufferPolicy(hugepage=True)):
            buffer = Buffer((8 * MIB,), np.uint8, policy)
            if buffer.hugepage == "refused":
                pytest.skip("this kernel has no transparent huge pages")
            wanted = "granted" if smaps(buffer.address)["AnonHugePages"] else "asked"
            assert buffer.hugepage == wanted

    @linux
    def test_asked_turns_into_granted_with_use(self):
        buffer = Buffer((8 * MIB,), np.uint8, BufferPolicy(2 * MIB, hugepage=True))
        if buffer.hugepage == "refused":
            pytest.skip("this kernel has no transparent huge pages")
        assert buffer.hugepage == "asked"
        buffer.array[...] = 1
        if not smaps(buffer.address)["AnonHugePages"]:
            pytest.skip("this kernel grants no huge pages now")
        assert buffer.hugepage == "granted"

    @linux
    def test_too_small_for_one_is_only_asked(self):
        neighbours = [Buffer((2 * MIB,), np.uint8, BufferPolicy.THROUGHPUT_LARGE) for _ in range(4)]
        small = Buffer((PAGE,), np.uint8, BufferPolicy.THROUGHPUT_LARGE)
        assert small.hugepage in ("asked", "refused")
        assert len(neighbours) == 4

    @linux
    def test_a_process_without_huge_pages(self):
        script = """
            import ctypes
            from zrt.memory.buffers import Buffer, BufferPolicy
            PR_SET_THP_DISABLE = 41
            assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
            buffer = Buffer((4 << 20,), "u1", BufferPolicy.THROUGHPUT_LARGE)
            print(buffer.hugepage, buffer.array.any())
        """
        # Linux takes the hint all the same; one without huge pages refuses it.
        assert run(script) in ("asked False\n", "refused False\n")

    @linux
    def test_refused(self):
        madvise = {"x86_64": 28, "aarch64": 233}.get(platform.machine())
        if madvise is None:
            pytest.skip(f"madvise's number on {platform.machine()} is not known here")
        script = f"""
            import ctypes, struct
            from zrt.memory.buffers import Buffer, BufferPolicy

            # A filter in the kernel that answers madvise(..., MADV_HUGEPAGE) with EINVAL, as one without
            # huge pages does.
            steps = [(0x20, 0, 0, 0), (0x15, 0, 3, {madvise}), (0x20, 0, 0, 32), (0x15, 0, 1, 14),
                     (0x06, 0, 0, 0x50016), (0x06, 0, 0, 0x7FFF0000)]
            code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
            program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
            prctl = ctypes.CDLL(None).prctl
            PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
            if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, FILTER, program, 0, 0):
                print("no filter")
            else:
                buffer = Buffer((4 << 20,), "u1", BufferPolicy.THROUGHPUT_LARGE)
                print(buffer.hugepage, buffer.array.any())
        """
        said = run(script)
        if said == "no filter\n":
            pytest.skip("this system takes no seccomp filter")
        assert said == "refused False\n"

    def test_without_a_map(self, monkeypatch):
        buffer = Buffer((4 * MIB,), np.uint8, BufferPolicy.THROUGHPUT_LARGE)
        monkeypatch.setattr("builtins.open", raise_missing)
        assert buffer.hugepage in ("asked", "refused")


def raise_missing(*arguments, **named):
    raise FileNotFoundError


def run(script: str) -> str:
    """The output of `script`, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(zrt.__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestLock:
    @linux
    @needs_lock
    def test_locked_pages_are_counted_and_given_back(self):
        before = locked_bytes()
        buffer = Buffer((5 * MIB + 1,), np.uint8, BufferPolicy(lock=True))
        small = Buffer((3,), np.uint8, BufferPolicy(lock=True))
        assert locked_bytes() - before == 5 * MIB + PAGE + PAGE
        assert smaps(buffer.address)["Locked"] == 5 * MIB + PAGE
        small.close()
        assert locked_bytes() - before == 5 * MIB + PAGE
        view = buffer.array[:1]
        buffer.close()
        assert locked_bytes() - before == 5 * MIB + PAGE
        del view, buffer
        assert locked_bytes() == before

    @linux
    def test_refusal_names_the_limit(self):
        # Root may lock whatever the limit says, so the process becomes nobody first.
        script = """
            import os, re, resource, errno, traceback
            from zrt.memory.buffers import Buffer, BufferPolicy
            from zrt.errors import LockError

            def mapped():
                return sum(1 for line in open("/proc/self/maps"))

            resource.setrlimit(resource.RLIMIT_MEMLOCK, (256 << 10, 256 << 10))
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            policies = [
                (1 << 20, BufferPolicy(lock=True)),
                (300 << 10, BufferPolicy(4096, lock=True)),
                (3 << 20, BufferPolicy.PINNED_HOST_CANDIDATE),
            ]
            for size, policy in policies:
                for _ in range(3):
                    before = mapped()
                    try:
                        Buffer((size,), "u1", policy)
                    except LockError as error:
                        assert isinstance(error, OSError), error
                        assert error.errno in (errno.ENOMEM, errno.EAGAIN), error
                        assert f"cannot lock {size >> 10} KiB" in str(error), error
                        assert "RLIMIT_MEMLOCK" in str(error) and "256 KiB" in str(error), error
                    else:
                        raise AssertionError("locked beyond the limit")
                    assert mapped() <= before + 1, (before, mapped())
            locked = re.search(r"VmLck:\\s+(\\d+)", open("/proc/self/status").read())[1]
            assert locked == "0", locked
            fits = Buffer((200 << 10,), "u1", BufferPolicy(lock=True))
            assert fits.locked
            try:
                Buffer((100 << 10,), "u1", BufferPolicy(lock=True))
            except LockError:
                fits.close()
            Buffer((100 << 10,), "u1", BufferPolicy(lock=True))
            print("done")
        """
        if os.geteuid() == 0 and not may_become_nobody():
            pytest.skip("root here cannot become nobody, and root's locks know no limit")
        assert run(script) == "done\n"

    @linux
    def test_unlimited_is_said_so(self, monkeypatch):
        import resource

        monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert "is unlimited" in str(buffers.lock_error(12, 1))


def may_become_nobody() -> bool:
    return subprocess.run([sys.executable, "-c", "import os; os.setgid(65534); os.setuid(65534)"]).returncode == 0


class TestShapes:
    @pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 5), (2, 3, 4), (1,) * 64], ids=str)
    @pytest.mark.parametrize("kind", [k for k in ElementType if k.bits and not k.refused], ids=lambda k: k.name)
    def test_every_type(self, kind, shape):
        buffer = Buffer(shape, kind)
        assert buffer.shape == shape
        assert buffer.element_type is kind
        if kind.packed:
            assert buffer.array.dtype == np.uint8
            assert buffer.array.shape == (buffer.nbytes,)
            assert buffer.unpack().dtype == kind.dtype
            assert buffer.unpack().shape == shape
        else:
            assert buffer.array.dtype == kind.dtype
            assert buffer.array.shape == shape
            with pytest.raises(DTypeError, match="not a packed type"):
                buffer.unpack()

    def test_unpack_reads_what_was_packed(self):
        values = np.array([[-8, 7, 1], [0, -1, 3]]).astype(ml_dtypes.int4)
        buffer = Buffer((2, 3), "int4")
        buffer.array[...] = pack(values, "int4")
        assert (buffer.unpack() == values).all()
        buffer.array[0] = 0
        assert (values[0, :2] != 0).all()

    def test_dtype_spellings(self):
        assert Buffer((2,), ">f4").array.dtype == np.dtype("f4")
        assert Buffer([np.int64(2)], float).element_type is ElementType.DOUBLE

    @pytest.mark.parametrize("shape", [(-1,), (2, -3), ("n",), (1.5,), 3, None, (1,) * 65, (0, 2**62, 2**62)])
    def test_shapes_that_cannot_be(self, shape):
        with pytest.raises(ShapeError):
            Buffer(shape, "f4")

    @pytest.mark.parametrize("shape", [(2**62,), (2**60,), (2**62, 2), (2**62, 2**62), (2**63 - 1, 2)], ids=str)
    @pytest.mark.parametrize("policy", [BufferPolicy(), BufferPolicy.AUTO, BufferPolicy(lock=True)], ids=str)
    def test_too_large(self, shape, policy):
        with pytest.raises(AllocationError, match="no memory for") as caught:
            Buffer(shape, "f4", policy)
        assert isinstance(caught.value, MemoryError)

    @pytest.mark.parametrize("dtype", [str, object, "complex64", ElementType.UNDEFINED, ElementType.COMPLEX128])
    def test_types_that_it_cannot_hold(self, dtype):
        with pytest.raises(DTypeError, match="a buffer cannot hold"):
            Buffer((2,), dtype)

    def test_policy_that_is_none(self):
        with pytest.raises(DTypeError, match="policy: expected a BufferPolicy, got str"):
            Buffer((2,), "f4", "latency")


class TestLife:
    @pytest.mark.parametrize("size", [16, 4 * MIB])
    def test_views_outlive_the_buffer(self, size):
        buffer = Buffer((size,), np.uint8)
        view = buffer.array[8:].reshape(-1, 2)
        view[...] = 7
        gone = weakref.ref(buffer)
        del buffer
        gc.collect()
        assert gone() is None
        assert (view == 7).all()
        view[...] = 8

    def test_views_outlive_close(self):
        with Buffer((4 * MIB,), np.uint8) as buffer:
            array = buffer.array
            assert buffer.array is array
        assert buffer.closed
        array[...] = 3
        assert (array == 3).all()

    @linux
    def test_memory_goes_with_the_last_view(self):
        buffer = Buffer((4 * MIB,), np.uint8, BufferPolicy.THROUGHPUT_LARGE)
        address, view = buffer.address, buffer.array[::2]
        buffer.close()
        assert smaps(address)["first"] == address
        del view
        assert smaps(address).get("first") != address

    def test_use_after_close(self):
        buffer = Buffer((2,), "int4", BufferPolicy(hugepage=True))
        buffer.close()
        buffer.close()
        for use in (lambda: buffer.array, lambda: buffer.address, lambda: buffer.hugepage, buffer.unpack):
            with pytest.raises(ClosedError, match="this Buffer is closed"):
                use()
        assert buffer.shape == (2,)
        assert buffer.nbytes == 1
        assert repr(buffer) == "<zrt.Buffer int4 [2], hugepage, closed>"

    def test_repr(self):
        assert repr(Buffer((2, 3), "f4")) == "<zrt.Buffer float [2, 3], auto>"

    @linux
    @pytest.mark.parametrize(
        "policy",
        [BufferPolicy(), BufferPolicy.LATENCY, BufferPolicy(8192, hugepage=True, prefault=True)],
        ids=str,
    )
    def test_ten_thousand_leave_nothing(self, policy):
        def churn(count: int) -> None:
            for _ in range(count):
                Buffer((50_000,), np.uint8, policy).array[...] = 1

        churn(1000)
        gc.collect()
        size_before, resident_before = process_pages()
        churn(10_000)
        gc.collect()
        size_after, resident_after = process_pages()
        assert (resident_after - resident_before) * PAGE < 4 * MIB
        assert (size_after - size_before) * PAGE < 16 * MIB

    def test_many_threads(self):
        failures = []

        def work(seed: int) -> None:
            try:
                for turn in range(200):
                    size = (seed * 7919 + turn * 104_729) % (3 * MIB)
                    buffer = Buffer((size,), np.uint8)
                    array = buffer.array
                    assert not array[:: max(size // 50, 1)].any()
                    array[:: max(size // 50, 1)] = seed
                    buffer.close()
                    assert (array[:: max(size // 50, 1)] == seed).all()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed + 1,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
