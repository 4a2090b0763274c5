"""``zrt score``: a data set through a model."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from zrt._common import installation
from zrt._common.arguments import integer
from zrt.cli import common
from zrt.environment import cpu_limits
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError, DTypeError, FileError, UnsupportedError
from zrt.session.session import Session

if TYPE_CHECKING:
    from zrt.ray.score import Actors
    from zrt.scoring.parts import Parts
    from zrt.scoring.scorer import Scorer
    from zrt.scoring.sources import Source

SUMMARY = "Score a data set: its rows through a model, in batches on all cores."

FAILED = 1
DEFAULT_THREADS = 1
DEFAULT_BATCH = 64

# Text output names at most this many bad rows.
SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``zrt score``."""
    whole = common.integer_argument(1)
    formats = ("parquet", "arrow", "csv", "npz", "npy")
    repeated: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    parser.add_argument("source", type=Path, metavar="INPUT", help="a data set: a file, or a folder of files")
    parser.add_argument("target", type=Path, metavar="OUTPUT", help="the file of the results, or a folder for files")
    for option, metavar, kind, meaning in (
        (
            "--input",
            "COLUMN=NAME",
            _column,
            "the column of an input with another name, or a pattern such as p*=x; columns of one input go side by side",
        ),
        ("--keep", "COLUMN", str, "a column to copy to the results"),
    ):
        parser.add_argument(option, **repeated, type=kind, metavar=metavar, help=f"{meaning} (may be repeated)")
    for option, metavar, meaning in (
        ("--batch", "ROWS", f"the rows of a run, where the model leaves that open (default: {DEFAULT_BATCH})"),
        ("--lanes", "N", "the runs at the same time, with --ray in each actor (default: one for each CPU)"),
        (
            "--actors",
            "N",
            "with --ray, the processes that score (default: as many as the CPUs of the cluster have room for)",
        ),
    ):
        parser.add_argument(option, type=whole, metavar=metavar, help=meaning)
    for option, meaning in (
        ("--input-format", "the format of INPUT (default: by its name)"),
        ("--output-format", "the format of OUTPUT (default: by its name; in a folder that of INPUT)"),
    ):
        parser.add_argument(option, choices=formats, help=meaning)
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="score on the cluster of Ray at HOST:PORT; auto: the one that runs on this machine; local: a new one",
    )
    parser.add_argument("--skip-bad", action="store_true", help="write nulls for rows that cannot be fed")
    parser.add_argument("--resume", action="store_true", help="go on after the last row of an interrupted run")
    parser.add_argument(
        "--checkpoint",
        type=common.seconds_argument,
        metavar="SECONDS",
        help="the most time whose results a kill loses, such as 10s or 1m (default: 10s)",
    )
    common.add_overwrite(parser)
    common.add_provider(parser)
    common.add_threads(parser, DEFAULT_THREADS)
    common.add_options(parser)
    common.add_import(parser)


class _Run(NamedTuple):
    """All that a run needs."""

    source: Source
    kind: str
    scorer: Scorer
    columns: dict[str, list[str]]
    parts: Parts
    actors: Actors | None
    """None without a cluster."""


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt score``."""
    if not arguments.json:
        common.require_terminal()
    # Workers of a cluster have another current folder.
    arguments.source = Path(os.path.abspath(arguments.source))
    arguments.target = Path(os.path.realpath(arguments.target))
    with ExitStack() as stack:
        try:
            if arguments.ray is not None:
                # Ray prints the failures of workers to standard output.
                stack.enter_context(redirect_stdout(sys.stderr))
                stack.enter_context(_connected(arguments.ray))
            elif arguments.actors is not None:
                raise ArgumentError("--actors goes with --ray")
            # Ray sets a handler of its own when it connects.
            stack.enter_context(_terminable())
            prepared = _prepared(arguments)
        except (ArgumentError, DTypeError) as error:
            raise common.UsageError(str(error)) from None
        stack.callback(prepared.parts.close)
        found = _scored(arguments, prepared)
    if arguments.json:
        common.print_json(found)
    else:
        _show(found, arguments.skip_bad)
    return FAILED if found["bad_rows"] and not arguments.skip_bad else 0


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does."""

    def end(number: int, _: FrameType | None) -> None:
        raise common.Terminated

    if threading.current_thread() is not threading.main_thread():
        # Python delivers signals to the main thread only.
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _connected(address: str) -> AbstractContextManager[None]:
    for package in ("ray", "pandas", "pyarrow"):
        installation.require(package, "ray", "--ray")
    from zrt.ray.connection import connected

    return connected(address)


def _scored(arguments: argparse.Namespace, prepared: _Run) -> dict[str, Any]:
    """Carries out a run, and tells what it found."""
    source, parts = prepared.source, prepared.parts
    start, before = time.perf_counter(), parts.done
    try:
        if not parts.finished:
            with _progress(arguments, source.rows) as progress:
                _score(arguments, prepared, progress)
        seconds = time.perf_counter() - start
        parts.finish()
    except BaseException:
        print(f"zrt score: {parts.done} of {source.rows} rows are done; --resume goes on after them", file=sys.stderr)
        raise
    return {
        "rows": source.rows,
        "bad_rows": parts.bad_count,
        "bad": [{"row": row, "reason": reason} for row, reason in parts.bad],
        "seconds": seconds,
        "rows_per_second": (source.rows - before) / seconds,
    }


def _score(arguments: argparse.Namespace, prepared: _Run, progress: Callable[[int], None]) -> None:
    from zrt.scoring import score

    source, kind, scorer, columns, parts, actors = prepared
    rows: dict[str, Any] = {"keep": arguments.keep, "skip_bad": arguments.skip_bad}
    if actors is None:
        threads = arguments.lanes or cpu_limits.cpus()
        score.score(source, scorer, columns, parts, threads=threads, progress=progress, **rows)
        return
    from zrt.ray.score import results

    found = results(source, arguments.source, kind, columns, parts.done, actors=actors, batch=scorer.batch, **rows)
    score.gather(found, scorer, parts, progress)


def _prepared(arguments: argparse.Namespace) -> _Run:
    """The data set, the model, the columns of its inputs, and the results so far."""
    from zrt.scoring import sources
    from zrt.scoring.recipe import recipe
    from zrt.scoring.scorer import Scorer, check_columns

    if arguments.lanes is not None:
        integer(arguments.lanes, "--lanes", 1, MOST_THREADS)
    kind = sources.format_of(arguments.source, arguments.input_format)
    made = arguments.output_format or (sources.format_of(arguments.target, None) if _is_file(arguments) else kind)
    for each in {kind, made} - set(sources.NUMPY):
        installation.require("pyarrow", "score", f"a data set in {each}")
    source = sources.open_source(arguments.source, kind)
    options = common.loaded_options(arguments.options, arguments.threads, DEFAULT_THREADS, map(Path, source.files))
    settings = options.session.to_dict()
    _check_target(arguments, source, settings)
    if arguments.imports:
        if arguments.ray is not None:
            raise ArgumentError("--import does not go with --ray: operators in Python stay in this process")
        options.session.custom_ops = common.imported_domains(arguments.imports)
    providers = common.chosen_providers(arguments.provider, options) or None
    # A cluster may have devices that this machine lacks: the declarations are those of the CPU too.
    session = Session(arguments.model, options.session, providers if arguments.ray is None else None)
    actors = None
    if arguments.ray is not None:
        from zrt.ray.score import actors_for

        actors = actors_for(arguments.model, options.session, providers, arguments.actors, arguments.lanes)
    try:
        scorer = Scorer(session, arguments.batch or DEFAULT_BATCH)
    except UnsupportedError as error:
        raise common.UsageError(str(error)) from None
    columns = sources.input_columns(arguments.input, source, session.input_names, kind)
    check_columns(scorer, columns, source.names, arguments.keep)
    if made in sources.NUMPY:
        sources.check_numpy(session.outputs, made, arguments.keep, arguments.skip_bad)
    run = {
        "--input": columns,
        "--keep": arguments.keep,
        "--skip-bad": arguments.skip_bad,
        "--batch": scorer.batch,
        "--output-format": made,
    }
    parts = _parts(
        arguments, source, made, recipe(arguments.model, settings, providers, source.files, arguments.imports, run)
    )
    return _Run(source, kind, scorer, columns, parts, actors)


def _parts(arguments: argparse.Namespace, source: Source, made: str, whole: dict[str, Any]) -> Parts:
    """The results so far."""
    from zrt.scoring.parts import CHECKPOINT_S, Parts

    parts = Parts(
        arguments.target,
        made,
        whole,
        single=_is_file(arguments),
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        checkpoint=arguments.checkpoint or CHECKPOINT_S,
        kept_types=source.types(arguments.keep),
    )
    if parts.done > source.rows or (parts.finished and parts.done < source.rows):
        parts.close()
        raise FileError(f"the manifest of {str(arguments.target)!r} has {parts.done} rows, the data set {source.rows}")
    return parts


def _check_target(arguments: argparse.Namespace, source: Source, settings: dict[str, Any]) -> None:
    """Raises for results that would replace something that the run reads."""
    from zrt.scoring.parts import work_folder
    from zrt.scoring.recipe import files_of_model

    target, read = arguments.target, arguments.source.resolve()
    for place in (target, work_folder(target, _is_file(arguments))):
        if read in (place, *place.parents) or place in read.parents:
            raise ArgumentError(f"{str(arguments.target)!r} is part of the data set: write the results elsewhere")
    libraries = [Path(file) for file in settings.get("custom_op_libraries", [])]
    inputs = [*files_of_model(arguments.model, settings), arguments.options, *source.files, *libraries]
    # `Parts` tells a target that exists from one that an interrupted run has made.
    common.require_target(target, inputs, overwrite=True)


def _is_file(arguments: argparse.Namespace) -> bool:
    """Whether OUTPUT is one file: its name has the suffix of a format."""
    from zrt.scoring import sources

    return arguments.target.suffix.lower() in sources.SUFFIXES and not arguments.target.is_dir()


def _progress(arguments: argparse.Namespace, rows: int) -> AbstractContextManager[Callable[[int], None]]:
    if arguments.json:
        return nullcontext(lambda done: None)
    from zrt.cli.terminal import row_bar

    return row_bar(rows)


def _show(found: dict[str, Any], skip_bad: bool) -> None:
    from zrt.cli.terminal import console
    from zrt.cli.units import plural

    out = console()
    speed = f"{found['rows_per_second']:,.0f} rows per second"
    out.print(f"{plural(found['rows'], 'row')} in {found['seconds']:.1f} s, {speed}")
    if not found["bad_rows"]:
        return
    fate = "written as nulls" if skip_bad else "left out"
    out.print(f"{fate}, because it cannot be fed: {plural(found['bad_rows'], 'row')}", soft_wrap=True)
    for one in found["bad"][:SHOWN]:
        out.print(f"  row {one['row']}: {one['reason']}", soft_wrap=True)
    if found["bad_rows"] > SHOWN:
        out.print(f"  and {found['bad_rows'] - SHOWN} more")


def _column(text: str) -> tuple[str, str]:
    column, given, name = text.rpartition("=")
    if not (column and given and name):
        raise argparse.ArgumentTypeError(f"{text!r}: expected COLUMN=NAME, such as pixels=image")
    return column, name
