"""Shared code of the commands: the model, arguments with a syntax of their own, JSON output."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zrt import providers
from zrt._common import installation
from zrt._common.files import require_other
from zrt.errors import ArgumentError, Error, FileError, ProviderError
from zrt.loading.model_contents import model_files
from zrt.loading.model_source import Source
from zrt.loading.options_files import Options, load_options
from zrt.loading.session_options import SessionOptions
from zrt.providers import ProviderLike

if TYPE_CHECKING:
    from zrt.custom_ops import CustomOpDomain

Parsed = TypeVar("Parsed")


class UsageError(Exception):
    """The command line is wrong; exit status 2."""


class CommandError(Exception):
    """The command fails for a reason outside ONNX Runtime; exit status 1."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came to a command that then ends as after Ctrl-C; exit status 143."""


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the optional argument for the model."""
    parser.add_argument(
        "model",
        nargs="?",
        type=Path,
        metavar="MODEL",
        help="an ONNX file; without it what ZRT_MODEL names, else the digit classifier inside zrt",
    )


def add_provider(parser: argparse.ArgumentParser) -> None:
    """Adds ``--provider``, which an options file may set too."""
    parser.add_argument(
        "--provider",
        nargs=1,
        default=[],
        metavar="NAME",
        help="the execution provider, such as cuda (default: those of --options, else cpu)",
    )


def add_threads(parser: argparse.ArgumentParser, default: int) -> None:
    """Adds ``--threads``, which an options file may set too."""
    parser.add_argument(
        "--threads",
        type=integer_argument(0),
        metavar="N",
        help="threads within an operator; 0: one for each CPU that the process may use "
        f"(default: what --options says, else {default})",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds ``--options``."""
    parser.add_argument(
        "--options",
        type=Path,
        metavar="FILE",
        help="session options, run options and providers from a .json or .toml file; other flags go before it",
    )


def add_import(parser: argparse.ArgumentParser) -> None:
    """Adds ``--import``."""
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="a Python module, such as my_ops, with the domains of custom operators that models call (may be repeated)",
    )


def imported_domains(names: Iterable[str]) -> list[CustomOpDomain]:
    """The domains of custom operators that are attributes of the named modules, each once.

    Modules are looked for in the current folder first, as ``python -m`` does. Raises `UsageError` for a module that
    cannot be imported, or that has no domain.
    """
    from zrt.custom_ops import CustomOpDomain

    found: list[CustomOpDomain] = []
    for name in names:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(name)
        except Exception as error:
            raise UsageError(f"--import: {name!r} cannot be imported: {type(error).__name__}: {error}") from error
        domains = [each for each in vars(module).values() if isinstance(each, CustomOpDomain)]
        if not domains:
            raise UsageError(f"--import: module {name!r} has no zrt.CustomOpDomain among its attributes")
        found += domains
    return list(dict.fromkeys(found))


def loaded_options(path: Path | None, threads: int | None, default: int, inputs: Iterable[Path] = ()) -> Options:
    """The options of the file, if given, overridden by ``--threads``; `UsageError` for options that do not apply.

    They may name a file for the optimized model, which must not be this file or one of the `inputs`. That it is not the
    model is for the load to check.
    """
    try:
        options = Options(session=SessionOptions(intra_op_num_threads=default)) if path is None else load_options(path)
    except FileError:
        raise
    except Error as error:
        raise UsageError(str(error)) from None
    if threads is not None:
        options.session.intra_op_num_threads = threads
    written = options.session.optimized_model_filepath
    if path is not None and written is not None:
        require_target(Path(written), [path, *inputs], overwrite=True, subject="optimized_model_filepath")
    return options


def named_model(model: Path | None) -> Path | None:
    """The model that the user named on the command line or in ``ZRT_MODEL``; None for the one inside zrt."""
    if model is not None:
        return model
    variable = os.environ.get("ZRT_MODEL")
    return Path(variable) if variable else None


def shipped(name: str) -> Path:
    """A file that ships inside zrt."""
    return Path(str(resources.files("zrt.models"))) / name


def model_label(model: Path | None) -> str:
    """The model's name in text output."""
    named = named_model(model)
    return str(named) if named is not None else "the digit classifier inside zrt"


def chosen_model(model: Path | None) -> Path:
    """The model that the user named, else the classifier inside zrt."""
    return named_model(model) or shipped("digits.onnx")


def shape_argument(text: str) -> tuple[str, tuple[int, ...]]:
    """``x=8,3,224,224`` as a name and a shape; ``x=`` is a scalar."""
    name, given, dims = text.rpartition("=")
    try:
        if not given or not name:
            raise ValueError
        shape = tuple(int(dim) for dim in dims.split(",")) if dims.strip() else ()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a shape: expected NAME=DIMS, such as x=8,3,224,224"
        ) from None
    if any(dim < 0 for dim in shape):
        raise argparse.ArgumentTypeError(f"{text!r}: a size cannot be negative")
    return name, shape


def integer_argument(low: int) -> Callable[[str], int]:
    """A whole number that is at least `low`."""

    def parse(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {low}, got {text!r}")
        return int(text)

    return parse


def seconds_argument(text: str) -> float:
    """A duration, such as ``10``, ``10s``, ``1m`` or ``1h``, in seconds; it is above 0."""
    units = {"s": 1, "m": 60, "h": 3600}
    number = text[:-1] if text[-1:] in units else text
    try:
        found = float(number) * units.get(text[-1:], 1)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a duration such as 10, 10s or 1m, got {text!r}")
    return found


def file_to_write(text: str) -> Path:
    """A path to write a file to, in a folder that exists."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no such folder")
    if path.exists() and not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is no plain file")
    return path


def files_of(model: Path, options: Options, *others: Path | None) -> list[Path]:
    """The files that a command reads and must not write: those of the model, and the `others` that are given."""
    with Source(model) as source:
        files = model_files(source, options.session.config_entries)
    return [*map(Path, files), *(each for each in others if each is not None)]


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Adds ``--overwrite``."""
    parser.add_argument("--overwrite", action="store_true", help="replace an output file that exists")


def require_target(target: Path, inputs: Iterable[Path | None], overwrite: bool, subject: str = "OUTPUT") -> None:
    """Raises `UsageError` for a target that is one of the inputs, or that exists without `overwrite`."""
    try:
        require_other(target, [each for each in inputs if each is not None], subject)
    except ArgumentError as error:
        raise UsageError(str(error)) from None
    # A link that leads nowhere would be replaced by the file.
    if os.path.lexists(target) and not overwrite:
        raise UsageError(f"{subject}: {str(target)!r} exists: --overwrite replaces it")


def once_each(option: str, named: Iterable[tuple[str, Parsed]]) -> dict[str, Parsed]:
    """A repeated option's values by name; `UsageError` for a repeated name."""
    found: dict[str, Parsed] = {}
    for name, value in named:
        if name in found:
            raise UsageError(f"{option} gives {name!r} twice")
        found[name] = value
    return found


def provider_named(name: str) -> str:
    """A provider's full name; `UsageError` if the library does not have it."""
    try:
        return providers.full_name(name)
    except ProviderError as error:
        raise UsageError(f"--provider: {error}") from None


def chosen_providers(named: list[str], options: Options) -> list[ProviderLike]:
    """The providers of ``--provider``, else those of the file; `UsageError` for a provider that the library lacks."""
    if named:
        return [provider_named(name) for name in named]
    chosen = options.providers or []
    try:
        for provider in chosen:
            provider_name(provider)
    except ProviderError as error:
        raise UsageError(f"--options: {error}") from None
    return chosen


def named_providers(named: list[str], options: Options) -> list[ProviderLike]:
    """The providers of ``--provider``, else those of the file, which another machine may have."""
    return [*named] or options.providers or []


def provider_name(provider: ProviderLike) -> str:
    """A provider's full name."""
    return providers.parse(provider)[0]


def print_json(document: Any) -> None:
    """Prints a JSON document."""
    print(json.dumps(document, indent=2, allow_nan=False))


def require_terminal() -> None:
    """Raises if the package for text output is missing."""
    installation.require("rich", "cli", "output for people (without --json)")
