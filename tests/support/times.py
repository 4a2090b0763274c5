"""How much longer tests search that try many things: `ZRT_TIMES` multiplies their turns, examples and seconds."""

import os

TIMES = int(os.environ.get("ZRT_TIMES", "1"))
