"""Steps that need a process without an environment: `environment.py FUNCTION [ARGUMENT ...]` runs one of them."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt.environment import environment
from zrt.errors import ArgumentError

# The declared size of y is wrong unless n is 3.
MODEL = models.parsed("(float[n] x) => (float[3] y) { y = Neg(x) }")


def session_creates_the_default():
    assert environment._current is None
    zrt.Session(MODEL)
    assert environment._current is zrt.Environment()
    assert repr(zrt.Environment()) == "Environment(log_id='zrt', log_severity=WARNING)"
    with pytest.raises(ArgumentError, match=r"Environment\(log_id='zrt', log_severity=WARNING\); .*'server'"):
        zrt.Environment("server")


def log_severity_before_the_environment():
    environment.set_log_severity(zrt.LogSeverity.ERROR)
    assert environment._current is None
    assert environment.current().log_severity is zrt.LogSeverity.ERROR
    environment.set_log_severity(zrt.LogSeverity.INFO)
    assert zrt.Environment().log_severity is zrt.LogSeverity.INFO


def pools_once():
    environment.set_log_severity(zrt.LogSeverity.ERROR)
    threading = zrt.ThreadingOptions(intra_op_num_threads=2)
    assert environment.create_with_pools(threading)
    assert not environment.create_with_pools(threading)
    assert environment.current().threading == threading
    assert environment.current().log_severity is zrt.LogSeverity.ERROR


def same_and_other_settings():
    first = zrt.Environment("server", zrt.LogSeverity.ERROR)
    assert zrt.Environment("server", zrt.LogSeverity.ERROR) is first
    assert zrt.Environment("server", "error") is first
    there = r"this process has its environment already, as Environment\(log_id='server', log_severity=ERROR\)"
    for arguments in (("other", "error"), ("server", "info"), ()):
        with pytest.raises(ArgumentError, match=f"{there}; .* cannot be a second one"):
            zrt.Environment(*arguments)


def variables_that_change_later():
    os.environ |= {"ZRT_CPUS": "2", "ZRT_MEMORY_LIMIT": "1GiB"}
    first = zrt.Environment()
    os.environ |= {"ZRT_CPUS": "3", "ZRT_MEMORY_LIMIT": "2GiB"}
    assert zrt.Environment() is first
    assert (first.cpus, first.memory_limit) == (2, 1 << 30)
    with pytest.raises(ArgumentError, match=r"cpus=5.* cannot be a second one"):
        zrt.Environment(cpus=5)


def log_of_a_run(severity):
    """Logs an error, and a warning about the wrong size."""
    zrt.Environment("my process", severity)
    session = zrt.Session(MODEL, zrt.SessionOptions())
    with suppress(zrt.Error):
        session.run([np.ones(5, np.float32)], options=zrt.RunOptions(tag="my run"))


def race():
    barrier = threading.Barrier(8)

    def create(_):
        barrier.wait()
        return zrt.Environment()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(8)))) == 1


def config_entries():
    first = zrt.Environment(config_entries={"allow_virtual_devices": "1"})
    assert zrt.Environment(config_entries={"allow_virtual_devices": "1"}) is first
    assert first.config_entries == {"allow_virtual_devices": "1"}
    with pytest.raises(ArgumentError, match=r"config_entries={'allow_virtual_devices': '1'}\); .*'zrt'"):
        zrt.Environment()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
