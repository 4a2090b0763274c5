"""`replay`: runs the run of a capsule again, and says what differs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

from zrt._common.arguments import path_bytes
from zrt._common.public import public
from zrt._native import callback_errors, lib
from zrt.bench import machine
from zrt.bench.inputs import UserInputs, make_inputs
from zrt.bench.synthetic import FREE_DIMENSION
from zrt.diagnosis import capsules
from zrt.errors import ArgumentError, Error, FileError, ModelNotFoundError, UnsupportedError
from zrt.loading.cache import FOREIGN_ENTRIES
from zrt.loading.fingerprint import fingerprint
from zrt.loading.model_source import Model
from zrt.loading.session_options import WRITING_NOTHING, SessionOptions
from zrt.memory import arrays
from zrt.session.session import Session

# The options that make a load run code of others, or read files of others; and what helps without them.
_LEFT_OUT = {
    "custom_op_libraries": "so their operators are missing",
    "trusted_folders": "so copy the weights into the model's folder",
}


@public
@dataclass(frozen=True, slots=True)
class Replay:
    """The result of `zrt.replay`; `str` says it in a few lines."""

    reason: str
    """Why the capsule was written."""
    error_then: str | None
    """The message of the run that is in the capsule; None if it succeeded."""
    error_now: str | None
    """That of the load or the run now."""
    seconds_then: float
    seconds_now: float | None
    """The shortest of three runs now; None if they failed."""
    arena_growth: int | None
    """The bytes by which the arena of the host had grown at the end of the run then, since the recording began or since
    the capsule before; negative if it shrank. None if the capsule does not say it."""
    made_up: bool
    """Whether feeds are made up, of the shapes that were recorded: those that the capsule does not have."""
    differences: tuple[str, ...]
    """The differences of library, machine, model and options between then and now."""

    @property
    def failed_again(self) -> bool:
        """Whether the run failed then, and fails now."""
        return self.error_then is not None and self.error_now is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"failed_again": self.failed_again}

    def __str__(self) -> str:
        now = f"failed: {self.error_now}" if self.error_now is not None else f"took {self.seconds_now:.6f} s"
        then = f"failed: {self.error_then}" if self.error_then is not None else f"took {self.seconds_then:.6f} s"
        growth = self.arena_growth or 0
        word = "grown" if growth > 0 else "shrunk"
        grown = [f"then the arena had {word} by {abs(growth)} bytes"] if growth else []
        made_up = ["now with feeds that are made up, where the capsule has none"] if self.made_up else []
        return "\n".join([f"then: {then}", f"now: {now}", *grown, *made_up, *self.differences])


@public
def replay(capsule: str | os.PathLike[str], model: Model | None = None) -> Replay:
    """Runs the run of a capsule again, with the model, options, providers and feeds that it names.

    `model` takes the place of the model that the capsule names, which may be elsewhere, or have come from memory. Feeds
    that the capsule does not have are made up, of the shapes that it has. A load or a run that fails is part of the
    result. Libraries of custom operators, trusted folders, config entries about other files, formats and providers, and
    options by which a load writes files are left out, since a capsule may be somebody else's.

    Raises `FileError` for a file that is no capsule, `ArgumentError` if it names no model, `ModelNotFoundError` if
    there is no such model here, and errors for feeds that cannot be made up: `UnsupportedError` for one that is no
    tensor.
    """
    path_bytes(capsule, "capsule")
    about, kept = capsules.read(capsule)
    source = about.get("model") if model is None else model
    if source is None:
        raise ArgumentError(f"{os.fsdecode(capsule)!r} names no model, as that came from memory: give it")
    try:
        shapes = {name: tuple(map(int, shape)) for name, shape in about["run"]["shapes"].items()}
        then, failed, grown = float(about["run"]["seconds"]), about.get("error"), about.get("arena_growth")
        if not math.isfinite(then) or not isinstance(failed, str | None) or not isinstance(grown, int | None):
            raise ValueError("its run has no time, its error no message, or the growth of its arena is no number")
        recorded = SessionOptions.from_dict(about.get("options") or {})
        others = list(map(str, about.get("without_options") or []))
        providers = list(map(str, about.get("providers") or [])) or None
        plain = list(map(str, about.get("without_their_options") or []))
        folder = about.get("external_data_dir")
    except (Error, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{os.fsdecode(capsule)!r} is no capsule: {error}") from error
    parts = [each for each in (about.get("machine"), about.get("versions")) if isinstance(each, dict)]
    before = {name: fact for part in parts for name, fact in part.items()}
    now = asdict(machine.describe()) | asdict(machine.versions())
    changed = [name for name in now if name in before and before[name] != now[name]]
    differences = [f"{name} then {before[name]}, now {now[name]}" for name in changed]
    differences += [f"{provider} had options then, which the capsule does not have" for provider in plain]
    if about.get("model") is None:
        differences.append("the model came from memory then: the capsule has no options")
    elif about.get("fingerprint") is None:
        differences.append("the capsule has no fingerprint of the model, which may be another one now")
    differences += [f"{option} was given then, which the capsule does not have" for option in others]
    options = _harmless(recorded)
    differences += [f"{option}: left out, {how}" for option, how in _LEFT_OUT.items() if getattr(recorded, option)]
    without = sorted(recorded.config_entries.keys() - options.config_entries.keys())
    differences += [f"config_entries[{key!r}]: left out" for key in without]
    error_now, seconds, made_up = None, None, False
    with ExitStack() as opened:
        try:
            if about.get("fingerprint") is not None:
                found = str(fingerprint(source, external_data_dir=folder))
                if found != about["fingerprint"]:
                    differences.append("the model is another one: its fingerprint differs")
            session = opened.enter_context(Session(source, options, providers, external_data_dir=folder))
        except ModelNotFoundError:
            raise
        except Error as error:
            error_now = callback_errors.without_marks(str(error))
        else:
            try:
                feeds = _feeds(session, kept, shapes)
                made_up = any(name not in kept for name in feeds)
                times = []
                for _ in range(3):
                    start = perf_counter()
                    session.run(feeds)
                    times.append(perf_counter() - start)
                seconds = min(times)
            except UnsupportedError:
                # A feed that cannot be made up is no failure of the run.
                raise
            except Error as error:
                error_now = callback_errors.without_marks(str(error))
    return Replay(about["reason"], failed, error_now, then, seconds, grown, made_up, tuple(differences))


def _harmless(options: SessionOptions) -> SessionOptions:
    """The options without those by which a load writes files or runs code: the capsule may be somebody else's."""
    entries = {key: value for key, value in options.config_entries.items() if not key.startswith(FOREIGN_ENTRIES)}
    without: dict[str, Any] = {name: [] for name in _LEFT_OUT}
    return replace(options, config_entries=entries, **without, **WRITING_NOTHING)


def _feeds(session: Session, kept: Mapping[str, Any], shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The feeds that were kept; others are made up, of the shapes that were recorded."""
    fed = [*session.inputs, *(info for info in session.initializers if info.name in kept or info.name in shapes)]
    feeds: dict[str, Any] = {}
    if not all(info.name in kept for info in fed):
        recorded = [(info.name, info.shape or (), shapes[info.name]) for info in fed if info.name in shapes]
        sizes = {dim: size for _, declared, shape in recorded for dim, size in zip(declared, shape, strict=False)}
        wanted = {
            # A record has the first dimensions of a shape.
            name: (*shape, *(_size(dim, sizes) for dim in declared[lib.ZRT_RECORDED_DIMS :]))
            for name, declared, shape in recorded
            if name not in kept
        }
        feeds = make_inputs(fed, UserInputs(shapes=wanted)).feeds()
    for info in fed:
        if info.name in kept:
            array, dtype = kept[info.name], info.element_type.dtype
            untyped = arrays.is_added(dtype) and array.dtype == f"V{dtype.itemsize}"
            feeds[info.name] = array.view(dtype) if untyped else array
    return feeds


def _size(dim: int | str | None, sizes: Mapping[Any, int]) -> int:
    """The size of a declared dimension; `sizes` has those of the named ones that were recorded."""
    return dim if isinstance(dim, int) else sizes.get(dim, FREE_DIMENSION) if dim else FREE_DIMENSION
