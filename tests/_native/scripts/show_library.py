"""Prints, as JSON, the `Library` that this process loads, or the message of the error.

Takes the folder whose distributions alone are visible, or "" for all, and "no-system" to hide the system loader's.
"""

import dataclasses
import json
import os
import sys

from zrt._native import library

folder, *hidden = sys.argv[1:]
if folder:
    find_metadata = library._metadata

    def visible(name):
        found = find_metadata(name)
        return found if found is not None and os.path.dirname(found) == folder else None

    library._metadata = visible
if hidden:
    library.LOADER_NAMES = ("libabsent.so.1", "libabsent.so")
try:
    library.api()
    print(json.dumps(dataclasses.asdict(library.library())))
except library.LibraryError as error:
    print(json.dumps(str(error)))
