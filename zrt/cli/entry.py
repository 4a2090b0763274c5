"""The command line: its parser, and what becomes of an error.

Exit status: 0; 1 where it could not be done; 2 where it was used wrongly (an unknown option, provider or input, a
shape or a feed that the model does not take); 130 after Ctrl-C; 141 where nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from zrt.bench.synthetic import InputShapeError
from zrt.cli import bench, compile, info, inspect, profile, run
from zrt.cli.common import CommandError, UsageError
from zrt.errors import Error
from zrt.version import __version__

FAILED = 1
USED_WRONGLY = 2
INTERRUPTED = 130
NOBODY_READS = 141

COMMANDS = (bench, compile, info, inspect, profile, run)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; ``arguments.command`` is the function that carries it out."""
    parser = argparse.ArgumentParser(prog="zrt", description="Measure, look into and try out ONNX models.")
    parser.add_argument("--version", action="version", version=f"zrt {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2]
        summary = module.SUMMARY
        command = commands.add_parser(name, help=summary[0].lower() + summary[1:-1], description=summary)
        command.add_argument("--json", action="store_true", help="one JSON document on standard output")
        module.add_arguments(command)
        command.set_defaults(command=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (None: the process's own) and returns the exit status."""
    try:
        status = _carry_out(argv)
        # None where the process was started without one.
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more at its end; let that find an open file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return NOBODY_READS
    return status


def _carry_out(argv: Sequence[str] | None) -> int:
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as stop:
        # argparse ends the process after --help and after what it refuses.
        return stop.code if isinstance(stop.code, int) else 0
    try:
        status: int = arguments.command(arguments)
    except BrokenPipeError:
        raise
    except (UsageError, InputShapeError) as error:
        return _complain(arguments.name, error, USED_WRONGLY)
    except (Error, CommandError, OSError) as error:
        return _complain(arguments.name, error, FAILED)
    return status


def _complain(command: str, error: Exception, status: int) -> int:
    print(f"zrt {command}: {str(error).strip()}", file=sys.stderr)
    return status
