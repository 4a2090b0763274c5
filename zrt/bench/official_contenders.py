"""onnxruntime's own `run` and `run_with_iobinding`, each over a session of its own, if that package is installed.

Two ONNX Runtimes that both use CUDA conflict in one process: with CUDA, the package is measured in a process of its
own (`set_up_apart`). This module imports nothing that loads zrt's ONNX Runtime.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any, cast

import numpy as np

from zrt.bench.child import Child
from zrt.bench.harness import Contender, python_contender, without_gc

RUN, RUN_WITH_IOBINDING = "ort_run", "ort_run_with_iobinding"
# The same work as `RUN` over another session: measured beside it, it shows how exact the measurement is.
RUN_AGAIN = "ort_run_again"
LABELS = {
    RUN: "onnxruntime run",
    RUN_WITH_IOBINDING: "onnxruntime run_with_iobinding",
    RUN_AGAIN: "onnxruntime run, again",
}
SEVERITIES = ("VERBOSE", "INFO", "WARNING", "ERROR", "FATAL")
# The methods of its options that add the entries of a mapping one by one.
ADDED = {
    "config_entries": "add_session_config_entry",
    "free_dimension_overrides": "add_free_dimension_override_by_name",
    "free_dimension_overrides_by_denotation": "add_free_dimension_override_by_denotation",
}


@dataclass(frozen=True, slots=True)
class Place:
    """An input or an output: its memory; `array` is None for outputs that onnxruntime allocates."""

    name: str
    onnx_type: int
    """The element type's number in ONNX's ``TensorProto.DataType``."""
    shape: tuple[int, ...]
    array: np.ndarray[Any, Any] | None


@dataclass(frozen=True, slots=True)
class Official:
    """The package's contenders, and the reasons why some are missing."""

    version: str = ""
    """The package's version; "" if it is not installed."""
    load_ns: int = 0
    """The time of the first load; that of the first run likewise."""
    first_run_ns: int = 0
    contenders: Sequence[Contender] = ()
    unmeasured: dict[str, str] = field(default_factory=dict)
    """Why a contender is missing, by its key."""
    own_process: bool = False
    """Whether it runs in a process of its own, as it does with CUDA."""


def set_up(
    model: Path,
    options: Mapping[str, Any],
    providers: Sequence[tuple[str, Mapping[str, str]]],
    inputs: Sequence[Place],
    outputs: Sequence[Place],
    keys: Sequence[str] = (RUN, RUN_WITH_IOBINDING),
) -> Official:
    """Loads the model into onnxruntime and runs it once for each key; a way that fails is left out, with its reason.

    `options` is plain data with the names of zrt's `SessionOptions`; `providers` are full names with ORT's options.
    """
    try:
        import onnxruntime
    except ImportError as error:
        return Official(unmeasured=dict.fromkeys(keys, f"onnxruntime cannot be imported: {error}"))
    version = str(onnxruntime.__version__)
    available = onnxruntime.get_available_providers()
    for name, _ in providers:
        if name not in available:
            # onnxruntime would only warn and use the next provider.
            return Official(version, unmeasured=dict.fromkeys(keys, f"this onnxruntime has no {name}"))
    loads, first_runs, contenders, unmeasured = [], [], [], {}
    for key in keys:
        # The package's errors have no common base but Exception, and no error of it may end the measurement of zrt.
        try:
            its_options = _session_options(onnxruntime, options)
            start = clock()
            session = onnxruntime.InferenceSession(os.fspath(model), its_options, providers=list(map(tuple, providers)))
            loads.append(clock() - start)
            if session.get_providers()[0] != providers[0][0]:
                raise RuntimeError(f"onnxruntime could not use {providers[0][0]}")
            call, arguments = session.run, [None, {place.name: copy(place.array) for place in inputs}]
            if key == RUN_WITH_IOBINDING:
                call, arguments = session.run_with_iobinding, [_bind(session, inputs, outputs)]
            contender = python_contender(key, LABELS[key], call, *arguments)
            first_runs.append(contender.batch(1))
        except Exception as error:
            unmeasured[key] = str(error).strip().partition("\n")[0] or type(error).__name__
        else:
            contenders.append(contender)
    return Official(version, next(iter(loads), 0), next(iter(first_runs), 0), contenders, unmeasured)


def _session_options(onnxruntime: Any, fields: Mapping[str, Any]) -> Any:
    """The package's own options; raises if it lacks a field."""
    its_options = onnxruntime.SessionOptions()
    for name, value in fields.items():
        if name in ADDED:
            for key, entry in value.items():
                getattr(its_options, ADDED[name])(key, entry)
        elif name in ("graph_optimization_level", "execution_mode"):
            setattr(its_options, name, getattr(type(getattr(its_options, name)), f"ORT_{value}"))
        elif name == "log_severity_level":
            its_options.log_severity_level = SEVERITIES.index(value)
        elif name == "optimized_model_filepath":
            # zrt itself writes this file.
            continue
        else:
            if name == "profile_file_prefix":
                its_options.enable_profiling = True
            if not hasattr(its_options, name):
                raise AttributeError(f"onnxruntime's SessionOptions have no {name}")
            setattr(its_options, name, value)
    return its_options


def _bind(session: Any, inputs: Sequence[Place], outputs: Sequence[Place]) -> Any:
    """A binding of all inputs and outputs: to the memory of zrt's lane if both are in one process."""
    binding = session.io_binding()
    # The binding borrows the arrays' memory, so it holds them.
    binding.places = inputs, outputs
    for place in inputs:
        assert place.array is not None
        binding.bind_input(place.name, "cpu", 0, place.onnx_type, place.shape, place.array.ctypes.data)
    for place in outputs:
        if place.array is None:
            binding.bind_output(place.name, "cpu")
        else:
            binding.bind_output(place.name, "cpu", 0, place.onnx_type, place.shape, place.array.ctypes.data)
    return binding


# The contenders of this process, if it is the one that measures apart.
_contenders: dict[str, Contender] = {}


@dataclass(frozen=True, slots=True)
class _Remote(Contender):
    """A contender of the other process, which times its own calls and empties its own caches."""

    process: Child

    def times(self, runs: int) -> list[int]:
        return cast("list[int]", self.process.call(_ask, self.key, "times", runs))

    def cold_time(self) -> int:
        return cast("int", self.process.call(_ask, self.key, "cold_time"))


@contextmanager
def set_up_apart(*arguments: Any) -> Iterator[Official]:
    """`set_up` in a process of its own, which lives as long as the context."""
    with Child() as process:
        official, keys = process.call(_set_up, *arguments)
        contenders = [_Remote(key, LABELS[key], partial(process.call, _ask, key, "batch"), process) for key in keys]
        yield replace(official, contenders=contenders, own_process=True)


def _set_up(*arguments: Any) -> tuple[Official, list[str]]:
    official = set_up(*arguments)
    _contenders.update((contender.key, contender) for contender in official.contenders)
    return replace(official, contenders=()), list(_contenders)


def _ask(key: str, method: str, *values: int) -> Any:
    with without_gc():
        return getattr(_contenders[key], method)(*values)
