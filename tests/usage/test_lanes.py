"""How to use lanes: memory bound once, one call for each inference. Each test shows one thing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
import pytest

import zrt
from benches.models import build
from tests.support import models


def test_run_a_model_through_a_lane():
    session = zrt.Session(build.cnn())
    lane = session.lane({"image": (1, 1, 28, 28)})

    lane.inputs["image"][...] = 0.5  # a numpy view on the memory that ONNX Runtime reads
    lane.run()  # one C call: no allocation, no copy, no look-up of names
    logits = lane.outputs["logits"]  # the same view after every run

    assert logits.shape == (1, 10)
    lane.inputs["image"][...] = 1.0
    lane.run()
    assert lane.outputs["logits"] is logits


def test_use_the_shapes_that_the_model_fixes():
    lane = zrt.Session(build.add(4)).lane()

    lane.inputs["x"][...] = [1, 2, 3, 4]
    lane.inputs["y"][...] = 10
    lane.run()

    assert lane.outputs["z"].tolist() == [11, 12, 13, 14]


def test_inputs_and_outputs_by_index():
    lane = zrt.Session(build.add(4)).lane()

    lane.inputs[0][...] = lane.inputs[1][...] = 2
    lane.run()

    assert lane.outputs[0].tolist() == [4, 4, 4, 4]


def test_keep_a_result_beyond_the_next_run():
    lane = zrt.Session(build.add(4)).lane()
    lane.inputs["x"][...] = 1
    lane.run()

    kept = lane.outputs["z"].copy()  # the view itself shows the results of the last run
    lane.inputs["x"][...] = 2
    lane.run()

    assert kept.tolist() == [1, 1, 1, 1]
    assert lane.outputs["z"].tolist() == [2, 2, 2, 2]


def test_warm_up_before_serving():
    session = zrt.Session(build.cnn())
    before = session.allocator().stats()

    lane = session.lane([(8, 1, 28, 28)])  # the first lane of these shapes runs once
    lane.prime(3)  # ONNX Runtime plans its memory for these shapes, and takes it from the system

    primed = session.allocator().stats() - before
    assert primed.num_arena_extensions > 0
    stats = lane.run_with_allocator_stats()
    assert stats.delta.num_arena_extensions == 0  # the first request finds all of its memory there


def test_choose_the_memory():
    session = zrt.Session(build.relay(4 << 20))
    lane = session.lane(
        inputs=zrt.LaneMemory.buffers(zrt.BufferPolicy(alignment=4096, prefault=True)),
        outputs=zrt.LaneMemory.allocated(),  # by the session's own allocator
    )

    assert lane.inputs["x"].ctypes.data % 4096 == 0
    assert [port.kind for port in lane.audit().outputs] == ["allocated"]


def test_outputs_whose_shape_depends_on_the_data():
    lane = zrt.Session(models.non_zero()).lane()

    lane.inputs["x"][...] = [0, 5, 0, 7]
    lane.run()
    indices = lane.outputs["indices"]  # ONNX Runtime allocates it in each run

    lane.inputs["x"][...] = [1, 1, 1, 1]
    lane.run()
    assert indices.tolist() == [[1, 3]]  # earlier results do not change
    assert lane.outputs["indices"].tolist() == [[0, 1, 2, 3]]


def test_give_the_shape_of_an_output():
    lane = zrt.Session(models.non_zero()).lane(output_shapes={"indices": (1, 2)})

    lane.inputs["x"][...] = [0, 5, 0, 7]
    lane.run()

    assert lane.outputs["indices"].tolist() == [[1, 3]]
    assert lane.audit().allocations == ()


def test_write_packed_types_as_bytes():
    from onnx import TensorProto

    from zrt.types import ElementType, pack

    lane = zrt.Session(models.casts(TensorProto.INT4, [3])).lane()

    lane.inputs["q"][...] = pack(np.array([1, -2, 7], ElementType.INT4.dtype), ElementType.INT4)
    lane.run()

    assert lane.inputs["q"].dtype == np.uint8
    assert lane.outputs["q_cast"].tolist() == [1, -2, 7]


def test_ask_what_each_run_does():
    lane = zrt.Session(build.add(4)).lane()

    audit = lane.audit()

    audit.require_zero_copy()  # raises if a run copies
    x = audit.inputs[0]
    assert x.address == x.ort_address == lane.inputs["x"].ctypes.data
    assert (x.name, x.nbytes, x.memory.name, x.policy) == ("x", 16, "Cpu", "plain")
    assert audit.synchronize is False


def test_see_what_a_run_allocates():
    lane = zrt.Session(build.cnn()).lane([(1, 1, 28, 28)])
    lane.prime(2)

    stats = lane.run_with_allocator_stats()

    assert stats.delta.num_arena_extensions == 0  # no memory came from the system
    assert stats.after.bytes_in_use == stats.before.bytes_in_use


def test_end_a_run_from_another_thread():
    lane = zrt.Session(models.counting_loop()).lane()
    lane.inputs["turns"][...] = 10**12  # days of work
    options = zrt.RunOptions(tag="request 7")
    threading.Timer(0.05, options.terminate).start()

    with pytest.raises(zrt.errors.TerminatedError):
        lane.run_with(options)

    options.reset()
    lane.inputs["turns"][...] = 2
    lane.run_with(options)
    assert lane.outputs["end"].tolist() == [2, 2]


def test_a_lane_belongs_to_one_run_at_a_time():
    lane = zrt.Session(models.counting_loop()).lane()
    lane.inputs["turns"][...] = 10**12
    options = zrt.RunOptions()

    def use(_: int) -> str:
        try:
            lane.run_with(options)
        except zrt.errors.BusyError:  # an exception, never a race
            options.terminate()
            return "refused"
        except zrt.errors.TerminatedError:
            return "ended"
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(use, range(2))) == ["ended", "refused"]


def test_a_lane_outlives_its_session():
    with zrt.Session(build.add(4)) as session:
        lane = session.lane()

    lane.inputs["x"][...] = 3
    lane.run()
    view = lane.outputs["z"]
    lane.close()

    assert view.tolist() == [3, 3, 3, 3]  # and views outlive the lane
    with pytest.raises(zrt.errors.ClosedError):
        lane.run()


@pytest.mark.gpu
def test_keep_inputs_and_outputs_on_the_gpu():
    session = zrt.Session(build.cnn(), providers=["CUDA"])
    on_gpu = zrt.LaneMemory.allocated(zrt.MemoryInfo.cuda())
    lane = session.lane([(8, 1, 28, 28)], inputs=on_gpu, outputs=on_gpu)
    lane.audit().require_zero_copy()

    zrt.copy(np.ones((8, 1, 28, 28), np.float32), lane.inputs["image"])
    lane.run()
    logits = np.empty((8, 10), np.float32)
    zrt.copy(lane.outputs["logits"], logits)

    assert np.isfinite(logits).all()


def test_run_over_arrays_that_you_have():
    image, logits = np.ones((1, 1, 28, 28), np.float32), np.zeros((1, 10), np.float32)
    lane = zrt.Session(build.cnn()).lane(inputs={"image": image}, outputs={"logits": logits})  # no shapes to give

    lane.run()
    first = logits.copy()
    image[...] = 0
    lane.run()

    assert not np.array_equal(logits, first)
    assert [port.owner for port in lane.audit().inputs] == ["caller"]


def test_pipeline_of_two_sessions_without_a_copy():
    add, double = zrt.Session(build.add(4)), zrt.Session(models.double((4,)))
    first = add.lane()
    second = double.lane(inputs={"x": first.outputs["z"]})

    first.inputs["x"][...] = [1, 2, 3, 4]
    first.inputs["y"][...] = 10
    first.run()
    second.run()

    assert second.outputs["y"].tolist() == [22, 24, 26, 28]
    assert second.audit().inputs[0].address == first.audit().outputs[0].address


def test_ring_of_buffers_feeds_a_lane_while_a_thread_fills_it():
    ring = [np.zeros(4, np.float32) for _ in range(3)]
    lane = zrt.Session(build.add(4)).lane(inputs={"x": ring})
    lane.inputs["y"][...] = 100
    free, filled = SimpleQueue(), SimpleQueue()
    for slot in range(3):
        free.put(slot)

    def produce():
        for number in range(20):
            slot = free.get()
            ring[slot][...] = number
            filled.put(slot)

    producer = threading.Thread(target=produce)
    producer.start()
    heard = []
    for _ in range(20):
        slot = filled.get()
        lane.slots["x"] = slot  # moves the input there: nothing is copied
        lane.run()
        free.put(slot)
        heard.append(lane.outputs["z"][0])
    producer.join()

    assert heard == [100 + number for number in range(20)]


def test_end_a_lane_that_takes_too_long():
    lane = zrt.Session(models.counting_loop(), zrt.SessionOptions(log_severity_level="FATAL")).lane()
    lane.inputs["turns"][...] = 2**40

    with pytest.raises(TimeoutError):
        lane.run(timeout=0.05)

    lane.inputs["turns"][...] = 3
    lane.run()
    assert lane.outputs["end"].tolist() == [3, 3]
