"""`save_optimized`: the optimized model, written out and loaded back."""

import os

import numpy as np
import onnx
import pytest

import zrt
from benches.models import build
from tests.support import models
from zrt import Session, SessionOptions, save_optimized
from zrt._native.library import library
from zrt.errors import ArgumentError, DTypeError, ModelNotFoundError, UnsupportedError

AS_IT_IS = SessionOptions(graph_optimization_level="DISABLE_ALL", intra_op_num_threads=1)
ONE = SessionOptions(intra_op_num_threads=1, graph_optimization_level="ENABLE_EXTENDED")
IMAGE = [np.random.default_rng(2).random((2, 1, 28, 28), np.float32)]


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return Session(build.cnn(), ONE).run(IMAGE)[0]


def results(model: object, options: SessionOptions = AS_IT_IS) -> np.ndarray:
    return Session(model, options).run(IMAGE)[0]


class TestForms:
    @pytest.mark.parametrize("name", ["m.onnx", "m.ort", "M.ORT", "model"])
    def test_saved_model_gives_the_same_results(self, tmp_path, expected, name):
        save_optimized(build.cnn(), tmp_path / name)
        assert os.listdir(tmp_path) == [name]
        in_ort_format = name.lower().endswith(".ort")
        assert ((tmp_path / name).read_bytes()[4:8] == b"ORTM") == in_ort_format
        for form in (tmp_path / name, (tmp_path / name).read_bytes()):
            if name == "M.ORT" and form == tmp_path / name:
                # ORT chooses the format by the name, and recognizes lower case only.
                options = SessionOptions(config_entries={"session.load_model_format": "ORT"})
                np.testing.assert_array_equal(results(form, options), expected)
            else:
                np.testing.assert_array_equal(results(form), expected)

    def test_saved_model_is_optimized(self, tmp_path):
        save_optimized(build.cnn(), tmp_path / "m.onnx")
        operators = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
        assert "FusedConv" in operators
        assert "Relu" not in operators
        save_optimized(build.cnn(), tmp_path / "m.onnx", AS_IT_IS)
        assert "Relu" in [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]

    @pytest.mark.parametrize("by_policy", [True, False])
    def test_takes_the_providers_of_a_session(self, tmp_path, monkeypatch, expected, by_policy):
        device = next(device for device in zrt.ep_devices() if device.provider == "CPUExecutionProvider")
        providers = zrt.DevicePolicy.PREFER_CPU if by_policy else [device]
        asked = []

        def noted(model, options=None, providers=None, **keywords):
            asked.append(providers)
            return Session(model, options, providers, **keywords)

        # A second session converts the model to ONNX Runtime's own format.
        for name, sessions in (("m.onnx", 1), ("m.ort", 2)):
            with monkeypatch.context() as patch:
                patch.setattr("zrt.session.save_optimized.Session", noted)
                save_optimized(build.cnn(), tmp_path / name, providers=providers)
            assert asked == [providers] * sessions
            asked.clear()
            np.testing.assert_array_equal(results(tmp_path / name), expected)

    def test_weights_of_an_ort_model_in_place(self, tmp_path):
        model = build.mlp(64, 2)
        save_optimized(model, tmp_path / "m.ort")
        x = [np.ones((1, 64), np.float32)]
        expected = Session(model, ONE).run(x)[0]
        in_place = {"session.use_ort_model_bytes_for_initializers": "1"}
        mapped = SessionOptions(config_entries={**in_place, "session.use_memory_mapped_ort_model": "1"})
        held = SessionOptions(config_entries={**in_place, "session.use_ort_model_bytes_directly": "1"})
        data = (tmp_path / "m.ort").read_bytes()
        for session in (Session(tmp_path / "m.ort", mapped), Session(data, held)):
            np.testing.assert_array_equal(session.run(x)[0], expected)

    @pytest.mark.parametrize("smallest", [100, 1024])
    def test_weights_in_a_file_beside_the_model(self, tmp_path, expected, smallest):
        save_optimized(build.cnn(), tmp_path / "m.onnx", weights_file="m.w", weights_from=smallest)
        assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.w"]
        infos = zrt.list_initializers(tmp_path / "m.onnx")
        assert all((info.location == "m.w") == (info.nbytes >= smallest) for info in infos)
        assert os.path.getsize(tmp_path / "m.w") >= sum(info.nbytes for info in infos if info.location)
        for options in (AS_IT_IS, ONE):
            np.testing.assert_array_equal(results(tmp_path / "m.onnx", options), expected)

    def test_weights_in_a_body_are_saved_or_refused_and_nothing_is_replaced(self, tmp_path):
        path = tmp_path / "m.onnx"
        before = models.branches()
        path.write_bytes(before)
        if library().api_version < 31:
            with pytest.raises(UnsupportedError, match="in the body of a loop or a branch so that the result does not"):
                save_optimized(path, path, weights_file="m.w", weights_from=64, in_place=True)
            assert os.listdir(tmp_path) == ["m.onnx"]
            assert path.read_bytes() == before
        else:
            save_optimized(path, path, weights_file="m.w", weights_from=64, in_place=True)
            assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.w"]
        np.testing.assert_array_equal(Session(path).run([np.array(True)])[0], np.ones(64, np.float32))

    @pytest.mark.parametrize("name", ["new.onnx", "new.ort", "elsewhere/new.onnx", "elsewhere/new.ort"])
    def test_weights_outside_the_model_are_found_or_saved(self, tmp_path, name):
        path = models.save_apart(models.weighted(), tmp_path / "m.onnx", "m.w")
        (tmp_path / "elsewhere").mkdir()
        # That of another model, which happens to have this name.
        np.full(64, 7, np.float32).tofile(tmp_path / "elsewhere/m.w")
        x = [np.ones(64, np.float32)]
        for model, arguments in (
            (path, {}),
            (path, {"in_place": True}),
            (path.read_bytes(), {"external_data_dir": tmp_path}),
        ):
            save_optimized(model, tmp_path / name, **arguments)
            np.testing.assert_array_equal(Session(tmp_path / name).run(x)[0], np.arange(1, 65, dtype=np.float32))

    def test_weights_that_stay_outside_are_found_or_refused(self, tmp_path):
        content = onnx.load_model_from_string(models.branches())
        for attribute in content.graph.node[0].attribute:
            onnx.external_data_helper.set_external_data(attribute.g.initializer[0], "m.w")
            attribute.g.initializer[0].ClearField("raw_data")
        np.ones(64, np.float32).tofile(tmp_path / "m.w")
        (tmp_path / "m.onnx").write_bytes(content.SerializeToString())
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/m.w").write_bytes(b"that of another model")
        for name in ("elsewhere/new.onnx", "elsewhere/new.ort", "new.ort"):
            with pytest.raises(UnsupportedError, match=r"path: .*'m\.w'"):
                save_optimized(tmp_path / "m.onnx", tmp_path / name, AS_IT_IS)
            assert not (tmp_path / name).exists()
        save_optimized(tmp_path / "m.onnx", tmp_path / "new.onnx", AS_IT_IS)
        answer = Session(tmp_path / "new.onnx").run([np.array(True)])[0]
        np.testing.assert_array_equal(answer, np.ones(64, np.float32))

    def test_weights_in_files_of_the_caller_go_into_the_new_file(self, tmp_path):
        models.save_apart(models.weighted(), tmp_path / "m.onnx", "given.w")
        held = np.fromfile(tmp_path / "given.w", np.uint8)
        options = SessionOptions(
            external_initializer_files={"given.w": held},
            graph_optimization_level="ENABLE_BASIC",
            profile_file_prefix=tmp_path / "profile",
        )
        save_optimized(
            (tmp_path / "m.onnx").read_bytes(), tmp_path / "n.onnx", options, weights_file="n.w", weights_from=1
        )
        x = [np.ones(64, np.float32)]
        expected = Session(tmp_path / "m.onnx", ONE).run(x)[0]
        np.testing.assert_array_equal(Session(tmp_path / "n.onnx", AS_IT_IS).run(x)[0], expected)
        assert len([*tmp_path.glob("profile*")]) == 1

    def test_weights_of_the_caller_are_saved(self, tmp_path):
        model = build.mlp(64, 1)
        weights = {info.name: np.full(info.shape, 0.5, np.float32) for info in zrt.list_initializers(model)}
        settings = SessionOptions(initializers=weights)
        x = [np.ones((1, 64), np.float32)]
        for name in ("m.onnx", "m.ort"):
            save_optimized(model, tmp_path / name, settings)
            np.testing.assert_array_equal(Session(tmp_path / name).run(x)[0], np.full((1, 64), 32.5, np.float32))

    def test_options_are_unchanged(self, tmp_path):
        options = SessionOptions(config_entries={"session.disable_prepacking": "1"})
        save_optimized(build.cnn(), tmp_path / "m.ort", options)
        assert options == SessionOptions(config_entries={"session.disable_prepacking": "1"})


class TestInPlace:
    def test_model_can_replace_itself(self, tmp_path, expected):
        path = tmp_path / "m.onnx"
        save_optimized(build.cnn(), path, weights_file="m.w", weights_from=100)
        # This session maps the replaced file and continues to use it.
        before = Session(path, AS_IT_IS)
        for _ in range(2):
            save_optimized(path, path, AS_IT_IS, weights_file="m.w", weights_from=100, in_place=True)
        np.testing.assert_array_equal(before.run(IMAGE)[0], expected)
        np.testing.assert_array_equal(results(path), expected)

    def test_model_whose_files_are_links_into_a_store(self, tmp_path):
        """As a hub's cache has them. ONNX Runtime looks for weights beside the link."""
        (tmp_path / "store").mkdir()
        (tmp_path / "model").mkdir()
        models.save_apart(models.weighted(), tmp_path / "store/m.onnx", "m.w")
        (tmp_path / "store/m.onnx").rename(tmp_path / "store/a")
        (tmp_path / "store/m.w").rename(tmp_path / "store/b")
        for name, blob in (("m.onnx", "a"), ("m.w", "b")):
            (tmp_path / "model" / name).symlink_to(tmp_path / "store" / blob)
        path = tmp_path / "model/m.onnx"
        before = {each: each.read_bytes() for each in (tmp_path / "store").iterdir()}
        (tmp_path / "model/other.onnx").symlink_to(tmp_path / "store/c")
        for model, target, named in (
            (path, path, "model/m.onnx"),
            (path, tmp_path / "store/a", "model/m.onnx"),
            (path, tmp_path / "model/other.onnx", "model/other.onnx"),
            (tmp_path / "store/a", path, "model/m.onnx"),
        ):
            given = {"weights_file": "m.w", "weights_from": 64, "in_place": True}
            if model != path:
                # Its weights have another name there.
                given["external_data_dir"] = tmp_path / "model"
            with pytest.raises(ArgumentError, match=rf"weights_file: '.*{named}' leads to '.*store/[ac]'"):
                save_optimized(model, target, AS_IT_IS, **given)
        assert {each: each.read_bytes() for each in (tmp_path / "store").iterdir()} == before
        save_optimized(path, tmp_path / "model/new.onnx", AS_IT_IS)
        save_optimized(path, path, AS_IT_IS, in_place=True)
        assert path.is_symlink()
        save_optimized(path, tmp_path / "model/other.onnx", AS_IT_IS, in_place=True)
        for each in (path, tmp_path / "model/new.onnx", tmp_path / "model/other.onnx", tmp_path / "store/c"):
            answer = Session(each).run([np.ones(64, np.float32)])[0]
            np.testing.assert_array_equal(answer, np.arange(1, 65, dtype=np.float32))

    def test_weights_beside_the_model_would_not_be_found_in_their_folder(self, tmp_path):
        (tmp_path / "weights").mkdir()
        path = models.save_apart(models.weighted(), tmp_path / "m.onnx", "m.w")
        (tmp_path / "m.w").rename(tmp_path / "weights/m.w")
        given = {"external_data_dir": tmp_path / "weights", "in_place": True}
        with pytest.raises(ArgumentError, match=r"weights in '.*weights' would not find"):
            save_optimized(path, path, AS_IT_IS, weights_file="m.w", weights_from=64, **given)
        assert sorted(os.listdir(tmp_path)) == ["m.onnx", "weights"]
        save_optimized(path, path, AS_IT_IS, **given)
        session = Session(path, external_data_dir=tmp_path / "weights")
        assert session.run([np.zeros(64, np.float32)])[0].tolist() == list(range(64))

    def test_weights_without_elements_stay_in_the_model(self, tmp_path):
        text = (
            "(float[n] x) => (float[n] y, float[m] z) <float[1] w = {2}, float[0] e = {}> { y = Mul(x, w) z = Neg(e) }"
        )
        save_optimized(models.parse(text), tmp_path / "s.onnx", AS_IT_IS, weights_file="s.w", weights_from=0)
        arguments = {"external_initializers_file": "c.w", "external_initializers_size_threshold": 0}
        zrt.compile(models.parse(text), tmp_path / "c.onnx", AS_IT_IS, **arguments)
        for name in ("s.onnx", "c.onnx"):
            y, z = Session(tmp_path / name).run([np.ones(3, np.float32)])
            assert (y.tolist(), z.shape) == ([2, 2, 2], (0,))

    def test_failure_leaves_no_files(self, tmp_path):
        (tmp_path / "m.onnx").write_bytes(b"mine")
        with pytest.raises(zrt.Error):
            save_optimized(b"no model" * 9, tmp_path / "m.onnx")
        assert os.listdir(tmp_path) == ["m.onnx"]
        assert (tmp_path / "m.onnx").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("m.onnx", {"weights_file": ".."}, ArgumentError),
        ("m.ort", {"weights_file": "w"}, ArgumentError),
        ("m.onnx", {"in_place": 1}, DTypeError),
        ("m.onnx", {"external_data_dir": "no/such"}, ModelNotFoundError),
    ],
)
def test_bad_arguments_raise(tmp_path, name, arguments, error):
    (culprit,) = arguments
    with pytest.raises(error, match=culprit):
        save_optimized(models.add(), tmp_path / name, **arguments)
    assert os.listdir(tmp_path) == []
