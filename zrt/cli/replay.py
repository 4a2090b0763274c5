"""``zrt replay``: the run of a capsule once more, and what differs."""

from __future__ import annotations

import argparse
from pathlib import Path

from zrt.cli import common
from zrt.cli.options import option

OPTIONS = (
    option("capsule", "a file that a recorder wrote", "CAPSULE", Path),
    option("--model", "the model, in place of the one that the capsule names", "FILE", Path),
)


def run(arguments: argparse.Namespace) -> int:
    from zrt.diagnosis.replay import replay

    found = replay(arguments.capsule, arguments.model)
    common.print_result(arguments, found.to_dict(), lambda page: page.line(str(found)))
    return common.FAILED if found.error_now is not None else 0
