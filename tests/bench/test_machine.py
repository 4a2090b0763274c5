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
