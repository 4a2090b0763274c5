"""`SyncStream`: streams of the tests' own provider library, and of CUDA where there is a GPU."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import zrt
from tests.support.arrays import Tracked
from tests.support.bindings import bind
from zrt.environment import cuda_parts
from zrt.errors import ArgumentError, UnsupportedError


@pytest.fixture
def stream(plugin):
    with zrt.SyncStream(plugin.own) as stream:
        yield stream


def counts(stream):
    """How many copies, and how many runs, have gone through a stream of the tests' provider."""
    return list((ctypes.c_int64 * 2).from_address(stream.native_handle))


@pytest.fixture
def there(plugin, negate):
    """A tensor of three floats on the device."""
    return zrt.Value.allocate((3,), "float32", negate().allocator(plugin.own.memory))


X = np.array([-1, 2, 3], np.float32)


class TestStreams:
    def test_stream_belongs_to_its_device(self, plugin, stream):
        assert stream.device == plugin.own
        assert str(plugin.own) in repr(stream)
        stream.close()
        assert repr(stream) == "SyncStream(closed)"

    def test_options_go_to_the_provider(self, plugin):
        with pytest.raises(UnsupportedError, match="told to refuse the stream"):
            zrt.SyncStream(plugin.own, {"refuse": "1"})


class TestCopies:
    def test_copies_go_through_the_stream(self, stream, there):
        back = np.zeros(3, np.float32)
        zrt.copy(X, there, stream)
        zrt.copy_all([(there, back)], stream=stream)
        assert counts(stream) == [2, 0]
        assert back.tolist() == X.tolist()

    def test_copies_on_the_host_use_no_stream(self, stream):
        back = np.zeros(3, np.float32)
        zrt.copy(X, back, stream)
        assert counts(stream) == [0, 0]
        assert back.tolist() == X.tolist()

    def test_stream_keeps_the_tensors_alive_until_they_are_released(self, stream, there):
        source = np.zeros(3, np.float32).view(Tracked)
        gone = weakref.ref(source)
        zrt.copy(source, there, stream)
        del source
        gc.collect()
        assert gone() is not None
        stream.release_copies()
        gc.collect()
        assert gone() is None

    def test_closed_stream_releases_the_tensors(self, plugin, there):
        source = np.zeros(3, np.float32).view(Tracked)
        gone = weakref.ref(source)
        with zrt.SyncStream(plugin.own) as stream:
            zrt.copy(source, there, stream)
            del source
        del stream
        gc.collect()
        assert gone() is None


class TestRuns:
    def test_runs_of_every_kind_go_through_the_stream(self, stream, there, negate):
        session = negate()
        options = zrt.RunOptions(sync_stream=stream)
        zrt.copy(X, there)
        session.run({"x": there}, options=options)
        session.prepare({"x": there}).run(options)
        bind(session, {"x": there}, "y").run(options)
        lane = session.lane({"x": (3,)})
        lane.run_with(options)
        assert counts(stream)[1] == 4
        lane.run()
        assert counts(stream)[1] == 4

    def test_run_options_keep_a_closed_stream_alive(self, plugin, negate):
        session = negate()
        stream = zrt.SyncStream(plugin.own)
        options = zrt.RunOptions(sync_stream=stream)
        stream.close()
        assert session.run({"x": X}, options=options)[0].tolist() == [1, -2, -3]

    def test_session_without_a_stream_is_refused(self, plugin, stream, negate, relu):
        """ONNX Runtime would crash in the search for the stream to replace."""
        options = zrt.RunOptions(sync_stream=stream)
        elsewhere = [relu, negate([plugin.npu]), negate([(plugin.own, {"claim": "0"})])]
        for session in elsewhere:
            binding = bind(session, {"x": X}, "y")
            for run in (
                lambda session=session: session.run({"x": X}, options=options),
                lambda session=session: session.prepare({"x": X}).run(options),
                lambda session=session: session.lane({"x": (3,)}).run_with(options),
                lambda binding=binding: binding.run(options),
            ):
                with pytest.raises(UnsupportedError, match="this session takes no stream of ZrtTestProvider"):
                    run()
            assert session.run({"x": X})[0].shape == (3,)

    def test_session_whose_output_is_its_input_is_refused(self, plugin, stream, build):
        session = zrt.Session(build("(float[n] x) => (float[n] x, float[n] y) { y = Neg(x) }"), providers=[plugin.own])
        with pytest.raises(UnsupportedError, match="takes no stream"):
            session.run({"x": X}, options=zrt.RunOptions(sync_stream=stream))


def test_stream_of_another_device_is_refused(stream, there, monkeypatch):
    """A provider does not check whose stream it gets."""
    monkeypatch.setattr(zrt.SyncStream, "_reaches", lambda self, value: False)
    with pytest.raises(ArgumentError, match="the copy is between other devices"):
        zrt.copy(X, there, stream)
    assert counts(stream) == [0, 0]
    back = np.zeros(3, np.float32)
    with pytest.raises(ArgumentError, match="the copy is between other devices"):
        zrt.copy_all([(X, back), (X, there)], stream)
    assert not back.any()


@pytest.mark.gpu
class TestCuda:
    @pytest.fixture
    def device(self):
        """CUDA's first device, once its library is registered."""
        environment = zrt.Environment()
        if "cuda" not in environment.provider_libraries:
            environment.register_provider_library("cuda", cuda_parts.provider_file())
        return next(device for device in zrt.ep_devices() if device.library == "cuda")

    def test_copies_on_a_stream(self, device, build):
        session = zrt.Session(build("(float[n] x) => (float[n] y) { y = Neg(x) }"), providers=[device])
        there = zrt.Value.allocate((3,), "float32", session.allocator(device.memory))
        stream = zrt.SyncStream(device)
        assert stream.native_handle
        back = np.empty(3, np.float32)
        zrt.copy(X, there, stream)
        runtime = ctypes.CDLL("libcudart.so.13")
        assert runtime.cudaStreamSynchronize(ctypes.c_void_p(stream.native_handle)) == 0
        stream.release_copies()
        zrt.copy(there, back)
        assert back.tolist() == X.tolist()

    def test_runs_take_no_stream(self, device, build):
        session = zrt.Session(build("(float[n] x) => (float[n] y) { y = Neg(x) }"), providers=[device])
        with pytest.raises(UnsupportedError, match="user_compute_stream"):
            session.run({"x": X}, options=zrt.RunOptions(sync_stream=zrt.SyncStream(device)))
