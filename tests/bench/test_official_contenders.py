import gc
import pickle
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

from tests.support import models
from zrt.bench import official_contenders
from zrt.bench.child import EndedError
from zrt.bench.official_contenders import RUN, RUN_AGAIN, RUN_WITH_IOBINDING, Place

onnxruntime = pytest.importorskip(
    "onnxruntime", exc_type=ImportError, reason="the official package is what this is about"
)

pytestmark = pytest.mark.official

FLOAT = 1
KEYS = [RUN, RUN_WITH_IOBINDING]
CPU = [("CPUExecutionProvider", {})]
# onnxruntime itself would only warn, and use the next provider.
WARP = [("WarpExecutionProvider", {}), *CPU]
ONE_THREAD = {"intra_op_num_threads": 1}


def places(z: np.ndarray | None) -> tuple[list[Place], list[Place]]:
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    return [Place("x", FLOAT, (4,), x), Place("y", FLOAT, (4,), y)], [Place("z", FLOAT, (4,), z)]


class TestInThisProcess:
    def test_run_and_run_with_iobinding_are_contenders(self, saved):
        z = np.zeros(4, np.float32)
        official = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, *places(z))
        assert [contender.key for contender in official.contenders] == KEYS
        assert official.unmeasured == {}
        assert official.version == onnxruntime.__version__
        assert official.load_ns > 0
        assert official.first_run_ns > 0
        for contender in official.contenders:
            assert contender.batch(3) > 0
            assert len(contender.times(3)) == 3

    def test_binding_writes_into_the_given_memory(self, saved):
        z = np.zeros(4, np.float32)
        inputs, outputs = places(z)
        kept = weakref.ref(inputs[0].array)
        _, bound = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, inputs, outputs).contenders
        del inputs, outputs
        gc.collect()
        assert kept() is not None
        z[...] = 0
        bound.batch(1)
        assert z.tolist() == [1, 2, 3, 4]

    def test_each_contender_has_a_session_of_its_own(self, saved, monkeypatch):
        loads = []
        load = onnxruntime.InferenceSession
        monkeypatch.setattr(
            onnxruntime, "InferenceSession", lambda *args, **options: loads.append(args) or load(*args, **options)
        )
        keys = [*KEYS, RUN_AGAIN]
        official = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, *places(None), keys)
        assert [contender.key for contender in official.contenders] == keys
        assert len(loads) == 3

    @pytest.mark.parametrize(
        ("model", "providers", "reason"),
        [
            (b"no model", CPU, ""),
            (models.add(), WARP, "this onnxruntime has no WarpExecutionProvider"),
        ],
        ids=["model", "provider"],
    )
    def test_reason_is_reported_where_nothing_can_be_measured(self, saved, model, providers, reason):
        official = official_contenders.set_up(saved(model), ONE_THREAD, providers, *places(None))
        assert not official.contenders
        assert list(official.unmeasured) == KEYS
        assert all(reason in each for each in official.unmeasured.values())

    def test_failure_of_one_contender_leaves_the_other(self, saved):
        inputs, outputs = places(np.zeros(4, np.float32))
        wrong = Place("nope", FLOAT, (4,), np.zeros(4, np.float32))
        official = official_contenders.set_up(saved(models.add()), ONE_THREAD, CPU, inputs, [*outputs, wrong])
        assert [contender.key for contender in official.contenders] == KEYS[:1]
        assert "nope" in official.unmeasured[KEYS[1]]


class TestApart:
    def test_types_unknown_to_numpy_reach_the_other_process(self, saved):
        bfloat16 = 16
        x, q = np.ones((2, 4), np.float32), np.ones((2, 4), ml_dtypes.bfloat16)
        inputs = [Place("x", FLOAT, x.shape, x), Place("q", bfloat16, q.shape, q)]
        outputs = [Place("x_cast", bfloat16, q.shape, q.copy()), Place("q_cast", FLOAT, x.shape, x.copy())]
        with official_contenders.set_up_apart(
            saved(models.casts(bfloat16, [2, 4])), ONE_THREAD, CPU, inputs, outputs
        ) as official:
            # Its `run` takes numpy's own types only.
            assert [contender.key for contender in official.contenders] == KEYS[1:]

    def test_failure_in_the_other_process_is_reported(self, saved):
        with official_contenders.set_up_apart(saved(b"no model"), ONE_THREAD, CPU, *places(None)) as official:
            assert not official.contenders
            assert list(official.unmeasured) == KEYS

    def test_process_that_dies_raises(self, saved, monkeypatch):
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with (
            pytest.raises(EndedError, match="ended with status 1") as caught,
            official_contenders.set_up_apart(saved(models.add()), ONE_THREAD, CPU, *places(None)),
        ):
            pass
        assert pickle.loads(pickle.dumps(caught.value)).how == "status 1"

    def test_other_process_does_not_load_zrts_library(self):
        code = (
            "import sys, zrt.bench.official_contenders; "
            "sys.exit(any(name in sys.modules for name in ('zrt.session.session', 'zrt._native')))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_arrays_of_the_binding_live_until_the_last_request(saved, monkeypatch):
    """The request that brought them is gone by then."""
    monkeypatch.setattr(official_contenders, "_contenders", {})
    request = pickle.loads(pickle.dumps((saved(models.add()), ONE_THREAD, CPU, *places(np.zeros(4, np.float32)))))
    arrays = [weakref.ref(place.array) for each in request[3:] for place in each]
    official, keys = official_contenders._set_up(*request)
    assert (official.contenders, keys, official.version) == ((), KEYS, onnxruntime.__version__)
    del request
    gc.collect()
    assert [array() is not None for array in arrays] == [True] * 3
    assert official_contenders._ask(RUN_WITH_IOBINDING, "batch", 2) > 0
    assert len(official_contenders._ask(RUN, "times", 2)) == 2
