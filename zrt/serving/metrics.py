"""Counters and times of a served model, for Prometheus and for Triton's statistics."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector, Summary
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

# The variable of prometheus-client's for the folder in which the workers of a server keep their metrics.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# The folder has a file of this name for each worker, with its process id as the suffix.
WORKER = "worker"

_LABELS = ("model", "version")

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)


class Metrics:
    """The metrics of one application, in a registry of its own.

    `exposed` is the registry to show: that of this process, or with the folder of `FOLDER` that of all workers.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.requests = Counter(
            "zrt_requests", "Requests that were answered, by HTTP status", (*_LABELS, "status"), registry=registry
        )
        self.request_seconds = Histogram(
            "zrt_request_seconds",
            "Seconds from the head of a request to its response, by HTTP status",
            (*_LABELS, "status"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.last_request = Gauge(
            "zrt_last_request_timestamp_seconds",
            "Unix time at which the last request was answered",
            _LABELS,
            registry=registry,
            multiprocess_mode="max",
        )
        self.rows = Counter("zrt_rows", "Rows of requests that were run", _LABELS, registry=registry)
        self.batch_rows = Histogram("zrt_batch_rows", "Rows in one run", _LABELS, buckets=_ROWS, registry=registry)
        self.queue_seconds = Histogram(
            "zrt_queue_seconds", "Seconds that a request waited for a run", _LABELS, buckets=_SECONDS, registry=registry
        )
        self.run_seconds = Histogram(
            "zrt_run_seconds", "Seconds of one run, with its copies", _LABELS, buckets=_SECONDS, registry=registry
        )
        self.compute_seconds = Summary(
            "zrt_compute_seconds", "Seconds of the parts of a run", (*_LABELS, "part"), registry=registry
        )
        self.misses = Counter(
            "zrt_bucket_misses", "Runs for whose shapes there was no lane yet", _LABELS, registry=registry
        )
        self.waiting = Gauge(
            "zrt_waiting_requests",
            "Requests that wait for a run",
            _LABELS,
            registry=registry,
            multiprocess_mode="livesum",
        )
        folder = os.environ.get(FOLDER)
        if folder is None:
            ProcessCollector(registry=registry)
            self.exposed = registry
        else:
            self.exposed = CollectorRegistry()
            MultiProcessCollector(self.exposed, folder)  # type: ignore[no-untyped-call]
            self.exposed.register(_Workers(Path(folder)))

    def samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """The values of every sample, each with its labels, by the sample's name."""
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for metric in self.exposed.collect():
            for sample in metric.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found


class _Workers(Collector):
    """The metrics of each worker's process, with its id as a label: prometheus-client knows none of several."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for file in sorted(self._folder.glob(f"{WORKER}.*")):
            process = file.suffix[1:]
            # A process that ended has none.
            for family in ProcessCollector(pid=partial(str, process), registry=None).collect():
                samples, family.samples = family.samples, []
                known = families.setdefault(family.name, family)
                known.samples += [sample._replace(labels={"pid": process}) for sample in samples]
        return families.values()


class ModelMetrics:
    """The metrics of one version of a model; any thread may use it."""

    def __init__(self, metrics: Metrics, name: str, version: str) -> None:
        self._labels = labels = (name, version)
        self._requests = metrics.requests
        self._request_seconds = metrics.request_seconds
        self._statuses: dict[int, tuple[Counter, Histogram]] = {}
        self._last_request = metrics.last_request.labels(*labels)
        self._rows = metrics.rows.labels(*labels)
        self._batch_rows = metrics.batch_rows.labels(*labels)
        self._queue_seconds = metrics.queue_seconds.labels(*labels)
        self._run_seconds = metrics.run_seconds.labels(*labels)
        self._parts = [metrics.compute_seconds.labels(*labels, part) for part in ("input", "infer", "output")]
        self._misses = metrics.misses.labels(*labels)
        self.waiting = metrics.waiting.labels(*labels)
        """The requests that wait for a run."""

    def answered(self, status: int, seconds: float) -> None:
        """A request was answered, so many seconds after its head came."""
        found = self._statuses.get(status)
        if found is None:
            of = (*self._labels, status)
            found = self._statuses[status] = self._requests.labels(*of), self._request_seconds.labels(*of)
        found[0].inc()
        found[1].observe(seconds)
        self._last_request.set_to_current_time()

    def waited(self, seconds: float) -> None:
        """A thread took a request."""
        self._queue_seconds.observe(seconds)

    def ran(self, rows: int, seconds: float, hit: bool) -> None:
        """A run ended; `hit` says whether a lane for its shapes was there."""
        self._batch_rows.observe(rows)
        self._run_seconds.observe(seconds)
        if not hit:
            self._misses.inc()

    def computed(self, rows: int, copying: float, running: float, writing: float) -> None:
        """A run gave its requests their results: the seconds of its copies, of ONNX Runtime, and of the responses."""
        self._rows.inc(rows)
        for part, seconds in zip(self._parts, (copying, running, writing), strict=True):
            part.observe(seconds)
