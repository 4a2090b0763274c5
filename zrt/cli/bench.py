"""``zrt bench``: how long a run takes, through zrt and through onnxruntime, against a loop in C."""

from __future__ import annotations

import argparse
import importlib.util
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from zrt._common import installation
from zrt.bench import harness, study
from zrt.cli import common, inputs
from zrt.errors import ArgumentError
from zrt.memory.buffers import BufferPolicy
from zrt.providers import CPU

SUMMARY = "Measure a model's runs through zrt and through onnxruntime against a loop in C."

DEFAULT_THREADS = 1
PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt bench``."""
    common.add_model(parser)
    common.add_provider(parser)
    common.add_threads(parser, DEFAULT_THREADS)
    common.add_options(parser)
    parser.add_argument(
        "--lanes",
        type=common.integer_argument(1),
        default=1,
        metavar="N",
        help="measure N lanes in N threads at the same time, too (default: 1)",
    )
    inputs.add_inputs(parser)
    parser.add_argument(
        "--runs",
        type=common.integer_argument(1),
        metavar="N",
        help="runs of each contender, in the batches and one by one (default: what a few seconds hold)",
    )
    parser.add_argument(
        "--warmup",
        type=common.integer_argument(0),
        default=10,
        metavar="N",
        help="runs of each contender before anything is timed (default: 10)",
    )
    parser.add_argument(
        "--policy",
        type=_policy,
        default=BufferPolicy.AUTO,
        help="the lanes' memory: a preset such as latency, or wishes such as alignment=4096,prefault (default: auto)",
    )
    parser.add_argument("--plot", type=_picture, metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    common.add_overwrite(parser)


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt bench``."""
    if arguments.plot is not None:
        # Fail before the measurement, not after it.
        installation.require("matplotlib", "plot", "--plot")
    if not arguments.json:
        common.require_terminal()
    model = common.chosen_model(arguments.model)
    options = common.loaded_options(
        arguments.options, arguments.threads, DEFAULT_THREADS, inputs.input_files(arguments)
    )
    if arguments.plot is not None:
        read = common.files_of(model, options, arguments.options, *inputs.input_files(arguments))
        common.require_target(arguments.plot, read, arguments.overwrite, "--plot")
    settings = study.Settings(
        model=model,
        options=options.session,
        providers=common.chosen_providers(arguments.provider, options) or [CPU()],
        lanes=arguments.lanes,
        given=inputs.given_inputs(arguments),
        runs=arguments.runs,
        warmup=arguments.warmup,
        policy=arguments.policy,
    )
    with _progress() as progress:
        report = study.measure(settings, progress)
    if arguments.plot is not None:
        from zrt.cli import plot

        try:
            plot.draw(report, arguments.plot)
        except OSError as error:
            raise common.CommandError(f"--plot {arguments.plot}: {error.strerror or error}") from error
    if arguments.json:
        common.print_json(report.to_dict())
    else:
        from zrt.cli import bench_view

        bench_view.show(report, arguments.plot)
    return 0


def _progress() -> AbstractContextManager[harness.Progress]:
    if importlib.util.find_spec("rich") is None:
        return nullcontext(harness.ignore_progress)
    from zrt.cli.terminal import progress_bar

    return progress_bar()


def _policy(text: str) -> BufferPolicy:
    try:
        return BufferPolicy.parse(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _picture(text: str) -> Path:
    path = common.file_to_write(text)
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} should end in one of {', '.join(PICTURE_SUFFIXES)}")
    return path
