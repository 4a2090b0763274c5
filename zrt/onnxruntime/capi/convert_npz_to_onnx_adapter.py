"""Write the arrays of a ``.npz`` file as an adapter: ``python -m zrt.onnxruntime.capi.convert_npz_to_onnx_adapter``."""

from __future__ import annotations

import argparse
import os
import sys

import numpy as np

import zrt.onnxruntime as ort
from zrt._common.files import require_other


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Write the arrays of a .npz file as a LoRA adapter.")
    for name in ("--npz_file_path", "--output_file_path"):
        parser.add_argument(name, required=True)
    for name in ("--adapter_version", "--model_version"):
        parser.add_argument(name, type=int, required=True)
    return parser.parse_args()


def export_lora_parameters(
    npz_file_path: str | os.PathLike[str],
    adapter_version: int,
    model_version: int,
    output_file_path: str | os.PathLike[str],
) -> None:
    """Write the arrays of a ``.npz`` file, by their names, as an adapter of these versions.

    `zrt.errors.ArgumentError`, a `ValueError`, if both are the same file.
    """
    require_other(output_file_path, [npz_file_path], "output_file_path")
    adapter = ort.AdapterFormat()
    adapter.set_adapter_version(adapter_version)
    adapter.set_model_version(model_version)
    with np.load(npz_file_path) as arrays:
        adapter.set_parameters({name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()})
        adapter.export_adapter(os.fspath(output_file_path))


def main() -> int:
    """Run the command."""
    arguments = get_args()
    export_lora_parameters(
        arguments.npz_file_path, arguments.adapter_version, arguments.model_version, arguments.output_file_path
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
