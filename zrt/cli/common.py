"""Shared code of the commands: the model, the providers, the files that they read and write, their output."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from zrt import providers
from zrt._common.arguments import absolute
from zrt._common.files import require_other
from zrt._native import library_files
from zrt.bench.harness import Progress, ignore_progress
from zrt.cli.options import UsageError
from zrt.errors import ProviderError, UnsupportedError, ZrtError
from zrt.loading.model_contents import model_files, optimized_weights
from zrt.loading.model_source import Source
from zrt.loading.options_files import Options, load_options
from zrt.loading.session_options import SessionOptions
from zrt.providers import ProviderLike

if TYPE_CHECKING:
    from zrt.cli.terminal import Page as Page
    from zrt.custom_ops import CustomOpDomain

Shown = ParamSpec("Shown")

# The exit status after a failure.
FAILED = 1

_CONTROLS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {ord("\t"), ord("\n")}, "?")


class CommandError(ZrtError):
    """The command fails for a reason outside ONNX Runtime."""


class Terminated(KeyboardInterrupt):
    """A signal came by which a command ends as by Ctrl-C; its argument is the exit status."""


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does, after a call of ONNX Runtime that is in progress.

    They stay ignored where they are, as after ``nohup``.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise Terminated(128 + number)

    before = {}
    try:
        # Python delivers signals to the main thread only.
        for number in (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ():
            # A handler that is not Python's, for which it has None, could not be set again.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def progress(quiet: bool = False) -> AbstractContextManager[Progress]:
    """A bar on standard error; none with `quiet`, or where the package for it is missing."""
    if quiet or find_spec("rich") is None:
        return nullcontext(ignore_progress)
    # An extra.
    from zrt.cli.terminal import progress_bar

    return progress_bar()


def harmless(text: str) -> str:
    """A text without the characters that would be commands to the terminal: names in models are another's."""
    return text.translate(_CONTROLS)


def complain(*lines: str) -> None:
    """Prints lines to standard error, if that can be written."""
    # Without one, print would take standard output.
    if sys.stderr is not None:
        try:
            print(*map(harmless, lines), sep="\n", file=sys.stderr)
        except OSError:
            let_go(2)


def let_go(descriptor: int) -> None:
    """Leads standard output (1) or standard error (2) nowhere: Python flushes both once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def print_json(document: Any) -> None:
    """Prints a JSON document."""
    print(json.dumps(document, indent=2, allow_nan=False))


def print_result(
    arguments: argparse.Namespace,
    document: Any,
    show: Callable[Concatenate[Page, Shown], None],
    *shown: Shown.args,
    **keywords: Shown.kwargs,
) -> None:
    """Prints the document as JSON with ``--json``; else `show` prints what is `shown` on a page."""
    if arguments.json:
        print_json(document)
    else:
        # An extra, which --json does not need.
        from zrt.cli.terminal import Page

        show(Page(), *shown, **keywords)


def imported_domains(names: Iterable[str]) -> list[CustomOpDomain]:
    """The domains of custom operators that are attributes of the named modules, each once.

    Modules are looked for in the current folder first, as ``python -m`` does. Raises `UsageError` for a module that
    cannot be imported, or that has no domain.
    """
    names = list(names)
    if not names:
        return []
    # 8 ms, which few commands need.
    from zrt.custom_ops import CustomOpDomain

    domains: dict[CustomOpDomain, None] = {}
    for name in names:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(name)
        except Exception as error:
            raise UsageError(f"--import: {name!r} cannot be imported: {type(error).__name__}: {error}") from error
        of_module = [each for each in vars(module).values() if isinstance(each, CustomOpDomain)]
        if not of_module:
            raise UsageError(f"--import: module {name!r} has no zrt.CustomOpDomain among its attributes")
        domains |= dict.fromkeys(of_module)
    return list(domains)


def other_library(arguments: argparse.Namespace) -> Path | None:
    """The library that ``--library`` or ``--python`` names; None without them."""
    if arguments.library is not None and arguments.python is not None:
        raise UsageError("--library and --python both say which ONNX Runtime to ask: give one")
    if arguments.library is not None:
        if not os.path.exists(arguments.library):
            raise CommandError(f"--library: {str(arguments.library)!r}: there is no such file")
        return Path(absolute(str(arguments.library)))
    if arguments.python is None:
        return None
    command = [arguments.python, "-c", "import json, sys; print(json.dumps(sys.path))"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
        folders = [folder for folder in json.loads(done.stdout) if folder]
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UsageError(f"--python: {arguments.python!r} is no Python that runs: {error}") from None
    for name in library_files.DISTRIBUTIONS:
        metadata = library_files.metadata(name, folders)
        file = None if metadata is None else library_files.library_file(metadata)
        if file is not None:
            return Path(file)
    raise CommandError(f"--python: {arguments.python!r} has no onnxruntime")


def options_in(path: Path | None, threads: int) -> Options:
    """The options in a file; without a file, those of a session with so many `threads`.

    Raises `UsageError` for a provider or an option that is wrong or not available, else as `load_options` does.
    """
    if path is None:
        return Options(session=SessionOptions(intra_op_num_threads=threads))
    try:
        return load_options(path)
    except (ProviderError, UnsupportedError) as error:
        # The command line names this file: what it asks for and cannot have is wrong usage.
        raise UsageError(str(error)) from None


def loaded_options(arguments: argparse.Namespace, inputs: Iterable[Path] = (), threads: int = 0) -> Options:
    """The options of ``--options``, overridden by ``--threads``; without a file the session has so many `threads`.

    They may name files for the optimized model and its weights, which must not be this file or one of the `inputs`.
    That they are no file of the model is for the load to check. Raises `UsageError` for options that do not apply.
    """
    path = arguments.options
    options = options_in(path, threads)
    if arguments.threads is not None:
        options.session.intra_op_num_threads = arguments.threads
    written = options.session.optimized_model_filepath
    if path is not None and written is not None:
        weights = optimized_weights(str(written), options.session.config_entries)
        for target in (Path(written), *(Path(written).parent / name for name in weights)):
            require_target(target, [path, *inputs], overwrite=True, subject="optimized_model_filepath")
    return options


def named_model(model: Path | None) -> Path | None:
    """The model that the user named on the command line or in ``ZRT_MODEL``; None for the one inside zrt."""
    variable = os.environ.get("ZRT_MODEL")
    return model or (Path(variable) if variable else None)


def shipped(name: str) -> Path:
    """A file that ships inside zrt."""
    return Path(str(resources.files("zrt.models"))) / name


def model_label(model: Path | None) -> str:
    """The model's name in text output."""
    return str(named_model(model) or "the digit classifier inside zrt")


def model_path(model: Path | None) -> Path:
    """The model that the user named, else the classifier inside zrt."""
    return named_model(model) or shipped("digits.onnx")


def files_of(model: Path, options: Options, *others: Path | None) -> list[Path]:
    """The files that a command reads and must not write: the model's, libraries, and the `others` that are not None."""
    with Source(model) as source:
        files = model_files(source, options.session.config_entries)
    libraries = map(Path, options.session.custom_op_libraries)
    return [*map(Path, files), *libraries, *(each for each in others if each is not None)]


def require_target(target: Path, inputs: Iterable[Path | None], overwrite: bool, subject: str = "OUTPUT") -> None:
    """Raises for a target that is one of the inputs, or that exists without `overwrite`."""
    require_other(target, [each for each in inputs if each is not None], subject)
    # A link that leads nowhere would be replaced by the file.
    if os.path.lexists(target) and not overwrite:
        raise UsageError(f"{subject}: {str(target)!r} exists: --overwrite replaces it")


def provider_named(name: str) -> str:
    """A provider's full name; `UsageError` if the library does not have it."""
    try:
        return providers.full_name(name)
    except ProviderError as error:
        raise UsageError(f"--provider: {error}") from None


def requested_providers(names: list[str] | None, options: Options) -> list[ProviderLike] | None:
    """The providers of ``--provider``, else those of the file; None where neither names one.

    Raises `UsageError` for a provider that the library lacks.
    """
    if names:
        return [provider_named(name) for name in names]
    try:
        for provider in options.providers or []:
            providers.parse(provider)
    except ProviderError as error:
        raise UsageError(f"--options: {error}") from None
    return options.providers or None
