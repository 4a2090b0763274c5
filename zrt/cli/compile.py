"""``zrt compile``: writes a model compiled by providers, or optimized by ONNX Runtime."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

from zrt._common.files import is_same
from zrt.cli import common
from zrt.cli.units import duration
from zrt.loading.options_files import Options
from zrt.providers import CPU
from zrt.session.compile import compile as compile_ahead
from zrt.session.save_optimized import save_optimized
from zrt.types import GraphOptimizationLevel

SUMMARY = "Compile a model ahead of time, so that it loads sooner."

DEFAULT_THREADS = 0
LEVELS = {level.name.lower(): level for level in GraphOptimizationLevel}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt compile``."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "output",
        nargs="?",
        type=common.file_to_write,
        metavar="OUTPUT",
        help="the file to write: an .onnx file, or an .ort file without a provider that compiles",
    )
    parser.add_argument(
        "--in-place", action="store_true", help="write the optimized model over MODEL; there is no OUTPUT then"
    )
    common.add_overwrite(parser)
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="NAME",
        help="an execution provider that compiles, such as tensorrt (may be repeated; default: those of --options); "
        "without any, the optimized model for the CPU is written",
    )
    common.add_threads(parser, DEFAULT_THREADS)
    common.add_options(parser)
    parser.add_argument(
        "--level",
        choices=LEVELS,
        help="how far to optimize the graph (default: disable_all where providers compile, else enable_extended)",
    )
    parser.add_argument("--embed", action="store_true", help="what is compiled goes into the model, not beside it")
    parser.add_argument(
        "--require-compiled", action="store_true", help="fail where no provider compiles any node of the model"
    )
    parser.add_argument(
        "--weights", metavar="NAME", help="large weights go into a file of this name beside OUTPUT, not into the model"
    )
    parser.add_argument(
        "--weights-from",
        type=common.integer_argument(0),
        default=1024,
        metavar="BYTES",
        help="the size of the smallest of them (default: 1024)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt compile``."""
    options = common.loaded_options(arguments.options, arguments.threads, DEFAULT_THREADS)
    chosen = common.chosen_providers(arguments.provider, options)
    compiling = any(common.provider_name(provider) != CPU.name for provider in chosen)
    model, output = arguments.model, _target(arguments, compiling)
    if not compiling and (arguments.embed or arguments.require_compiled):
        raise common.UsageError("--embed and --require-compiled are about what providers compile: name one")
    _protect_files(arguments, options, output)
    level = LEVELS.get(arguments.level)
    begin = time.perf_counter_ns()
    if compiling:
        compile_ahead(
            model,
            output,
            options.session,
            chosen,
            graph_optimization_level=level,
            embed_compiled_data_into_model=arguments.embed,
            external_initializers_file=arguments.weights,
            external_initializers_size_threshold=arguments.weights_from,
            error_if_no_nodes_compiled=arguments.require_compiled,
        )
    else:
        if level is None and arguments.options is None:
            level = GraphOptimizationLevel.ENABLE_EXTENDED
        settings = options.session if level is None else replace(options.session, graph_optimization_level=level)
        save_optimized(
            model,
            output,
            settings,
            chosen,
            weights_file=arguments.weights,
            weights_from=arguments.weights_from,
            in_place=arguments.in_place,
        )
    took = time.perf_counter_ns() - begin
    written = [output] if arguments.weights is None else [output, output.with_name(arguments.weights)]
    sizes = {str(path): path.stat().st_size for path in written if path.exists()}
    if arguments.json:
        document = {"model": str(model), "output": str(output), "files": sizes, "compiled": compiling, "time_ns": took}
        common.print_json(document)
        return 0
    print(f"{model}: {'compiled' if compiling else 'optimized for the CPU'} in {duration(took)}")
    for path, size in sizes.items():
        print(f"{path}: {size:,} bytes")
    return 0


def _target(arguments: argparse.Namespace, compiling: bool) -> Path:
    """The file to write; `UsageError` where it is not named, or named twice."""
    output: Path | None = arguments.output
    if not arguments.in_place:
        if output is None:
            raise common.UsageError("OUTPUT is missing: name the file to write, or give --in-place to replace MODEL")
        return output
    if output is not None:
        raise common.UsageError("--in-place replaces MODEL: give no OUTPUT")
    if compiling:
        raise common.UsageError("--in-place: a compiled model fits one device, so it does not replace MODEL")
    # A link stays, and leads to the new file.
    return Path(os.path.realpath(arguments.model))


def _protect_files(arguments: argparse.Namespace, options: Options, output: Path) -> None:
    """`UsageError` where a file to write is one that the command reads, or exists without ``--overwrite``."""
    read = common.files_of(arguments.model, options, arguments.options)
    if not arguments.in_place:
        common.require_target(output, read, arguments.overwrite)
    if arguments.weights is not None:
        weights = output.parent / arguments.weights
        replaced = arguments.in_place and any(is_same(weights, each) for each in read if each != arguments.options)
        if not replaced:
            common.require_target(weights, read, arguments.overwrite, "--weights")
