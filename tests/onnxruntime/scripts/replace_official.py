"""With the wheel's files first on the path, `import onnxruntime` is this package: replace_official.py VERSION."""

import importlib
import importlib.util
import multiprocessing
import sys
from importlib import metadata
from pathlib import Path


def main():
    assert importlib.util.find_spec("onnxruntime") is not None
    assert metadata.version("onnxruntime") == sys.argv[1]

    capi = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    onnxruntime = sys.modules["onnxruntime"]
    assert onnxruntime is sys.modules["zrt.onnxruntime"]
    assert capi is sys.modules["zrt.onnxruntime.capi.onnxruntime_pybind11_state"]
    onnxruntime.install()
    try:
        importlib.import_module("onnxruntime.quantization")
    except ModuleNotFoundError as error:
        assert "is part of the official onnxruntime package, which is not installed" in str(error)
    else:
        raise AssertionError("no error")

    child = multiprocessing.get_context("spawn").Process(target=importlib.import_module, args=("onnxruntime.capi",))
    child.start()
    child.join()
    assert child.exitcode == 0

    library = importlib.import_module("zrt._native.library").library()
    # Extensions of onnxruntime look for its library here, also where the wheel has it.
    spec = importlib.util.find_spec("onnxruntime")
    assert spec.submodule_search_locations[0] == str(Path(library.path).parents[1])
    print(library.path, library.source, sep="\n")


if __name__ == "__main__":
    main()
