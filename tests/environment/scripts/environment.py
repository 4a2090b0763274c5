"""Steps that need a process without an environment: `environment.py FUNCTION [ARGUMENT ...]` runs one of them."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress

import numpy as np
import onnx
import pytest

import zrt
from zrt.environment import environment
from zrt.errors import ArgumentError

# The declared size of y is wrong unless n is 3.
MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21]> test (float[n] x) => (float[3] y) { y = Neg(x) }'
)
THREE = [np.ones(3, np.float32)]


def session_creates_the_default():
    assert environment._current is None
    zrt.Session(MODEL)
    assert environment._current is zrt.Environment()
    print(zrt.Environment())


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
    for arguments in (("other", "error"), ("server", "info"), ()):
        with pytest.raises(ArgumentError) as caught:
            zrt.Environment(*arguments)
        print(caught.value)


def settings_after_a_session():
    zrt.Session(MODEL)
    with pytest.raises(ArgumentError) as caught:
        zrt.Environment("server")
    print(caught.value)


def log_of_a_run(severity):
    """Logs an error, and a warning about the wrong size."""
    zrt.Environment("my process", severity)
    session = zrt.Session(MODEL, zrt.SessionOptions())
    with suppress(zrt.Error):
        session.run([np.ones(5, np.float32)], options=zrt.RunOptions(tag="my run"))


def verbose_log():
    zrt.Environment("my process", "verbose")
    zrt.Session(MODEL)


def bad_arguments(arguments):
    with pytest.raises(zrt.Error) as caught:
        zrt.Environment(*json.loads(arguments))
    assert environment._current is None
    print(type(caught.value).__name__, caught.value)


def race():
    barrier, created = threading.Barrier(8), []

    def create():
        barrier.wait()
        created.append(zrt.Environment())

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(created) == 8
    assert len({id(one) for one in created}) == 1, created


def objects_alive_at_exit():
    session = zrt.Session(MODEL)
    cycle = [session, session.binding(), session.prepare(THREE), zrt.Value.from_array(np.ones(3, np.float32))]
    cycle += [cycle, cycle[2].run()]
    # Only the interpreter's end collects it.
    sys.modules["kept"] = cycle

    def run_forever():
        while True:
            session.run(THREE)

    threading.Thread(target=run_forever, daemon=True).start()


def config_entries():
    first = zrt.Environment(config_entries={"allow_virtual_devices": "1"})
    assert zrt.Environment(config_entries={"allow_virtual_devices": "1"}) is first
    assert first.config_entries == {"allow_virtual_devices": "1"}
    with pytest.raises(ArgumentError) as caught:
        zrt.Environment()
    print(caught.value)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
