"""Prints, as JSON, the `Library` that this process loads, or the message of the error.

Takes the folder whose distributions alone are visible, or "" for all, and "no-system" to hide the system loader's.
"""

import importlib
import json
import os
import sys

folder, *hidden = sys.argv[1:]
if folder:
    list_folder = os.listdir

    def visible(path):
        return [name for name in list_folder(path) if path == folder or not name.endswith(".dist-info")]

    # Before the first import of zrt, which looks for the library too.
    os.listdir = visible

library = importlib.import_module("zrt._native.library")

if hidden:
    library.LOADER_NAMES = ("libabsent.so.1", "libabsent.so")
try:
    library.api()
    print(json.dumps(library.library()._asdict()))
except library.LibraryError as error:
    print(json.dumps(str(error)))
