"""`Parts`: the results of a run in complete files, which an interrupted run leaves and a later one continues.

The parts and their manifest lie in a work folder. At each instant the manifest alone says which parts are results, so
that a process may be killed anywhere. `Parts.finish` first marks the manifest as finished, and every step after that
may be done again.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import numpy as np

from zrt._common.files import lock_folder, require_plain, take_permissions, writing
from zrt.errors import ArgumentError, FileError
from zrt.scoring import files
from zrt.scoring.manifest import PART, Manifest
from zrt.scoring.manifest import replace as _replace
from zrt.scoring.results import Result, all_null, joined

MANIFEST = "_zrt.json"
WORK = "_zrt.parts"
JOINED = "_joined"

# A part is written when its results take this many bytes, or when the last part is this many seconds old.
PART_BYTES = 32 << 20
CHECKPOINT_S = 10.0

# The most nulls that wait for a row that tells their shapes.
NULLS = 1 << 17

# A manifest has the numbers of at most this many bad rows, and the number of all.
NAMED = 1000


def work_folder(target: Path, single: bool) -> Path:
    """The folder in which a run works: beside a file, and within a folder."""
    return target.with_name(f"{target.name}.parts") if single else target / WORK


class Parts:
    """The results of a run for `target`: one file if `single`, else a folder of files.

    `recipe` is all that decides the results, as data for JSON. With `resume` an interrupted run of the same recipe goes
    on, and one that is finished is left as it is. A target that exists is replaced with `overwrite` only, when all
    rows are done. `kept_types` are Arrow's types of kept columns that are read as texts.

    Raises `ArgumentError` for a target that exists, for results of another run, for a folder with files of others and
    for one that another run writes to now; `FileError` for a manifest that is damaged, and, as the
    methods do, where the system refuses something.
    """

    def __init__(
        self,
        target: Path,
        kind: str,
        recipe: Mapping[str, Any],
        *,
        single: bool = True,
        resume: bool = False,
        overwrite: bool = False,
        checkpoint: float = CHECKPOINT_S,
        kept_types: Mapping[str, Any] | None = None,
    ) -> None:
        self._target, self._kind, self._single = target, kind, single
        self._overwrite, self._checkpoint, self._kept_types = overwrite, checkpoint, kept_types or {}
        self._folder = work_folder(target, single)
        self._close = weakref.finalize(self, os.close, _locked(self._folder))
        self._manifest = Manifest(recipe)
        self._waiting: list[Result] = []
        self._bytes = 0
        try:
            with writing(self._folder):
                self._begin(resume)
        except BaseException:
            self._release()
            raise
        self._written = time.monotonic()

    def _begin(self, resume: bool) -> None:
        """Finds the state that an earlier run has left, and goes on from there."""
        if self._single:
            require_plain(str(self._target), "OUTPUT")
        recipe = self._manifest.recipe
        state = _manifest_in(self._folder)
        if state is None:
            _require_nothing(self._folder, {f"_{MANIFEST}.new"})
        elif self._gone(state) or not (state.done or state.finished):
            # Its result was removed, or it had none: nothing is lost.
            state = None
        if state is not None:
            if not resume:
                raise ArgumentError(
                    f"{str(self._folder)!r} has the results of an interrupted run: --resume goes on, or remove it"
                )
            _require_same(self._folder, state, recipe)
        record = None if self._single else self._record(state)
        if state is None and record is not None and resume and not record.other_than(recipe):
            # That run is finished.
            state = record
        elif record is not None and not self._overwrite:
            if resume:
                _require_same(self._target, record, recipe)
            raise ArgumentError(f"OUTPUT: {str(self._target)!r} has the results of a run: --overwrite replaces them")
        placed = state is not None and state.finished and not (self._folder / JOINED).exists()
        if self._single and self._target.exists() and not (placed or self._overwrite):
            raise ArgumentError(f"OUTPUT: {str(self._target)!r} exists: --overwrite replaces it")
        if state is None:
            self._manifest.write(self._folder / MANIFEST)
        else:
            self._manifest = state
        self._sweep()
        for file in [] if self._single and placed else self.files:
            if not file.is_file():
                folder = self._folder if self._folder.exists() else self._target
                raise FileError(
                    f"{str(file)!r} is missing, and the manifest beside it names it: remove {str(folder)!r}"
                )

    def _gone(self, state: Manifest) -> bool:
        """Whether a finished run's only file was removed."""
        return self._single and state.finished and not (self._folder / JOINED).exists() and not self._target.exists()

    def _record(self, state: Manifest | None) -> Manifest | None:
        """The manifest of the finished run whose results the target has; raises for files that are none of a run."""
        record = _manifest_in(self._target)
        named = {MANIFEST, WORK, *(record.parts if record else [])}
        _require_nothing(self._target, named | set(state.parts if state and state.finished else []))
        return record

    def _sweep(self) -> None:
        """Removes files that an interrupted run was writing: no manifest names them."""
        manifest = self._manifest
        named = {*manifest.parts, MANIFEST} | ({JOINED} if manifest.finished else set())
        for file in list(self._folder.iterdir()):
            name = file.name
            scratch = name.startswith("_") and name.endswith(".new")
            if name not in named and (PART.fullmatch(name) or name == JOINED or scratch):
                file.unlink()

    @property
    def done(self) -> int:
        """The number of rows of the data set that complete parts cover."""
        return self._manifest.done

    @property
    def finished(self) -> bool:
        """Whether the results of all rows go, or went, to their places."""
        return self._manifest.finished

    @property
    def bad(self) -> list[tuple[int, str]]:
        """The first bad rows and their reasons."""
        return [(number, reason) for number, reason in self._manifest.bad]

    @property
    def bad_count(self) -> int:
        return self._manifest.bad_count

    @property
    def files(self) -> list[Path]:
        """The parts, in the order of their rows."""
        return [self._place(name) for name in self._manifest.parts]

    def _place(self, name: str) -> Path:
        """A part's file: a finished run moves its parts to the target."""
        file = self._folder / name
        return self._target / name if self.finished and not self._single and not file.exists() else file

    def add(self, result: Result) -> None:
        """Adds the results of the next rows of the data set."""
        # One append: an interrupt cannot separate the results from the number of their rows.
        self._waiting.append(result)
        self._bytes += sum(map(_bytes, (*result.outputs.values(), *result.columns.values())))
        if self._bytes >= PART_BYTES or time.monotonic() - self._written >= self._checkpoint:
            self.flush()

    def flush(self, *, end: bool = False) -> None:
        """Writes what waits as a part.

        Nulls at the start of the data set wait for a row that tells their shapes, or for the `end` of the data set;
        not more of them than make a part, or than `NULLS`.
        """
        if not self._waiting:
            return
        if not end and self._manifest.shapes is None and all_null(self._waiting):
            self._waiting = [joined(self._waiting)]
            if self._bytes < PART_BYTES and len(self._waiting[0].bad) < NULLS:
                self._written = time.monotonic()
                return
        result = joined(self._waiting, self._manifest.shapes)
        done = self.done + result.covered
        bad = (self._manifest.bad + [list(row) for row in result.bad])[:NAMED]
        manifest = changed(self._manifest, done=done, bad_count=self.bad_count + len(result.bad), bad=bad)
        if result.outputs:
            name = f"part-{self.done:012d}-{done:012d}.{self._kind}"
            columns = dict(result.columns)
            for column, kind in self._kept_types.items():
                from zrt.scoring.arrow import typed

                columns[column] = typed(columns[column], kind)
            shapes = {output: list(array.shape[1:]) for output, array in result.outputs.items()}
            if (manifest.shapes or shapes) != shapes:
                raise ArgumentError(f"the rows of outputs have different shapes: {manifest.shapes} and {shapes}")
            whole = result._replace(columns=columns)
            _replace(self._folder / name, lambda path: files.write(path, self._kind, whole))
            manifest = changed(manifest, shapes=shapes, parts=[*manifest.parts, name])
        manifest.write(self._folder / MANIFEST)
        self._manifest, self._waiting, self._bytes = manifest, [], 0
        self._written = time.monotonic()

    def finish(self) -> None:
        """Gives the results their places, and removes the work folder."""
        with writing(self._target):
            if self._single:
                self._finish_file()
            else:
                self._finish_folder()
        self.close()

    def _finish_file(self) -> None:
        whole = self._folder / JOINED
        if not self.finished:
            _replace(whole, lambda path: files.join(self.files, path, self._kind))
            self._mark()
        if whole.exists():
            take_permissions(whole, self._target)
            os.replace(whole, self._target)
        for name in self._manifest.parts:
            (self._folder / name).unlink(missing_ok=True)
        (self._folder / MANIFEST).unlink(missing_ok=True)

    def _finish_folder(self) -> None:
        if not self.finished:
            self._mark()
        if not (self._folder / MANIFEST).exists():
            return
        before = _manifest_in(self._target)
        for name in before.parts if before else []:
            # One of the same name may be a new one.
            if name not in self._manifest.parts:
                (self._target / name).unlink(missing_ok=True)
        for name in self._manifest.parts:
            if (self._folder / name).exists():
                os.replace(self._folder / name, self._target / name)
        os.replace(self._folder / MANIFEST, self._target / MANIFEST)

    def _mark(self) -> None:
        manifest = changed(self._manifest, finished=True)
        manifest.write(self._folder / MANIFEST)
        self._manifest = manifest

    def close(self) -> None:
        """Ends the lock of the work folder, and removes the folder where it has no results."""
        if not self._close.alive:
            return
        if not (self._manifest.parts or self.done or self.finished):
            with suppress(OSError):
                self._sweep()
                (self._folder / MANIFEST).unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        # Python removes only an empty folder so.
        with suppress(OSError):
            self._folder.rmdir()
        self._close()


def _bytes(column: Any) -> int:
    size = int(column.nbytes)
    # numpy counts the pointers to texts alone.
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        size += sum(map(len, column.flat))
    return size


def _locked(folder: Path) -> int:
    """The lock of a folder, which is made if need be."""
    with writing(folder):
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            # The run that had the folder may just have removed it.
            with suppress(FileNotFoundError):
                try:
                    return lock_folder(folder)
                except BlockingIOError:
                    raise ArgumentError(f"another run writes to {str(folder)!r} now") from None


def _manifest_in(folder: Path) -> Manifest | None:
    """The manifest in a folder, None without one; raises `FileError` for a file that is none."""
    try:
        return Manifest.read(folder / MANIFEST)
    except FileError as error:
        raise FileError(f"{error}: remove {str(folder)!r} to begin anew") from None


def _require_same(folder: Path, manifest: Manifest, recipe: Mapping[str, Any]) -> None:
    differs = manifest.other_than(recipe)
    if differs:
        raise ArgumentError(f"{str(folder)!r} has the results of another run, which differs in {', '.join(differs)}")


def _require_nothing(folder: Path, allowed: set[str]) -> None:
    """Raises for a folder with files that no run wrote."""
    strange = sorted(file.name for file in folder.iterdir() if file.name not in allowed)
    if strange:
        raise ArgumentError(f"{str(folder)!r} is not empty: {strange[0]!r} is no file of a run")
