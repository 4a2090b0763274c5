"""The classes of `onnxruntime_pybind11_state`: the layer below the classes that programs use, as theirs is."""
