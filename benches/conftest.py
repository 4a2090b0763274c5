"""Turns a suite's groups of contenders into benchmarks of pytest-benchmark."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnx
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benches.support import CLOCK, MODELS, Compare, Group

RATIOS = pytest.StashKey[dict[str, list[str]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Runs the benches in one process: pytest-benchmark measures nothing if pytest-xdist is active."""
    config.option.numprocesses = 0


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RATIOS] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the ratios, for which pytest-benchmark's tables have no column."""
    if config.stash[RATIOS]:
        terminalreporter.section("ratios to the first of each group: the median of those within a round")
        for name, ratios in config.stash[RATIOS].items():
            terminalreporter.write_line(f"{name}: {', '.join(ratios)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every benchmark with contenders the clock that batches advance."""
    for item in items:
        if "compare" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.benchmark(timer=CLOCK.read))


@pytest.fixture
def compare(benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> Compare:
    """Checks one contender of a group, and hands its times to pytest-benchmark: one round for each batch."""

    def report(group: Group, key: str) -> None:
        entry = group.entry(key)
        entry.check()
        benchmark.group = group.name
        if not benchmark.enabled:
            benchmark(entry.contender.batch, 1)
            return
        series = group.series(
            float(pytestconfig.getoption("benchmark_max_time")), pytestconfig.getoption("benchmark_min_rounds")
        )
        own, first = series[key], group.entries[0].contender.key
        ratio = own.ratio(series[first])
        benchmark.extra_info.update({"runs_in_a_round": own.runs, f"ratio_to_{first}": ratio})
        pytestconfig.stash[RATIOS].setdefault(group.name, []).append(f"{key} {ratio:.3g}")
        means = iter(own.means)
        benchmark.pedantic(lambda: CLOCK.add(next(means)), rounds=len(own.means))

    return report


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a model, by its name in `MODELS`."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def write(name: str) -> Path:
        path = folder / f"{name}.onnx"
        onnx.save_model(MODELS[name](), path)
        return path

    return write
