"""The memory that an environment gives its sessions: `bounded_memory.py FUNCTION` runs one of these steps."""

from __future__ import annotations

import os
import sys

import pytest

import zrt
from tests.session.test_bounded_memory import MODEL, held, rows, session
from tests.support import models
from zrt.errors import ArgumentError


def environment_bounds_its_sessions():
    environment = zrt.Environment(memory="bounded", memory_limit="1GiB")
    assert repr(environment).endswith("log_severity=WARNING, memory='bounded', memory_limit=1073741824)")
    assert zrt.Environment(memory="bounded", memory_limit=1 << 30) is environment
    with pytest.raises(ArgumentError, match="cannot be a second one"):
        zrt.Environment()
    bounded = session()
    bounded.run(rows(4 * 1024))
    assert held(bounded) > 30
    bounded.run(rows(8))
    assert held(bounded) <= 17
    assert bounded.allocator().stats().bytes_limit == 1 << 30
    assert session(memory_limit="2GiB").allocator().stats().bytes_limit == 2 << 30
    # These have no arena of their own.
    assert session(enable_cpu_mem_arena=False).allocator().stats().bytes_limit == 0
    assert session(use_env_allocators=True).allocator().stats().bytes_limit != 1 << 30


def no_thread():
    session()
    # One of them may be ending: that which opened ONNX Runtime.
    before = os.listdir("/proc/self/task")
    bounded = session(memory="bounded")
    bounded.run(rows(8))
    assert set(os.listdir("/proc/self/task")) <= set(before)


def variables():
    os.environ |= {"ZRT_MEMORY": "bounded", "ZRT_MEMORY_LIMIT": "1GiB"}
    assert session().allocator().stats().bytes_limit == 1 << 30
    assert zrt.Environment().memory == "bounded"


def bad_variable():
    for name, value in (("ZRT_MEMORY", "little"), ("ZRT_MEMORY_LIMIT", "little")):
        os.environ[name] = value
        with pytest.raises(ArgumentError, match=f"{name}: .*'little'"):
            session()
        del os.environ[name]
    session()


def drop_in():
    os.environ |= {"ZRT_MEMORY": "bounded", "ZRT_MEMORY_LIMIT": "64MiB"}
    import zrt.onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    inference = ort.InferenceSession(models.parse(MODEL), options)
    # As onnxruntime with such an arena.
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match="Available memory"):
        inference.run(None, rows(32 * 1024))
    assert inference.run(None, rows(2))[0].shape == (2,)


globals()[sys.argv[1]]()
