"""Counters and times of a served model, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LABELS = ("model", "version")

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)


class Metrics:
    """The metrics of one application, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "zrt_requests", "Requests that were answered, by HTTP status", (*_LABELS, "status"), registry=registry
        )
        self.rows = Counter("zrt_rows", "Rows of requests that were run", _LABELS, registry=registry)
        self.batch_rows = Histogram("zrt_batch_rows", "Rows in one run", _LABELS, buckets=_ROWS, registry=registry)
        self.queue_seconds = Histogram(
            "zrt_queue_seconds", "Seconds that a request waited for a run", _LABELS, buckets=_SECONDS, registry=registry
        )
        self.run_seconds = Histogram(
            "zrt_run_seconds", "Seconds of one run, with its copies", _LABELS, buckets=_SECONDS, registry=registry
        )
        self.misses = Counter(
            "zrt_bucket_misses", "Runs for whose shapes there was no lane yet", _LABELS, registry=registry
        )
        self.waiting = Gauge("zrt_waiting_requests", "Requests that wait for a run", _LABELS, registry=registry)

    def of_model(self, name: str, version: str, waiting: Callable[[], float]) -> ModelMetrics:
        """The metrics of one model; `waiting` counts its waiting requests."""
        self.waiting.labels(name, version).set_function(waiting)
        return ModelMetrics(self, name, version)


class ModelMetrics:
    """The metrics of one version of a model; any thread may use it."""

    def __init__(self, metrics: Metrics, name: str, version: str) -> None:
        self._requests = metrics.requests
        self._labels = labels = (name, version)
        self._rows = metrics.rows.labels(*labels)
        self._batch_rows = metrics.batch_rows.labels(*labels)
        self._queue_seconds = metrics.queue_seconds.labels(*labels)
        self._run_seconds = metrics.run_seconds.labels(*labels)
        self._misses = metrics.misses.labels(*labels)

    def answered(self, status: int) -> None:
        """A request was answered."""
        self._requests.labels(*self._labels, status).inc()

    def waited(self, seconds: float) -> None:
        """A thread took a request."""
        self._queue_seconds.observe(seconds)

    def ran(self, rows: int, seconds: float, hit: bool) -> None:
        """A run ended; `hit` says whether a lane for its shapes was there."""
        self._rows.inc(rows)
        self._batch_rows.observe(rows)
        self._run_seconds.observe(seconds)
        if not hit:
            self._misses.inc()
