"""`results`: the rows of a data set through a model by actors of a cluster, in order and with bounded memory.

Tasks read pieces of the data set and yield chunks of rows; actors turn each chunk into its results. Chunks and results
travel as they are, pickled in tables of one row, and so do errors, which Ray would put into texts.
"""

from __future__ import annotations

import io
import logging
import pickle
import socket
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import ray
import ray.data

from zrt._common.config_keys import SessionConfigKey
from zrt.errors import ArgumentError, Error, FileError
from zrt.loading import model_source
from zrt.loading.model_contents import model_files
from zrt.loading.session_options import SessionOptions
from zrt.providers import ProviderLike
from zrt.ray.scorer import Scorer
from zrt.scoring.blocks import Chunk
from zrt.scoring.results import Result
from zrt.scoring.score import chunk_rows, needed
from zrt.scoring.scorer import Scorer as Batches
from zrt.scoring.sources import Piece, Source, open_source
from zrt.session.spec import SessionSpec

# The batches of a chunk for each lane: a chunk costs Ray some milliseconds.
CHUNK_BATCHES = 64

# Chunks of wide rows are cut to about this many bytes.
CHUNK_BYTES = 8 << 20


class Failure(NamedTuple):
    """An error of a worker, in the place of results."""

    error: Exception


class Data(NamedTuple):
    """The data set, as a worker must know it to read a piece."""

    path: Path
    kind: str
    columns: list[str]
    first: int
    size: int
    """The rows of a chunk, in whole batches."""
    batch: int


class Actors(NamedTuple):
    """The actors that score."""

    spec: SessionSpec
    number: int
    lanes: int
    """Of each actor."""


def actors_for(
    model: Path,
    options: SessionOptions,
    providers: Sequence[ProviderLike] | None,
    number: int | None,
    lanes: int | None,
) -> Actors:
    """The actors that fill the CPUs of the cluster; raises `ArgumentError` where no node has room for one.

    They get the model itself. Weights in other files must be where they are here.
    """
    with model_source.Source(model) as opened:
        _, *outside = model_files(opened, options.config_entries)
    # The model goes to the actors as bytes, which have no folder. That of an option comes with the options.
    named = SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH in options.config_entries
    folder = model.absolute().parent if outside and not named else None
    spec = SessionSpec(model.read_bytes(), options, providers, external_data_dir=folder)
    if number is not None and lanes is not None:
        # A cluster may grow on demand.
        return Actors(spec, number, lanes)
    counts = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    cpus = [each for each in counts if each]
    if not cpus:
        raise ArgumentError("no node of the cluster has a CPU: give the numbers of actors and of lanes")
    lanes = min(cpus) if lanes is None else lanes
    actors = sum(each // lanes for each in cpus)
    if not actors:
        raise ArgumentError(f"no node of the cluster has {lanes} CPUs for the lanes of an actor")
    return Actors(spec, actors if number is None else number, lanes)


def results(
    source: Source,
    path: Path,
    kind: str,
    columns: Mapping[str, Sequence[str]],
    first: int,
    *,
    actors: Actors,
    scorer: Batches,
    keep: Sequence[str] = (),
    skip_bad: bool = False,
) -> Generator[Result, None, None]:
    """The results of the rows from number `first` on, in order, from the cluster that this process is connected to.

    `scorer` tells the rows of a batch, and what a row takes. Batches have the same rows as without a cluster, where
    all rows have the same shapes.

    Raises the errors of the workers, and `ConnectionError` where the cluster itself fails.
    """
    pieces = [piece for piece in source.pieces() if piece.first + piece.rows > first]
    if not pieces:
        return
    names, batch = needed(columns, keep), scorer.batch
    size = min(chunk_rows(scorer, source.no_rows(names)), CHUNK_BATCHES * batch * actors.lanes)
    data = Data(path.absolute(), kind, names, first, size, batch)
    nodes = sum(node["Alive"] for node in ray.nodes())
    with _settings():
        read = ray.data.from_items([{"packed": pickle.dumps(one)} for one in pieces], override_num_blocks=len(pieces))
        chunks = read.map_batches(
            _read,
            fn_kwargs={"data": data},
            batch_format="pyarrow",
            batch_size=1,
            # Reading takes less than scoring, and must go on where actors have all CPUs.
            num_cpus=0,
            concurrency=max(1, min(nodes, len(pieces))),
        )
        scored = chunks.map_batches(
            ChunkScorer,
            fn_constructor_args=(actors.spec,),
            fn_constructor_kwargs={
                "inputs": dict(columns),
                "keep": list(keep),
                "batch": batch,
                "skip_bad": skip_bad,
                "lanes": actors.lanes,
            },
            batch_format="pyarrow",
            batch_size=None,
            num_cpus=actors.lanes,
            concurrency=actors.number,
        )
        try:
            # Not `iter_batches`: its threads may outlive the iteration, and Ray ends a process, with status 1, in which
            # a thread uses a connection that is shut down.
            for bundle in scored.iter_internal_ref_bundles():
                for table in ray.get(bundle.block_refs):
                    for results in _unpack(table):
                        if isinstance(results, Failure):
                            raise results.error
                        yield from results
        except ray.exceptions.RayError as error:
            # The last line of a worker's traceback is the error itself.
            raise ConnectionError(f"the cluster of Ray fails: {str(error).strip().splitlines()[-1]}") from error


class ChunkScorer(Scorer):
    """The actor: packed chunks become packed lists of results."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._failure: Failure | None = None
        try:
            super().__init__(*arguments, **named)
        except Exception as error:
            self._failure = _failure(error)

    def __call__(self, batch: Any) -> Iterator[Any]:
        """The results of each chunk, or the error in their place."""
        for chunk in _unpack(batch):
            if isinstance(chunk, Failure) or self._failure is not None:
                yield _pack(self._failure or chunk)
                continue
            try:
                yield _pack(list(self._lanes.results([chunk])))
            except Exception as error:
                yield _pack(Failure(error))


def _read(batch: Any, data: Data) -> Iterator[Any]:
    """The task: pieces of the data set become packed chunks."""
    for piece in _unpack(batch):
        try:
            for chunk in _chunks(piece, data):
                yield _pack(chunk)
        except Exception as error:
            yield _pack(_failure(error))


def _chunks(piece: Piece, data: Data) -> Iterator[Chunk]:
    source = open_source(data.path, data.kind)
    end = piece.first
    # From the first row of the piece: rows that have results already decide where the others are cut.
    for chunk in source.chunks(data.columns, piece.first, data.size, piece):
        end = chunk.first + chunk.size
        yield from _cut(chunk, data.first, data.batch)
    if end != piece.first + piece.rows:
        raise FileError(f"{str(data.path)!r} has other rows than where the run began")


def _cut(chunk: Chunk, first: int, batch: int) -> Iterator[Chunk]:
    """The rows of the chunk from number `first` on, in several chunks of whole batches where rows are wide."""
    taken = sum(column.nbytes for column in chunk.columns.values())
    step = max(1, chunk.size * CHUNK_BYTES // max(taken, 1) // batch) * batch
    for part in range(0, chunk.size, step):
        start, end = max(part, first - chunk.first), min(part + step, chunk.size)
        if start < end:
            columns = {name: column[start:end] for name, column in chunk.columns.items()}
            yield Chunk(chunk.first + start, end - start, columns)


def _failure(error: Exception) -> Failure:
    """An error that this node may be the reason of."""
    if isinstance(error, Error | OSError):
        error.args = (f"{error} (on node {socket.gethostname()!r} of the cluster)",)
    return Failure(error)


class _Pickler(pickle.Pickler):
    """Pickles a slice of an Arrow array without the rest of the array, which pyarrow would add."""

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, pa.Array):
            return NotImplemented
        batch, sink = pa.RecordBatch.from_arrays([thing], ["column"]), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return _column, (sink.getvalue().to_pybytes(),)


def _column(stream: bytes) -> Any:
    return pa.ipc.open_stream(stream).read_next_batch().column(0)


def _pack(thing: object) -> Any:
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(thing)
    return pa.table({"packed": pa.array([stream.getvalue()], pa.large_binary())})


def _unpack(table: Any) -> Iterator[Any]:
    for part in table["packed"].chunks:
        for packed in part:
            yield pickle.loads(packed.as_buffer())


@contextmanager
def _settings() -> Iterator[None]:
    """Ray's settings for a run: results in order, a block for each table, and no output of its own."""
    logger, context = logging.getLogger("ray.data"), ray.data.DataContext.get_current().copy()
    level = logger.level
    logger.setLevel(logging.ERROR)
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    # Ray joins smaller blocks; then one actor would get many chunks at a time.
    context.target_max_block_size = 1
    try:
        with ray.data.DataContext.current(context):
            yield
    finally:
        logger.setLevel(level)
