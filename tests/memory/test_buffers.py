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
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zrt.errors import AllocationError, ArgumentError, DTypeError, LockError
from zrt.memory import buffers
from zrt.memory.buffers import Buffer, BufferPolicy
from zrt.types import ElementType, pack

KIB, MIB = 1 << 10, 1 << 20
PAGE = mmap.PAGESIZE
THP_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SIZES = [0, 1, 63, 4096, 100_000, MIB - 1, MIB, 2 * MIB - 1, 2 * MIB, 5 * MIB + 3]

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")


def smaps(address: int) -> dict[str, int]:
    """The kernel's figures, in bytes, for the mapping that contains `address`."""
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
    """The number of this process's pages: all of them, and those in RAM."""
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
    def test_auto_chooses_by_size(self, size, wanted):
        assert BufferPolicy.AUTO.resolve(size) == wanted

    @given(st.integers(0, 1 << 50))
    def test_other_policies_resolve_to_themselves(self, size):
        for policy in (BufferPolicy(), BufferPolicy.LATENCY, BufferPolicy.PINNED_HOST_CANDIDATE):
            assert policy.resolve(size) is policy

    @pytest.mark.parametrize("alignment", [0, -64, 1, 32, 63, 65, 96, 3 * 4096, 1 << 31, 64.0, "4096", None])
    def test_invalid_alignment_raises(self, alignment):
        with pytest.raises(ArgumentError, match=re.escape(repr(alignment))):
            BufferPolicy(alignment)

    @pytest.mark.parametrize("wish", [{"alignment": 128}, {"hugepage": True}, {"prefault": True}, {"lock": True}])
    def test_auto_with_another_setting_raises(self, wish):
        with pytest.raises(ArgumentError, match="auto"):
            BufferPolicy(auto=True, **wish)

    def test_is_frozen_hashable_and_survives_pickle_and_json(self):
        policy = BufferPolicy.THROUGHPUT_LARGE
        with pytest.raises(dataclasses.FrozenInstanceError):
            policy.lock = True
        assert len({policy, BufferPolicy(2 * MIB, True, True), BufferPolicy.AUTO}) == 2
        for each in (policy, BufferPolicy.AUTO):
            assert pickle.loads(pickle.dumps(each)) == each
            assert BufferPolicy(**json.loads(json.dumps(dataclasses.asdict(each)))) == each

    @given(st.integers(6, 30), st.booleans(), st.booleans(), st.booleans())
    def test_parse_inverts_str(self, power, hugepage, prefault, lock):
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
    def test_parse_accepts_presets_and_settings(self, text, policy):
        assert BufferPolicy.parse(text) == policy

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "fast",
            "alignment",
            "alignment=",
            "alignment=x",
            "prefault=1",
            "auto,lock",
            "alignment=3",
            "alignment=" + "9" * 5000,
        ],
        ids=lambda text: text[:20],
    )
    def test_parse_of_invalid_text_raises(self, text):
        with pytest.raises(ArgumentError):
            BufferPolicy.parse(text)

    @pytest.mark.parametrize("option", ["hugepage", "prefault", "lock", "auto"])
    def test_option_that_is_no_bool_raises(self, option):
        with pytest.raises(DTypeError, match=f"{option}: expected True or False, got str 'no'"):
            BufferPolicy(**{option: "no"})


class TestMemory:
    @pytest.mark.parametrize("prefault", [False, True])
    @pytest.mark.parametrize("hugepage", [False, True])
    @pytest.mark.parametrize("alignment", [64, 256, 4096, 16384, 2 * MIB])
    @pytest.mark.parametrize("lock", [False, pytest.param(True, marks=needs_lock)])
    def test_every_combination_of_settings(self, alignment, hugepage, prefault, lock):
        for size in SIZES:
            self.check(size, BufferPolicy(alignment, hugepage, prefault, lock))

    @settings(max_examples=50, deadline=None)
    @given(st.integers(0, 3 * MIB), st.integers(6, 22), st.booleans(), st.booleans())
    def test_memory_of_any_size(self, size, power, hugepage, prefault):
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
        # Also where the memory held the numbers of an earlier buffer.
        assert not array.any()
        array[...] = 0xA5
        assert (array == 0xA5).all()
        if size:
            assert array.ctypes.data == buffer.address

    def test_largest_alignment_is_met(self):
        assert Buffer((3,), "f4", BufferPolicy(1 << 30)).address % (1 << 30) == 0

    @linux
    @pytest.mark.parametrize("policy", [BufferPolicy(4096, prefault=True), BufferPolicy.THROUGHPUT_LARGE], ids=str)
    def test_prefaulted_pages_are_resident(self, policy):
        buffer = Buffer((4 * MIB,), np.uint8, policy)
        assert smaps(buffer.address)["Rss"] == 4 * MIB

    @linux
    def test_other_pages_become_resident_on_first_use(self):
        buffer = Buffer((4 * MIB,), np.uint8, BufferPolicy(4096))
        before = smaps(buffer.address)["Rss"]
        assert before < 4 * MIB or "[always]" in THP_MODE.read_text()
        buffer.array[...] = 1
        assert smaps(buffer.address)["Rss"] == 4 * MIB

    @linux
    @pytest.mark.parametrize("size", [1, 4096, 2 * MIB, 3 * MIB + 1])
    def test_mapping_contains_this_memory_only(self, size):
        held = [Buffer((size,), np.uint8, BufferPolicy.THROUGHPUT_LARGE) for _ in range(3)]
        for buffer in held:
            figures = smaps(buffer.address)
            assert figures["first"] == buffer.address
            assert figures["last"] - figures["first"] == -(-size // PAGE) * PAGE

    def test_reading_slightly_past_the_end_is_safe(self):
        buffer = Buffer((2 * MIB,), np.uint8)
        assert len(ctypes.string_at(buffer.address + 2 * MIB - 4, 36)) == 36


class TestHugepage:
    def test_without_the_hint_is_none(self):
        assert Buffer((4 * MIB,), np.uint8, BufferPolicy(2 * MIB, prefault=True)).hugepage is None

    @linux
    def test_agrees_with_proc_smaps(self):
        for policy in (BufferPolicy.THROUGHPUT_LARGE, BufferPolicy(hugepage=True)):
            buffer = Buffer((8 * MIB,), np.uint8, policy)
            if buffer.hugepage == "refused":
                pytest.skip("this kernel has no transparent huge pages")
            wanted = "granted" if smaps(buffer.address)["AnonHugePages"] else "asked"
            assert buffer.hugepage == wanted

    @linux
    def test_asked_becomes_granted_on_first_use(self):
        buffer = Buffer((8 * MIB,), np.uint8, BufferPolicy(2 * MIB, hugepage=True))
        if buffer.hugepage == "refused":
            pytest.skip("this kernel has no transparent huge pages")
        assert buffer.hugepage == "asked"
        buffer.array[...] = 1
        if not smaps(buffer.address)["AnonHugePages"]:
            pytest.skip("this kernel grants no huge pages now")
        assert buffer.hugepage == "granted"

    @linux
    def test_memory_below_one_huge_page_is_never_granted(self):
        neighbours = [Buffer((2 * MIB,), np.uint8, BufferPolicy.THROUGHPUT_LARGE) for _ in range(4)]
        small = Buffer((PAGE,), np.uint8, BufferPolicy.THROUGHPUT_LARGE)
        assert small.hugepage in ("asked", "refused")
        assert len(neighbours) == 4

    @linux
    def test_process_without_huge_pages_gets_none(self, script):
        # Linux still accepts the hint; a kernel without huge pages refuses it.
        assert script("huge_pages_disabled.py").stdout in ("asked False\n", "refused False\n")

    @linux
    def test_refused_hint_is_reported(self, script):
        madvise = {"x86_64": 28, "aarch64": 233}.get(platform.machine())
        if madvise is None:
            pytest.skip(f"the number of the system call madvise on {platform.machine()} is not known here")
        printed = script("huge_pages_refused.py", madvise).stdout
        if printed == "no filter\n":
            pytest.skip("this system accepts no seccomp filter")
        assert printed == "refused False\n"

    def test_without_proc_smaps_is_never_granted(self, monkeypatch):
        buffer = Buffer((4 * MIB,), np.uint8, BufferPolicy.THROUGHPUT_LARGE)
        monkeypatch.setattr("builtins.open", raise_missing)
        assert buffer.hugepage in ("asked", "refused")


def raise_missing(*arguments, **named):
    raise FileNotFoundError


class TestLock:
    @linux
    @needs_lock
    def test_locked_pages_are_counted_and_released(self):
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
    def test_error_names_the_limit(self, script):
        if os.geteuid() == 0 and not may_become_nobody():
            pytest.skip("the limit does not apply to root, and root cannot become nobody here")
        assert script("lock_limit.py").stdout == "done\n"

    @linux
    def test_error_names_an_unlimited_limit(self, monkeypatch):
        import resource

        monkeypatch.setattr(resource, "getrlimit", lambda limit: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert "is unlimited" in str(buffers.lock_error(12, 1))


def may_become_nobody() -> bool:
    return subprocess.run([sys.executable, "-c", "import os; os.setgid(65534); os.setuid(65534)"]).returncode == 0


class TestShapes:
    @pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 5), (2, 3, 4), (1,) * 64], ids=str)
    @pytest.mark.parametrize("kind", [k for k in ElementType if k.bits and not k.refused], ids=lambda k: k.name)
    def test_every_element_type(self, kind, shape):
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

    def test_unpack_inverts_pack(self):
        values = np.array([[-8, 7, 1], [0, -1, 3]]).astype(ml_dtypes.int4)
        buffer = Buffer((2, 3), "int4")
        buffer.array[...] = pack(values, "int4")
        assert (buffer.unpack() == values).all()
        buffer.array[0] = 0
        assert (values[0, :2] != 0).all()

    def test_every_spelling_of_a_dtype_is_accepted(self):
        assert Buffer((2,), ">f4").array.dtype == np.dtype("f4")
        assert Buffer([np.int64(2)], float).element_type is ElementType.DOUBLE

    @pytest.mark.parametrize("shape", [(2**62,), (2**60,), (2**62, 2), (2**62, 2**62), (2**63 - 1, 2)], ids=str)
    @pytest.mark.parametrize("policy", [BufferPolicy(), BufferPolicy.AUTO, BufferPolicy(lock=True)], ids=str)
    def test_too_large_shape_raises(self, shape, policy):
        with pytest.raises(AllocationError, match="no memory for") as caught:
            Buffer(shape, "f4", policy)
        assert isinstance(caught.value, MemoryError)


class TestLifetime:
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
    def test_last_view_frees_the_memory(self):
        buffer = Buffer((4 * MIB,), np.uint8, BufferPolicy.THROUGHPUT_LARGE)
        address, view = buffer.address, buffer.array[::2]
        buffer.close()
        assert smaps(address)["first"] == address
        del view
        assert smaps(address).get("first") != address

    def test_closed_buffer_keeps_its_shape(self):
        buffer = Buffer((2,), "int4", BufferPolicy(hugepage=True))
        buffer.close()
        buffer.close()
        assert buffer.shape == (2,)
        assert buffer.nbytes == 1
        assert repr(buffer) == "<zrt.Buffer int4 [2], hugepage, closed>"

    def test_repr(self):
        assert repr(Buffer((2, 3), "f4")) == "<zrt.Buffer float [2, 3], auto>"

    @linux
    @pytest.mark.parametrize(
        "policy", [BufferPolicy(), BufferPolicy.LATENCY, BufferPolicy(8192, hugepage=True, prefault=True)], ids=str
    )
    def test_ten_thousand_buffers_do_not_leak(self, policy):
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

    def test_threads_use_buffers_at_the_same_time(self, background):
        def work(seed: int) -> None:
            for turn in range(200):
                size = (seed * 7919 + turn * 104_729) % (3 * MIB)
                buffer = Buffer((size,), np.uint8)
                array = buffer.array[:: max(size // 50, 1)]
                assert not array.any()
                array[...] = seed
                buffer.close()
                assert (array == seed).all()

        jobs = [background(lambda seed=seed: work(seed)) for seed in range(1, 5)]
        assert [job.result() for job in jobs] == [None] * 4
