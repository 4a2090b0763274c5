"""``zrt score``: a data set through a model."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zrt._common import installation
from zrt._common.arguments import absolute, integer
from zrt.cli import common, options
from zrt.cli.options import UsageError, count, option, whole
from zrt.cli.units import plural
from zrt.environment import cpu_limits
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError, FileError, UnsupportedError
from zrt.loading.options_files import Options
from zrt.scoring import score, sources
from zrt.scoring.parts import CHECKPOINT_S, Parts, work_folder
from zrt.scoring.recipe import recipe
from zrt.scoring.scorer import Scorer, check_columns
from zrt.scoring.sources import Source
from zrt.session.session import Session

# The functions here import zrt.ray, a higher package: Ray is an extra, and takes seconds.
if TYPE_CHECKING:
    from zrt.ray.score import Actors

DEFAULT_THREADS = 1
DEFAULT_BATCH = 64

FORMATS = ("parquet", "arrow", "csv", "npz", "npy")
# Text output names at most this many bad rows.
SHOWN = 10


class _Run(NamedTuple):
    """All that a run needs."""

    source: Source
    stamps: dict[Path, tuple[int, ...]]
    """Of the files of the data set, before they were read."""
    kind: str
    scorer: Scorer
    columns: dict[str, list[str]]
    parts: Parts
    actors: Actors | None
    """None without a cluster."""


def run(arguments: argparse.Namespace) -> int:
    # Workers of a cluster have another current folder.
    arguments.source = Path(absolute(str(arguments.source)))
    arguments.target = Path(os.path.realpath(arguments.target))
    with ExitStack() as stack:
        if arguments.ray is not None:
            # Ray prints the failures of workers to standard output.
            stack.enter_context(redirect_stdout(sys.stderr))
            for package in ("ray", "pandas", "pyarrow"):
                installation.require(package, "ray", "--ray")
            from zrt.ray.connection import connected

            stack.enter_context(connected(arguments.ray))
        elif arguments.actors is not None:
            raise UsageError("--actors goes with --ray")
        # Ray sets a handler of its own when it connects.
        stack.enter_context(common.terminable())
        prepared = _prepared(arguments)
        stack.callback(prepared.parts.close)
        document = _scored(arguments, prepared)
    common.print_result(arguments, document, _show, document, arguments.skip_bad)
    return common.FAILED if document["bad_rows"] and not arguments.skip_bad else 0


def _scored(arguments: argparse.Namespace, prepared: _Run) -> dict[str, Any]:
    """Carries out a run: its figures, and the rows that cannot be fed."""
    source, parts = prepared.source, prepared.parts
    start, before = time.perf_counter(), parts.done
    try:
        if not parts.finished:
            with common.progress(quiet=arguments.json) as progress:
                _score(arguments, prepared, lambda done: progress("rows", done, source.rows))
            changed = _changed(prepared)
            if changed is not None:
                folder = str(work_folder(arguments.target, _is_file(arguments)))
                raise FileError(f"{str(changed)!r} changed while it was read: remove {folder!r}, and score it again")
        seconds = time.perf_counter() - start
        parts.finish()
    except BaseException:
        advice = "; --resume goes on after them" if parts.done and _changed(prepared) is None else ""
        common.complain(f"zrt score: {parts.done} of {source.rows} rows are done{advice}")
        raise
    return {
        "rows": source.rows,
        "bad_rows": parts.bad_count,
        "bad": [{"row": row, "reason": reason} for row, reason in parts.bad],
        "seconds": seconds,
        "rows_per_second": (source.rows - before) / seconds,
    }


def _changed(prepared: _Run) -> Path | None:
    """A file of the data set that is not as it was before it was read: no run goes on with it."""
    for file, stamp in prepared.stamps.items():
        try:
            if sources.stamps([file])[file] != stamp:
                return file
        except FileError:
            return file
    return None


def _score(arguments: argparse.Namespace, prepared: _Run, progress: Callable[[int], None]) -> None:
    source, _, kind, scorer, columns, parts, actors = prepared
    rows: dict[str, Any] = {"keep": arguments.keep, "skip_bad": arguments.skip_bad}
    if actors is None:
        threads = arguments.lanes or cpu_limits.cpus()
        score.score(source, scorer, columns, parts, threads=threads, progress=progress, **rows)
        return
    from zrt.ray.score import results

    scored = results(source, arguments.source, kind, columns, parts.done, actors=actors, scorer=scorer, **rows)
    # An error holds the generator until the command ends, and Ray is shut down before that.
    with closing(scored):
        score.gather(scored, scorer, parts, progress, source.no_rows(arguments.keep))


def _prepared(arguments: argparse.Namespace) -> _Run:
    """The data set, the model, the columns of its inputs, and the results so far."""
    if arguments.lanes is not None:
        integer(arguments.lanes, "--lanes", 1, MOST_THREADS)
    kind = arguments.input_format or sources.format_of(arguments.source)
    output_kind = arguments.output_format or (sources.format_of(arguments.target) if _is_file(arguments) else kind)
    for each in {kind, output_kind} - set(sources.NUMPY):
        installation.require("pyarrow", "score", f"a data set in {each}")
    # A file's figures are taken before it is opened; the files of a folder are known once its schema is read.
    before = sources.stamps([arguments.source]) if arguments.source.is_file() else None
    source = sources.open_source(arguments.source, kind)
    before = before or sources.stamps(source.files)
    settings = common.loaded_options(arguments, source.files, DEFAULT_THREADS)
    recorded = settings.session.to_dict()
    _check_target(arguments, source, settings)
    if arguments.imports and arguments.ray is not None:
        raise ArgumentError("--import does not go with --ray: operators in Python stay in this process")
    settings.session.custom_ops = common.imported_domains(arguments.imports)
    providers = common.requested_providers(arguments.provider, settings)
    # A cluster may have devices that this machine lacks: the declarations are those of the CPU too.
    session = Session(arguments.model, settings.session, providers if arguments.ray is None else None)
    actors = None
    if arguments.ray is not None:
        from zrt.ray.score import actors_for

        actors = actors_for(arguments.model, settings.session, providers, arguments.actors, arguments.lanes)
    try:
        scorer = Scorer(session, arguments.batch or DEFAULT_BATCH)
    except UnsupportedError as error:
        raise UsageError(str(error)) from None
    columns = sources.input_columns(arguments.input, source, session.input_names, kind)
    named = {column for column, _ in arguments.input} | set(arguments.keep)
    if kind == "csv" and not named.intersection(source.names):
        _refuse_numbers(source.names, arguments.source)
    try:
        check_columns(scorer, columns, source.names, arguments.keep)
    except ArgumentError as error:
        error.add_note("--input COLUMN=NAME feeds a column to the input of that name")
        raise
    if output_kind in sources.NUMPY:
        sources.check_numpy(session.outputs, output_kind, arguments.keep, arguments.skip_bad)
    elif arguments.keep:
        from zrt.scoring.arrow_files import check_kept

        check_kept(source.no_rows(arguments.keep), output_kind)
    run = {
        "--input": columns,
        "--keep": arguments.keep,
        "--skip-bad": arguments.skip_bad,
        "--batch": scorer.batch,
        "--output-format": output_kind,
    }
    made = recipe(arguments.model, recorded, providers, source.files, arguments.imports, run)
    return _Run(source, before, kind, scorer, columns, _parts(arguments, source, output_kind, made), actors)


def _refuse_numbers(names: Sequence[str], path: Path) -> None:
    """Raises where the names of a CSV's columns are numbers, and not all of them whole: they are a row of data."""
    try:
        count_something = all(float(name).is_integer() for name in names)
    except ValueError:
        return
    if not count_something:
        raise UsageError(
            f"{str(path)!r}: its first line has the names of the columns, and these are numbers: {', '.join(names)}; "
            "put a line of names before the rows, or name a column in --input or --keep"
        )


def _parts(arguments: argparse.Namespace, source: Source, kind: str, run: dict[str, Any]) -> Parts:
    """The results so far."""
    parts = Parts(
        arguments.target,
        kind,
        run,
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


def _check_target(arguments: argparse.Namespace, source: Source, settings: Options) -> None:
    """Raises for results that would replace something that the run reads."""
    target = arguments.target
    data = {arguments.source.resolve(), *(file.resolve() for file in source.files)}
    for place in (target, work_folder(target, _is_file(arguments))):
        for read in data:
            if read in (place, *place.parents) or place in read.parents:
                raise ArgumentError(f"{str(arguments.target)!r} is part of the data set: write the results elsewhere")
    inputs = common.files_of(arguments.model, settings, arguments.options, *source.files)
    # `Parts` tells a target that exists from one that an interrupted run has made.
    common.require_target(target, inputs, overwrite=True)


def _is_file(arguments: argparse.Namespace) -> bool:
    """Whether OUTPUT is one file: its name has the suffix of a format."""
    return arguments.target.suffix.lower() in sources.SUFFIXES and not arguments.target.is_dir()


def _show(page: common.Page, document: dict[str, Any], skip_bad: bool) -> None:
    speed = f"{document['rows_per_second']:,.0f} rows per second"
    page.line(f"{plural(document['rows'], 'row')} in {document['seconds']:.1f} s, {speed}")
    if not document["bad_rows"]:
        return
    fate = "written as nulls" if skip_bad else "left out"
    page.line(f"{fate}, because it cannot be fed: {plural(document['bad_rows'], 'row')}")
    for row in document["bad"][:SHOWN]:
        page.line(f"  row {row['row']}: {row['reason']}")
    if document["bad_rows"] > SHOWN:
        page.line(f"  and {document['bad_rows'] - SHOWN} more")


def _column(text: str) -> tuple[str, str]:
    column, separator, name = text.rpartition("=")
    if not (column and separator and name):
        raise argparse.ArgumentTypeError(f"{text!r}: expected COLUMN=NAME, such as pixels=image")
    return column, name


OPTIONS = (
    options.MODEL_FILE,
    option("source", "a data set: a file, or a folder of files", "INPUT", Path),
    option("target", "the file of the results, or a folder for files", "OUTPUT", Path),
    option(
        "--input",
        "the column of an input with another name, or a pattern such as p*=x; columns of one input go side by side",
        "COLUMN=NAME",
        _column,
        repeated=True,
    ),
    option("--keep", "a column to copy to the results", "COLUMN", repeated=True),
    option(
        "--batch", f"the rows of a run, where the model leaves that open (default: {DEFAULT_BATCH})", "ROWS", count(1)
    ),
    option("--lanes", "the runs at the same time, with --ray in each actor (default: one for each CPU)", "N", whole(1)),
    option(
        "--actors",
        "with --ray, the processes that score (default: as many as fit on the CPUs of the cluster)",
        "N",
        whole(1),
    ),
    option("--input-format", "the format of INPUT (default: by its name)", choices=FORMATS),
    option(
        "--output-format", "the format of OUTPUT (default: by its name; in a folder that of INPUT)", choices=FORMATS
    ),
    option(
        "--ray",
        "score on the cluster of Ray at HOST:PORT; auto: the one that runs on this machine; local: a new one",
        "ADDRESS",
    ),
    option("--skip-bad", "write nulls for rows that cannot be fed"),
    option("--resume", "go on after the last row of an interrupted run"),
    option(
        "--checkpoint",
        "the most time whose results a kill loses, such as 10s or 1m (default: 10s)",
        "SECONDS",
        options.seconds,
    ),
    options.OVERWRITE,
    options.PROVIDER,
    options.threads(DEFAULT_THREADS),
    options.OPTIONS,
    options.IMPORT,
)
