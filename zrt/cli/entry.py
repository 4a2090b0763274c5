"""The command line: its parser and its exit status.

The status is 0; 1 after a failure; 2 after wrong use (an unknown option, provider or input, a shape or a feed that does
not fit the model); 130 after Ctrl-C; 143 after SIGTERM, where a command ends as after Ctrl-C; 141 if the reader of the
output has closed it.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from zrt._common.files import NO_ROOM
from zrt.bench.synthetic import InputError
from zrt.cli import bench, cache, check, compile, diff, info, inspect, memory, profile, replay, run, score, serve, tune
from zrt.cli.common import FAILED, CommandError, Terminated, complain, let_go
from zrt.cli.options import JSON, UsageError, add_options
from zrt.errors import Error
from zrt.version import __version__

USED_WRONGLY = 2
TERMINATED = 143
NOBODY_READS = 141

COMMANDS = (bench, cache, check, compile, diff, info, inspect, memory, profile, replay, run, score, serve, tune)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; ``arguments.command`` is the function that carries it out."""
    parser = argparse.ArgumentParser(prog="zrt", description="Measure, look into, try out and serve ONNX models.")
    parser.add_argument("--version", action="version", version=f"zrt {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2]
        summary = module.SUMMARY
        command = commands.add_parser(name, help=summary[0].lower() + summary[1:-1], description=summary)
        add_options(command, (JSON, *module.OPTIONS))
        command.set_defaults(command=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line, see `zrt.cli.main`; Ctrl-C comes out as KeyboardInterrupt."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A question mark where the encoding lacks µ, block characters or a part of a file's name.
        sys.stdout.reconfigure(errors="replace")
    try:
        status = _carry_out(argv)
        # None if the process was started without standard output.
        if sys.stdout is not None:
            sys.stdout.flush()
    except Terminated:
        return TERMINATED
    except BrokenPipeError:
        let_go(1)
        return NOBODY_READS
    except OSError as error:
        let_go(1)
        complain(f"zrt: standard output cannot be written: {error}")
        return FAILED
    return status


def _carry_out(argv: Sequence[str] | None) -> int:
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as stop:
        # argparse raises SystemExit after --help and after an error.
        return stop.code if isinstance(stop.code, int) else 0
    try:
        return int(arguments.command(arguments))
    except (UsageError, InputError) as error:
        return _complain(arguments.name, error, USED_WRONGLY)
    except (Error, CommandError) as error:
        return _complain(arguments.name, error, FAILED)
    except OSError as error:
        # All files that are written have errors of zrt's, which name them: this one is of standard output.
        if isinstance(error, BrokenPipeError) or error.errno in NO_ROOM:
            raise
        return _complain(arguments.name, error, FAILED)


def _complain(command: str, error: Exception, status: int) -> int:
    complain(f"zrt {command}: {str(error).strip()}", *getattr(error, "__notes__", ()))
    return status
