"""`SessionOptions.trusted_folders`: weights of a model that lie in other folders than the model."""

import errno
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import zrt
import zrt.onnxruntime as drop_in
from tests.support.models import parsed
from zrt.errors import ArgumentError, Error, FailError, InvalidGraphError, ModelError

WEIGHTS = np.arange(4096, dtype=np.float32).reshape(64, 64)
X = np.eye(64, dtype=np.float32)
QUIET = {"log_severity_level": "FATAL"}

Save = Callable[..., Path]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with weights."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store/w").write_bytes(WEIGHTS.tobytes())
    return tmp_path / "store"


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes y = x @ w, with w in the file of the location."""

    def save(location: str = "w", array: Any = WEIGHTS, path: str = "model/m.onnx", **entries: object) -> Path:
        text = "(float[n, 64] x) => (float[n, 64] y) { v = Cast<to = 1>(w) y = MatMul(x, v) }"
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> m {text}')
        weight = model.graph.initializer.add()
        weight.CopyFrom(numpy_helper.from_array(array, "w"))
        places = {"location": location, "offset": 0, "length": len(weight.raw_data), **entries}
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        for key, value in places.items():
            weight.external_data.add(key=key, value=str(value))
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(model.SerializeToString())
        return file

    return save


@pytest.fixture
def linked(save: Save, store: Path) -> Path:
    """A model beside which the weights are a link into the store."""
    model = save("w")
    (model.parent / "w").symlink_to("../store/w")
    return model


def load(model: Any, *trusted: Path | str, **more: Any) -> zrt.Session:
    return zrt.Session(model, zrt.SessionOptions(trusted_folders=list(trusted), **QUIET), **more)


def weights(session: zrt.Session) -> Any:
    return session.run([X])[0]


class TestPlaces:
    @pytest.mark.parametrize(("location", "links"), [
        ("w", {"w": "{}/store/w"}), ("sub/w", {"sub": "../store"}),
        ("sub/../w", {"sub": "../store/below", "store/w": None}), ("../store/w", {}), ("{}/store/w", {}),
        ("{}/model/w", {"w": "v", "v": "../store/w"}),
    ])  # fmt: skip
    def test_of_weights_in_the_store(self, save, store, tmp_path, location, links):
        (store / "below").mkdir()
        model = save(location.format(tmp_path))
        for name, target in links.items():
            if target:
                (model.parent / name).symlink_to(target.format(tmp_path))
        np.testing.assert_array_equal(weights(load(model, store)), WEIGHTS)
        place = re.escape(f"leads to '{store}/w', outside the model's folder '{model.parent}'")
        for trusted, error in (([], FailError), ([model.parent], ModelError)):
            with pytest.raises(error, match=rf"m\.onnx': initializer 'w': file .* {place}.* trusted_folders"):
                load(model, *trusted)

    def test_of_a_model_that_is_a_link(self, save, store, tmp_path):
        """As in the cache of a hub: all of a model's files are links to files that are named by their content."""
        save("w", path="blobs/0a")
        (store / "w").rename(tmp_path / "blobs/0b")
        (tmp_path / "snapshot").mkdir()
        for name, blob in (("m.onnx", "0a"), ("w", "0b")):
            (tmp_path / "snapshot" / name).symlink_to(f"../blobs/{blob}")
        for trusted in ([], [store]):
            np.testing.assert_array_equal(weights(load(tmp_path / "snapshot/m.onnx", *trusted)), WEIGHTS)
        assert zrt.read_weights(tmp_path / "snapshot/m.onnx").keys() == {"w"}

    @pytest.mark.parametrize("name", ["small", "embedded"])
    def test_beside_the_caller_s_in_a_model_that_is_a_link(self, tmp_path, name):
        """They are written into the model, whose own weights lie where the link leads to."""
        arrays = {"w": WEIGHTS, "small": np.zeros(1, np.float32), "embedded": np.zeros((64, 64), np.int8)}
        parts = "v = MatMul(x, w) u = Add(v, small) e = Cast<to = 1>(embedded) y = Add(u, e)"
        content = parsed(f"(float[n, 64] x) => (float[n, 64] y) {{ {parts} }}", **arrays)
        for folder in ("blobs", "snapshot"):
            (tmp_path / folder).mkdir()
        outside = {"location": "w.bin", "size_threshold": WEIGHTS.nbytes}
        onnx.save(content, tmp_path / "blobs/0a", save_as_external_data=True, **outside)
        (tmp_path / "blobs/w.bin").rename(tmp_path / "blobs/0b")
        model = tmp_path / "snapshot/m.onnx"
        model.symlink_to("../blobs/0a")
        (tmp_path / "snapshot/w.bin").symlink_to("../blobs/0b")
        given = {name: arrays[name] + 1}
        session = zrt.Session(model, zrt.SessionOptions(initializers=given, **QUIET))
        np.testing.assert_array_equal(weights(session), WEIGHTS + 1)
        settings = drop_in.SessionOptions()
        settings.add_initializer(name, drop_in.OrtValue.ortvalue_from_numpy(given[name]))
        session = drop_in.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], WEIGHTS + 1)

    def test_unused_one_of_a_linked_model_may_be_missing(self, tmp_path):
        """As in a model that is no link: large weights of the caller do not change it."""
        content = parsed("(float[n, 64] x) => (float[n, 64] y) { y = MatMul(x, w) }", w=WEIGHTS, unused=WEIGHTS)
        onnx.save(content, tmp_path / "0a", save_as_external_data=True, location="w.bin")
        (tmp_path / "w.bin").unlink()
        (tmp_path / "m.onnx").symlink_to("0a")
        session = zrt.Session(tmp_path / "m.onnx", zrt.SessionOptions(initializers={"w": WEIGHTS + 1}, **QUIET))
        np.testing.assert_array_equal(weights(session), WEIGHTS + 1)

    def test_above_the_target_of_a_link(self, save, store, tmp_path):
        for folder, sign in (("near", -1), ("far/folder", -1), ("far", 1)):
            save("w", path=f"{folder}/m.onnx")
            (tmp_path / folder / "w").write_bytes((sign * WEIGHTS).tobytes())
        (tmp_path / "near/link").symlink_to(tmp_path / "far/folder")
        model = tmp_path / "near/link/../m.onnx"
        for session in (load(model, store), zrt.SessionSpec(model).load(), load(model)):
            np.testing.assert_array_equal(weights(session), WEIGHTS)
        np.testing.assert_array_equal(zrt.read_weights(model)["w"].numpy(), WEIGHTS)
        assert zrt.fingerprint(model) == zrt.fingerprint(tmp_path / "far/m.onnx")

    def test_of_a_model_in_memory(self, linked, store, monkeypatch):
        """Its paths start from the folder of its weights, or from the current one, and lead nowhere above it."""
        model = linked.read_bytes()
        session = load(model, store, external_data_dir=linked.parent)
        np.testing.assert_array_equal(weights(session), WEIGHTS)
        monkeypatch.chdir(linked.parent)
        for trusted in (store, "../store"):
            np.testing.assert_array_equal(weights(load(model, trusted)), WEIGHTS)
        with pytest.raises(ModelError, match="outside the model's folder"):
            load(model, linked.parent)
        with pytest.raises(ModelError, match="outside the model's folder"):
            zrt.read_weights(model)

    def test_in_a_folder_that_is_gone(self, linked, store, monkeypatch):
        (store / "gone").mkdir()
        monkeypatch.chdir(store / "gone")
        (store / "gone").rmdir()
        with pytest.raises(ModelError, match="the current folder"):
            load(linked.read_bytes(), store)

    def test_hard_links_are_files_of_the_model_s_folder(self, save, store, tmp_path):
        model = save("w")
        (model.parent / "w").hardlink_to(store / "w")
        np.testing.assert_array_equal(weights(load(model, tmp_path / "store")), WEIGHTS)


class TestWeights:
    @pytest.mark.parametrize("dtype", ["float16", "double", "int4"])
    @pytest.mark.parametrize("offset", [0, 1, 8])
    @pytest.mark.parametrize("rows", [64, 1, 0])
    def test_of_every_size_and_alignment(self, save, store, dtype, offset, rows):
        array = np.arange(rows * 64).reshape(rows, 64) % 7
        tensor = onnx.helper.make_tensor("w", getattr(onnx.TensorProto, dtype.upper()), array.shape, array.reshape(-1))
        data = numpy_helper.from_array(numpy_helper.to_array(tensor), "w").raw_data
        (store / "odd").write_bytes(b"\1" * offset + data)
        model = save("../store/odd", numpy_helper.to_array(tensor), offset=offset)
        x = np.eye(rows, dtype=np.float32)
        content = onnx.load(model, load_external_data=False)
        content.graph.input[0].type.tensor_type.shape.dim[1].dim_value = rows
        model.write_bytes(content.SerializeToString())
        np.testing.assert_array_equal(load(model, store).run([x])[0], array)

    def test_that_runs_override(self, linked, store):
        content = onnx.load(linked, load_external_data=False)
        content.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [64, 64]))
        linked.write_bytes(content.SerializeToString())
        session = load(linked, store)
        np.testing.assert_array_equal(session.run({"x": X})[0], WEIGHTS)
        np.testing.assert_array_equal(session.run({"x": X, "w": X})[0], X)

    def test_of_the_caller_s_come_first(self, linked, store):
        (linked.parent / "w").unlink()
        for own in ({"initializers": {"w": X}}, {"external_initializer_files": {"w": X.tobytes()}}):
            options = zrt.SessionOptions(trusted_folders=[store], **own, **QUIET)
            np.testing.assert_array_equal(weights(zrt.Session(linked, options)), X)

    def test_of_a_subgraph_stay_onnx_runtime_s(self, build, save, store):
        branch = "{ y = Add(x, v) }"
        model = build(f"(bool c, float[n] x) => (float[n] y) {{ y = If(c) <then_branch = a () => (y) {branch}, "
                      f"else_branch = b () => (y) {branch}> }}")  # fmt: skip
        for attribute in model.graph.node[0].attribute:
            weight = attribute.g.initializer.add(name="v", data_type=1, dims=[1], data_location=1)
            weight.external_data.add(key="location", value="../store/w")
        path = save("w").with_name("branches.onnx")
        path.write_bytes(model.SerializeToString())
        with pytest.raises(InvalidGraphError, match="tensor name: v"):
            load(path, store)

    def test_are_released_with_the_session(self, linked, store):
        def files() -> int:
            return len(os.listdir("/dev/fd"))

        before = files()
        session = load(linked, store)
        # The file of the weights is mapped, and not open: a model may have more files than a process may open.
        assert files() - before == files_of_a_session(linked, before)
        session.close()
        assert files() == before

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_are_mapped(self, linked, store):
        """Processes share their pages: the session reads those of the file, and has no copies of them."""

        def mappings() -> list[str]:
            return re.findall(rf"r--p .* {store}/w\n(?:\w+: .*\n)*", Path("/proc/self/smaps").read_text())

        session = load(linked, store)
        weights(session)
        (mapping,) = mappings()
        sizes = {name: int(size) for name, size in re.findall(r"(\w+): +(\d+) kB", mapping)}
        assert (sizes["Rss"], sizes["Anonymous"]) == (16, 0)
        session.close()
        assert not mappings()


def files_of_a_session(linked: Path, before: int) -> int:
    """The descriptors that ONNX Runtime keeps for a session of a model without weights in files."""
    options = zrt.SessionOptions(initializers={"w": WEIGHTS}, **QUIET)
    session = zrt.Session(linked, options)
    count = len(os.listdir("/dev/fd")) - before
    session.close()
    return count


class TestAttacks:
    @pytest.mark.parametrize(("entries", "says"), [
        ({"offset": -4}, None), ({"offset": 2**62}, "ends .* too soon"), ({"offset": 10**30}, None),
        ({"offset": 4}, "ends 4 bytes too soon"), ({"length": 2**62}, None), ({"length": -1}, None),
        ({"location": "w\0/etc/hostname"}, None), ({"location": "a\nb"}, r"a\\nb.*No such file"),
        ({"location": ""}, "Is a directory"), ({"location": "w/"}, "Not a directory"),
        ({"location": "./" * 5000 + "w"}, "too long"), ({"location": "../store/pipe"}, "Not a regular file"),
        ({"location": "/dev/zero"}, "outside the model's folder"),
        ({"location": "../store/loop"}, os.strerror(errno.ELOOP)),
        ({"location": "../store/empty"}, "ends 16384 bytes too soon"),
    ])  # fmt: skip
    def test_by_a_model(self, save, store, entries, says):
        os.mkfifo(store / "pipe")
        (store / "loop").symlink_to("loop")
        (store / "empty").touch()
        model = save(**entries)
        (model.parent / "w").symlink_to("../store/w")
        # Without words of its own zrt leaves the refusal to ONNX Runtime.
        with pytest.raises(ModelError if says else Error, match=says):
            load(model, store)
        with pytest.raises(ModelError):
            zrt.read_weights(model, trusted_folders=[store])

    @pytest.mark.parametrize("location", ["w", "folder/w"])
    def test_by_a_link_that_changes(self, save, store, tmp_path, background, location):
        """Each load gets the weights of the store or an error, never a file from outside."""
        model = save(location)
        link, *below = Path(location).parts
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret/w").write_bytes(np.full_like(WEIGHTS, 13).tobytes())
        ended = threading.Event()

        def flip() -> None:
            while not ended.is_set():
                for target in ("secret", "store"):
                    (tmp_path / "link").symlink_to(Path("..", target, *([] if below else ["w"])))
                    (tmp_path / "link").replace(model.parent / link)

        flipping = background(flip)
        results = {"right": 0, "refused": 0}
        try:
            while flipping.running and min(results.values()) < 5:
                try:
                    np.testing.assert_array_equal(weights(load(model, store)), WEIGHTS)
                    results["right"] += 1
                except ModelError:
                    results["refused"] += 1
        finally:
            ended.set()
            flipping.result()

    def test_by_a_file_that_shrinks_during_the_load(self, linked, store, monkeypatch):
        real = os.dup

        def shrinking(file: int) -> int:
            os.truncate(store / "w", 4)
            return real(file)

        monkeypatch.setattr(os, "dup", shrinking)
        with pytest.raises(ModelError, match=r"initializer 'w': .*takes 16384 bytes"):
            load(linked, store)


class TestOptions:
    def test_as_data(self, linked, store, monkeypatch):
        monkeypatch.chdir(store.parent)
        file = store.parent / "options.json"
        file.write_text(json.dumps({"session": {"trusted_folders": ["store"], **QUIET}}))
        options = zrt.load_options(file).session
        spec = zrt.SessionSpec(linked, options)
        monkeypatch.chdir("/")
        assert spec.options.trusted_folders == [str(store)]
        np.testing.assert_array_equal(weights(spec.load()), WEIGHTS)

    def test_everywhere_that_loads(self, linked, store, tmp_path):
        options = zrt.SessionOptions(trusted_folders=[store], **QUIET)
        for share in (False, True):
            for lane in zrt.Runtime.replicate(linked, 2, options, share_weights=share, shapes=[(64, 64)]):
                lane.inputs["x"][:] = X
                lane.run()
                np.testing.assert_array_equal(lane.outputs["y"], WEIGHTS)
        zrt.save_optimized(linked, tmp_path / "saved.onnx", options)
        zrt.compile(linked, tmp_path / "compiled.onnx", options=options)
        for name in ("saved.onnx", "compiled.onnx"):
            np.testing.assert_array_equal(weights(zrt.Session(tmp_path / name)), WEIGHTS)

    def test_fingerprints(self, linked, store, tmp_path):
        """Also those that optimized models and capsules carry."""
        with pytest.raises(ModelError, match=r"initializer 'w': file 'w' leads to .*trusted_folders"):
            zrt.fingerprint(linked)
        print_of_linked = zrt.fingerprint(linked, trusted_folders=[store])
        assert print_of_linked == zrt.fingerprint(onnx.load(linked, load_external_data=False), external_data_dir=store)
        options = zrt.SessionOptions(trusted_folders=[store], **QUIET)
        zrt.save_optimized(linked, tmp_path / "saved.onnx", options)
        zrt.compile(linked, tmp_path / "compiled.onnx", options=options)
        for name in ("saved.onnx", "compiled.onnx"):
            origin = json.loads(zrt.Session(tmp_path / name).metadata.custom_metadata_map["zrt.origin"])
            assert (origin["graph"], origin["weights"]) == (print_of_linked.graph, print_of_linked.weights)
        session = zrt.Session(linked, options)
        with session.record(capsules=tmp_path / "capsules", slower_than=1e-9):
            session.run({"x": X})
        [capsule] = (tmp_path / "capsules").iterdir()
        # A replay trusts no folder, since the capsule may be somebody else's. A copy of the weights is of the model.
        assert "outside the model's folder" in (zrt.replay(capsule).error_now or "")
        (linked.parent / "w").unlink()
        for weights, changed in ((WEIGHTS, False), (WEIGHTS + 1, True)):
            (linked.parent / "w").write_bytes(weights.tobytes())
            found = zrt.replay(capsule)
            assert found.error_now is None
            assert any("fingerprint" in each for each in found.differences) is changed

    def test_folders_are_checked_without_external_weights_too(self, build, tmp_path):
        model = build("(float[n] x) => (float[n] y) { y = Neg(x) }")
        load(model, tmp_path)
        with pytest.raises(ArgumentError, match=r"trusted_folders: .*absent"):
            load(model, tmp_path / "absent")

    def test_model_in_onnx_runtime_s_own_format(self, build, tmp_path):
        zrt.save_optimized(build("(float[n] x) => (float[n] y) { y = Neg(x) }"), tmp_path / "m.ort")
        assert load(tmp_path / "m.ort", tmp_path).run([np.ones(1, np.float32)])[0] == -1

    def test_variable_of_the_drop_in(self, linked, store, tmp_path, monkeypatch):
        def run(*options: Any) -> Any:
            session = drop_in.InferenceSession(linked, *options, providers=["CPUExecutionProvider"])
            return session.run(None, {"x": X})[0]

        with pytest.raises(drop_in.capi.onnxruntime_pybind11_state.Fail, match=f"{store}/w.*ZRT_TRUSTED_FOLDERS"):
            run()
        (tmp_path / "other").mkdir()
        monkeypatch.setenv("ZRT_TRUSTED_FOLDERS", os.pathsep.join(["", str(tmp_path / "other"), str(store)]))
        np.testing.assert_array_equal(run(), WEIGHTS)
        np.testing.assert_array_equal(run(drop_in.SessionOptions()), WEIGHTS)
