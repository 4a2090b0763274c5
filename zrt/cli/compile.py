"""``zrt compile``: writes a model compiled by providers, or optimized by ONNX Runtime."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from zrt._common.files import is_same, plain_name, replacing, writing
from zrt.cli import common, options
from zrt.cli.options import UsageError, count, option
from zrt.cli.units import duration, plural
from zrt.errors import OrtError
from zrt.loading.options_files import Options
from zrt.providers import CPU, ProviderLike, parse
from zrt.session.compile import compile as compile_ahead
from zrt.session.required_operators import required_operators
from zrt.session.save_optimized import ORT_SUFFIX, save_optimized
from zrt.types import GraphOptimizationLevel

# Smaller weights stay in the model.
WEIGHTS_FROM = 1024

LEVELS = {level.name.lower(): level for level in GraphOptimizationLevel}

OPTIONS = (
    options.MODEL_FILE,
    option(
        "output",
        "the file to write: an .onnx file, or an .ort file without a provider that compiles",
        "OUTPUT",
        options.file_to_write,
        nargs="?",
    ),
    option("--in-place", "write the optimized model over MODEL; there is no OUTPUT then"),
    options.OVERWRITE,
    option(
        "--provider",
        "an execution provider that compiles, such as tensorrt; default: those of --options; without any, the "
        "optimized model for the CPU is written",
        "NAME",
        repeated=True,
    ),
    options.threads(),
    options.OPTIONS,
    option(
        "--level",
        "how far to optimize the graph (default: disable_all where providers compile; else what --options says, or "
        "enable_all if it says nothing; without --options enable_extended)",
        choices=LEVELS,
    ),
    option("--embed", "what is compiled goes into the model, not beside it"),
    option("--require-compiled", "fail where no provider compiles any node of the model"),
    option(
        "--required-operators",
        "write no model, but which operators MODEL needs, as it is and optimized: for an engine that has no others",
    ),
    option("--weights", "large weights go into a file of this name beside OUTPUT, not into the model", "NAME"),
    option("--weights-from", f"the size of the smallest of them (default: {WEIGHTS_FROM})", "BYTES", count(0)),
)


def run(arguments: argparse.Namespace) -> int:
    settings = common.loaded_options(arguments)
    providers = common.requested_providers(arguments.provider, settings) or []
    compiling = any(name != CPU.name for name, _ in map(parse, providers))
    model, output = arguments.model, _target(arguments, compiling)
    if not compiling and (arguments.embed or arguments.require_compiled):
        raise UsageError("--embed and --require-compiled are about what providers compile: name one")
    _protect_files(arguments, settings, output)
    if arguments.required_operators:
        with common.terminable():
            return _write_operators(arguments, settings, providers, compiling, output)
    if arguments.weights is None and arguments.weights_from is not None:
        raise UsageError("--weights-from goes with --weights")
    if arguments.weights is not None and not compiling and output.suffix.lower() == ORT_SUFFIX:
        raise UsageError(f"--weights: a model in ONNX Runtime's own format ({ORT_SUFFIX}) keeps its weights")
    begin = time.perf_counter_ns()
    try:
        with common.terminable():
            _write(arguments, settings, providers, compiling, output)
    except OrtError as error:
        free = shutil.disk_usage(output.absolute().parent).free
        error.add_note(f"{str(output)!r} is not written; its folder has {free:,} bytes left")
        raise
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


def _write_operators(
    arguments: argparse.Namespace, settings: Options, providers: list[ProviderLike], compiling: bool, output: Path
) -> int:
    """Writes the list of required operators."""
    if compiling or arguments.in_place or arguments.level or arguments.weights or arguments.weights_from is not None:
        raise UsageError(
            "--required-operators writes a list for the CPU's kernels: give OUTPUT, no --provider that compiles, no "
            "--in-place, --level, --weights or --weights-from"
        )
    text = required_operators(arguments.model, settings.session, providers)
    with replacing(os.fspath(output), inputs=[arguments.model]) as (path,), writing(output, "path"):
        Path(path).write_text(text, "utf-8")
    lines = [line.split(";") for line in text.splitlines() if not line.startswith("#")]
    operators = {f"{domain};{version}": names.split(",") for domain, version, names in lines}
    if arguments.json:
        common.print_json({"model": str(arguments.model), "output": str(output), "operators": operators})
    else:
        print(f"{output}: {plural(sum(map(len, operators.values())), 'operator')} that {arguments.model} needs")
    return 0


def _write(
    arguments: argparse.Namespace, settings: Options, providers: list[ProviderLike], compiling: bool, output: Path
) -> None:
    level = LEVELS.get(arguments.level)
    smallest = WEIGHTS_FROM if arguments.weights_from is None else arguments.weights_from
    if compiling:
        compile_ahead(
            arguments.model,
            output,
            settings.session,
            providers,
            graph_optimization_level=level,
            embed_compiled_data_into_model=arguments.embed,
            external_initializers_file=arguments.weights,
            external_initializers_size_threshold=smallest,
            error_if_no_nodes_compiled=arguments.require_compiled,
        )
        return
    if level is None and arguments.options is None:
        level = GraphOptimizationLevel.ENABLE_EXTENDED
    save_optimized(
        arguments.model,
        output,
        settings.session if level is None else replace(settings.session, graph_optimization_level=level),
        providers,
        weights_file=arguments.weights,
        weights_from=smallest,
        in_place=arguments.in_place,
    )


def _target(arguments: argparse.Namespace, compiling: bool) -> Path:
    """The file to write; `UsageError` where it is not named, or named twice."""
    output: Path | None = arguments.output
    if not arguments.in_place:
        if output is None:
            raise UsageError("OUTPUT is missing: name the file to write, or give --in-place to replace MODEL")
        return output
    if output is not None:
        raise UsageError("--in-place replaces MODEL: give no OUTPUT")
    if compiling:
        raise UsageError("--in-place: a compiled model fits one device, so it does not replace MODEL")
    # A link stays, and leads to the new file.
    return Path(os.path.realpath(arguments.model))


def _protect_files(arguments: argparse.Namespace, settings: Options, output: Path) -> None:
    """`UsageError` where a file to write is one that the command reads, or exists without ``--overwrite``."""
    read = common.files_of(arguments.model, settings, arguments.options)
    if not arguments.in_place:
        common.require_target(output, read, arguments.overwrite)
    if arguments.weights is not None:
        plain_name(arguments.weights, output, "--weights")
        if arguments.in_place and os.path.realpath(arguments.model.parent) != str(output.parent):
            raise UsageError(
                f"--weights: {arguments.weights!r} would lie beside {str(output)!r}, and a load looks for it beside "
                f"the link {str(arguments.model)!r}: leave --weights out, or give OUTPUT and not --in-place"
            )
        weights = output.parent / arguments.weights
        others = [arguments.options, *map(Path, settings.session.custom_op_libraries)]
        replaced = arguments.in_place and any(is_same(weights, each) for each in read if each not in others)
        if not replaced:
            common.require_target(weights, read, arguments.overwrite, "--weights")
