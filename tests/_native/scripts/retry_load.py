"""Loads a library twice from the first path, where none is, then from the second; prints the results as JSON."""

import json
import os
import sys

from zrt._native import library

absent, path = sys.argv[1:]
os.environ["ZRT_ORT_LIBRARY"] = absent
results = []
for _ in range(2):
    try:
        library.api()
    except library.LibraryError as error:
        results.append(type(error).__name__)
os.environ["ZRT_ORT_LIBRARY"] = path
results.append(library.library().version)
print(json.dumps(results))
