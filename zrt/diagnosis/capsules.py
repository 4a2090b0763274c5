"""Capsules: files that have all that is needed to repeat a run that failed or was slow."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zrt._common.files import identity, replacing
from zrt._native import ffi
from zrt._native.cdata import numbers
from zrt.bench import machine
from zrt.errors import Error, FileError
from zrt.loading.fingerprint import Fingerprint, fingerprint
from zrt.loading.session_options import SessionOptions
from zrt.memory import arrays
from zrt.memory.allocators import Allocator
from zrt.session.spec import SessionSpec
from zrt.types import ElementType, nbytes

if TYPE_CHECKING:
    from zrt.diagnosis.recorder import RecordedRun
    from zrt.session.session import Session

# A recorder keeps the newest capsules that it wrote.
MOST: Final = 16

# The names of the arrays in a file. numpy adds ".npy" to names: without the end it would read that of "x" for "x.npy".
_ABOUT, _FEED, _END = "about", "feed:", ":"


@dataclass(slots=True)
class Capsules:
    """The capsules of a session in a folder."""

    folder: Path
    key: int
    """The number of the recorder in this process, in the names of its files."""
    recipe: dict[str, Any]
    """The arguments of the session as data: of a model from memory none, of providers and of options that are no data
    only the names."""
    feeds: bool
    """Whether the feeds are kept."""
    arena: Allocator
    """The session's allocator of the host."""
    written: list[Path] = field(default_factory=list)
    process: int = field(default_factory=os.getpid)
    """The process that wrote them: a forked child removes none of its parent's."""
    _fingerprint: Fingerprint | None = None
    _arena_bytes: int = field(init=False)
    _state: tuple[int, ...] = field(init=False)
    """The `identity` of the model's file as the recording began."""

    def __post_init__(self) -> None:
        self._arena_bytes = self.arena.stats().total_allocated_bytes
        path = self.recipe["model"]
        self._state = () if path is None else identity(path)

    @classmethod
    def of(cls, session: Session, folder: Path, key: int, feeds: bool) -> Capsules:
        """Of this session. It keeps no `Session`, which would never be freed."""
        recipe: dict[str, Any] = {"model": None, "providers": list(session.providers)}
        if session._recipe is not None:
            path, options, selection, external = session._recipe
            recipe |= {"model": path, "external_data_dir": external}
            recipe["providers"] = selection.asked()
            recipe["without_their_options"] = selection.asked_with_options()
            recipe["options"], recipe["without_options"] = _as_data(path, options or SessionOptions())
        return cls(folder, key, recipe, feeds, Allocator(session))

    def write(
        self,
        run: RecordedRun,
        earlier: Sequence[RecordedRun],
        reason: str,
        error: str | None,
        inputs: Iterable[tuple[str, Any]],
    ) -> None:
        """Writes a capsule; `inputs` are names, each with a ``zrt_description``. Raises `Error` or `OSError`."""
        path = self.recipe["model"]
        # A file that changed since is another model.
        if self._fingerprint is None and path is not None and identity(path) == self._state:
            with suppress(Error):
                trusted = self.recipe.get("options", {}).get("trusted_folders", ())
                folder = self.recipe.get("external_data_dir")
                found = fingerprint(path, external_data_dir=folder, trusted_folders=trusted)
                self._fingerprint = found if identity(path) == self._state else None
        arena = self.arena.stats().total_allocated_bytes
        about = {
            "run": asdict(run),
            "before": [asdict(each) for each in earlier],
            "reason": reason,
            "error": error,
            "arena_growth": arena - self._arena_bytes,
            "time": time.time(),
            "fingerprint": None if self._fingerprint is None else str(self._fingerprint),
            "machine": asdict(machine.describe()),
            "versions": asdict(machine.versions()),
            **self.recipe,
        }
        kept = dict(_content(inputs)) if self.feeds else {}
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        target = self.folder / f"{stamp}-{os.getpid()}-{self.key}-{run.number}.zrt-capsule"
        with replacing(str(target), subject="capsules") as (place,), open(place, "wb") as file:
            members = {f"{_FEED}{name}{_END}": array for name, array in kept.items()}
            text = np.frombuffer(json.dumps(about).encode(), np.uint8)
            np.savez(file, **{_ABOUT: text}, **members)  # type: ignore[arg-type]  # of another keyword
        self._arena_bytes = arena
        if self.process != os.getpid():
            self.process, self.written = os.getpid(), []
        self.written.append(target)
        while len(self.written) > MOST:
            self.written.pop(0).unlink(missing_ok=True)


def _is_data(options: SessionOptions) -> bool:
    try:
        options.to_dict()
    except Error:
        return False
    return True


def _as_data(path: str, options: SessionOptions) -> tuple[dict[str, Any], list[str]]:
    """The options that are data, and the names of the others, such as weights in memory."""
    default, others = SessionOptions(), []
    if not _is_data(options):
        each = {item.name: getattr(options, item.name) for item in fields(options)}
        others = [name for name, value in each.items() if not _is_data(replace(default, **{name: value}))]
    # The drop-in always gives it, and no run depends on it.
    named = [name for name in others if name != "load_cancellation"]
    kept = replace(options, **{name: getattr(default, name) for name in others})
    # A recipe makes their paths absolute, where the current folder is still there.
    with suppress(Error, OSError):
        return json.loads(SessionSpec(path, kept)._options), named
    return kept.to_dict(), named


def _content(inputs: Iterable[tuple[str, Any]]) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Copies of the tensors of numbers on the host."""
    found = []
    for name, description in inputs:
        with suppress(Error):
            kind = ElementType(description.type)
            if not description.plain or kind.packed:
                continue
            shape = numbers(description.dims, description.rank)
            data = bytes(ffi.buffer(description.data, nbytes(kind, shape)))
            # Files have no name for a type of ml_dtypes: elements without a type, and a replay has the model's.
            dtype = f"V{kind.dtype.itemsize}" if arrays.is_added(kind.dtype) else kind.dtype
            found.append((name, np.frombuffer(data, dtype).reshape(shape)))
    return found


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Mapping[str, np.ndarray[Any, Any]]]:
    """The description in a capsule, and its feeds. Raises `FileError` for a file that is none."""
    name = os.fsdecode(path)
    try:
        with open(path, "rb") as file, np.lib.npyio.NpzFile(file) as archive:
            about = json.loads(archive[_ABOUT].tobytes())
            names = {each: each.removeprefix(_FEED).removesuffix(_END) for each in archive.files if each != _ABOUT}
            feeds = {name: archive[each] for each, name in names.items()}
        if not (isinstance(about, dict) and isinstance(about["run"], dict) and isinstance(about["reason"], str)):
            raise ValueError("it has no run")
    # numpy, zipfile and zlib raise errors of many types for a file of others.
    except Exception as error:
        raise FileError(f"{name!r} is no capsule: {error}") from error
    return about, feeds
