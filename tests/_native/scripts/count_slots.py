"""Prints the numbers of slots of the tables in `sys.argv`."""

import sys

from zrt._native import ffi

print(*(len(ffi.typeof(name).fields) for name in sys.argv[1:]))
