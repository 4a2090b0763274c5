"""The command that writes arrays as an adapter."""

import importlib
import sys

import numpy as np


def test_arrays_of_a_file_become_an_adapter(ort, tmp_path, monkeypatch) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, np.int64)}
    np.savez(tmp_path / "arrays.npz", **arrays)
    command = importlib.import_module(f"{ort.__name__}.capi.convert_npz_to_onnx_adapter")
    arguments = {"npz_file_path": tmp_path / "arrays.npz", "output_file_path": tmp_path / "out", "adapter_version": 3}
    words = [word for name, value in (*arguments.items(), ("model_version", 4)) for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["convert", *words])
    assert command.main() == 0
    adapter = ort.AdapterFormat.read_adapter(str(tmp_path / "out"))
    assert (adapter.get_adapter_version(), adapter.get_model_version()) == (3, 4)
    parameters = adapter.get_parameters()
    assert parameters.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(parameters[name].numpy(), array)
