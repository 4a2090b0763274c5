"""Loads through the cache: from an entry if there is one; if not, a thread makes it once the load has ended."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from zrt._common.arguments import absolute, path_bytes, require_type
from zrt._common.config_keys import SessionConfigKey
from zrt._common.fork_lock import ForkLock
from zrt._native.session_handle import SessionHandle
from zrt.errors import CallbackError, Error, ModelLoadCanceledError, OrtError
from zrt.loading import cache, cache_entry
from zrt.loading.cache import Damaged, Job, NotCached, UnusableFolder, logger
from zrt.loading.model_source import EXTERNAL_DATA_DIR, Model, Source, plain_model
from zrt.loading.session_options import SessionOptions
from zrt.providers.default_selection import DefaultSelection
from zrt.session.session import Session
from zrt.types import LogSeverity

HIT, MISS = "hit", "miss"

# The thread that makes an entry leaves the interpreter to its caller for so long, who may be about to run the session.
DELAY_S = 0.1

# Smaller weights stay in the graph: to map each one takes longer than to copy it.
SMALLEST_MAPPED = 1 << 16

# The heap is trimmed after loads of larger entries.
LARGE = 1 << 24

# The letters of a text in an entry's description, which is one page; as JSON a letter has up to six bytes.
LONGEST = 300

# The sizes that open dimensions get in the trial run, in turn, until the model takes one; and its other bounds.
TRIAL_SIZES = (32, 1, 8, 64, 320, 576)
MOST_ELEMENTS = 1 << 22
TRIAL_SECONDS = 10

Load = Callable[[Source, SessionOptions, "str | os.PathLike[str] | None"], SessionHandle]


class _DoesNotLoad(Exception):  # noqa: N818 (the load goes on without the entry)
    """ONNX Runtime does not load an entry that is as it was written."""

    def __init__(self, name: str, error: Error) -> None:
        super().__init__(str(error))
        self.name = name


# Held while an entry is made: one at a time. A fork waits for it, as the child would inherit ONNX Runtime's locks in
# the middle of a load.
_making = ForkLock()


def _before_fork() -> None:
    """Waits, also after an interrupt, which Python reports and ignores in such a function.

    A fork in a callback of a load does not wait where the load that makes the entry may wait for that one.
    """
    try:
        if not _making.now.acquire(blocking=False):
            # The thread that makes the entry has imported it.
            from zrt.environment import provider_libraries

            if not provider_libraries.is_awaited():
                _making.now.acquire()
    except BaseException:
        _before_fork()
        raise


def _after_fork() -> None:
    """Releases the lock as often as it was acquired: more than once after an interrupt."""
    try:
        while True:
            _making.now.release()
    except RuntimeError:
        return
    except BaseException:
        # Another interrupt: the lock must not stay.
        _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


def load(
    model: Model,
    source: Source,
    options: SessionOptions | None,
    external_data_dir: str | os.PathLike[str] | None,
    selection: DefaultSelection,
    load_plainly: Load,
) -> tuple[SessionHandle, str | None]:
    """An ``OrtSession`` from the model's entry, or as without a cache; and `Session.cache` of it."""
    require_type(options, SessionOptions | None, "options", "SessionOptions")
    options = SessionOptions() if options is None else options
    try:
        folder = cache.folder_of(options.cache)
    except UnusableFolder as reason:
        return load_plainly(source, options, external_data_dir), _without(source, reason)
    if folder is None:
        return load_plainly(source, options, external_data_dir), None
    job = bad = None
    try:
        if not selection.is_cpu:
            raise NotCached("providers: entries are for the CPU execution provider alone")
        settings = cache.settings_of(options)
        prefix = cache.prefix_of(source)
        cache.require_room()
        cache.open_folder(folder)
        beside = options.config_entries.get(EXTERNAL_DATA_DIR) if external_data_dir is None else external_data_dir
        if beside is not None:
            beside = absolute(os.fsdecode(path_bytes(beside, "external_data_dir")))
            if external_data_dir is not None and not os.path.isdir(beside):
                raise NotCached("external_data_dir: there is no such folder")
        job = Job(folder, prefix, beside, settings)
        try:
            handle = _from_entry(job, source, options, load_plainly)
        except _DoesNotLoad as found:
            bad = found.name, str(found)
        else:
            if handle is not None:
                logger.info("%s: loaded from the cache", source.subject)
                return handle, HIT
        cache.require_lasting_place(source, beside)
        logger.info("%s: not in the cache", source.subject)
        note = MISS
    except (CallbackError, ModelLoadCanceledError):
        raise
    # Too little memory for the entry, and a path of more folders than Python can make, are problems of the cache too.
    except (NotCached, Error, OSError, MemoryError, RecursionError) as reason:
        note, job = _without(source, reason), None
    handle = load_plainly(source, options, external_data_dir)
    if bad is not None:
        # Only now: memory, threads or a budget that are lacking keep the model itself from loading too.
        name, why = bad
        logger.warning("%s: the cache's entry %s is thrown away: %s", source.subject, name, why)
        cache.discard(folder, name)
    if job is not None:
        try:
            plain = plain_model(model) if source.path is None else absolute(os.fsdecode(source.path))
            thread = threading.Timer(DELAY_S, _make, (job, plain, source.subject))
            thread.name = "zrt-cache"
            # A thread that a daemon thread starts is one too, and Python would not wait for it.
            thread.daemon = False
            thread.start()
        except (RuntimeError, OSError, MemoryError) as error:
            logger.warning("%s: no entry of the cache is made: %s", source.subject, error)
    return handle, note


def _without(source: Source, reason: Exception) -> str:
    """Logs why a load does without the cache; returns it."""
    text = str(reason) or type(reason).__name__
    warns = isinstance(reason, UnusableFolder) or not isinstance(reason, (NotCached, Error))
    level = logging.WARNING if warns else logging.INFO
    logger.log(level, "%s: loaded without the cache: %s", source.subject, text)
    return text


def _from_entry(job: Job, source: Source, options: SessionOptions, load_plainly: Load) -> SessionHandle | None:
    """An ``OrtSession`` from the model's entry; None if there is no entry, or no good one.

    Raises `_DoesNotLoad` where ONNX Runtime does not load the entry, and `NotCached` for a model that cannot have one.
    """
    # Without an entry for a model of this size the model need not be read.
    if not any(name.startswith(job.prefix) for name in os.listdir(job.folder)):
        return None
    name = job.name(source)
    try:
        entry = cache.read(job.folder, name)
    except FileNotFoundError:
        return None
    except Damaged as reason:
        logger.warning("%s: the cache's entry %s is thrown away: %s", source.subject, name, reason)
        cache.discard(job.folder, name)
        return None
    if entry.about.get("bytes", math.inf) <= cache.size_limit():
        # The cache was smaller when the model was refused.
        cache.discard(job.folder, name)
        return None
    if "refused" in entry.about:
        raise NotCached(f"this model is not for the cache: {entry.about['refused']}")
    try:
        with Source(entry.graph) as graph:
            graph.subject = source.subject
            handle = load_plainly(graph, cache.in_entry(options, job.folder), None)
    except (CallbackError, ModelLoadCanceledError):
        raise
    except Error as error:
        # Another process may have removed it since it was read, and a third one may make it anew.
        if not os.path.lexists(os.path.join(job.folder, name)):
            return None
        raise _DoesNotLoad(name, error) from None
    if entry.nbytes > LARGE:
        # Deferred: small models do not need it.
        from zrt.loading.read_weights import trim_heap

        # ONNX Runtime packs each weight once more, to compare it with the mapped one, and frees that.
        trim_heap()
    return handle


def _make(job: Job, model: str | bytes, subject: str) -> None:
    """Makes the entry, unless another thread or process does. Its errors are logged: the load has ended long ago."""
    # Deferred: a load from an entry does not need them.
    import shutil

    from zrt._common.files import lock_folder
    from zrt.environment import provider_libraries  # noqa: F401 (for `_before_fork`)

    try:
        with _making.now, Source(model) as source:
            # A full disk may have room again without what ended processes have left.
            cache.trim(job.folder, cache.size_limit())
            name = job.name(source)
            target = os.path.join(job.folder, name)
            scratch = target + cache.FILLING
            os.makedirs(scratch, 0o700, exist_ok=True)
            try:
                lock = lock_folder(scratch, required=True)
            except (BlockingIOError, FileNotFoundError):
                return
            try:
                # Another process may have made it a moment ago.
                if not os.path.lexists(target):
                    made = os.path.join(scratch, name)
                    _write(job, model, name, scratch)
                    if job.name(source) != name:
                        raise NotCached("the model changes while its entry is made")
                    os.replace(made, target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
                os.close(lock)
            cache.trim(job.folder, cache.size_limit(), target)
    # Nobody waits for this thread, whatever goes wrong in it.
    except Exception as error:
        logger.warning("%s: no entry of the cache is made: %s", subject, error)


def _write(job: Job, model: str | bytes, name: str, scratch: str) -> None:
    """Writes an entry, or one that says why there is none."""
    made = os.path.join(scratch, name)
    label = model[-LONGEST:] if isinstance(model, str) else f"{len(model)} bytes in memory"
    about = {"name": name, "model": label}
    reason: str | None = None
    # All weights stay in the graph where nodes have graphs inside: before 1.31 ONNX Runtime writes those wrongly into
    # other files, and `cache_entry` moves weights of the main graph alone.
    for mapped in (True, False):
        for left in os.listdir(scratch):
            os.unlink(os.path.join(scratch, left))
        graph, weights = os.path.join(scratch, "graph.onnx"), "weights"
        quiet = SessionOptions.from_dict({**job.settings, "cache": False, "log_severity_level": LogSeverity.FATAL})
        entries = dict(quiet.config_entries)
        if mapped:
            entries[SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_FILE_NAME] = weights
            entries[SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_MIN_SIZE_IN_BYTES] = str(SMALLEST_MAPPED)
            entries[SessionConfigKey.SAVE_EXTERNAL_PREPACKED_CONSTANT_INITIALIZERS] = "1"
        saving = replace(quiet, optimized_model_filepath=graph, config_entries=entries)
        with Session(model, saving, external_data_dir=job.external_data_dir) as reference:
            cache_entry.write(made, graph, os.path.join(scratch, weights), about)
            # The trial has the entry alone, as later loads: in ONNX Runtime's own file it would find inner weights.
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(scratch, weights))
            try:
                with open(made, "rb") as file:
                    content = cache_entry.content(file)[1]
                with Session(content, cache.in_entry(quiet, scratch)) as cached:
                    reason = difference(reference, cached)
            except OrtError as error:
                reason = str(error)
        if reason is None:
            break
    size, larger = os.path.getsize(made), {}
    if reason is None and size > cache.size_limit():
        larger = {"bytes": size}
        reason = f"its entry has {size} bytes, and the cache holds {cache.size_limit()}"
    if reason is not None:
        os.unlink(made)
        with open(made, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            cache_entry.write_head(file, {**about, **larger, "refused": reason[:LONGEST]})


def difference(reference: Session, cached: Session) -> str | None:
    """The first difference between two sessions, also in the bits of a trial run over made-up inputs."""
    for part in ("inputs", "outputs", "initializers", "metadata"):
        if getattr(reference, part) != getattr(cached, part):
            return f"the optimized model has other {part}"
    # An import that goes up: docs/architecture.md lists it.
    from zrt.bench.inputs import UserInputs, make_inputs

    reason = "no size of open dimensions is small enough for a trial run"
    for size in TRIAL_SIZES:
        try:
            shapes = {
                info.name: tuple(dim if isinstance(dim, int) else size for dim in info.shape or ())
                for info in reference.inputs
            }
            if sum(map(math.prod, shapes.values())) > MOST_ELEMENTS:
                continue
            feeds = make_inputs(reference.inputs, UserInputs(shapes=shapes)).feeds()
            expected = reference.run(feeds, timeout=TRIAL_SECONDS)
        except TimeoutError:
            return f"a trial run takes more than {TRIAL_SECONDS} s"
        except Error as error:
            reason = f"the trial run over made-up inputs failed: {error}"
            continue
        results = cached.run(feeds, timeout=TRIAL_SECONDS)
        same = len(results) == len(expected) and all(map(_same, expected, results))
        return None if same else "the results differ in a trial run"
    return reason


def _same(one: Any, other: Any) -> bool:
    """Whether two results are arrays of the same bits."""
    if not type(one) is type(other) is np.ndarray or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return one.tolist() == other.tolist() if one.dtype.hasobject else one.tobytes() == other.tobytes()
