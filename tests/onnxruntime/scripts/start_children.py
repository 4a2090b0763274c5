"""Children of multiprocessing import this package too, by whichever method they start."""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import zrt.onnxruntime


def module_of_onnxruntime():
    import onnxruntime

    return onnxruntime.__name__


if __name__ == "__main__":
    if sys.argv[2:] == ["early"]:
        from multiprocessing import popen_forkserver, popen_spawn_posix  # noqa: F401
    zrt.onnxruntime.install()
    context = multiprocessing.get_context(sys.argv[1])
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        found = executor.submit(module_of_onnxruntime).result()
    assert found == "zrt.onnxruntime", found
