"""The C boundary: the only folder that knows cffi."""

from zrt._native._ort import ffi, lib

__all__ = ["ffi", "lib"]
