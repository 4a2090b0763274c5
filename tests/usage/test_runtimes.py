"""How to use runtimes: several lanes side by side, and lanes for shapes that vary. Each test shows one thing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import zrt
from benches.models import build


def test_a_lane_for_each_thread_over_one_session():
    session = zrt.Session(build.cnn(), zrt.SessionOptions(intra_op_num_threads=1))
    runtime = zrt.Runtime(session, lanes=4, shapes={"image": (1, 1, 28, 28)})
    runtime.prime(2)

    def serve(worker: int) -> int:
        lane = runtime[worker]  # no pool, no lock: the server assigns lanes to workers
        lane.inputs["image"][...] = worker
        lane.run()
        return int(lane.outputs["logits"].argmax())

    with ThreadPoolExecutor(4) as pool:
        classes = list(pool.map(serve, range(4)))

    assert len(runtime) == len(classes) == 4


def test_a_session_for_each_lane():
    runtime = zrt.Runtime.replicate(build.cnn(), lanes=2, shapes={"image": (1, 1, 28, 28)})

    first, second = runtime.sessions
    assert first is not second


def test_a_session_for_each_lane_with_the_weights_in_memory_once():
    runtime = zrt.Runtime.replicate(build.mlp(64, 2), lanes=2, share_weights=True, shapes={"x": (1, 64)})

    for lane in runtime:
        lane.inputs["x"][...] = 1
        lane.run()

    np.testing.assert_array_equal(runtime[0].outputs["y"], runtime[1].outputs["y"])


def test_sessions_of_your_own_making():
    def on_cores_of_its_own(index: int) -> zrt.Session:
        return zrt.Session(build.cnn(), zrt.SessionOptions(intra_op_num_threads=1, logid=f"lane {index}"))

    runtime = zrt.Runtime.from_factory(on_cores_of_its_own, lanes=2, shapes={"image": (1, 1, 28, 28)})

    assert [audit.zero_copy for audit in runtime.audit()] == [True, True]


def test_shapes_that_vary():
    dynamic = zrt.DynamicRuntime(zrt.Session(build.cnn()), lanes=2, max_buckets=16)

    for batch in (1, 4, 1):
        lane = dynamic.lane({"image": (batch, 1, 28, 28)}, 0)  # made at the first use, found from then on
        lane.inputs["image"][...] = 0.5
        lane.run()
        assert lane.outputs["logits"].shape == (batch, 10)

    assert (dynamic.counters.hits, dynamic.counters.misses) == (1, 2)


def test_make_and_warm_the_shapes_that_you_expect():
    dynamic = zrt.DynamicRuntime(zrt.Session(build.cnn()), lanes=2, max_buckets=4)

    dynamic.warm([{"image": (batch, 1, 28, 28)} for batch in (1, 2, 4, 8)], runs=2)

    dynamic.lane({"image": (8, 1, 28, 28)}, 1).run()
    assert dynamic.counters.misses == 4  # all of them during `warm`
    with pytest.raises(ValueError, match="5 different shapes do not fit into max_buckets=4"):
        dynamic.warm([{"image": (batch, 1, 28, 28)} for batch in range(1, 6)])


def test_least_recently_used_shape_makes_room():
    dynamic = zrt.DynamicRuntime(zrt.Session(build.cnn()), max_buckets=2)
    one = dynamic.lane({"image": (1, 1, 28, 28)})
    dynamic.lane({"image": (2, 1, 28, 28)})

    dynamic.lane({"image": (3, 1, 28, 28)})

    assert [bucket.shapes["image"][0] for bucket in dynamic.buckets] == [2, 3]
    assert dynamic.counters.evictions == 1
    one.run()  # a lane that you hold stays usable


def test_drop_shapes():
    dynamic = zrt.DynamicRuntime(zrt.Session(build.cnn()))
    dynamic.prebuild([{"image": (1, 1, 28, 28)}, {"image": (2, 1, 28, 28)}])

    assert dynamic.remove({"image": (1, 1, 28, 28)})
    assert len(dynamic) == 1
    dynamic.clear()
    assert len(dynamic) == 0


def test_copy_results_from_lane_to_lane():
    runtime = zrt.Runtime(zrt.Session(build.add(4)), lanes=2)
    first, second = runtime
    first.inputs["x"][...] = 1
    first.run()

    zrt.copy_all([(first.outputs["z"], second.inputs["x"]), (first.outputs["z"], second.inputs["y"])])
    second.run()

    assert second.outputs["z"].tolist() == [2, 2, 2, 2]


def test_close_a_runtime():
    with zrt.Runtime.replicate(build.add(4), lanes=2) as runtime:
        view = runtime[0].outputs["z"]

    assert view.tolist() == [0, 0, 0, 0]  # views stay valid
    with pytest.raises(zrt.errors.ClosedError):
        runtime[0].run()
