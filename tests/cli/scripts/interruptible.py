"""Runs the command with Python's own handler of SIGINT; the arguments are the command's."""

import signal
import sys

from zrt.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(sys.argv[1:]))
