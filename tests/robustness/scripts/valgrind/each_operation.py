"""Runs each operation three times, with its files in the folder of the argument. Then it has ONNX Runtime write beyond
the memory of an output: the fault that valgrind has to see.
"""

import ctypes
import sys
from pathlib import Path

import numpy as np

from tests.robustness import operations
from tests.robustness.prologue import lane, session

for operation in operations.make(Path(sys.argv[1])).values():
    for _ in range(3):
        operation()

malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
too_small = (ctypes.c_char * 16).from_address(malloc(12))
lane(session(), outputs={"z": np.frombuffer(too_small, np.float32)}).run()
