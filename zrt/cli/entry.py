"""The command line: its parser and its exit status.

The status is 0; 1 after a failure; 2 after wrong use (an unknown option, provider or input, a shape or a feed that does
not fit the model); 130 after Ctrl-C; 129 or 143 after SIGHUP or SIGTERM, where a command ends as after Ctrl-C; 141 if
the reader of the output has closed it.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from collections.abc import Collection, Sequence

from zrt._common import installation
from zrt._common.files import NO_ROOM
from zrt.cli.common import FAILED, Terminated, complain, let_go
from zrt.cli.options import JSON, add_options
from zrt.errors import ArgumentError, DTypeError, Error
from zrt.version import __version__

USED_WRONGLY = 2
NOBODY_READS = 141

# The commands and their help, whole sentences. The module of a command's name in this folder carries it out.
COMMANDS = {
    "bench": "Measure a model's runs through zrt and through onnxruntime against a loop in C.",
    "cache": "List, verify or clear the cache of optimized models.",
    "check": "Check whether a model loads here or elsewhere, and what keeps it from that.",
    "compile": "Compile a model ahead of time, so that it loads sooner.",
    "diff": "Compare two ways to run a model, value by value, and find the first that differs.",
    "info": "Say which ONNX Runtime is in use, what it can run on, and on which machine.",
    "inspect": "Show a model's inputs, outputs, operators, weights and metadata.",
    "memory": "Measure the memory that a model takes, and which settings take less.",
    "profile": "Show which operators of a model the time goes to.",
    "replay": "Run a recorded run that failed or was slow once more, and say what differs.",
    "run": "Run a model on each available provider and describe what comes out.",
    "score": "Score a data set: its rows through a model, in batches on all cores.",
    "serve": "Serve models over HTTP by the Open Inference Protocol.",
    "tune": "Try options of a model on this machine, and keep those that are clearly better.",
}
# The commands whose output for people has no tables, and needs no package.
PLAIN = ("compile", "serve")


def make_parser(words: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of the whole command line; ``arguments.command`` is the function that carries it out.

    Only the commands that are among the words have their options. To import the modules of all of them would take a
    sixth of a command's start.
    """
    parser = argparse.ArgumentParser(prog="zrt", description="Measure, look into, try out and serve ONNX models.")
    parser.add_argument("--version", action="version", version=f"zrt {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary[0].lower() + summary[1:-1], description=summary)
        if name in words:
            module = importlib.import_module(f"zrt.cli.{name}")
            add_options(command, (JSON, *module.OPTIONS))
            command.set_defaults(command=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line, see `zrt.cli.main`; Ctrl-C comes out as KeyboardInterrupt."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A question mark where the encoding lacks µ, block characters or a part of a file's name.
        sys.stdout.reconfigure(errors="replace")
    words = sys.argv[1:] if argv is None else argv
    parser = make_parser(words)
    try:
        status = _carry_out(parser, words)
        # None if the process was started without standard output.
        if sys.stdout is not None:
            sys.stdout.flush()
    except Terminated as signal:
        return int(signal.args[0])
    except BrokenPipeError:
        let_go(1)
        return NOBODY_READS
    except OSError as error:
        let_go(1)
        complain(f"zrt: standard output cannot be written: {error}")
        return FAILED
    return status


def _carry_out(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    try:
        arguments = parser.parse_args(words)
    except SystemExit as stop:
        # argparse raises SystemExit after --help and after an error.
        return stop.code if isinstance(stop.code, int) else 0
    try:
        if not arguments.json and arguments.name not in PLAIN:
            installation.require("rich", "cli", "output for people (without --json)")
        return int(arguments.command(arguments))
    except (ArgumentError, DTypeError) as error:
        return _complain(arguments.name, error, USED_WRONGLY)
    except Error as error:
        return _complain(arguments.name, error, FAILED)
    except OSError as error:
        # All files that are written have errors of zrt's, which name them: this one is of standard output.
        if isinstance(error, BrokenPipeError) or error.errno in NO_ROOM:
            raise
        return _complain(arguments.name, error, FAILED)


def _complain(command: str, error: Exception, status: int) -> int:
    complain(f"zrt {command}: {str(error).strip()}", *getattr(error, "__notes__", ()))
    return status
