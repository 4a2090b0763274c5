"""Errors of numpy for its own files, ``.npy`` and ``.npz``, where they are damaged."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib

# Those of zipfile too, and of files that take more memory than there is.
UNREADABLE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, OverflowError, MemoryError, RuntimeError, struct.error),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError),
)
