import os
import platform
import sys

import numpy as np
import pytest

from zrt.bench import machine
from zrt.loading import cache


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


@pytest.mark.parametrize(
    ("system", "facts", "name"),
    [
        ("linux", ["Linux", "x86_64", "model\t\t: 85", "model name\t: Fast CPU", "flags\t: fpu"], "Fast CPU"),
        ("linux", ["Linux", "aarch64", "Features\t: fp", "CPU part\t: 0xd40"], platform.machine()),
        ("darwin", ["Darwin", "arm64", "Fast CPU"], "Fast CPU"),
    ],
)
def test_name_of_the_processor(monkeypatch, system, facts, name):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(cache, "processor", lambda: facts)
    assert machine.processor() == name


def test_name_of_the_processor_starts_no_program(monkeypatch):
    def start(*_):
        raise AssertionError("a program was started")

    monkeypatch.setattr(os, "posix_spawn", start)
    monkeypatch.setattr("subprocess.Popen", start)
    cache.processor.cache_clear()
    assert machine.processor()
