import sys

import numpy as np
import pytest

from zrt.bench import machine


def test_resident_memory_grows_with_touched_pages():
    before = machine.resident_bytes()
    block = np.ones(64 << 20, np.uint8)
    assert machine.resident_bytes() - before > 32 << 20
    assert block.all()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory is a process's own")
def test_touched_pages_are_own_memory_and_stay_in_the_peak():
    before = machine.resident()
    block = np.ones(64 << 20, np.uint8)
    during = machine.resident()
    del block
    after = machine.resident()
    assert during.own - before.own > 32 << 20
    assert during.own - after.own > 32 << 20
    assert after.peak >= during.now - (1 << 20)
