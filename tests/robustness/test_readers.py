"""Readers of files and requests return, or raise an error of zrt's, for arbitrary bytes."""

import base64
import sys
from pathlib import Path

import pytest

from tests.robustness.conftest import Child
from tests.robustness.readers import READERS, Reader, kept, takes
from tests.robustness.test_fuzz_models import mutated
from tests.support.times import TIMES

CHANGES, SECONDS = 200 * TIMES, 4 * TIMES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="one of the files is a library of Linux's")


@pytest.fixture(params=READERS)
def name(request: pytest.FixtureRequest) -> str:
    for package in READERS[request.param].needs:
        pytest.importorskip(package, reason=f"{package} is not installed: pip install --group serving")
    return str(request.param)


@pytest.fixture
def reader(name: str) -> Reader:
    return READERS[name]


def test_examples_are_read(name: str, reader: Reader) -> None:
    assert all(takes(name, example) for example in reader.examples())


def test_inputs_that_reach_other_code(name: str) -> None:
    for one in kept(name):
        takes(name, one)


def test_changed_examples(name: str, reader: Reader) -> None:
    examples = reader.examples()
    for seed in range(CHANGES):
        takes(name, mutated(seed, examples))


@pytest.mark.slow
def test_changes_led_by_coverage(name: str, child: Child, tmp_path: Path) -> None:
    """Where it fails, the input that shows the fault belongs into the folder `inputs`."""
    pytest.importorskip("atheris", reason="atheris is not installed: pip install --group fuzz")
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    # Another seed in each run; libFuzzer prints it.
    limits = [f"-max_total_time={SECONDS}", f"-artifact_prefix={tmp_path}/"]
    process = child.start("fuzz/readers.py", arguments=[name, inputs, *limits])
    _, errors = process.communicate(timeout=SECONDS + 120)
    faults = [base64.b64encode(path.read_bytes()).decode() for path in tmp_path.iterdir() if path.is_file()]
    assert process.returncode == 0, f"{errors[-4000:]}\n{faults}"
