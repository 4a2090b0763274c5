"""The C boundary. It holds zrt's C code and the extension module, with cffi's `ffi` (types) and `lib` (functions).

Most of zrt uses cffi through the modules of this folder: `status` calls functions of ONNX Runtime's table and reads
their results, `cdata` makes strings, arrays and pointers, `handle` owns what C makes. A module elsewhere imports `lib`
for functions and constants of zrt's own C code, and `ffi` for the structs of a call that no other module makes, for
the addresses of C functions that ONNX Runtime calls, and for the objects behind its callbacks.
"""

import sys

from zrt._common import installation

if not hasattr(sys.modules["zrt"], "_HOMES"):
    raise installation.overwritten()
try:
    from zrt._native._ort import ffi, lib
except ImportError as error:
    raise installation.unusable_module(error) from error

__all__ = ["ffi", "lib"]
