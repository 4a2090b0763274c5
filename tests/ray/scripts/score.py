"""Runs `zrt` with the arguments given, in small chunks of rows and with a file of results for each."""

from __future__ import annotations

import sys

from zrt.cli import main
from zrt.scoring import parts, score

score.CHUNK_ROWS = 100
parts.PART_BYTES = 1

if __name__ == "__main__":
    sys.exit(main())
