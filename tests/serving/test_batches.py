"""The queue gives batches of jobs that fit together, oldest first, and is bounded."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.conftest import job
from zrt.serving.batches import Batches
from zrt.serving.request_error import RequestError


def filled(jobs: list[Any], max_batch: int = 4, max_wait: float = 0, max_queue: int = 99) -> Batches:
    batches = Batches(max_batch, max_wait, max_queue)
    for each in jobs:
        batches.put(each)
    return batches


def test_batch_has_at_most_max_batch_rows() -> None:
    jobs = [job(rows=rows) for rows in (1, 2, 2, 4, 1)]
    batches = filled(jobs)
    assert [batches.take() for _ in range(3)] == [jobs[:2], jobs[2:3], jobs[3:4]]
    assert len(batches) == 1


def test_jobs_of_other_keys_are_in_other_batches() -> None:
    jobs = [job(key=key) for key in "abab"]
    batches = filled(jobs)
    assert [batches.take(), batches.take()] == [jobs[::2], jobs[1::2]]


def test_jobs_without_a_key_are_alone() -> None:
    jobs = [job(key=None), job(key=None)]
    batches = filled(jobs, max_wait=60)
    assert [batches.take(), batches.take()] == [[jobs[0]], [jobs[1]]]


def test_full_queue_refuses() -> None:
    batches = filled([job(), job()], max_queue=2)
    with pytest.raises(RequestError, match="2 requests wait") as caught:
        batches.put(job())
    assert caught.value.status == 503
    batches.take()
    batches.put(job())


def test_job_waits_for_others_at_most_max_wait(background: Callable[..., Any]) -> None:
    batches = filled([job()], max_wait=0.05)
    begin = time.perf_counter()
    taken = background(batches.take).result()
    assert len(taken) == 1
    assert time.perf_counter() - begin >= 0.04


def test_full_batch_does_not_wait(background: Callable[..., Any]) -> None:
    batches = Batches(2, 60, 99)
    taking = background(batches.take)
    first, second = job(), job()
    batches.put(first)
    batches.wake()
    batches.put(second)
    batches.wake()
    assert taking.result() == [first, second]


def test_other_threads_get_the_jobs_that_one_leaves(background: Callable[..., Any]) -> None:
    batches = Batches(1, 0, 99)
    taking = [background(batches.take) for _ in range(3)]
    jobs = [job(key=index) for index in range(3)]
    for each in jobs:
        batches.put(each)
    # One notice for all of them.
    batches.wake()
    taken = [one.result()[0] for one in taking]
    assert {id(one) for one in taken} == {id(one) for one in jobs}


def test_thread_that_worked_last_is_woken_first(
    background: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    batches = Batches(1, 0, 99)
    first = background(batches.take)
    eventually(lambda: len(batches._idle) == 1)
    second = background(batches.take)
    eventually(lambda: len(batches._idle) == 2)
    batches.put(job())
    batches.wake()
    assert len(second.result()) == 1
    assert first.running
    batches.close()
    assert first.result() is None


def test_closed_queue_refuses_and_gives_what_it_has(background: Callable[..., Any]) -> None:
    batches = filled([job()], max_wait=60)
    batches.close()
    with pytest.raises(RequestError, match="shutting down") as caught:
        batches.put(job())
    assert caught.value.status == 503
    assert len(batches.take() or []) == 1
    assert batches.take() is None
    empty = Batches(4, 0, 9)
    waiting = background(empty.take)
    empty.close()
    assert waiting.result() is None


def test_dropped_job_is_gone() -> None:
    jobs = [job(), job(), job(key="other")]
    batches = filled(jobs)
    batches.drop(jobs[0])
    batches.drop(jobs[2])
    assert len(batches) == 1
    assert batches.take() == [jobs[1]]
    # A thread has taken it already.
    batches.drop(jobs[1])
    assert len(batches) == 0


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from([None, "a", "b"])), max_size=30), st.integers(1, 5))
def test_every_job_is_taken_once_and_in_order(given_jobs: Any, max_batch: int) -> None:
    jobs = [job(rows=rows, key=key) for rows, key in given_jobs]
    batches = filled(jobs, max_batch)
    batches.close()
    taken = []
    while (batch := batches.take()) is not None:
        assert len({one.key for one in batch}) == 1
        assert len(batch) == 1 or (batch[0].key is not None and sum(one.rows for one in batch) <= max_batch)
        taken += batch
    for key in ("a", "b"):
        assert [one for one in taken if one.key == key] == [one for one in jobs if one.key == key]
    assert {id(one) for one in taken} == {id(one) for one in jobs}
    assert len(taken) == len(jobs)


def test_threads_take_every_job_once() -> None:
    batches = Batches(3, 0.0005, 10**6)
    taken: list[list[Any]] = [[] for _ in range(3)]

    def take(mine: list[Any]) -> None:
        while (batch := batches.take()) is not None:
            mine += batch

    threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    jobs = [job(key=index % 5 or None) for index in range(2000)]
    for each in jobs:
        batches.put(each)
        batches.wake()
    batches.close()
    for thread in threads:
        thread.join(60)
    assert sorted(id(one) for mine in taken for one in mine) == sorted(map(id, jobs))
