"""The sources of models: paths, bytes, `onnx.ModelProto`, external weights, and the errors about them."""

from __future__ import annotations

import gc
import mmap
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import zrt
from zrt.errors import (
    ArgumentError,
    DTypeError,
    Error,
    FailError,
    InvalidArgumentError,
    InvalidGraphError,
    InvalidProtobufError,
    ModelError,
    ModelNotFoundError,
    NotImplementedByOrtError,
)
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
    model = build("(float[4] x) => (float[4] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.full(4, 10, np.float32), "w"))
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

    def test_a_link(self, path):
        link = path.with_name("link.onnx")
        link.symlink_to(path)
        assert runs(zrt.Session(link))

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
        big = build("(float[n, 64] x) => (float[n, 64] y) { y = MatMul(x, w) }")
        big.graph.initializer.append(numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
        saving = zrt.SessionOptions(optimized_model_filepath=file, config_entries={"session.save_model_format": "ORT"})
        zrt.Session(big, saving)
        data = bytearray(file.read_bytes())
        in_place = {
            "session.use_ort_model_bytes_directly": "1",
            "session.use_ort_model_bytes_for_initializers": "1",
        }
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

    @pytest.mark.parametrize("size", [0, 1, 15])
    @pytest.mark.parametrize("form", ["path", "bytes"])
    def test_truncated(self, split, size, form):
        os.truncate(split.parent / "weights.bin", size)
        source, subject = (split, str(split)) if form == "path" else (split.read_bytes(), "model in memory")
        with pytest.raises(FailError, match=r"weights\.bin|initializer|external") as caught:
            zrt.Session(source, external_data_dir=split.parent)
        assert subject in str(caught.value)
        (split.parent / "weights.bin").write_bytes(np.full(4, 20, np.float32).tobytes())
        assert zrt.Session(split).run([X])[0].tolist() == (X + 20).tolist()

    @pytest.mark.parametrize(
        ("folder", "error", "message"),
        [
            ("/nowhere/at/all", ModelNotFoundError, "external_data_dir '/nowhere/at/all': there is no such folder"),
            (5, DTypeError, "external_data_dir: expected a path, got int 5"),
            ("a\0b", ArgumentError, "external_data_dir: .*NUL"),
        ],
    )
    def test_missing_folder_raises(self, split, folder, error, message):
        with pytest.raises(error, match=message):
            zrt.Session(split, external_data_dir=folder)

    def test_file_as_folder_raises(self, split):
        with pytest.raises(ModelNotFoundError, match="there is no such folder"):
            zrt.Session(split, external_data_dir=split)


class TestWrongPaths:
    def test_missing(self, tmp_path):
        with pytest.raises(ModelNotFoundError, match=r"model '.*nowhere\.onnx': there is no such file") as caught:
            zrt.Session(tmp_path / "nowhere.onnx")
        assert isinstance(caught.value, FileNotFoundError)

    def test_a_directory(self, tmp_path):
        with pytest.raises(ModelError, match="is a directory"):
            zrt.Session(tmp_path)

    def test_empty(self, tmp_path):
        (tmp_path / "empty.onnx").touch()
        with pytest.raises(ModelError, match=r"empty\.onnx' is empty"):
            zrt.Session(tmp_path / "empty.onnx")

    def test_unreadable(self, tmp_path):
        loop = tmp_path / "loop.onnx"
        loop.symlink_to(loop)
        with pytest.raises(ModelError, match=r"loop\.onnx' cannot be read: .*symbolic links"):
            zrt.Session(loop)

    def test_below_a_file(self, path):
        with pytest.raises(Error, match=r"model\.onnx/model\.onnx'"):
            zrt.Session(path / "model.onnx")

    def test_too_long(self, tmp_path):
        with pytest.raises(ModelError, match="cannot be read: File name too long"):
            zrt.Session(tmp_path / ("x" * 300))

    def test_nul(self):
        with pytest.raises(ArgumentError, match="NUL"):
            zrt.Session("a\0b.onnx")

    @pytest.mark.parametrize(
        "thing", [None, 5, 1.5, ["model.onnx"], object(), np.zeros(3, np.uint8)], ids=lambda thing: type(thing).__name__
    )
    def test_wrong_type_raises(self, thing):
        with pytest.raises(DTypeError, match=r"model: expected a path, bytes or an onnx\.ModelProto, got"):
            zrt.Session(thing)


class TestWrongContents:
    @pytest.mark.parametrize("data", [b"no model", b"\x00" * 100, b"\xff" * 1000], ids=["text", "zeros", "ones"])
    def test_corrupt(self, data, tmp_path):
        file = tmp_path / "corrupt.onnx"
        file.write_bytes(data)
        for form, subject in ((data, "model in memory"), (file, "corrupt.onnx")):
            with pytest.raises(Error, match=subject) as caught:
                zrt.Session(form)
            assert isinstance(caught.value, (InvalidProtobufError, FailError, InvalidArgumentError, InvalidGraphError))

    def test_truncated_anywhere(self, path):
        data = path.read_bytes()
        for size in range(1, len(data), 3):
            path.write_bytes(data[:size])
            for form in (data[:size], path):
                # A cut between two fields may leave a whole message, which is a model without its end.
                with pytest.raises(Error, match="model"):
                    zrt.Session(form)
            assert runs(zrt.Session(data))
        path.write_bytes(data)
        assert runs(zrt.Session(path))

    def test_flipped_bits_raise_or_load_and_the_good_model_stays_good(self, path):
        data = path.read_bytes()
        refused = 0
        for place in range(len(data)):
            broken = bytearray(data)
            broken[place] ^= 0x41
            # Some damage leaves a valid model: the load gives a session or a typed error.
            try:
                zrt.Session(broken, zrt.SessionOptions(log_severity_level="FATAL")).close()
            except Error:
                refused += 1
            assert runs(zrt.Session(data))
        assert refused

    @pytest.mark.parametrize("data", [b"", bytearray(), memoryview(b"")], ids=lambda data: type(data).__name__)
    def test_empty_bytes(self, data):
        with pytest.raises(ModelError, match="model in memory is empty"):
            zrt.Session(data)

    def test_a_strided_view(self, model):
        with pytest.raises(ModelError, match="model in memory: "):
            zrt.Session(memoryview(model.SerializeToString())[::2])

    def test_a_released_view(self, model):
        view = memoryview(model.SerializeToString())
        view.release()
        with pytest.raises(ModelError, match=r"model in memory: .*released"):
            zrt.Session(view)

    def test_an_ir_version_that_is_too_new(self, model, tmp_path):
        model.ir_version = 99
        onnx.save(model, tmp_path / "new.onnx")
        for form in (model, model.SerializeToString(), tmp_path / "new.onnx"):
            with pytest.raises(
                ModelError, match=r"(?s)is written in a newer form than this library reads .*ir_version"
            ):
                zrt.Session(form)
        model.ir_version = 10
        assert runs(zrt.Session(model))

    def test_an_opset_that_is_too_new(self, model):
        model.opset_import[0].version = 999
        with pytest.raises(Error, match=r"ModelProto: .*opset"):
            zrt.Session(model)

    def test_unknown_operator_raises(self, model):
        model.graph.node[0].op_type = "Nonesuch"
        with pytest.raises((InvalidGraphError, FailError), match=r"ModelProto: .*Nonesuch"):
            zrt.Session(model)

    def test_an_operator_without_a_kernel_for_its_types(self, build):
        with pytest.raises(NotImplementedByOrtError, match=r"ModelProto: .*Cos"):
            zrt.Session(build("(bfloat16[n] x) => (bfloat16[n] y) { y = Cos(x) }", opset=22))

    def test_cyclic_graph_raises(self, build):
        with pytest.raises(Error, match="ModelProto: "):
            zrt.Session(build("(float[n] x) => (float[n] z) { y = Add(x, z)  z = Neg(y) }"))

    def test_wrong_output_type_raises(self, build):
        with pytest.raises(FailError, match=r"ModelProto: .*Type"):
            zrt.Session(build("(float[n] x) => (int64[n] y) { y = Neg(x) }"))

    def test_complex_numbers(self, build):
        with pytest.raises(Error, match=r"ModelProto: .*complex64"):
            zrt.Session(build("(complex64[n] x) => (complex64[n] y) { y = Identity(x) }"))

    def test_a_failed_load_leaves_nothing_behind(self, model, tmp_path):
        for _ in range(20):
            with pytest.raises(InvalidProtobufError):
                zrt.Session(b"no model")
            assert runs(zrt.Session(model))


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

    def test_the_limit_is_protobufs(self):
        assert model_source.LARGEST_IN_MEMORY == 2**31 - 1

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

    def test_an_initializer_with_too_little_data(self, build):
        model = build("(float[4] x) => (float[4] y) { y = Add(x, w) }")
        model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], raw_data=bytes(8)))
        with pytest.raises(Error, match="ModelProto: "):
            zrt.Session(model)

    @pytest.mark.parametrize("dims", [[-1], [2**62, 2**62], [2**40]], ids=str)
    def test_an_initializer_of_an_impossible_shape(self, build, dims):
        model = build("(float[n] x) => (float[n] y) { y = Add(x, w) }")
        model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=bytes(8)))
        with pytest.raises(Error, match="ModelProto: "):
            zrt.Session(model)
