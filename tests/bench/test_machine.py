from __future__ import annotations

import numpy as np

from zrt.bench import machine


def test_resident_memory_grows_with_touched_pages():
    before = machine.resident_bytes()
    block = np.ones(64 << 20, np.uint8)
    assert machine.resident_bytes() - before > 32 << 20
    assert block.all()
