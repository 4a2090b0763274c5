"""`Batches`: the bounded queue of a model's requests, from which its threads take batches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from zrt.serving.parse import Array
from zrt.serving.request_error import UNAVAILABLE, RequestError

Results: TypeAlias = "dict[str, Array]"

clock: Callable[[], float] = time.perf_counter


@dataclass(slots=True, eq=False)
class Job:
    """A request's feeds on their way to a run.

    A thread of the model's calls `finish` with the results, whose memory is its own only during the call. `future` gets
    the value of `finish`, on the thread of its event loop.
    """

    feeds: dict[str, Array]
    finish: Callable[[Results], Any]
    future: asyncio.Future[Any]
    rows: int = 1
    key: Hashable = None
    """Jobs with equal keys may share a run; None for a job that shares none."""
    arrived: float = field(default_factory=clock, init=False)


class Batches:
    """Jobs that wait for a thread, in groups that may share a run.

    A group is ready when it has `max_batch` rows, or when its first job has waited `max_wait` seconds. Of several ready
    groups the one that has waited longest is first. `max_queue` is the most jobs that wait.
    """

    def __init__(self, max_batch: int, max_wait: float, max_queue: int) -> None:
        self.max_batch = max_batch
        self.max_wait = max_wait
        self.max_queue = max_queue
        # The waiting jobs of each key.
        self._groups: dict[Hashable, deque[Job]] = {}
        self._count = 0
        self._closed = False
        self._lock = threading.Lock()
        # A lock for each thread that waits: its release is the notice.
        self._idle: list[threading.Lock] = []

    def __len__(self) -> int:
        return self._count

    def put(self, job: Job) -> None:
        """Adds a job; raises `RequestError` if the queue is full or closed. `wake` must follow."""
        with self._lock:
            if self._closed:
                raise RequestError(UNAVAILABLE, "the server is shutting down")
            if self._count >= self.max_queue:
                raise RequestError(UNAVAILABLE, f"{self._count} requests wait already: try again later")
            self._groups.setdefault(_group_key(job), deque()).append(job)
            self._count += 1

    def wake(self) -> None:
        """Lets a thread look for a batch after `put`: once for several jobs that came together."""
        with self._lock:
            self._notify()

    def _notify(self) -> None:
        """Wakes the thread that waits for the shortest time: the memory of its lanes is in the caches."""
        if self._idle:
            self._idle.pop().release()

    def _wait(self, seconds: float = -1) -> None:
        """Lets the lock go until a notice comes, at most for these seconds."""
        notice = threading.Lock()
        notice.acquire()
        self._idle.append(notice)
        self._lock.release()
        try:
            notice.acquire(timeout=seconds)
        finally:
            self._lock.acquire()
            if notice in self._idle:
                self._idle.remove(notice)

    def take(self) -> list[Job] | None:
        """Waits for the next batch; None after `close`, when no job is left."""
        with self._lock:
            while True:
                if not self._groups:
                    if self._closed:
                        return None
                    self._wait()
                    continue
                now = clock()
                ready = [group for group in self._groups.values() if self._due(group) <= now]
                if ready:
                    return self._cut(min(ready, key=lambda group: group[0].arrived))
                self._wait(max(0.0, min(map(self._due, self._groups.values())) - now))

    def _due(self, group: deque[Job]) -> float:
        """The time from which a group is ready."""
        first = group[0]
        if self._closed or first.key is None or not self.max_wait or sum(job.rows for job in group) >= self.max_batch:
            return 0.0
        return first.arrived + self.max_wait

    def _cut(self, group: deque[Job]) -> list[Job]:
        """Takes the first jobs of a group, as many as fit into a batch."""
        batch = [group.popleft()]
        rows = batch[0].rows
        while group and rows + group[0].rows <= self.max_batch:
            rows += group[0].rows
            batch.append(group.popleft())
        self._count -= len(batch)
        if not group:
            del self._groups[_group_key(batch[0])]
        if self._groups:
            # The notice of these jobs may have woken this thread.
            self._notify()
        return batch

    def drop(self, job: Job) -> bool:
        """Takes back a job that nobody waits for any more; False if a thread has taken it."""
        with self._lock:
            key = _group_key(job)
            group = self._groups.get(key)
            if group is None or job not in group:
                return False
            group.remove(job)
            self._count -= 1
            if not group:
                del self._groups[key]
            return True

    def close(self) -> None:
        """Refuses further jobs; those that wait are ready at once."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._notify()


def _group_key(job: Job) -> Hashable:
    return job if job.key is None else job.key
