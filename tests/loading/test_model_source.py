"""The sources of models: paths, bytes, `onnx.ModelProto`, external weights, and the errors about them."""

import gc
import mmap
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import zrt
from zrt.errors import Error, FailError, ModelError
from zrt.loading import model_source

X = np.arange(4, dtype=np.float32)


@pytest.fixture
def model(build):
    return build("(float[4] x) => (float[4] y) { y = Neg(x) }")


@pytest.fixture
def path(model, tmp_path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def split(build, tmp_path) -> Path:
    """y = x + w, where w lies in "weights.bin" beside the model."""
    model = build("(float[4] x) => (float[4] y) { y = Add(x, w) }", w=np.full(4, 10, np.float32))
    folder = tmp_path / "split"
    folder.mkdir()
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (folder / "weights.bin").stat().st_size >= 16
    return path


class PathLike:
    def __init__(self, path: str | bytes) -> None:
        self.path = path

    def __fspath__(self) -> str | bytes:
        return self.path


def runs(session: zrt.Session) -> bool:
    return session.run([X])[0].tolist() == (-X).tolist()


class TestSources:
    def test_paths(self, path, monkeypatch):
        for form in (path, str(path), PathLike(str(path)), PathLike(os.fsencode(path))):
            assert runs(zrt.Session(form))
        monkeypatch.chdir(path.parent)
        assert runs(zrt.Session("model.onnx"))

    def test_path_that_is_not_ascii(self, path):
        other = path.with_name("модель 模型.onnx")
        path.rename(other)
        assert runs(zrt.Session(other))

    def test_bytes_and_buffers(self, model):
        data = model.SerializeToString()
        for form in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
            assert runs(zrt.Session(form))

    def test_a_mapped_file(self, path):
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            with memoryview(mapped) as view:
                session = zrt.Session(view)
            assert runs(session)

    def test_a_model_proto(self, model):
        assert runs(zrt.Session(model))

    def test_session_does_not_need_its_source(self, path):
        data = bytearray(path.read_bytes())
        from_bytes, from_path = zrt.Session(data), zrt.Session(path)
        data[:] = b"\xff" * len(data)
        path.unlink()
        assert runs(from_bytes)
        assert runs(from_path)

    def test_session_keeps_borrowed_bytes_alive(self, build, tmp_path):
        file = tmp_path / "model.ort"
        big = build("(float[n, 64] x) => (float[n, 64] y) { y = MatMul(x, w) }", w=np.eye(64, dtype=np.float32))
        saving = zrt.SessionOptions(optimized_model_filepath=file, config_entries={"session.save_model_format": "ORT"})
        zrt.Session(big, saving)
        data = bytearray(file.read_bytes())
        in_place = {"session.use_ort_model_bytes_directly": "1", "session.use_ort_model_bytes_for_initializers": "1"}
        session = zrt.Session(data, zrt.SessionOptions(config_entries=in_place))
        # The session borrows the bytes, so they cannot be resized.
        with pytest.raises(BufferError):
            data.append(0)
        x = np.ones((1, 64), np.float32)
        assert session.run([x])[0].tolist() == x.tolist()
        session.close()
        del session
        gc.collect()
        data.append(0)


class TestExternalData:
    def test_beside_the_path(self, split):
        assert zrt.Session(split).run([X])[0].tolist() == (X + 10).tolist()

    def test_in_a_folder_for_models_in_memory(self, split):
        data = split.read_bytes()
        proto = onnx.load(split, load_external_data=False)
        for folder in (split.parent, str(split.parent), PathLike(os.fsencode(split.parent))):
            for form in (data, proto):
                session = zrt.Session(form, external_data_dir=folder)
                assert session.run([X])[0].tolist() == (X + 10).tolist()

    def test_in_another_folder_than_the_paths(self, split, tmp_path):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (split.parent / "weights.bin").rename(elsewhere / "weights.bin")
        assert zrt.Session(split, external_data_dir=elsewhere).run([X])[0].tolist() == (X + 10).tolist()

    @pytest.mark.parametrize("form", ["path", "bytes"])
    def test_missing(self, split, form):
        (split.parent / "weights.bin").unlink()
        source, subject = (split, str(split)) if form == "path" else (split.read_bytes(), "model in memory")
        with pytest.raises(FailError, match=r"weights\.bin") as caught:
            zrt.Session(source, external_data_dir=split.parent)
        assert subject in str(caught.value)

    def test_bytes_without_a_folder_raise(self, split, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(FailError, match=r"model in memory: .*weights.bin"):
            zrt.Session(split.read_bytes())


def test_path_that_is_no_file_raises(tmp_path):
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "loop.onnx").symlink_to(tmp_path / "loop.onnx")
    for name in ("loop.onnx", "empty.onnx/model.onnx"):
        with pytest.raises(ModelError, match=name):
            zrt.Session(tmp_path / name)


class TestWrongContents:
    def test_type_without_a_kernel(self, build):
        with pytest.raises(Error, match=r"ModelProto: .*Cos"):
            zrt.Session(build("(bfloat16[n] x) => (bfloat16[n] y) { y = Cos(x) }", opset=22))

    def test_a_strided_view(self, model):
        with pytest.raises(ModelError, match="model in memory: "):
            zrt.Session(memoryview(model.SerializeToString())[::2])

    def test_a_released_view(self, model):
        view = memoryview(model.SerializeToString())
        view.release()
        with pytest.raises(ModelError, match=r"model in memory: .*released"):
            zrt.Session(view)


class TestTooLarge:
    def test_a_sparse_file_of_more_than_2_gb(self, tmp_path):
        with open(tmp_path / "large.onnx", "w+b") as file:
            os.truncate(file.fileno(), model_source.LARGEST_IN_MEMORY + 1)
            with (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
                memoryview(mapped) as view,
                pytest.raises(ModelError, match="has 2147483648 bytes, more than the 2 GB that protobuf takes"),
            ):
                zrt.Session(view)

    def test_the_limit_itself_is_not_too_large(self, model, monkeypatch):
        data = model.SerializeToString()
        monkeypatch.setattr(model_source, "LARGEST_IN_MEMORY", len(data))
        assert runs(zrt.Session(data))
        assert runs(zrt.Session(model))
        monkeypatch.setattr(model_source, "LARGEST_IN_MEMORY", len(data) - 1)
        with pytest.raises(ModelError, match=r"model in memory has .* keep its weights outside the model"):
            zrt.Session(data)
        with pytest.raises(ModelError, match=r"ModelProto is larger than the 2 GB .* save_as_external_data"):
            zrt.Session(model)

    def test_a_file_may_be_larger(self, path, monkeypatch):
        monkeypatch.setattr(model_source, "LARGEST_IN_MEMORY", 10)
        assert runs(zrt.Session(path))

    def test_a_proto_that_cannot_be_serialized(self):
        class TooLarge:
            def ByteSize(self):  # noqa: N802
                raise ValueError("exceeds maximum protobuf size of 2GB")

            def SerializeToString(self):  # noqa: N802
                raise AssertionError("is not reached")

        with pytest.raises(ModelError, match=r"ModelProto cannot be serialized \(exceeds maximum"):
            zrt.Session(TooLarge())

    @pytest.mark.parametrize("serialized", [None, "text", 3, [1]], ids=repr)
    def test_a_proto_whose_bytes_are_none(self, serialized):
        class Odd:
            def ByteSize(self):  # noqa: N802
                return 4

            def SerializeToString(self):  # noqa: N802
                return serialized

        with pytest.raises(ModelError, match="ModelProto cannot be serialized"):
            zrt.Session(Odd())

    @pytest.mark.parametrize("dims", [[-1], [2**62, 2**62], [2**40]], ids=str)
    def test_an_initializer_of_an_impossible_shape(self, build, dims):
        model = build("(float[n] x) => (float[n] y) { y = Add(x, w) }")
        model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=bytes(8)))
        with pytest.raises(Error, match="ModelProto: "):
            zrt.Session(model)
