"""Counters and times of a served model, for Prometheus and for Triton's statistics."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector, Summary
from prometheus_client.multiprocess import MultiProcessCollector

from zrt.errors import ArgumentError

# The variable of prometheus-client's for the folder in which the workers of a server keep their metrics.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# The folder has a file of this name for each worker, with its process id as the suffix.
WORKER = "worker"

# The values of every sample, each with its labels, by the sample's name.
Samples: TypeAlias = "dict[str, list[tuple[dict[str, str], float]]]"

_LABELS = ("model", "version")
# The parts of a run, and their names in Triton's statistics.
_PARTS = {"input": "compute_input", "infer": "compute_infer", "output": "compute_output"}

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)

# The metrics of a model: the class, what it says, and its other arguments.
_OF_MODEL: dict[str, tuple[type[Any], str, dict[str, Any]]] = {
    "last_request_timestamp_seconds": (
        Gauge,
        "Unix time at which the last request was answered",
        {"multiprocess_mode": "max"},
    ),
    "rows": (Counter, "Rows of requests that were run", {}),
    "batch_rows": (Histogram, "Rows in one run", {"buckets": _ROWS}),
    "queue_seconds": (Histogram, "Seconds that a request waited for a run", {"buckets": _SECONDS}),
    "run_seconds": (Histogram, "Seconds of one run, with its copies", {"buckets": _SECONDS}),
    "bucket_misses": (Counter, "Runs for whose shapes there was no lane yet", {}),
    "waiting_requests": (Gauge, "Requests that wait for a run", {"multiprocess_mode": "livesum"}),
}


class Metrics:
    """The metrics of one application, in a registry of its own.

    `exposed` is the registry to show: that of this process, or with the folder of `FOLDER` that of all workers.
    """

    def __init__(self) -> None:
        folder = os.environ.get(FOLDER)
        if folder is not None and not os.path.isdir(folder):
            raise ArgumentError(f"{FOLDER}: {folder!r} is no folder")
        registry = CollectorRegistry()
        self.of_model: dict[str, Any] = {
            name: kind(f"zrt_{name}", meaning, _LABELS, registry=registry, **more)
            for name, (kind, meaning, more) in _OF_MODEL.items()
        }
        self.requests: Counter = Counter(
            "zrt_requests", "Requests that were answered, by HTTP status", (*_LABELS, "status"), registry=registry
        )
        self.request_seconds: Histogram = Histogram(
            "zrt_request_seconds",
            "Seconds from the head of a request to its response, by HTTP status",
            (*_LABELS, "status"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.compute_seconds: Summary = Summary(
            "zrt_compute_seconds", "Seconds of the parts of a run", (*_LABELS, "part"), registry=registry
        )
        if folder is None:
            ProcessCollector(registry=registry)
            self.exposed: CollectorRegistry = registry
        else:
            self.exposed = CollectorRegistry()
            _Workers(self.exposed, folder)

    def samples(self) -> Samples:
        """The present values; with several workers those of all of them."""
        samples: Samples = {}
        for metric in self.exposed.collect():
            for sample in metric.samples:
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
        return samples


class _Workers(MultiProcessCollector):
    """The counts of all workers, and the metrics of each one's process, with its id as a label.

    prometheus-client has the latter for one process only, and fails on a file of counts that a worker has made a moment
    ago: it is empty.
    """

    def __init__(self, registry: CollectorRegistry, folder: str) -> None:
        self._folder = Path(folder)
        super().__init__(registry, folder)  # type: ignore[no-untyped-call]

    def collect(self) -> Iterable[Metric]:
        files = [str(file) for file in self._folder.glob("*.db") if _is_filled(file)]
        yield from self.merge(files)  # type: ignore[no-untyped-call]
        families: dict[str, Metric] = {}
        for file in sorted(self._folder.glob(f"{WORKER}.*")):
            process = file.suffix[1:]
            # A process that ended has none.
            for family in ProcessCollector(pid=partial(str, process), registry=None).collect():
                samples, family.samples = family.samples, []
                known = families.setdefault(family.name, family)
                known.samples += [sample._replace(labels={"pid": process}) for sample in samples]
        yield from families.values()


def _is_filled(file: Path) -> bool:
    # That of a worker that died may be removed meanwhile.
    with suppress(FileNotFoundError):
        return file.stat().st_size > 0
    return False


class ModelMetrics:
    """The metrics of one version of a model; any thread may use it."""

    def __init__(self, metrics: Metrics, name: str, version: str) -> None:
        self._labels = labels = (name, version)
        self._requests = metrics.requests
        self._request_seconds = metrics.request_seconds
        self._of_model = {each: metric.labels(*labels) for each, metric in metrics.of_model.items()}
        self._parts = [metrics.compute_seconds.labels(*labels, part) for part in _PARTS]
        self.waiting: Gauge = self._of_model["waiting_requests"]
        """The requests that wait for a run."""

    def answered(self, status: int, seconds: float) -> None:
        """A request was answered, so many seconds after its head came."""
        self._requests.labels(*self._labels, status).inc()
        self._request_seconds.labels(*self._labels, status).observe(seconds)
        self._of_model["last_request_timestamp_seconds"].set_to_current_time()

    def waited(self, seconds: float) -> None:
        """A thread took a request."""
        self._of_model["queue_seconds"].observe(seconds)

    def ran(self, rows: int, seconds: float, hit: bool) -> None:
        """A run ended; `hit` says whether a lane for its shapes was there."""
        self._of_model["batch_rows"].observe(rows)
        self._of_model["run_seconds"].observe(seconds)
        if not hit:
            self._of_model["bucket_misses"].inc()

    def computed(self, rows: int, copying: float, running: float, writing: float) -> None:
        """A run gave its requests their results: the seconds of its copies, of ONNX Runtime, and of the responses."""
        self._of_model["rows"].inc(rows)
        for part, seconds in zip(self._parts, (copying, running, writing), strict=True):
            part.observe(seconds)

    def statistics(self, samples: Samples) -> dict[str, Any]:
        """The samples of this model in the words of Triton's extension `statistics`.

        Durations of runs are those of each run, however many requests share it.
        """
        name, version = self._labels

        def total(sample: str, **labels: str) -> float:
            wanted = {"model": name, "version": version, **labels}.items()
            return sum(value for of, value in samples.get(sample, ()) if wanted <= of.items())

        def duration(sample: str, **labels: str) -> dict[str, int]:
            seconds = total(f"{sample}_sum", **labels)
            return {"count": int(total(f"{sample}_count", **labels)), "ns": round(seconds * 1e9)}

        none = {"count": 0, "ns": 0}
        runs = {key: duration("zrt_compute_seconds", part=part) for part, key in _PARTS.items()}
        every, success = duration("zrt_request_seconds"), duration("zrt_request_seconds", status="200")
        return {
            "name": name,
            "version": version,
            "last_inference": int(total("zrt_last_request_timestamp_seconds") * 1000),
            "inference_count": int(total("zrt_rows_total")),
            "execution_count": runs["compute_infer"]["count"],
            "inference_stats": {
                "success": success,
                "fail": {unit: every[unit] - success[unit] for unit in every},
                "queue": duration("zrt_queue_seconds"),
                **runs,
                "cache_hit": none,
                "cache_miss": none,
            },
            # The sizes of runs are those of the metric zrt_batch_rows.
            "batch_stats": [],
        }
