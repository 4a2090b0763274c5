"""`SessionOptions.memory` and `memory_limit`: what a session's arena holds, by its counters."""

from __future__ import annotations

import gc
import pickle
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support import models, plugin
from zrt.bench.machine import resident_bytes
from zrt.errors import ArgumentError, BusyError, CallbackError, MemoryLimitError, UnsupportedError

MIB = 1 << 20


# 1 and -1 for rows of equal ones; the intermediate results are as large as x, and ORT allocates z.
MODEL = """(float[n, m] x) => (float[n] y, float[k] z) <int64[1] axis = {1}> {
    [peak] a = Softmax <axis = 1> (x)
    b = Mul(a, x)
    y = ReduceSum <keepdims = 0> (b, axis)
    z = Neg(y)
}"""
SMALL, LARGE = 8, 8 * 1024  # 32 KiB and 32 MiB


def options(**settings: Any) -> zrt.SessionOptions:
    return zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", **settings)


def session(**settings: Any) -> zrt.Session:
    return zrt.Session(models.parsed(MODEL), options(**settings))


def rows(count: int) -> dict[str, Any]:
    return {"x": np.ones((count, 1024), np.float32)}


def held(session: zrt.Session) -> float:
    """The MiB that the session's arena has taken from the system."""
    return session.allocator().stats().total_allocated_bytes / MIB


def check(session: zrt.Session, count: int) -> list[Any]:
    results = session.run(rows(count))
    assert [result.tolist() for result in results] == [[1] * count, [-1] * count]
    return results


class TestBounded:
    def test_much_smaller_run_returns_the_memory(self) -> None:
        bounded, default = session(memory="bounded"), session()
        for each in (bounded, default):
            check(each, LARGE)
            assert held(each) > 60
            check(each, SMALL)
        assert held(bounded) <= 17
        assert held(default) > 60
        check(bounded, LARGE)

    def test_runs_of_a_quarter_return_it_after_a_while(self) -> None:
        bounded = session(memory="bounded")
        check(bounded, LARGE)
        counts = []
        for _ in range(40):
            bounded.run(rows(LARGE // 4))
            counts.append(held(bounded))
        assert counts[10] > 60
        assert counts[-1] < 40

    def test_runs_of_a_similar_size_keep_it(self) -> None:
        bounded = session(memory="bounded")
        for _ in range(10):
            bounded.run(rows(LARGE // 4))
            bounded.run(rows(LARGE // 16))
        assert bounded.allocator().stats().num_arena_shrinkages <= 1

    @pytest.mark.parametrize("way", ["options", "timeout", "submit", "prepare", "lane"])
    def test_every_way_to_run_returns_it(self, way: str) -> None:
        bounded = session(memory="bounded")
        check(bounded, LARGE)
        feeds = rows(SMALL)
        if way == "lane":
            bounded.lane({"x": (SMALL, 1024)}).run()
        elif way == "prepare":
            bounded.prepare(feeds).run()
        elif way == "submit":
            bounded.submit(feeds).result()
        else:
            bounded.run(feeds, options=zrt.RunOptions() if way == "options" else None, timeout=60)
        assert held(bounded) <= 17

    def test_built_session_returns_it(self) -> None:
        graph = zrt.Graph()
        x = graph.input("x", "float32", ("n", 1024))
        graph.output(graph.op("Mul", graph.op("Softmax", x), x, outputs="y"), "float32", ("n", 1024))
        bounded = graph.session(options(memory="bounded"))
        for count in (LARGE, SMALL):
            bounded.run(rows(count))
        assert held(bounded) <= 17

    def test_results_outlive_the_return(self) -> None:
        bounded = session(memory="bounded")
        results = check(bounded, LARGE)
        check(bounded, SMALL)
        assert results[1].tolist() == [-1] * LARGE
        del bounded
        gc.collect()
        assert results[1].sum() == -LARGE

    def test_runs_of_several_threads(self) -> None:
        bounded = session(memory="bounded")
        sizes = [SMALL, LARGE // 8, SMALL, 1, LARGE // 4, 3] * 8
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda size: check(bounded, size), sizes))
        assert bounded.allocator().stats().bytes_in_use < MIB

    def test_sessions_have_arenas_of_their_own(self, environment: zrt.Environment) -> None:
        one, two = session(memory="bounded"), session(memory="bounded")
        check(one, LARGE)
        assert held(two) < 1
        shared = session(use_env_allocators=True)
        check(shared, SMALL)
        assert held(two) < 1
        with pytest.raises(ArgumentError, match="No allocator for this device has been registered"):
            environment.unregister_allocator()

    def test_registered_allocator_stays(self, environment: zrt.Environment) -> None:
        environment.register_allocator(arena=zrt.ArenaConfig(max_mem=1 << 26))
        try:
            with pytest.raises(ArgumentError, match="registered allocator of the host"):
                session(memory="bounded")
            assert session(use_env_allocators=True).allocator().stats().bytes_limit == 1 << 26
        finally:
            environment.unregister_allocator()
        session(memory="bounded")

    def test_loads_of_several_threads(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            sessions = list(pool.map(lambda limit: session(memory_limit=limit), range(8 * MIB, 16 * MIB, MIB)))
        assert [each.allocator().stats().bytes_limit // MIB for each in sessions] == list(range(8, 16))

    def test_loads_beside_those_with_other_allocators(self) -> None:
        def load(index: int) -> zrt.Session:
            return session(memory="bounded") if index % 2 else session(use_env_allocators=True)

        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(load, range(60)))) == 60

    def test_provider_library_stays_while_a_session_has_its_allocators(self, environment) -> None:
        environment.register_provider_library("mine", plugin.path())
        bounded = session(memory="bounded")
        with pytest.raises(BusyError, match="'mine' is in use"):
            environment.unregister_provider_library("mine")
        check(bounded, SMALL)
        bounded.close()
        environment.unregister_provider_library("mine")

    def test_load_inside_such_a_load(self) -> None:
        def make(_work: Callable[[], None]) -> Any:
            session(memory="bounded")

        outer = zrt.SessionOptions(intra_op_num_threads=2, memory="bounded", thread_factory=make)
        with pytest.raises(CallbackError) as raised:
            zrt.Session(models.parsed(MODEL), outer)
        assert isinstance(raised.value.__cause__, BusyError)
        session(memory="bounded")

    def test_memory_that_a_result_held_returns_later(self) -> None:
        graph = models.parsed("(float[n, m] x) => (float[k, l] y) { a = Abs(x) y = Neg(a) }")
        bounded = zrt.Session(graph, options(memory="bounded"))
        lane = bounded.lane({"x": (2 * LARGE, 1024)}, outputs=zrt.LaneMemory.left())
        lane.run()
        for _ in range(2):
            bounded.run(rows(2 * LARGE))
        bounded.run(rows(SMALL))
        assert held(bounded) > 60
        lane.close()
        del lane
        end = time.monotonic() + 30
        while held(bounded) > 17:
            assert time.monotonic() < end
            bounded.run(rows(SMALL))

    @pytest.mark.slow
    def test_ten_thousand_shapes_stay_flat(self, script: Callable[..., Any]) -> None:
        growth, held_at_the_end = map(int, script("random_shapes.py", MODEL).stdout.split())
        assert growth < 4 * MIB
        assert held_at_the_end <= 32 * MIB


class TestLimit:
    def test_run_that_needs_more_raises_and_the_session_goes_on(self) -> None:
        limited = session(memory_limit="16MiB")
        for _ in range(2):
            check(limited, 1024)
            with pytest.raises(MemoryLimitError, match=r"Softmax node 'peak' asks for 33,554,432 bytes") as raised:
                limited.run(rows(LARGE))
            assert (raised.value.requested, raised.value.node) == (32 * MIB, "peak")
            assert isinstance(raised.value, MemoryError)
            assert "Available memory" in raised.value.ort_message
        assert held(limited) <= 16
        check(limited, 1024)

    def test_lanes_and_futures_raise_it(self) -> None:
        limited = session(memory_limit=16 * MIB)
        with pytest.raises(MemoryLimitError):
            limited.lane({"x": (LARGE, 1024)}).run()
        with pytest.raises(MemoryLimitError):
            limited.submit(rows(LARGE)).result()
        lane = limited.lane({"x": (8, 1024)})
        lane.inputs["x"][...] = 1
        lane.run()
        assert lane.outputs["y"].tolist() == [1] * 8

    def test_with_bounded(self) -> None:
        both = session(memory="bounded", memory_limit="100MiB")
        check(both, LARGE // 2)
        before = both.allocator().stats().num_arena_shrinkages
        check(both, SMALL)
        assert both.allocator().stats().num_arena_shrinkages > before
        with pytest.raises(MemoryLimitError):
            both.run(rows(4 * LARGE))
        check(both, SMALL)

    def test_limit_for_no_load_at_all(self) -> None:
        with pytest.raises(MemoryLimitError, match="memory_limit: 1 bytes are too few"):
            session(memory_limit=1)

    def test_refused_load_frees_its_memory_while_the_error_lives(self) -> None:
        model = models.parsed(
            "(float[n, 4096] x) => (float[n, 2048] y) { y = MatMul(x, w) }", w=np.ones((4096, 2048), np.float32)
        )
        errors = []
        for _ in range(4):
            with pytest.raises(MemoryLimitError) as raised:
                zrt.Session(model, options(memory_limit="8MiB"))
            errors.append(raised)
            if len(errors) == 1:
                before = resident_bytes()
        assert resident_bytes() - before < 64 * MIB

    @pytest.mark.parametrize(
        ("limit", "size"),
        [("1MiB", MIB), ("1.5 MB", 1_500_000), (" 2gib ", 2 << 30), ("1048576", MIB), (1 << 40, 1 << 40)],
    )
    def test_sizes(self, limit: int | str, size: int) -> None:
        assert session(memory_limit=limit).allocator().stats().bytes_limit == size

    def test_recipes_and_documents_keep_them(self) -> None:
        settings = zrt.SessionOptions(memory="bounded", memory_limit="9MiB")
        assert zrt.SessionOptions.from_json(settings.to_json()) == settings
        spec = zrt.SessionSpec(models.parsed(MODEL), settings)
        assert pickle.loads(pickle.dumps(spec)).load().allocator().stats().bytes_limit == 9 * MIB


def test_policies_and_edits_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="policy"):
        zrt.Session(models.parsed(MODEL), options(memory="bounded"), zrt.DevicePolicy.DEFAULT)
    with pytest.raises(UnsupportedError, match="edited"):
        zrt.edit(models.parsed(MODEL), options(memory_limit=MIB))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_adds_no_thread(script: Callable[..., Any]) -> None:
    script("bounded_memory.py", "no_thread")


@pytest.mark.parametrize("step", ["environment_bounds_its_sessions", "variables", "bad_variable", "drop_in"])
def test_step_of_a_process(script: Callable[..., Any], step: str) -> None:
    script("bounded_memory.py", step)
