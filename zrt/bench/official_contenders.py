"""onnxruntime's own `run` and `run_with_iobinding`, if that package is installed.

Two ONNX Runtimes that both use CUDA conflict in one process: with CUDA, the package is measured in a process of its
own. ``python -m zrt.bench.official_contenders`` is that process. `zrt.bench.official_worker` sends it requests as lines
of JSON (see `serve`). This module imports nothing that loads zrt's ONNX Runtime.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter_ns as clock
from typing import IO, Any

import ml_dtypes
import numpy as np

from zrt.bench import timing
from zrt.bench.harness import Contender, python_contender

RUN = ("ort_run", "onnxruntime run")
SEVERITIES = ("VERBOSE", "INFO", "WARNING", "ERROR", "FATAL")
RUN_WITH_IOBINDING = ("ort_run_with_iobinding", "onnxruntime run_with_iobinding")


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
    first_run_ns: int = 0
    contenders: Sequence[Contender] = ()
    unmeasured: dict[str, str] = field(default_factory=dict)
    """Why a contender is missing, by its key."""


def without(reason: str, version: str = "") -> Official:
    """No contenders, all for the same reason."""
    return Official(version, unmeasured={key: reason for key, _ in (RUN, RUN_WITH_IOBINDING)})


def set_up(
    model: Path,
    options: Mapping[str, Any],
    providers: Sequence[tuple[str, Mapping[str, str]]],
    inputs: Sequence[Place],
    outputs: Sequence[Place],
) -> Official:
    """Loads the model into onnxruntime and runs it once in each way; a way that fails is left out, with its reason.

    `options` is plain data with the names of zrt's `SessionOptions`; `providers` are full names with ORT's options.
    """
    try:
        import onnxruntime
    except ImportError as error:
        return without(f"onnxruntime cannot be imported: {error}")
    version = str(onnxruntime.__version__)
    for name, _ in providers:
        if name not in onnxruntime.get_available_providers():
            # onnxruntime would only warn and use the next provider.
            return without(f"this onnxruntime has no {name}", version)
    # The package's errors have no common base but Exception, and no error of it may end the measurement of zrt.
    try:
        its_options = _session_options(onnxruntime, options)
        start = clock()
        session = onnxruntime.InferenceSession(os.fspath(model), its_options, providers=list(map(tuple, providers)))
        load_ns = clock() - start
    except Exception as error:
        return without(_first_line(error), version)
    if session.get_providers()[0] != providers[0][0]:
        return without(f"onnxruntime could not use {providers[0][0]}", version)
    feeds = {place.name: place.array for place in inputs}
    ways: list[tuple[tuple[str, str], Callable[[], tuple[Any, ...]]]] = [
        (RUN, lambda: (session.run, None, feeds)),
        (RUN_WITH_IOBINDING, lambda: (session.run_with_iobinding, _bind(session, inputs, outputs))),
    ]
    first_runs, contenders, unmeasured = [], [], {}
    for (key, label), prepare in ways:
        try:
            call, *arguments = prepare()
            start = clock()
            call(*arguments)
            first_runs.append(clock() - start)
        except Exception as error:
            unmeasured[key] = _first_line(error)
        else:
            contenders.append(python_contender(key, label, call, *arguments))
    return Official(version, load_ns, first_runs[0] if first_runs else 0, contenders, unmeasured)


def _session_options(onnxruntime: Any, fields: Mapping[str, Any]) -> Any:
    """The package's own options; raises if it lacks a field."""
    made = onnxruntime.SessionOptions()
    for name, value in fields.items():
        if name == "config_entries":
            for key, entry in value.items():
                made.add_session_config_entry(key, entry)
        elif name == "free_dimension_overrides":
            for symbol, size in value.items():
                made.add_free_dimension_override_by_name(symbol, size)
        elif name == "free_dimension_overrides_by_denotation":
            for denotation, size in value.items():
                made.add_free_dimension_override_by_denotation(denotation, size)
        elif name in ("graph_optimization_level", "execution_mode"):
            setattr(made, name, getattr(type(getattr(made, name)), f"ORT_{value}"))
        elif name == "log_severity_level":
            made.log_severity_level = SEVERITIES.index(value)
        elif name == "optimized_model_filepath":
            # zrt itself writes this file.
            continue
        else:
            if name == "profile_file_prefix":
                made.enable_profiling = True
            if not hasattr(made, name):
                raise AttributeError(f"onnxruntime's SessionOptions have no {name}")
            setattr(made, name, value)
    return made


def _bind(session: Any, inputs: Sequence[Place], outputs: Sequence[Place]) -> Any:
    """A binding of all inputs and outputs: to the memory of zrt's lane if both are in one process."""
    binding = session.io_binding()
    for place in inputs:
        assert place.array is not None
        binding.bind_input(place.name, "cpu", 0, place.onnx_type, place.shape, place.array.ctypes.data)
    for place in outputs:
        if place.array is None:
            binding.bind_output(place.name, "cpu")
        else:
            binding.bind_output(place.name, "cpu", 0, place.onnx_type, place.shape, place.array.ctypes.data)
    return binding


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def serve(orders: IO[str], replies: IO[str]) -> None:
    """Reads requests, one line of JSON each, and replies to each with a line.

    The first is ``{"model", "options", "providers", "inputs", "outputs"}``, followed by any number of
    ``{"do": "batch" | "times", "key", "runs"}``. It returns at the end of the input.
    """
    order = json.loads(orders.readline())
    # To the end of the function: a binding borrows the arrays' memory.
    inputs = [_place(entry) for entry in order["inputs"]]
    outputs = [_place(entry) for entry in order["outputs"]]
    official = set_up(Path(order["model"]), order["options"], order["providers"], inputs, outputs)
    contenders = {contender.key: contender for contender in official.contenders}
    reply: Any = asdict(replace(official, contenders=()))
    reply["contenders"] = {key: contender.label for key, contender in contenders.items()}
    while True:
        print(json.dumps(reply), file=replies, flush=True)
        line = orders.readline()
        if not line:
            return
        order = json.loads(line)
        contender = contenders[order["key"]]
        with timing.without_gc():
            reply = (contender.batch if order["do"] == "batch" else contender.times)(order["runs"])


def _place(entry: dict[str, Any]) -> Place:
    """An input, read from a file of `zrt.bench.official_worker`, or an output in memory of this process."""
    array = None
    if entry["dtype"] is not None:
        # numpy does not know the names of types from other packages.
        dtype = np.dtype(getattr(ml_dtypes, entry["dtype"], entry["dtype"]))
        array = np.zeros(entry["array_shape"], dtype)
        if entry["file"] is not None:
            array.reshape(-1).view(np.uint8)[...] = np.load(entry["file"])
    return Place(entry["name"], entry["onnx_type"], tuple(entry["shape"]), array)


def main() -> None:
    """The process: requests on standard input, replies on standard output, everything else on standard error."""
    # Ctrl-C reaches both processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        # ONNX Runtime's own output must not mix with the replies.
        os.dup2(2, 1)
        serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
