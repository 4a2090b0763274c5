from __future__ import annotations

import json
import os
from dataclasses import asdict

import numpy as np

import zrt
from zrt._native.library import library
from zrt.bench import machine


def test_machine_description_is_complete():
    found = machine.describe()
    assert found.processor
    assert 1 <= found.usable_cores <= found.cores == os.cpu_count()
    assert found.numpy == np.__version__
    json.dumps(asdict(found))


def test_versions_are_those_in_use():
    found = machine.versions()
    assert found.zrt == zrt.__version__
    assert (found.onnxruntime, found.path, found.source) == (library().version, library().path, library().source)


def test_resident_memory_grows_with_touched_pages():
    before = machine.resident_bytes()
    block = np.ones(64 << 20, np.uint8)
    assert machine.resident_bytes() - before > 32 << 20
    assert block.all()
