from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tests.support import models
from zrt.bench import official_contenders, official_worker
from zrt.bench.official_contenders import RUN, RUN_WITH_IOBINDING, Place
from zrt.errors import ZrtError

onnxruntime = pytest.importorskip(
    "onnxruntime", exc_type=ImportError, reason="the official package is what this is about"
)

pytestmark = pytest.mark.official

FLOAT = 1
KEYS = [RUN[0], RUN_WITH_IOBINDING[0]]
CPU = [("CPUExecutionProvider", {})]
ONE_THREAD = {"intra_op_num_threads": 1}


def places(z: np.ndarray | None) -> tuple[list[Place], list[Place]]:
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    return [Place("x", FLOAT, (4,), x), Place("y", FLOAT, (4,), y)], [Place("z", FLOAT, (4,), z)]


class TestInThisProcess:
    def test_run_and_run_with_iobinding_are_contenders(self, saved):
        z = np.zeros(4, np.float32)
        found = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, *places(z))
        assert [contender.key for contender in found.contenders] == KEYS
        assert found.unmeasured == {}
        assert found.version == onnxruntime.__version__
        assert found.load_ns > 0
        assert found.first_run_ns > 0
        for contender in found.contenders:
            assert contender.batch(3) > 0
            assert len(contender.times(3)) == 3

    def test_binding_writes_into_the_given_memory(self, saved):
        z = np.zeros(4, np.float32)
        _, bound = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, *places(z)).contenders
        z[...] = 0
        bound.batch(1)
        assert z.tolist() == [1, 2, 3, 4]

    def test_onnxruntime_allocates_an_output_without_memory(self, saved):
        found = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, *places(None))
        assert [contender.key for contender in found.contenders] == KEYS

    def test_missing_package_is_reported(self, saved, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        found = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, *places(None))
        assert not found.contenders
        assert list(found.unmeasured) == KEYS
        assert "cannot be imported" in found.unmeasured[KEYS[0]]

    def test_unsupported_model_is_reported(self, saved):
        found = official_contenders.set_up(saved(b"no model"), ONE_THREAD, CPU, *places(None))
        assert not found.contenders
        assert list(found.unmeasured) == KEYS

    def test_missing_provider_is_reported_and_not_replaced(self, saved):
        found = official_contenders.set_up(
            saved(models.add()), ONE_THREAD, [("WarpExecutionProvider", {}), *CPU], *places(None)
        )
        assert not found.contenders
        assert set(found.unmeasured.values()) == {"this onnxruntime has no WarpExecutionProvider"}

    def test_failure_of_one_contender_leaves_the_other(self, saved):
        inputs, outputs = places(np.zeros(4, np.float32))
        wrong = Place("nope", FLOAT, (4,), np.zeros(4, np.float32))
        found = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, inputs, [*outputs, wrong])
        assert [contender.key for contender in found.contenders] == KEYS[:1]
        assert "nope" in found.unmeasured[KEYS[1]]


class TestApart:
    def test_other_process_measures_the_same_contenders(self, saved):
        with official_worker.set_up(saved(models.add()), ONE_THREAD, CPU, *places(np.zeros(4, np.float32))) as found:
            assert [contender.key for contender in found.contenders] == KEYS
            assert found.version == onnxruntime.__version__
            for contender in found.contenders:
                assert contender.batch(3) > 0
                assert len(contender.times(3)) == 3

    def test_types_unknown_to_numpy_reach_the_other_process(self, saved):
        bfloat16 = 16
        x, q = np.ones((2, 4), np.float32), np.ones((2, 4), ml_dtypes.bfloat16)
        inputs = [Place("x", FLOAT, x.shape, x), Place("q", bfloat16, q.shape, q)]
        outputs = [Place("x_cast", bfloat16, q.shape, q.copy()), Place("q_cast", FLOAT, x.shape, x.copy())]
        with official_worker.set_up(saved(models.casts(bfloat16, [2, 4])), ONE_THREAD, CPU, inputs, outputs) as found:
            # Its `run` takes numpy's own types only.
            assert [contender.key for contender in found.contenders] == KEYS[1:]

    def test_failure_in_the_other_process_is_reported(self, saved):
        with official_worker.set_up(saved(b"no model"), ONE_THREAD, CPU, *places(None)) as found:
            assert not found.contenders
            assert list(found.unmeasured) == KEYS

    def test_process_that_dies_raises(self, saved, monkeypatch):
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with (
            pytest.raises(ZrtError, match="ended with status 1"),
            official_worker.set_up(saved(models.add()), ONE_THREAD, CPU, *places(None)),
        ):
            pass

    def test_other_process_does_not_load_zrts_library(self):
        code = (
            "import sys, zrt.bench.official_contenders; "
            "sys.exit(any(name in sys.modules for name in ('zrt.session.session', 'zrt._native')))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def first_order(path, output_shape):
    places = [
        {
            "name": name,
            "onnx_type": FLOAT,
            "shape": [4],
            "array_shape": shape,
            "dtype": shape and "float32",
            "file": None,
        }
        for name, shape in (("x", [4]), ("y", [4]), ("z", output_shape))
    ]
    return {
        "model": str(path),
        "options": ONE_THREAD,
        "providers": CPU,
        "inputs": places[:2],
        "outputs": places[2:],
    }


def test_requests_are_answered_line_by_line(saved):
    orders = [
        first_order(saved(models.add()), None),
        {"do": "batch", "key": KEYS[0], "runs": 2},
        {"do": "times", "key": KEYS[1], "runs": 2},
    ]
    replies = io.StringIO()
    official_contenders.serve(io.StringIO("".join(json.dumps(order) + "\n" for order in orders)), replies)
    made, batch, times = map(json.loads, replies.getvalue().splitlines())
    assert list(made["contenders"]) == KEYS
    assert batch > 0
    assert len(times) == 2


def test_arrays_of_the_binding_live_until_the_last_request(saved, monkeypatch):
    arrays = []

    def place(entry):
        made = new_place(entry)
        arrays.append(weakref.ref(made.array))
        return made

    def orders():
        yield json.dumps(first_order(saved(models.add()), [4])) + "\n"
        for key in KEYS:
            yield json.dumps({"do": "batch", "key": key, "runs": 2}) + "\n"
            gc.collect()
            assert [array() is not None for array in arrays] == [True] * 3
        yield ""

    new_place = official_contenders._place
    monkeypatch.setattr(official_contenders, "_place", place)
    requests = orders()
    official_contenders.serve(SimpleNamespace(readline=lambda: next(requests)), io.StringIO())
    assert next(requests, None) is None
