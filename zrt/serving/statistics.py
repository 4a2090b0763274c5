"""The counters of models in the words of Triton's extension `statistics`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from zrt.serving.metrics import Metrics
from zrt.serving.model import ServedModel

_PARTS = {"compute_input": "input", "compute_infer": "infer", "compute_output": "output"}
_NONE = {"count": 0, "ns": 0}


def statistics(metrics: Metrics, models: Iterable[ServedModel]) -> dict[str, Any]:
    """The document of these models' statistics, from their metrics: with several workers those of all of them."""
    samples = metrics.samples()
    return {"model_stats": [_Statistics(samples, model).document() for model in models]}


class _Statistics:
    """The samples of one version of a model."""

    def __init__(self, samples: dict[str, list[tuple[dict[str, str], float]]], model: ServedModel) -> None:
        self._samples = samples
        self._model = model

    def document(self) -> dict[str, Any]:
        """The statistics of the model; durations of runs are those of each run, however many requests share it."""
        runs = {name: self._duration("zrt_compute_seconds", part=part) for name, part in _PARTS.items()}
        every, success = self._duration("zrt_request_seconds"), self._duration("zrt_request_seconds", status="200")
        return {
            "name": self._model.name,
            "version": self._model.version,
            "last_inference": int(self._sum("zrt_last_request_timestamp_seconds") * 1000),
            "inference_count": int(self._sum("zrt_rows_total")),
            "execution_count": runs["compute_infer"]["count"],
            "inference_stats": {
                "success": success,
                "fail": {unit: every[unit] - success[unit] for unit in every},
                "queue": self._duration("zrt_queue_seconds"),
                **runs,
                "cache_hit": _NONE,
                "cache_miss": _NONE,
            },
            # The sizes of runs are those of the metric zrt_batch_rows.
            "batch_stats": [],
        }

    def _duration(self, name: str, **labels: str) -> dict[str, int]:
        seconds = self._sum(f"{name}_sum", **labels)
        return {"count": int(self._sum(f"{name}_count", **labels)), "ns": round(seconds * 1e9)}

    def _sum(self, name: str, **labels: str) -> float:
        wanted = {"model": self._model.name, "version": self._model.version, **labels}.items()
        return sum(value for of, value in self._samples.get(name, ()) if wanted <= of.items())
