"""`LoadCancellation`: loads that another thread cancels."""

import threading

import numpy as np
import onnx
import pytest

import zrt
from tests.support import models
from zrt.environment.pool_options import PoolOptions
from zrt.errors import ModelLoadCanceledError, UnsupportedError


@pytest.fixture(scope="module")
def long(build) -> onnx.ModelProto:
    """A model whose load passes many points where ONNX Runtime checks the switch."""
    steps = "".join(f"t{number + 1} = Add(t{number}, t{number // 2})\n" for number in range(400))
    return build(f"(float[n] t0) => (float[n] t400) {{ {steps} }}")


def load(model, cancellation, providers=None, **options):
    settings = zrt.SessionOptions(load_cancellation=cancellation, log_severity_level="FATAL", **options)
    return zrt.Session(model, settings, providers)


def outcome(model, cancellation, **options):
    """Whether it was loaded; anything but a canceled load is a failure of the test."""
    try:
        load(model, cancellation, **options).close()
    except ModelLoadCanceledError:
        return False
    return True


@pytest.mark.parametrize("form", ["file", "bytes", "proto"])
def test_load_after_cancel_raises(tmp_path, form):
    model = models.add()
    sources = {"file": tmp_path / "model.onnx", "bytes": onnx.load_model_from_string(model).SerializeToString()}
    sources["file"].write_bytes(sources["bytes"])
    cancellation = zrt.LoadCancellation()
    cancellation.cancel()
    subject = {"file": "model.onnx", "bytes": "model in memory", "proto": "ModelProto"}[form]
    with pytest.raises(ModelLoadCanceledError, match=f"{subject}.*canceled due to user request") as caught:
        load(sources.get(form, onnx.load_model_from_string(model)), cancellation)
    assert caught.value.code == 12
    assert isinstance(caught.value, RuntimeError)


def test_canceled_object_refuses_loads_until_reset(long):
    cancellation = zrt.LoadCancellation()
    for _ in range(2):
        cancellation.cancel()
        cancellation.cancel()
        assert not outcome(long, cancellation)
        assert not outcome(long, cancellation)
        cancellation.reset()
        assert outcome(long, cancellation)


class TestRunningLoads:
    """Functions that zrt calls during a load; another thread cancels it at that time."""

    def test_cancel_while_threads_are_made(self, long, background):
        cancellation = zrt.LoadCancellation()
        workers = []

        def factory(work):
            background(cancellation.cancel).result()
            workers.append(threading.Thread(target=work))
            return workers[-1]

        assert not outcome(long, cancellation, thread_factory=factory, intra_op_num_threads=2)
        (worker,) = workers
        worker.join(60)
        assert not worker.is_alive()

    def test_cancel_while_devices_are_chosen(self, long, background):
        """ONNX Runtime has read the model at that time."""
        cancellation = zrt.LoadCancellation()

        def choose(devices, metadata):
            background(cancellation.cancel).result()
            return devices[:1]

        with pytest.raises(ModelLoadCanceledError, match="Session initialization canceled"):
            load(long, cancellation, choose)

    def test_cancel_at_any_moment(self, long, background):
        """Each load gets a little further before another thread cancels it."""
        for patience in range(0, 600_000, 20_000):
            cancellation = zrt.LoadCancellation()
            job = background(lambda cancellation=cancellation: outcome(long, cancellation))
            for _ in range(patience):
                pass
            cancellation.cancel()
            assert job.result() in (True, False)
            assert not outcome(long, cancellation)

    def test_reset_during_loads(self, long, background):
        cancellation = zrt.LoadCancellation()
        jobs = [background(lambda: [outcome(long, cancellation) for _ in range(5)]) for _ in range(2)]
        while any(job.running for job in jobs):
            cancellation.cancel()
            cancellation.reset()
        assert all(set(job.result()) <= {True, False} for job in jobs)
        assert outcome(long, cancellation)


def test_several_loads_end_together(long, background):
    cancellation, other = zrt.LoadCancellation(), zrt.LoadCancellation()

    def choose(devices, metadata):
        cancellation.cancel()
        return devices[:1]

    def chosen():
        load(long, cancellation, choose)

    jobs = [background(chosen) for _ in range(3)]
    for job in jobs:
        with pytest.raises(ModelLoadCanceledError):
            job.result()
    assert outcome(long, other)


def test_closed_by_another_thread_while_a_load_begins(monkeypatch):
    make = PoolOptions.make

    def closing(*arguments):
        # As another thread could at this moment.
        cancellation.close()
        return make(*arguments)

    monkeypatch.setattr(PoolOptions, "make", closing)
    for _ in range(20):
        cancellation = zrt.LoadCancellation()
        assert outcome(models.add(), cancellation)
    assert cancellation.closed


def test_loaded_session_is_not_affected():
    cancellation = zrt.LoadCancellation()
    session = load(models.add(), cancellation)
    cancellation.cancel()
    assert session.run([np.ones(4, np.float32)] * 2)[0].tolist() == [2] * 4


def test_every_way_to_load_can_be_canceled(long, tmp_path):
    options = zrt.SessionOptions(load_cancellation=zrt.LoadCancellation(), log_severity_level="FATAL")
    options.load_cancellation.cancel()
    for call in (
        lambda: zrt.infer(long, {}, options=options),
        lambda: zrt.Runtime.replicate(long, 2, options, share_weights=True),
        lambda: zrt.save_optimized(long, tmp_path / "out.onnx", options),
    ):
        with pytest.raises(ModelLoadCanceledError):
            call()


class TestRefused:
    def test_cannot_be_written_as_data(self):
        options = zrt.SessionOptions(load_cancellation=zrt.LoadCancellation())
        with pytest.raises(UnsupportedError, match=r"SessionOptions\.load_cancellation: LoadCancellation cannot be"):
            options.to_dict()
        with pytest.raises(UnsupportedError, match=r"SessionOptions\.load_cancellation: it cannot be given as data"):
            zrt.SessionOptions.from_dict({"load_cancellation": True})
        assert "load_cancellation" not in zrt.SessionOptions().to_dict()
