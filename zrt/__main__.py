"""``python -m zrt``: the ``zrt`` command."""

from __future__ import annotations

import sys

from zrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
