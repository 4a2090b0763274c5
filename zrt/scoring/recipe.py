"""`recipe`: all that decides the results of a run, so that a later one goes on with nothing else."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zrt._common.files import reading
from zrt._native.library import library
from zrt._native.library_files import is_found_by_loader
from zrt.loading.model_contents import model_files
from zrt.loading.model_source import Source
from zrt.providers import ProviderLike
from zrt.providers.known import short
from zrt.providers.selection import as_data

# Options that tell about a session, and do not change its results.
SILENT = (
    "cache",
    "logid",
    "log_severity_level",
    "log_verbosity_level",
    "logger",
    "profile_file_prefix",
    "record_placement",
    "trusted_folders",
)


def recipe(
    model: Path,
    options: Mapping[str, Any],
    providers: Sequence[ProviderLike] | None,
    source: Iterable[Path],
    modules: Iterable[str],
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """The recipe as data for JSON: the contents of files, and the options by the names of their flags.

    `options` are those of the session as data. `source` are the files of the data set, in their order, `modules` those
    of ``--import``, `run` the other flags. Each file is read once. Raises `FileError` for a file that cannot be read.
    """
    with Source(model) as opened:
        files = model_files(opened, options.get("config_entries", {}))
    settings = {name: value for name, value in options.items() if name not in SILENT}
    libraries = settings.pop("custom_op_libraries", [])
    return {
        "MODEL": [digest(Path(file)) for file in files],
        "INPUT": [digest(file) for file in source],
        "--options or --threads": settings,
        "custom operators": [file if is_found_by_loader(file) else digest(Path(file)) for file in libraries]
        + [_module(name) for name in modules],
        "--provider": [list(as_data(provider, short)) for provider in providers or ["cpu"]],
        "ONNX Runtime": library().version,
        **run,
    }


def digest(path: Path) -> str:
    with reading(path, OSError), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _module(name: str) -> str:
    file = getattr(sys.modules[name], "__file__", None)
    return name if file is None else digest(Path(file))
