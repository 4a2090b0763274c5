"""`ServedModel`: a session, the queue of its requests, and the threads that run them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from zrt._native.thread_start import start_thread
from zrt.serving.batches import Batches, Job, Results, clock
from zrt.serving.metrics import Metrics, ModelMetrics
from zrt.serving.parse import Array
from zrt.serving.request_error import TOO_LATE, RequestError
from zrt.serving.runner import Batching, Runner
from zrt.serving.settings import Settings
from zrt.serving.signature import PLATFORM, Signature
from zrt.session.session import Session

logger: logging.Logger = logging.getLogger("zrt.serving")


class ServedModel:
    """One version of a model, with `Settings.lanes` threads that run its requests."""

    def __init__(self, name: str, version: str, session: Session, settings: Settings, metrics: Metrics) -> None:
        self.name = name
        self.version = version
        self.signature: Signature = Signature.of(session, name)
        self.batches: Batches = Batches(settings.max_batch, settings.max_wait / 1e6, settings.max_queue)
        self.metrics: ModelMetrics = ModelMetrics(metrics, name, version)
        self._batching = Batching(self.signature.open_batch and settings.max_batch > 1)
        self._settings = settings
        self._providers = session.providers
        self._runners = [
            Runner(session, self.signature, self._batching, settings.max_batch, self.metrics)
            for _ in range(settings.lanes)
        ]
        self._threads: list[threading.Thread] = []
        # The event loop that is about to wake a thread.
        self._waking: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        for number, runner in enumerate(self._runners):
            thread = threading.Thread(
                target=self._serve, args=(runner,), name=f"zrt-serve-{self.name}-{number}", daemon=True
            )
            start_thread(thread)
            self._threads.append(thread)

    def close(self) -> None:
        """Refuses further requests, and returns when the threads have run those that wait."""
        self.batches.close()
        for thread in self._threads:
            thread.join()
        for runner in self._runners:
            runner.close()

    def configuration(self) -> dict[str, Any]:
        """The document of Triton's extension `model_configuration`, without that which zrt does not have.

        A model whose requests share runs has sizes without the first axis.
        """
        shares, most = self._batching.allowed, self._settings
        kind = "KIND_CPU" if self._providers == ("CPUExecutionProvider",) else "KIND_AUTO"
        document: dict[str, Any] = {
            "name": self.name,
            "platform": PLATFORM,
            "backend": "onnxruntime",
            "max_batch_size": most.max_batch if shares else 0,
            **self.signature.configuration(shares),
            "instance_group": [{"name": self.name, "kind": kind, "count": most.lanes}],
        }
        if shares:
            document["dynamic_batching"] = {"max_queue_delay_microseconds": most.max_wait}
        return document

    async def answer(self, feeds: dict[str, Array], finish: Callable[[Results], Any], deadline: float | None) -> Any:
        """The value of `finish` for the results; raises `RequestError` after `deadline`, a time of `clock`."""
        loop = asyncio.get_running_loop()
        rows, key = self._batch_key(feeds)
        job = Job(feeds, finish, loop.create_future(), rows, key)
        self.batches.put(job)
        self.metrics.waiting.inc()
        if self._waking is not loop:
            # After the requests that the loop has read at the same time: these can share a run.
            self._waking = loop
            loop.call_soon(self._wake)
        timer = None if deadline is None else loop.call_later(deadline - clock(), self._expire, job, deadline)
        try:
            return await job.future
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _batch_key(self, feeds: dict[str, Array]) -> tuple[int, Any]:
        """The rows of a request, and the key of the requests with which it may share a run, if any."""
        if not self.signature.open_batch:
            return 1, None
        first = next(iter(feeds.values()))
        rows = len(first)
        fits = 0 < rows <= self._settings.max_batch and all(len(array) == rows for array in feeds.values())
        if not fits or not self._batching.allowed:
            return rows, None
        return rows, tuple(feeds[name].shape[1:] for name in self.signature.inputs)

    def _wake(self) -> None:
        self._waking = None
        self.batches.wake()

    def _expire(self, job: Job, deadline: float) -> None:
        left = deadline - clock()
        if left > 0:
            # A loop that counts in milliseconds may call this early.
            job.future.get_loop().call_later(max(left, 0.001), self._expire, job, deadline)
        elif not job.future.done():
            job.future.set_exception(RequestError(TOO_LATE, "the deadline passed before the answer was there"))
            self._abandon(job)

    def _abandon(self, job: Job) -> None:
        """Nobody waits for a job any more: takes it back, or ends its run if it was the last one there."""
        if self.batches.drop(job):
            self.metrics.waiting.dec()
        for runner in self._runners:
            runner.give_up()

    def _serve(self, runner: Runner) -> None:
        """The work of a thread: runs batches until the queue is closed and empty."""
        while (jobs := self.batches.take()) is not None:
            now = clock()
            self.metrics.waiting.dec(len(jobs))
            live = [job for job in jobs if not job.future.done()]
            for job in live:
                self.metrics.waited(now - job.arrived)
            if not live:
                continue
            allowed = self._batching.allowed
            try:
                values = runner.run(live)
            except Exception as error:
                logger.exception("model %r: a run failed", self.name)
                values = [error] * len(live)
            if allowed and not self._batching.allowed:
                logger.warning("model %r: requests share no runs: %s", self.name, self._batching.refuted)
            _deliver(live, values)


def _deliver(jobs: Sequence[Job], values: Sequence[Any]) -> None:
    """Hands the values to the event loops that wait for them."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Job, Any]]] = {}
    for job, value in zip(jobs, values, strict=True):
        by_loop.setdefault(job.future.get_loop(), []).append((job, value))
    for loop, settled in by_loop.items():
        # A closed loop waits for nothing.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: Sequence[tuple[Job, Any]]) -> None:
    for job, value in settled:
        if job.future.done():
            continue
        if isinstance(value, Exception):
            job.future.set_exception(value)
        else:
            job.future.set_result(value)
