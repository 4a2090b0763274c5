"""A program imports only the modules that it needs for its first run."""

from pathlib import Path

import pytest

import zrt

DIGITS = Path(zrt.__file__).with_name("models") / "digits.onnx"
UNNEEDED = {
    "argparse",
    "asyncio",
    "importlib.metadata",
    "json",
    "ml_dtypes",
    "numpy.typing",
    "rich",
    "tomllib",
    "zrt.environment.devices",
    "zrt.session.prepared_run",
    "zrt.session.profile",
    "zrt.loading.initializers",
}


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("", set()),
        ("zrt.SessionOptions().to_json()", {"json"}),
        ("zrt.ElementType.of('bfloat16')", {"ml_dtypes"}),
        ("session.profile([image])", {"json", "zrt.session.profile"}),
        ("session.prepare([image])", {"zrt.session.prepared_run"}),
        ("zrt.ep_devices()", {"zrt.environment.devices"}),
    ],
)
def test_call_imports_only_the_modules_that_it_needs(python, line, needs):
    assert imports_of(python, line) & UNNEEDED == needs


def test_first_run_imports_what_a_forked_child_may_need(python):
    """A child cannot end an import that a thread of its parent was at: tests/robustness/test_processes.py."""
    assert {"zrt.session.async_runs", "zrt._native.callback_errors"} <= imports_of(python)


def test_first_run_over_arrays_imports_no_values(python):
    """Their modules take 3 ms of a first session."""
    assert not {"zrt.values.value", "zrt.values.sparse", "zrt.memory.buffers"} & imports_of(python)
    assert "zrt.values.value" in imports_of(python, "zrt.Value.from_array(image)")


def test_import_alone_loads_nothing(python):
    line = "import sys, zrt; print(*{'zrt._native', 'numpy', '_cffi_backend'} & set(sys.modules))"
    assert not python(line).stdout.split()


def imports_of(python, line=""):
    """The modules that the first run of a process imports, and a line after it, beside those of numpy."""
    script = f"""
        import sys
        import numpy as np
        before = set(sys.modules)
        import zrt
        session = zrt.Session({str(DIGITS)!r}, zrt.SessionOptions(intra_op_num_threads=1))
        image = np.zeros((1, 1, 8, 8), np.float32)
        session.run([image])
        {line}
        print(" ".join(set(sys.modules) - before))
    """
    return set(python(script).stdout.split())
