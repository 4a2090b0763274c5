"""`SessionOptions.cache`: later loads map the optimized model of an earlier one."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest

import zrt
from tests.session.cached import X, entries
from tests.session.cached import at_once as at_once
from tests.session.cached import folder as folder
from tests.session.cached import load as load
from tests.session.cached import model as model
from tests.session.cached import settle as settle
from tests.session.chains import CHAIN, chain, finish
from tests.support import models
from tests.support.together import in_threads
from zrt.loading import cache, cache_entry


class TestHits:
    def test_second_load_maps_the_first_ones_work(self, load, model, folder):
        assert [load(model), load(model)] == ["miss", "hit"]
        session = zrt.Session(model, zrt.SessionOptions(cache=folder, intra_op_num_threads=1))
        assert session.cache == "hit"
        if sys.platform == "linux":
            assert str(entries(folder)[0]) in Path("/proc/self/maps").read_text()

    def test_moved_and_copied_models_hit(self, load, model, tmp_path):
        load(model)
        (tmp_path / "other").mkdir()
        assert load(shutil.copy(model, tmp_path / "other" / "copy.onnx")) == "hit"
        assert load(model.rename(tmp_path / "moved.onnx")) == "hit"
        assert load((tmp_path / "moved.onnx").read_bytes()) == "hit"

    @pytest.mark.parametrize(
        "other",
        [{"enable_mem_pattern": False}, {"graph_optimization_level": "ENABLE_BASIC"}, {"config_entries": {"a": "b"}}],
    )
    def test_other_options_miss(self, load, model, other):
        load(model)
        assert load(model, options=other) == "miss"

    def test_options_without_effect_hit(self, load, model):
        load(model)
        options = {"logid": "named", "logger": "zrt.test", "load_cancellation": zrt.LoadCancellation()}
        assert load(model, options=options, providers=["CPUExecutionProvider"]) == "hit"

    def test_changed_model_of_the_same_size_misses(self, load, model):
        load(model)
        model.write_bytes(chain(2))
        assert load(model, 320) == "miss"
        assert load(model, 320) == "hit"

    def test_changed_weight_file_misses(self, load, tmp_path):
        for scale, expected in ((1, 160), (2, 320)):
            path = models.save_apart(chain(scale), tmp_path / "apart.onnx", "apart.weights")
            assert load(path, expected) == "miss"
            assert load(path, expected) == "hit"
            assert load(path.read_bytes(), expected, external_data_dir=tmp_path) == "hit"

    def test_changed_part_of_a_sparse_weight_misses(self, load, tmp_path):
        """ONNX Runtime reads the numbers of a sparse weight from another file, too."""
        text = CHAIN.replace("(x, w)", "(x, v)").replace("{", "{ v = Neg(w)")
        path = models.save_sparse_apart(text, (160, 160), tmp_path / "sparse.onnx", "values")
        for scale, expected in ((1, 160), (2, 320)):
            np.full(160 * 160, -scale, np.float32).tofile(tmp_path / "values")
            assert load(path, expected) == "miss"
            assert load(path, expected) == "hit"

    def test_weights_above_the_target_of_a_link(self, load, tmp_path):
        (tmp_path / "far/folder").mkdir(parents=True)
        (tmp_path / "near").mkdir()
        (tmp_path / "near/link").symlink_to(tmp_path / "far/folder")
        for name, scale in (("near", 1), ("far", 2)):
            path = models.save_apart(chain(scale), tmp_path / name / "apart.onnx", "apart.weights")
        place = f"{tmp_path}/near/link/.."
        model = path.read_bytes()
        assert load(model, 320, external_data_dir=place) == "miss"
        assert load(model, 320, external_data_dir=place) == "hit"
        assert load(f"{place}/apart.onnx", 320) == "hit"

    def test_linked_weights_hit(self, load, tmp_path):
        path = models.save_apart(chain(), tmp_path / "apart.onnx", "apart.weights")
        store = tmp_path / "store"
        store.mkdir()
        (tmp_path / "apart.weights").rename(store / "blob")
        (tmp_path / "apart.weights").symlink_to(store / "blob")
        trusted = {"trusted_folders": [store]}
        assert [load(path, options=trusted), load(path, options=trusted)] == ["miss", "hit"]

    def test_files_outside_of_the_folder_are_not_read(self, load, tmp_path, folder, settle):
        """ONNX Runtime refuses them."""
        (tmp_path / "model").mkdir()
        good = models.save_apart(chain(), tmp_path / "model/apart.onnx", "apart.weights")
        assert [load(good), load(good)] == ["miss", "hit"]
        weights = tmp_path / "model/apart.weights"
        weights.rename(tmp_path / "secret")
        weights.symlink_to(tmp_path / "secret")
        (tmp_path / "secret").write_bytes(b"private")
        settle(tmp_path / "secret")
        with pytest.raises(zrt.errors.FailError, match="outside"):
            load(good)
        digest = hashlib.sha256(b"private").hexdigest()
        assert not any(digest in each.read_text("utf-8") for each in folder.rglob("*.note"))
        assert any(folder.rglob("*.note"))

    @pytest.mark.parametrize("change", ["version", "build_info"])
    def test_other_library_misses(self, load, model, monkeypatch, change):
        load(model)
        real = cache.library()
        other = type("Other", (), {"version": real.version, "build_info": real.build_info, change: "other"})
        monkeypatch.setattr(cache, "library", other)
        assert load(model) == "miss"

    def test_unchanged_files_are_not_read_again(self, load, model, folder, settle, monkeypatch):
        load(model)
        settle(model, *entries(folder))
        load(model)
        read = []
        digest = hashlib.file_digest
        monkeypatch.setattr(hashlib, "file_digest", lambda file, kind: (read.append(file.name), digest(file, kind))[1])
        assert load(model) == "hit"
        assert not read
        # This changes the file's ctime, so it may have other contents.
        model.chmod(0o600)
        assert load(model) == "hit"
        assert read == [str(model)]

    def test_notes_that_cannot_be_changed_hold(self, load, model, folder, settle, monkeypatch):
        load(model)
        settle(model, *entries(folder))
        load(model)

        def refuse(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr(os, "utime", refuse)
        monkeypatch.delattr(hashlib, "file_digest")
        assert load(model) == "hit"

    @pytest.mark.parametrize("weights", ["outside", "inside"])
    def test_models_with_graphs_inside_hit(self, folder, weights):
        large = np.arange(40_000, dtype=np.float32)
        text = """(bool c, float[40000] x) => (float[40000] y) {
            y = If (c) <then_branch = yes () => (float[40000] a) { a = Add(x, w) },
                        else_branch = no () => (float[40000] b) { b = Mul(x, w) }>
        }"""
        content = models.parse(text, w=large)
        if weights == "inside":
            loaded = onnx.load_model_from_string(content)
            for attribute in loaded.graph.node[0].attribute:
                attribute.g.initializer.extend(loaded.graph.initializer)
            del loaded.graph.initializer[:]
            content = loaded.SerializeToString()
        options = zrt.SessionOptions(cache=folder, intra_op_num_threads=1)
        states = []
        for _ in range(2):
            session = zrt.Session(content, options)
            finish()
            states.append(session.cache)
            assert np.array_equal(session.run({"c": np.array(True), "x": large})[0], large * 2)
        assert states == ["miss", "hit"]

    def test_models_with_packed_inputs_hit(self, folder):
        text = "(int4[40000] x) => (float[40000] y) { h = Cast <to = 1> (x) y = Add(h, w) }"
        model = models.parse(text, w=np.ones(40_000, np.float32))
        options = zrt.SessionOptions(cache=folder)
        zrt.Session(model, options).close()
        finish()
        assert zrt.Session(model, options).cache == "hit"


class TestWays:
    def test_variable_serves_sessions_lanes_and_the_drop_in(self, model, folder, cache_variable, monkeypatch):
        import zrt.onnxruntime as ort

        cache_variable(str(folder))
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        for expected in ("miss", "hit"):
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            finish()
            assert session._session.cache == expected
            assert session.run(None, {"x": X})[0][0, 0] == 160
        runtime = zrt.Runtime.replicate(model, 2, zrt.SessionOptions(intra_op_num_threads=1), shapes=[(1, 160)])
        assert [lane.session.cache for lane in runtime] == ["hit", "hit"]
        cache_variable("0")
        assert zrt.Session(model).cache is None
        cache_variable("1")
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "home"))
        assert zrt.Session(model, zrt.SessionOptions(cache=False)).cache is None
        if sys.platform == "linux":
            assert zrt.Session(model).cache == "miss"
            finish()
            assert len(entries(folder.parent / "home" / "zrt")) == 1

    def test_spec_takes_it_to_another_place(self, model, folder, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        spec = zrt.SessionSpec("model.onnx", zrt.SessionOptions(cache="cache", intra_op_num_threads=1))
        monkeypatch.chdir("/")
        assert spec.options.cache == str(folder)
        assert spec.load().cache == "miss"
        finish()
        assert spec.load().cache == "hit"

    @pytest.mark.parametrize(
        "wrong",
        [{"config_entries": [1]}, {"config_entries": {1: "a"}}, {"logid": 5}, {"intra_op_num_threads": -1}],
    )
    def test_wrong_options_raise_as_without(self, model, folder, wrong):
        raised = []
        for place in (False, folder):
            with pytest.raises(zrt.Error) as error:
                zrt.Session(model, zrt.SessionOptions(cache=place, **wrong))
            raised.append((type(error.value), str(error.value)))
        assert raised[0] == raised[1]
        with pytest.raises(zrt.errors.DTypeError, match="external_data_dir"):
            zrt.Session(model, zrt.SessionOptions(cache=folder), external_data_dir=5)

    def test_missing_folder_of_weights_raises_as_without(self, load, model, tmp_path):
        assert [load(model), load(model, external_data_dir=tmp_path)] == ["miss", "hit"]
        for missing in (tmp_path / "absent", model):
            with pytest.raises(zrt.errors.ModelNotFoundError, match=r"external_data_dir .*there is no such folder"):
                load(model, external_data_dir=missing)

    @pytest.mark.parametrize("wrong", [1, 2.5, b"folder", []])
    def test_wrong_type_is_refused(self, model, wrong):
        with pytest.raises(zrt.errors.DTypeError, match="cache"):
            zrt.Session(model, zrt.SessionOptions(cache=wrong))

    def test_options_of_a_wrong_type_are_refused(self, model, cache_variable):
        cache_variable("1")
        with pytest.raises(zrt.errors.DTypeError, match="options"):
            zrt.Session(model, {"cache": True})

    @pytest.mark.parametrize("name", ["true", "Yes", "off"])
    def test_name_that_means_a_switch_is_no_folder(self, model, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        for make in (zrt.Session, zrt.SessionSpec):
            with pytest.raises(zrt.errors.ArgumentError, match=f"cache: '{name}' would be a folder; ./{name} is one"):
                make(model, zrt.SessionOptions(cache=name))
        assert not (tmp_path / name).exists()
        zrt.Session(model, zrt.SessionOptions(cache=f"./{name}"))

    def test_empty_name_is_refused(self, model, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(zrt.errors.ArgumentError, match="cache: the name of the folder is empty"):
            zrt.Session(model, zrt.SessionOptions(cache=""))
        with pytest.raises(zrt.errors.ArgumentError, match="cache: the name of the folder is empty"):
            zrt.SessionSpec(model, zrt.SessionOptions(cache=""))
        assert not (tmp_path / ".zrt-notes").exists()


class TestNotCached:
    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"graph_optimization_level": "DISABLE_ALL"}, "optimizer is off"),
            ({"initializers": {"w": np.ones((160, 160), np.float32)}}, "initializers"),
            ({"prepacked_weights": zrt.PrepackedWeights()}, "prepacked_weights"),
            ({"record_placement": True}, "record_placement"),
            ({"config_entries": {"session.save_model_format": "ORT"}}, "save_model_format"),
            ({"config_entries": {"ep.context_enable": "0"}}, "ep.context_enable"),
        ],
    )
    def test_options_are_passed_by(self, load, model, options, reason, folder):
        assert reason in load(model, options=options)
        assert not folder.exists()

    def test_reasons_of_the_load_itself(self, load, model, tmp_path, folder):
        assert "optimized_model_filepath" in load(
            model, options={"optimized_model_filepath": tmp_path / "written.onnx"}
        )
        assert "providers" in load(model, providers=zrt.DevicePolicy.PREFER_CPU)
        saved = {"session.save_model_format": "ORT"}
        options = zrt.SessionOptions(optimized_model_filepath=tmp_path / "model.ort", config_entries=saved)
        zrt.Session(model, options).close()
        assert "own format" in load(tmp_path / "model.ort")
        assert not folder.exists()
        small = zrt.Session(models.add(), zrt.SessionOptions(cache=folder))
        assert "smaller" in str(small.cache)

    def test_results_that_differ_are_not_kept(self, load, model, folder, monkeypatch):
        write = cache_entry.write

        def other_weights(target: str, graph: str, weights: str, about: dict[str, Any]) -> None:
            content = onnx.load_model(graph, load_external_data=False)
            for tensor in content.graph.initializer:
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.full((160, 160), 3, np.float32), tensor.name))
            onnx.save_model(content, graph)
            write(target, graph, weights, about)

        monkeypatch.setattr(cache_entry, "write", other_weights)
        assert load(model) == "miss"
        monkeypatch.undo()
        assert "results differ" in load(model)
        [entry] = entries(folder)
        assert entry.stat().st_size == cache_entry.PAGE

    def test_model_that_no_trial_can_run_is_not_kept(self, folder):
        text = "(seq(float[n]) x) => (float[m] y) { z = ConcatFromSequence <axis = 0> (x) y = Add(z, w) }"
        content = models.parse(text, w=np.ones(40_000, np.float32))
        for note in ("miss", "only tensors"):
            assert note in str(zrt.Session(content, zrt.SessionOptions(cache=folder)).cache)
            finish()

    def test_reasons_and_names_of_large_letters_fit(self, folder, tmp_path):
        """The path and the node's name, which the reason has, are emoji."""
        content = models.parsed(
            "(float[n, 160] x, int64[2] s) => (y) { a = MatMul(x, w) y = Reshape(a, s) }", w=np.ones((160, 160), "f")
        )
        content.graph.node[1].name = "\U0001f600" * 300
        place = tmp_path.joinpath(*["\U0001f600" * 60] * 3)
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(content.SerializeToString())
        for note in ("miss", "the trial run over made-up inputs failed"):
            assert note in str(zrt.Session(place / "model.onnx", zrt.SessionOptions(cache=folder)).cache)
            finish()

    def test_broken_model_raises_as_without(self, load, tmp_path):
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(b"\xff" * 100_000)
        with pytest.raises(zrt.errors.InvalidProtobufError):
            load(broken)


def test_entry_of_a_daemon_threads_load_is_made(model, folder, python):
    python(f"""
        import threading, zrt
        options = zrt.SessionOptions(cache={str(folder)!r})
        thread = threading.Thread(target=zrt.Session, args=({str(model)!r}, options), daemon=True)
        thread.start()
        thread.join()
    """)
    assert len(entries(folder)) == 1


def test_misses_and_hits_are_logged(load, model, caplog):
    caplog.set_level("INFO", "zrt.cache")
    assert [load(model), load(model)] == ["miss", "hit"]
    ends = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert ends == ["not in the cache", "loaded from the cache"]


class TestFolder:
    def test_permissions_are_the_users_own(self, load, model, folder):
        load(model)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert [path.stat().st_mode & 0o777 for path in entries(folder)] == [0o600]

    @pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
    def test_folder_that_others_may_write_to_is_refused(self, load, model, folder, mode, caplog):
        folder.mkdir()
        folder.chmod(mode)
        assert "others may write" in load(model)
        assert "not used" in caplog.text or "without the cache" in caplog.text
        assert not entries(folder)

    def test_places_that_cannot_be_folders(self, load, model, folder):
        folder.touch()
        assert load(model) == f"{str(folder)!r} is no folder"
        folder.unlink()
        folder.symlink_to("/nowhere/at/all")
        assert load(model) != "hit"
        assert load(model, options={"cache": "/proc/none"}) not in ("hit", "miss")

    @pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no such name")
    def test_model_whose_name_is_no_text(self, load, model, tmp_path):
        odd = model.rename(tmp_path / os.fsdecode(b"m\xff"))
        assert [load(odd), load(odd)] == ["miss", "hit"]

    @pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no such name")
    def test_folder_whose_name_is_no_text(self, model, tmp_path):
        session = zrt.Session(model, zrt.SessionOptions(cache=tmp_path / os.fsdecode(b"c\xff")))
        assert session.cache is not None
        assert "is not valid UTF-8" in session.cache

    def test_path_of_too_many_folders(self, load, model, folder):
        assert "recursion" in load(model, options={"cache": folder.joinpath(*"a" * 1500)})

    @pytest.fixture
    def three_models(self, tmp_path):
        paths = [tmp_path / f"{scale}.onnx" for scale in (1, 2, 3)]
        for scale, path in enumerate(paths, 1):
            path.write_bytes(chain(scale))
        return paths

    def test_oldest_entry_goes_first(self, load, three_models, folder, monkeypatch):
        one, two, three = three_models
        load(one)
        load(two, 320)
        # By name the oldest one is the last.
        for age, entry in enumerate(reversed(entries(folder))):
            os.utime(entry, (age, age))
        newer, oldest = entries(folder)
        monkeypatch.setenv("ZRT_CACHE_SIZE", str(2 * newer.stat().st_size + 40_000))
        load(three, 480)
        assert len(entries(folder)) == 2
        assert newer in entries(folder)
        assert oldest not in entries(folder)

    def test_load_from_an_entry_makes_it_the_newest(self, load, three_models, folder, settle, monkeypatch):
        one, two, three = three_models
        load(one)
        [first] = entries(folder)
        load(two, 320)
        for entry in entries(folder):
            os.utime(entry, (0, 0) if entry == first else (1, 1))
        settle(*entries(folder))
        assert load(one) == "hit"
        monkeypatch.setenv("ZRT_CACHE_SIZE", str(2 * first.stat().st_size + 40_000))
        load(three, 480)
        assert len(entries(folder)) == 2
        assert first in entries(folder)

    def test_session_runs_on_without_its_entry(self, load, three_models, folder, monkeypatch):
        one, two, _ = three_models
        load(one)
        session = zrt.Session(one, zrt.SessionOptions(cache=folder, intra_op_num_threads=1))
        assert session.cache == "hit"
        [entry] = entries(folder)
        monkeypatch.setenv("ZRT_CACHE_SIZE", str(entry.stat().st_size + 40_000))
        load(two, 320)
        assert entry not in entries(folder)
        assert np.array_equal(session.run([X])[0], np.full((1, 160), 160, np.float32))

    def test_full_disk(self, model, folder, python):
        code = f"""
            import resource, sys, numpy as np, zrt
            # Bytecode would be cut off as well.
            sys.dont_write_bytecode = True
            zrt.Session({str(model)!r})
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            session = zrt.Session({str(model)!r}, zrt.SessionOptions(cache={str(folder)!r}))
            print(session.cache, session.run([np.ones((1, 160), np.float32)])[0][0, 0])
        """
        done = python(code)
        assert done.stdout.split() == ["miss", "160.0"]
        assert "no entry of the cache is made" in done.stderr
        assert [path.name for path in folder.iterdir()] == [".zrt-notes"]

    @pytest.mark.parametrize(
        ("module", "function", "error", "reason"),
        [
            (cache_entry, "content", MemoryError(), "MemoryError"),
            (cache, "_open", OSError(errno.EMFILE, "Too many open files"), "[Errno 24] Too many open files"),
        ],
    )
    def test_entry_that_cannot_be_read_now_stays(self, load, model, monkeypatch, module, function, error, reason):
        load(model)
        with monkeypatch.context() as patch:
            patch.setattr(module, function, Mock(side_effect=error))
            assert load(model) == reason
        assert load(model) == "hit"

    def test_model_that_was_too_large_once(self, load, model, monkeypatch):
        monkeypatch.setenv(cache.SIZE_VARIABLE, "100000")
        assert load(model) == "miss"
        assert "the cache holds 100000" in load(model)
        monkeypatch.delenv(cache.SIZE_VARIABLE)
        assert [load(model), load(model)] == ["miss", "hit"]

    @pytest.mark.parametrize("size", ["0", "4095", "-1", "2 GiB"])
    def test_size_without_room_for_an_entry(self, load, model, folder, size, monkeypatch, caplog):
        monkeypatch.setenv(cache.SIZE_VARIABLE, size)
        assert load(model).startswith(f"{cache.SIZE_VARIABLE}: ")
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert not folder.exists()
        monkeypatch.delenv(cache.SIZE_VARIABLE)
        assert [load(model), load(model)] == ["miss", "hit"]

    def test_user_without_a_home(self, model, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
        before = sorted(tmp_path.iterdir())
        assert "no home" in zrt.Session(model, zrt.SessionOptions(cache=True)).cache
        assert sorted(tmp_path.iterdir()) == before

    def test_current_folder_that_is_gone(self, tmp_path, monkeypatch):
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        session = zrt.Session(chain(), zrt.SessionOptions(cache="relative", intra_op_num_threads=1))
        assert "relative to the current folder" in session.cache
        assert session.run([X])[0][0, 0] == 160

    def test_weights_in_the_current_folder(self, load, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        data = models.save_apart(chain(), tmp_path / "apart.onnx", "apart.weights").read_bytes()
        assert [load(data), load(data)] == ["the model is in memory, and its weights are in the current folder"] * 2


class TestTogether:
    def test_threads_do_the_work_once(self, load, model, folder, monkeypatch):
        written = []
        write = cache_entry.write
        monkeypatch.setattr(cache_entry, "write", lambda *arguments: (written.append(1), write(*arguments)))
        options = zrt.SessionOptions(cache=folder, intra_op_num_threads=1)
        in_threads(*[lambda: zrt.Session(model, options)] * 4)
        finish()
        assert len(written) == 1
        assert load(model) == "hit"

    def test_process_that_fills_keeps_others_from_it(self, load, model, folder, caplog):
        from zrt._common.files import lock_folder

        load(model)
        [entry] = entries(folder)
        entry.unlink()
        scratch = folder / f"{entry.name}.filling"
        scratch.mkdir()
        lock = lock_folder(scratch)
        try:
            assert load(model) == "miss"
            assert not entries(folder)
        finally:
            os.close(lock)
        (scratch / "left").touch()
        assert [load(model), load(model)] == ["miss", "hit"]
        assert not scratch.exists()
        assert not caplog.records
