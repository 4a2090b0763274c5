"""Loads the library; prints the numbers of slots of the tables in `sys.argv`, or cffi's error for a declaration."""

import sys
from contextlib import suppress

from zrt._native import ffi, library

try:
    # cffi checks the structs before a library is looked for, and the package may have none.
    with suppress(library.LibraryError):
        library.api()
except ffi.error as error:
    print(error)
else:
    print(*(len(ffi.typeof(name).fields) for name in sys.argv[1:]))
