"""Loads a model on CUDA, where all parts can be used as far as zrt sees; prints ONNX Runtime's error.

Where a part cannot be used, it prints "lacks" and the names instead.
"""

from importlib import resources

import zrt
from zrt.environment import cuda_parts

lacking = [part.name for part in cuda_parts.search().parts if part.problem]
if lacking:
    print("lacks", ", ".join(lacking))
else:
    try:
        print(zrt.Session(resources.files("zrt.models") / "digits.onnx", providers=["CUDA"]))
    except zrt.Error as error:
        print(f"{type(error).__name__}: {error}")
