"""Adapters that `save_lora_adapter` does not write."""

import tempfile
from pathlib import Path

import numpy as np

from zrt import save_lora_adapter
from zrt.types import ElementType


def of_strings() -> bytes:
    """An adapter whose parameter "a" is of type STRING, with bytes of the file in place of C++ strings."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        save_lora_adapter(path, {"a": np.zeros(64, np.uint8)})
        data = bytearray(path.read_bytes())
    # The only place of the type: 2 is UINT8, 8 is STRING, whose elements take 32 bytes each.
    table = data.index(b"a\0") - 28
    assert int.from_bytes(data[table + 16 : table + 20], "little") == ElementType.UINT8
    data[table + 16] = ElementType.STRING
    dims = data.index((64).to_bytes(8, "little"))
    data[dims] = 2
    return bytes(data)
