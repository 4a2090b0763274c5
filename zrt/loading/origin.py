"""The origin that optimized and compiled models carry: their source, and the library and options that made them."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from zrt._common.arguments import choose, shown
from zrt._common.files import writing
from zrt._common.onnx_fields import Model
from zrt._native.library import library
from zrt.errors import Error
from zrt.loading.cache import processor
from zrt.loading.fingerprint import fingerprint, of_source
from zrt.loading.initializers import pairs
from zrt.loading.load import ORIGIN
from zrt.loading.model_source import Source
from zrt.loading.session_options import SessionOptions
from zrt.types import GraphOptimizationLevel
from zrt.version import __version__


def written(
    source: Source,
    target: str | None,
    level: GraphOptimizationLevel | int | str,
    options: SessionOptions,
    providers: Sequence[str],
    folder: str | os.PathLike[str] | None = None,
) -> bytes:
    """The entry of metadata for a model made from `source`, as a field that can be put behind any ``ModelProto``.

    The outside weights of the source are in `folder`, by default its own. The name of the source's file is in the entry
    if it stands below the folder of `target`.
    """
    chosen = choose(GraphOptimizationLevel, level, "graph_optimization_level")
    origin: dict[str, Any] = {}
    try:
        found = of_source(source, folder, options.trusted_folders)
        origin |= {"graph": found.graph, "weights": found.weights}
    except Error as error:
        # ONNX Runtime's own format has no fingerprint, and the caller may have given the weights in memory.
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
            raise
    if target is not None and source.absolute is not None and folder is None:
        file = os.path.relpath(os.path.realpath(source.absolute), os.path.dirname(os.path.realpath(target)))
        if _is_below(file) and file != os.path.basename(target):
            origin["file"] = file
    origin |= {
        "zrt": __version__,
        "onnxruntime": library().version,
        "level": chosen.name,
        "config_entries": dict(options.config_entries),
        "providers": list(providers),
    }
    if chosen > GraphOptimizationLevel.ENABLE_EXTENDED:
        origin["processor"] = _processor()
    return pairs(Model.METADATA_PROPS, {ORIGIN: json.dumps(origin)})


def append(path: str, made: bytes, target: str, subject: str) -> None:
    """Appends the entry of metadata (`made`) to the file `path`, which holds a model and will replace `target`."""
    with writing(target, subject), open(path, "ab") as file:
        file.write(made)


def why_stale(custom: str, path: str | None) -> str | None:
    """Why the model in the file `path` should be made again, by its entry of metadata; None if it need not be."""
    try:
        origin = json.loads(custom)
    except (ValueError, RecursionError):
        return None
    if not isinstance(origin, dict) or "onnxruntime" not in origin:
        return None
    version = library().version
    if origin["onnxruntime"] != version:
        return f"ONNX Runtime {shown(origin['onnxruntime'])} made it, and this is {version!r}"
    if origin.get("processor", _processor()) != _processor():
        return "it was optimized for the processor of another machine"
    file = origin.get("file")
    if path is None or not isinstance(file, str) or not _is_below(file):
        return None
    place = os.path.join(os.path.dirname(path), file)
    # A source that is gone, or cannot be read, says nothing.
    with suppress(OSError, ValueError, Error):
        state = os.stat(place)
        if stat.S_ISREG(state.st_mode) and state.st_mtime_ns > os.stat(path).st_mtime_ns:
            now = fingerprint(place)
            if (now.graph, now.weights) != (origin.get("graph"), origin.get("weights")):
                return f"its source {shown(file)} has changed since"
    return None


def _is_below(path: str) -> bool:
    return not os.path.isabs(path) and os.pardir not in path.split(os.sep)


def _processor() -> str:
    return hashlib.sha256("\n".join(processor()).encode()).hexdigest()[:16]
