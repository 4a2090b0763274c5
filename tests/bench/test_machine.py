import os
import platform
import sys
from pathlib import Path

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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a program tells the processor's name")
def test_processor_without_a_name_is_the_architecture_and_starts_no_program(monkeypatch):
    def start(*_):
        raise AssertionError("a program was started")

    monkeypatch.setattr(Path, "read_text", lambda *_: "processor\t: 0\n")
    monkeypatch.setattr(os, "posix_spawn", start)
    monkeypatch.setattr("subprocess.Popen", start)
    assert machine.processor.__wrapped__() == platform.machine()
