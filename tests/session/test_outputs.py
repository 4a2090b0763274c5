"""`zrt.session.outputs`: the outputs of a run that ONNX Runtime allocates."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from tests.support.arrays import f32
from zrt._native import ffi, lib
from zrt.errors import AllocationError, UnsupportedError
from zrt.session.outputs import Wanted
from zrt.types import ElementType, ValueKind
from zrt.values.type_info import ValueInfo


def info(kind: ElementType, *shape: int | str) -> ValueInfo:
    return ValueInfo("y", ValueKind.TENSOR, kind, shape)


class TestWanted:
    def test_plain_tensor_of_known_shape_gets_an_array(self):
        wanted = Wanted(info(ElementType.BFLOAT16, "n", 2), (3, 2))
        assert (wanted.dtype, wanted.shape) == (ElementType.BFLOAT16.dtype, (3, 2))

    @pytest.mark.parametrize(
        "wanted",
        [
            Wanted(info(ElementType.FLOAT, "n"), None),
            Wanted(info(ElementType.STRING, 2), (2,)),
            Wanted(info(ElementType.INT4, 2), (2,)),
            Wanted(ValueInfo("y", ValueKind.SEQUENCE, ElementType.UNDEFINED, None), None),
            Wanted(info(ElementType.FLOAT, 2), (2,), passes_through=True),
        ],
        ids=["open", "strings", "packed", "sequence", "an input"],
    )
    def test_other_outputs_are_left_to_ort(self, wanted):
        assert wanted.shape is None

    def test_output_larger_than_the_address_space_raises(self):
        with pytest.raises(AllocationError, match=r"output 'y': no memory has room for \[4611686018427387904\]"):
            Wanted(info(ElementType.FLOAT, "n"), (2**62,))
        Wanted(info(ElementType.UINT8, "n"), (sys.maxsize,))


@pytest.fixture
def compress(load):
    """Keeps the elements of x that are not 0: the data decide how many."""
    return load(
        "(float[n] x) => (float[m] y) { zero = Constant <value = float {0}> ()  e = Equal(x, zero)  "
        "keep = Not(e)  y = Compress <axis = 0> (x, keep) }"
    )


class TestArrays:
    def test_array_owns_the_value(self, compress):
        (y,) = compress.run([f32(1, 0, 2)])
        compress.close()
        gc.collect()
        assert y.tolist() == [1, 2]
        assert not y.flags.owndata
        assert (y.flags.writeable, y.flags.c_contiguous, y.flags.aligned) == (True, True, True)

    def test_shapes_follow_the_data(self, compress):
        generator = np.random.default_rng(0)
        kept = []
        for count in (3, 3, 0, 1, 300, 0, 40_000, 40_000, 3):
            x = generator.integers(0, 2, count).astype(np.float32)
            (y,) = compress.run([x])
            assert y.tolist() == x[x != 0].tolist()
            kept.append((y, x))
        for y, x in kept:
            assert y.tolist() == x[x != 0].tolist()

    @pytest.mark.parametrize("way", ["run", "prepare", "submit", "checked"])
    def test_every_way_of_running(self, compress, way):
        x = f32(0, 5, 6)
        prepared = compress.prepare([x])
        run = {
            "run": lambda: compress.run([x]),
            "prepare": prepared.run,
            "submit": lambda: compress.submit([x]).result(),
            "checked": lambda: compress.run([x], ["y"]),
        }[way]
        first = run()[0]
        x[0] = 4
        second = run()[0]
        assert (first.tolist(), second.tolist()) == ([5, 6], [4, 5, 6])

    def test_arrays_are_collected_with_their_results(self, compress):
        x = np.ones(1 << 18, np.float32)
        addresses = set()
        for _ in range(20):
            addresses.add(compress.run([x])[0].ctypes.data)
        # A freed array's memory serves a later run.
        assert len(addresses) < 10

    def test_runs_do_not_grow_the_heap_of_python(self, compress):
        x = f32(1, 0, 2)
        for _ in range(2000):
            # Python keeps some freed dicts and lists for later ones.
            compress.run([x])
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(2000):
                compress.run([x])
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert after - before < 2000

    def test_references_to_the_dtype_and_the_list_are_balanced(self, compress):
        x = f32(1, 0, 2)
        results = compress.run([x])
        dtype = results[0].dtype
        del results
        before = sys.getrefcount(dtype)
        alone = []
        for _ in range(500):
            results = compress.run([x])
            assert sys.getrefcount(results) == sys.getrefcount(alone)
        del results
        assert abs(sys.getrefcount(dtype) - before) <= 2

    def test_outputs_of_threads_do_not_mix(self, compress):
        failures = []

        def work(seed: int) -> None:
            generator = np.random.default_rng(seed)
            for _ in range(300):
                x = generator.integers(0, 3, int(generator.integers(1, 200))).astype(np.float32)
                (y,) = compress.run([x])
                if y.tolist() != x[x != 0].tolist():
                    failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []

    def test_output_beside_one_that_the_feeds_determine(self, load):
        session = load("(float[n] x) => (float[n] y, int64[1, m] z) { y = Neg(x)  z = NonZero(x) }")
        for _ in range(3):
            y, z = session.run([f32(1, 0, 2)])
            assert (y.tolist(), z.tolist()) == ([-1, 0, -2], [[0, 2]])
            assert (y.flags.owndata, z.flags.owndata) == (True, False)

    def test_rank_beyond_numpy_raises(self, load):
        session = load("(float[1] x, int64[k] s) => (float[] y) { y = Reshape(x, s) }")
        for _ in range(2):
            assert session.run([f32(1), np.ones(64, np.int64)])[0].shape == (1,) * 64
            with pytest.raises(UnsupportedError, match="numpy has no array of 65 dimensions"):
                session.run([f32(1), np.ones(65, np.int64)])

    def test_memory_is_a_type_that_users_cannot_make(self, compress):
        (y,) = compress.run([f32(1)])
        memory = type(y.base.obj if isinstance(y.base, memoryview) else y.base)
        assert memory.__name__ == "OwnedMemory"
        with pytest.raises(TypeError, match="cannot create"):
            memory()


class TestMadeOutputs:
    def test_room_that_is_dropped_frees_its_values(self, compress):
        """An interrupt may come between the run and the collection of its results."""
        compress.run([f32(1, 0)])
        call = compress._latest
        for _ in range(3):
            results, places, made = call.arrays()
            x = f32(1, 0)
            code = lib.zrt_call_run(call.reference, ffi.NULL, [ffi.from_buffer(x)], places, made.pointer, id(results))
            assert code == lib.ZRT_OK
            assert results[0].tolist() == [1]
            del made

    def test_few_rooms_are_kept(self, compress):
        futures = [compress.submit([f32(1, 0, 2)]) for _ in range(100)]
        assert all(future.result()[0].tolist() == [1, 2] for future in futures)
        assert len(compress._calls) == 1
        (call,) = compress._calls.values()
        assert 1 <= len(call._spare) <= 16
